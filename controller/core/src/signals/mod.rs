//! Hardware signals: what BMCs show of a failure before the control plane notices it.
//!
//! Each decision returns the condition of a Node; the Machine of the Node shows the same. Must never: let a remediation begin, or stand in for a proof of
//! off (F1). A health check that selects a condition acts on it, and every fencing rule still applies then.

mod hardware_failing;
mod leases;
mod on_machine;
mod os_stopped;
mod power_lost;
mod power_readings;
mod published;
mod rack_losses;

use std::{fmt, str::FromStr, time::Duration};

use jiff::{SignedDuration, Timestamp};

pub use hardware_failing::{
    BareMetalHostReport, HardwareDefect, HardwareDefectKind, HardwareHealth, hardware_failing,
};
pub use leases::{ClusterLeases, ObservedLease, OtherLeases};
pub use on_machine::{MachineCondition, MachineFacts, NodeShows, on_machine};
pub use os_stopped::{OsStop, OsStoppedFacts, os_stopped};
pub use power_lost::{NotAFailure, PowerLoss, PowerLostFacts};
pub use power_readings::{Loss, PowerReadings, WatchedReading};
pub use published::{ListInterest, ListPace, Published, end_of_disabled, list_pace};
pub use rack_losses::{RackLosses, SharedLoss};

/// A hardware signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// The host has lost its power.
    PowerLost,
    /// The operating system has stopped, by the event log of the BMC.
    OsStopped,
    /// The BMC reports a defect that stops hosts.
    HardwareFailing,
}

impl Signal {
    /// Every signal.
    pub const ALL: [Self; 3] = [Self::PowerLost, Self::OsStopped, Self::HardwareFailing];

    /// The name in settings, and the label of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::PowerLost => "PowerLost",
            Self::OsStopped => "OSStopped",
            Self::HardwareFailing => "HardwareFailing",
        }
    }

    /// The type of the condition of Nodes and Machines.
    #[must_use]
    pub const fn condition_type(self) -> &'static str {
        match self {
            Self::PowerLost => "rackhand.dev/PowerLost",
            Self::OsStopped => "rackhand.dev/OSStopped",
            Self::HardwareFailing => "rackhand.dev/HardwareFailing",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A name that is none of a signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no hardware signal, but PowerLost, OSStopped and HardwareFailing are")]
pub struct UnknownSignal(String);

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        let mut all = Self::ALL.into_iter();
        all.find(|signal| signal.label() == text)
            .ok_or_else(|| UnknownSignal(text.chars().take(64).collect()))
    }
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The failure is recognised.
    True,
    /// There is no such failure.
    False,
    /// Something hides whether there is one.
    Unknown,
}

impl ConditionStatus {
    /// The status as Kubernetes writes it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// The status that an object has; any other text is unknown.
    #[must_use]
    pub fn of(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// A condition to publish.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SignalCondition {
    /// The status that the condition has.
    pub status: ConditionStatus,
    /// Its reason, one CamelCase word. The message of an equal status and reason is not written again.
    pub reason: &'static str,
    /// What happened, to which host, and what to do next.
    pub message: String,
}

impl SignalCondition {
    fn new(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            message: message.into(),
        }
    }
}

/// Maximum length of a text of a BMC, an agent or another controller in a message, in characters.
const LONGEST_TEXT: usize = 256;

/// A foreign text within bounds, without control characters.
fn bounded(text: &str) -> String {
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(LONGEST_TEXT).collect()
}

/// `at` plus a duration, or the end of time.
fn after(at: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

/// The time from one instant to a later one, as messages show it.
fn span(from: Timestamp, to: Timestamp) -> String {
    let passed = Duration::try_from(to.duration_since(from)).unwrap_or_default();
    crate::values::duration::time_span(passed)
}

#[cfg(test)]
mod tests;
