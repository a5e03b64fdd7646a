//! How the monotonic clocks of the candidates run.
//!
//! A leader stops `renew_deadline` after it sent its last renewal, by its own clock, and a candidate takes
//! the Lease `duration` after it saw the last renewal, by its own. So one clock may run up to
//! `duration / renew_deadline` times as fast as the other: 1.5 times, here and with the default times.

use std::time::Duration;

use rackhand_core::lease::LeaseConfig;

/// How the clocks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clocks {
    /// A second in each tick; a fault makes one stand still for a tick, or jump ahead by another one.
    Even,
    /// Two seconds in each tick, and three: as far apart as the Lease permits. Rates that change meanwhile
    /// are between these.
    Drifting,
    /// One second in each tick, and two: further apart than the Lease permits.
    TooFarApart,
}

impl Clocks {
    /// The times of the Lease. In each the duration is 1.5 times the deadline.
    pub fn config(self) -> LeaseConfig {
        let s = Duration::from_secs;
        let config = match self {
            Self::Even => LeaseConfig::new(s(3), s(2), s(1)),
            Self::Drifting | Self::TooFarApart => LeaseConfig::new(s(9), s(6), s(2)),
        };
        config.unwrap_or_default()
    }

    /// The seconds by which the clock of each candidate advances in a tick. The candidates are alike, so it
    /// does not matter which one is slower.
    pub fn rates(self) -> [u64; 2] {
        match self {
            Self::Even => [1, 1],
            Self::Drifting => [2, 3],
            Self::TooFarApart => [1, 2],
        }
    }
}
