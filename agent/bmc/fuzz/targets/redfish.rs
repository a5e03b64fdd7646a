//! Redfish documents, whatever their shape.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rackhand_bmc::fuzzing::redfish(bytes));
