//! Breakages of the election: each fault on purpose, and the world in which it is found.

use super::{Clocks, Election};

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A leader that cannot renew does not stop.
    DeadlineIgnored,
    /// The API server takes a write that replaces another version than the one it has.
    VersionIgnored,
    /// A renewal counts from its answer, not from when it was sent.
    CountedFromAnswer,
    /// A candidate takes the Lease as free as soon as it reads it.
    FreeAtOnce,
    /// The clocks run further apart than the Lease permits.
    TooFarApart,
}

impl Broken {
    /// Every fault.
    pub const ALL: [Self; 5] = [
        Self::DeadlineIgnored,
        Self::VersionIgnored,
        Self::CountedFromAnswer,
        Self::FreeAtOnce,
        Self::TooFarApart,
    ];

    /// The fault in words, as reports print it.
    pub fn description(self) -> &'static str {
        match self {
            Self::DeadlineIgnored => "a leader that cannot renew its Lease does not stop",
            Self::VersionIgnored => "a write of the Lease replaces a newer version",
            Self::CountedFromAnswer => "a renewal counts from its answer",
            Self::FreeAtOnce => "a candidate does not wait until the Lease has expired",
            Self::TooFarApart => "a clock runs twice as fast as the other",
        }
    }

    /// The smallest world in which it is found.
    pub fn setting(self) -> Election {
        let even = Election::even(1);
        let world = match self {
            Self::TooFarApart => Election {
                budget: 0,
                ticks: 6,
                clocks: Clocks::TooFarApart,
                ..even
            },
            _ => even,
        };
        Election {
            broken: Some(self),
            ..world
        }
    }
}
