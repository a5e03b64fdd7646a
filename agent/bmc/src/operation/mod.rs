//! Power operations: a command, and the readings that prove its result.
//!
//! [`Operation`] is the state machine alone: it decides on the next call to the BMC and on the outcome. It reads
//! no clock (every `now` is the time since the operation began) and does no I/O. It never accepts another state as
//! off, commands a host whose identity was not checked by the last reading, repeats a command that is not
//! idempotent, or forces a soft power-off unless requested. The power button is the exception: its effect depends
//! on a state that a BMC may report up to a minute late, so it is pressed again only when that state can be
//! trusted, and at most twice.
//!
//! [`run()`] carries an operation out on a [`Bmc`](crate::Bmc); [`Hooks`] add a journal, a queue or
//! cancellation to it.

mod machine;
mod observation;
mod outcome;
mod proof;
mod remembered;
mod runner;
mod system;

use std::time::Duration;

use crate::{
    BmcError, ErrorKind, PowerCommand, PowerReading, PowerSource, PowerState, SystemIdentity,
};

pub use crate::expected::{Expected, Mismatch, comparable, compare_earlier};
pub use machine::{
    MOST_LATE, Operation, Proof, TOO_SLOW, UPDATES_COUNT_FOR, longer_limit, updates_limit,
};
pub use observation::{LastReading, Past, PowerObservation};
pub use outcome::{Outcome, state_word};
pub use proof::{LEAST_UPTIME, LONGEST_GAP, OffProof, Watch};
pub use runner::{Hooks, Permit, Report, Signal, Stopped, is_held_back, run, run_since};

/// The requested result, and its confirmation.
///
/// Off is confirmed by a number of consecutive readings of exactly off, all from one source, with at least the
/// interval between the end of one and the start of the next. They count only after the BMC has taken a power-off
/// of this operation, or refused it as already off; the power-off is sent even to a host that reads off already.
/// In addition, an [`OffProof`] must show that the BMC knows the state, because it may not know it after its own
/// reset.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Hard off, confirmed.
    Off {
        /// Number of confirming readings.
        confirmations: u32,
        /// Minimum time between two confirming readings.
        confirm_interval: Duration,
        /// Until this time, or until the host reads off, the operation only reads, because another controller was
        /// requested to switch the host off.
        command_after: Duration,
    },
    /// On, confirmed by one reading.
    On,
    /// Shutdown by the operating system, confirmed. It is requested once, and only while the host is
    /// exactly on. A host that reads off before the request gets a hard off if `then_force` allows
    /// it; otherwise off is not confirmed.
    SoftOff {
        /// Time that the host has to shut down, from the request on.
        limit: Duration,
        /// Hard off after the limit, or at once if the BMC cannot request a shutdown.
        then_force: bool,
        /// Number of confirming readings.
        confirmations: u32,
        /// Minimum time between two confirming readings.
        confirm_interval: Duration,
    },
    /// Hard off, confirmed, off for a while, and on again.
    Cycle {
        /// Time that the host stays off after off is confirmed.
        hold_off: Duration,
        /// Number of confirming readings.
        confirmations: u32,
        /// Minimum time between two confirming readings.
        confirm_interval: Duration,
    },
    /// Hard reset, sent once, and only to a host that has power; confirmed by one reading of on.
    Reset,
    /// Diagnostic interrupt, sent once, and only to a host that has power.
    Nmi,
}

impl Goal {
    /// The power state of success; `None`: any.
    pub fn state(&self) -> Option<PowerState> {
        match self {
            Self::Off { .. } | Self::SoftOff { .. } => Some(PowerState::Off),
            Self::On | Self::Cycle { .. } | Self::Reset => Some(PowerState::On),
            Self::Nmi => None,
        }
    }

    /// The minimum time that it takes from the first command on.
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

    /// Number of confirming readings, and the minimum time between two.
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

/// Intervals and retries of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timing {
    /// First interval between two readings; each further one is longer by a fifth.
    pub poll_first: Duration,
    /// Longest interval between two readings. Faster polling has crashed BMCs.
    pub poll_max: Duration,
    /// An accepted off or on is repeated if the state has not changed after this time.
    pub resend_after: Duration,
    /// The same while the host reports that it is powering on or off.
    pub resend_settling: Duration,
    /// A failed off or on is repeated after this time, or after the retry-after of the BMC, but
    /// early enough for one more attempt before the deadline.
    pub retry_after: Duration,
    /// Time before a rejected password is tried again; a starting BMC rejects every log-in.
    pub auth_retry: Duration,
    /// Number of rejections of the password that end the operation. Each counts towards locking the
    /// account.
    pub auth_tries: u32,
    /// Maximum age of the reading on which a command is sent.
    pub fresh: Duration,
    /// How late a BMC may report a change of the power state. The power button is not pressed a second time before
    /// the readings have been equal for longer than this.
    pub state_lag: Duration,
    /// The power button is not pressed before this time of the operation, because the reported state may still
    /// precede a command of an earlier operation.
    pub button_after: Duration,
    /// Time of a power-on until which a power-off of an earlier operation may still take effect. An earlier
    /// reading of on confirms nothing, unless off was read since. Zero: there is no such power-off.
    pub late_off_until: Duration,
}

impl Default for Timing {
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
            // Ironic notes BMCs that report it more than 60 s late.
            state_lag: Duration::from_secs(90),
            button_after: Duration::ZERO,
            late_off_until: Duration::ZERO,
        }
    }
}

/// A requested operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperationRequest {
    /// The requested result.
    pub goal: Goal,
    /// Time limit of the operation.
    pub deadline: Duration,
    /// Identity that the system must have.
    pub expected: Expected,
    /// Intervals and retries.
    pub timing: Timing,
    /// What is done if an update of firmware runs when the host would lose its power.
    pub during_update: DuringUpdate,
}

/// What a command that takes the power of a host does while the BMC reports an update of firmware that runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DuringUpdate {
    /// It is not sent, and the operation ends with [`Outcome::FirmwareUpdate`]. The updates are read right before the
    /// command; what cannot be read holds nothing up.
    #[default]
    Refuse,
    /// It is sent; no updates are read.
    Proceed,
}

impl OperationRequest {
    /// A goal with its deadline, for any system behind the BMC, with the default timing.
    pub fn new(goal: Goal, deadline: Duration) -> Self {
        Self {
            goal,
            deadline,
            expected: Expected::default(),
            timing: Timing::default(),
            during_update: DuringUpdate::default(),
        }
    }
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next {
    /// Read power and identity.
    Read,
    /// Send this command.
    Send(PowerCommand),
    /// Read the evidence that may corroborate an off: the uptime of the manager, the outlets.
    Corroborate,
    /// Wait until then.
    Wait(Duration),
    /// The operation has ended.
    Done(Outcome),
}

/// The part of a reading that the operation uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The power state that was read.
    pub state: PowerState,
    /// Source of the reading.
    pub source: PowerSource,
    /// Identity of the system.
    pub identity: SystemIdentity,
    /// The session that it was read over.
    pub connection: Option<u64>,
}

impl From<&PowerReading> for Observation {
    fn from(reading: &PowerReading) -> Self {
        Self {
            state: reading.state,
            source: reading.source,
            identity: reading.identity.clone(),
            connection: reading.connection,
        }
    }
}

/// The part of a failed call that the operation uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallFailure {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Time to wait before a retry. With [`ErrorKind::Authentication`]: the call was not sent,
    /// because the password was rejected recently and is not tried for this time.
    pub retry_after: Option<Duration>,
    /// Whether the command may have reached the BMC nevertheless.
    pub maybe_sent: bool,
    /// Whether the command is known not to have reached the BMC, or to have been refused for its precondition; otherwise it
    /// counts as sent (F2).
    pub not_sent: bool,
}

impl CallFailure {
    /// A reading that does not name the system that was read before.
    fn unnamed() -> Self {
        Self {
            kind: ErrorKind::Protocol,
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        }
    }

    /// Whether the BMC answered, and did not report that it is starting.
    fn is_answer(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Refused
                | ErrorKind::Precondition
                | ErrorKind::Unsupported
                | ErrorKind::Privilege
        )
    }
}

impl From<&BmcError> for CallFailure {
    fn from(error: &BmcError) -> Self {
        Self {
            kind: error.kind,
            retry_after: error.retry_after,
            maybe_sent: error.maybe_sent,
            not_sent: (error.not_sent || error.kind == ErrorKind::Precondition)
                && !error.maybe_sent,
        }
    }
}

#[cfg(test)]
mod tests;
