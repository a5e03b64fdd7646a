//! Observable state of a host: its log, its counters, and a snapshot.
//!
//! Must never: contain a secret.

use std::collections::BTreeMap;

use super::power::{Answer, Change, OsState, PowerState, ResetType};
use super::process::{PodIdentity, Stamp, StopReason};

/// Counters of real events since the simulator started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of real power losses.
    pub offs: u64,
    /// Number of real power-ons.
    pub ons: u64,
    /// Resets without loss of power.
    pub resets: u64,
    /// Number of boots of the operating system.
    pub boots: u64,
    /// Commands received, by reset type, including rejected and ignored ones.
    pub commands: BTreeMap<ResetType, u64>,
    /// How often the host lost its power, or was reset, while its firmware was written.
    pub bricked: u64,
    /// HTTP requests that the BMC received.
    pub requests: u64,
}

impl Counters {
    /// Number of received commands of this type.
    pub fn received(&self, reset: ResetType) -> u64 {
        self.commands.get(&reset).copied().unwrap_or(0)
    }
}

/// Cause of a power change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The last command that the machine accepted.
    pub reset: ResetType,
    /// Who sent the command, as the log names it.
    pub by: String,
}

/// A real power change, or a real reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    pub stamp: Stamp,
    pub change: Change,
    /// The cause; `None` without a command.
    pub cause: Option<Cause>,
}

/// One entry of a host's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub stamp: Stamp,
    pub event: LogEvent,
}

/// Event in a host's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The power really changed.
    Power(PowerState),
    /// The operating system changed.
    Os(OsState),
    /// A reset without loss of power.
    Reset,
    /// The operating system is running, with this boot id.
    Booted(String),
    /// A command arrived.
    Command {
        reset: ResetType,
        /// The sender: a user of the BMC, or a test.
        by: String,
        /// The machine's result; `None` if a fault kept the command from it.
        answer: Option<Answer>,
    },
    /// The processes of a pod started.
    Started(PodIdentity),
    /// The processes of a pod ended.
    Stopped { pod: PodIdentity, why: StopReason },
    /// A fault was set or cleared, or another note.
    Note(String),
}

/// Snapshot of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// Name of the host and of its Node.
    pub name: String,
    /// Its real system UUID.
    pub uuid: String,
    /// Its real power state.
    pub power: PowerState,
    /// State of its operating system.
    pub os: OsState,
    /// The boot id while the operating system is running or hung.
    pub boot_id: Option<String>,
    /// Its counters.
    pub counters: Counters,
    /// Names of the pods that really run, as `namespace/name`.
    pub pods: Vec<String>,
}
