//! One power operation, decided.
//!
//! Owns: what to ask of the BMC next, and when an operation is over and how. Must never: read a
//! clock (every `now` is the time since the operation began), do I/O, take anything but exactly
//! off for off, command a host whose last answer was not checked for identity, send a
//! second time what is not idempotent, or make a hard power-off of a soft one that nobody asked
//! to force.
//!
//! [`Operation`] is the decision alone, for whoever keeps a journal between its steps; [`run()`]
//! carries it out on a [`Bmc`](crate::Bmc).

mod ending;
mod machine;
mod runner;

use std::time::Duration;

use crate::{
    BmcError, ErrorKind, PowerCommand, PowerReading, PowerState, Protocol, SystemIdentity,
};

pub use ending::{Ending, Expected, Mismatch, state_word};
pub use machine::{Operation, Proof};
pub use runner::{Observer, Report, run};

/// What shall become of the host, and how sure we must be of it.
///
/// Off is confirmed by so many readings of exactly off, one after the other, at least the interval
/// apart from the end of one to the begin of the next, and all by one protocol: twice the word of
/// one witness, not once that of two. They count only after the BMC has taken a power-off
/// command of this operation, which is sent also to a host that reads off already.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Hard off, confirmed.
    Off {
        /// How many confirming readings.
        confirmations: u32,
        /// Time between them.
        confirm_interval: Duration,
        /// Only look until then, or until the host reads off: someone else was asked to switch
        /// off.
        command_after: Duration,
    },
    /// On, read once.
    On,
    /// Off by the host's own operating system, confirmed. It is asked once, ever, and only while
    /// the host is exactly on. A host that reads off without having been asked gets a hard off
    /// where that is allowed, and is else not confirmed.
    SoftOff {
        /// How long the host may take to shut down, counted from the asking.
        limit: Duration,
        /// Hard off after the limit, or at once where the BMC cannot ask.
        then_force: bool,
        /// How many confirming readings.
        confirmations: u32,
        /// Time between them.
        confirm_interval: Duration,
    },
    /// Hard off, confirmed, off for a while, and on again.
    Cycle {
        /// How long it stays off once that is confirmed.
        hold_off: Duration,
        /// How many confirming readings.
        confirmations: u32,
        /// Time between them.
        confirm_interval: Duration,
    },
    /// Hard reset, sent once, ever, and only to a host that has power; then on is read once.
    Reset,
    /// Diagnostic interrupt, sent once, ever, and only to a host that has power.
    Nmi,
}

impl Goal {
    /// The state in which it ends well; `None`: any.
    pub fn state(&self) -> Option<PowerState> {
        match self {
            Self::Off { .. } | Self::SoftOff { .. } => Some(PowerState::Off),
            Self::On | Self::Cycle { .. } | Self::Reset => Some(PowerState::On),
            Self::Nmi => None,
        }
    }

    /// The least time that it takes from the first command, however quick the host is.
    pub fn least(&self) -> Duration {
        let confirming = |confirmations: u32, interval: Duration| {
            interval.saturating_mul(confirmations.saturating_sub(1))
        };
        match *self {
            Self::Off {
                confirmations,
                confirm_interval,
                command_after,
            } => command_after.saturating_add(confirming(confirmations, confirm_interval)),
            Self::SoftOff {
                limit,
                confirmations,
                confirm_interval,
                ..
            } => limit.saturating_add(confirming(confirmations, confirm_interval)),
            Self::Cycle {
                hold_off,
                confirmations,
                confirm_interval,
            } => hold_off.saturating_add(confirming(confirmations, confirm_interval)),
            Self::On | Self::Reset | Self::Nmi => Duration::ZERO,
        }
    }

    /// How many readings confirm off, and how far apart.
    fn proof(&self) -> (u32, Duration) {
        match *self {
            Self::Off {
                confirmations,
                confirm_interval,
                ..
            }
            | Self::SoftOff {
                confirmations,
                confirm_interval,
                ..
            }
            | Self::Cycle {
                confirmations,
                confirm_interval,
                ..
            } => (confirmations.max(1), confirm_interval),
            Self::On | Self::Reset | Self::Nmi => (1, Duration::ZERO),
        }
    }
}

/// How fast to go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pace {
    /// First wait between two readings; each further one is longer by a fifth.
    pub poll_first: Duration,
    /// Longest wait between two readings. BMCs have been crashed by faster polling.
    pub poll_max: Duration,
    /// An off or on that was taken is repeated when the host still does not follow after this.
    pub resend_after: Duration,
    /// The same while the host says that it is on its way.
    pub resend_settling: Duration,
    /// An off or on that failed is repeated after this, or later where the BMC says so, but in time
    /// for one more try before the deadline.
    pub retry_after: Duration,
    /// Wait before a refused password is tried again: BMCs start up refusing everybody.
    pub auth_retry: Duration,
    /// How many refusals of the password end the operation. Each counts towards locking the account.
    pub auth_tries: u32,
    /// A command goes out only on a reading that is not older.
    pub fresh: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll_first: Duration::from_millis(150),
            poll_max: Duration::from_secs(2),
            resend_after: Duration::from_secs(10),
            resend_settling: Duration::from_secs(30),
            retry_after: Duration::from_secs(2),
            auth_retry: Duration::from_secs(5),
            auth_tries: 1,
            fresh: Duration::from_secs(1),
        }
    }
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    /// What shall become of the host.
    pub goal: Goal,
    /// The operation is over then, however it stands.
    pub deadline: Duration,
    /// Whom the BMC must manage.
    pub expected: Expected,
    /// How fast.
    pub pace: Pace,
}

impl Asked {
    /// A goal and its deadline, for whatever system is behind the BMC, at the default pace.
    pub fn new(goal: Goal, deadline: Duration) -> Self {
        Self {
            goal,
            deadline,
            expected: Expected::default(),
            pace: Pace::default(),
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// Read power and identity.
    Read,
    /// Send this command.
    Send(PowerCommand),
    /// Nothing until then.
    Wait(Duration),
    /// It is over.
    Done(Ending),
}

/// What matters of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The state.
    pub state: PowerState,
    /// Who says so.
    pub protocol: Protocol,
    /// Who it is.
    pub identity: SystemIdentity,
}

impl From<&PowerReading> for Seen {
    fn from(reading: &PowerReading) -> Self {
        Self {
            state: reading.state,
            protocol: reading.protocol,
            identity: reading.identity.clone(),
        }
    }
}

/// What matters of a failed call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failed {
    /// Its kind.
    pub kind: ErrorKind,
    /// This much patience is asked for. With [`ErrorKind::Authentication`]: nobody was asked,
    /// because the password was refused a moment ago and rests for so long.
    pub retry_after: Option<Duration>,
    /// Whether the command may have reached the BMC all the same.
    pub maybe_sent: bool,
}

impl From<&BmcError> for Failed {
    fn from(error: &BmcError) -> Self {
        Self {
            kind: error.kind,
            retry_after: error.retry_after,
            maybe_sent: error.maybe_sent,
        }
    }
}

#[cfg(test)]
mod tests;
