//! The commands of a machine, named as in Redfish.
//!
//! Owns: their names. Their effects are in the machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The reset types of Redfish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ResetType {
    On,
    /// Power on, whatever the current state.
    ForceOn,
    /// Cut the power.
    ForceOff,
    /// Request a shutdown from the operating system.
    GracefulShutdown,
    /// Request a restart from the operating system.
    GracefulRestart,
    /// Reset, without loss of power.
    ForceRestart,
    /// Off, a pause, on.
    PowerCycle,
    /// A short press of the power button.
    PushPowerButton,
    /// A non-maskable interrupt; this operating system ignores it.
    Nmi,
}

impl ResetType {
    /// All reset types.
    pub const ALL: [Self; 9] = [
        Self::On,
        Self::ForceOn,
        Self::ForceOff,
        Self::GracefulShutdown,
        Self::GracefulRestart,
        Self::ForceRestart,
        Self::PowerCycle,
        Self::PushPowerButton,
        Self::Nmi,
    ];
}

impl fmt::Display for ResetType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for ResetType {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Self::ALL
            .into_iter()
            .find(|reset| reset.to_string() == text)
            .ok_or_else(|| anyhow::anyhow!("no such reset type: {text}"))
    }
}
