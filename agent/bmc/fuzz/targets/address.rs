//! Addresses as people and BareMetalHosts write them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rackhand_bmc::BmcAddress;

fuzz_target!(|text: &str| {
    if let Ok(address) = text.parse::<BmcAddress>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
});
