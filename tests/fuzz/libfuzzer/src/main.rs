//! Runs the target that RACKHAND_FUZZ_TARGET names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rackhand_fuzz::{Target, target};

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("RACKHAND_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("RACKHAND_FUZZ_TARGET={name:?} is no target"))
});

fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));
