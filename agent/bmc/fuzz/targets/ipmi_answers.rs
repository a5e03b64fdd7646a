//! What a BMC answers about its sensors, its event log and itself.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rackhand_bmc::fuzzing::ipmi_answers(bytes));
