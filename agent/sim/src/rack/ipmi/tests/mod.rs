//! The BMC as a client sees it, without a network.

#![allow(clippy::unwrap_in_result)]

mod client;
mod faults;
mod foreign;
mod habits;
mod sessions;

use std::time::{Duration, Instant};

use rackhand_bmc::ipmi::wire::Suite;

use super::*;
use crate::rack::PowerTimings;

const DEVICE_ID: Command = Command::new(0x06, 0x01);
const SET_PRIVILEGE: Command = Command::new(0x06, 0x3b);
const CLOSE_SESSION: Command = Command::new(0x06, 0x3c);
const SECOND: Duration = Duration::from_secs(1);

fn bmc_with(change: impl FnOnce(&mut IpmiConfig), power: StandaloneHost, now: Instant) -> Bmc {
    let mut config = IpmiConfig::default();
    change(&mut config);
    Bmc::new(config, Box::new(power), now)
}

/// A BMC of a host that is on and switches immediately.
fn bmc(now: Instant) -> Bmc {
    bmc_with(|_| {}, StandaloneHost::instant(true), now)
}

fn slow_machine() -> StandaloneHost {
    let timings = PowerTimings {
        off_takes: SECOND,
        on_takes: 2 * SECOND,
        shutdown_takes: 5 * SECOND,
        ..PowerTimings::default()
    };
    StandaloneHost::new(timings, true)
}
