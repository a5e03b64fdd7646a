//! What a host tells of itself: its log, its counters, and how it is at one moment.
//!
//! Owns the shapes, which the control port serialises as they are. Must never hold a secret.

use std::collections::BTreeMap;

use super::power::{Answer, Change, OsState, PowerState, ResetType};
use super::process::{PodIdentity, Stamp, StopReason};

/// What was really done to a host since the simulator started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// How often power was really lost.
    pub offs: u64,
    /// How often power really came.
    pub ons: u64,
    /// Resets without loss of power.
    pub resets: u64,
    /// How often the operating system came up.
    pub boots: u64,
    /// Commands received, by reset type, those that were refused or ignored included.
    pub commands: BTreeMap<ResetType, u64>,
    /// HTTP requests that the BMC received.
    pub requests: u64,
}

impl Counters {
    /// How many commands of this type were received.
    pub fn received(&self, reset: ResetType) -> u64 {
        self.commands.get(&reset).copied().unwrap_or(0)
    }
}

/// What made the power change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The last command that the machine took.
    pub reset: ResetType,
    /// Who sent it.
    pub by: String,
}

/// A real change of power, or a real reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    pub stamp: Stamp,
    pub change: Change,
    /// Why; none if nobody asked for it.
    pub cause: Option<Cause>,
}

/// One line of a host's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub stamp: Stamp,
    pub event: LogEvent,
}

/// What a host's log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The power really changed.
    Power(PowerState),
    /// The operating system changed.
    Os(OsState),
    /// A reset without loss of power.
    Reset,
    /// The operating system came up with this boot id.
    Booted(String),
    /// A command arrived.
    Command {
        reset: ResetType,
        /// Who sent it: a user of the BMC, or a test.
        by: String,
        /// What the machine said; none if a fault kept the command from it.
        answer: Option<Answer>,
    },
    /// A pod's processes began.
    Started(PodIdentity),
    /// A pod's processes ended.
    Stopped { pod: PodIdentity, why: StopReason },
    /// A fault was set or cleared, or anything else worth a line.
    Note(String),
}

/// How a host is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// Its name, which is also its Node's.
    pub name: String,
    /// Its real system UUID.
    pub uuid: String,
    /// Its real power state.
    pub power: PowerState,
    /// Its operating system.
    pub os: OsState,
    /// The boot id while the operating system is up or hung.
    pub boot_id: Option<String>,
    /// What was done to it.
    pub counters: Counters,
    /// Names of the pods that really run, as `namespace/name`.
    pub pods: Vec<String>,
}
