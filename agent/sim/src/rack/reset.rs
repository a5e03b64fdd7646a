//! The commands that a machine understands, named as Redfish names them.
//!
//! Owns their names. What they do is the machine's business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The reset types of Redfish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ResetType {
    On,
    /// Switch on, whatever the machine thinks of it.
    ForceOn,
    /// Cut the power.
    ForceOff,
    /// Ask the operating system to shut down.
    GracefulShutdown,
    /// Ask the operating system to restart.
    GracefulRestart,
    /// Reset, without loss of power.
    ForceRestart,
    /// Off, a pause, on.
    PowerCycle,
    /// What pressing the button shortly does.
    PushPowerButton,
    /// A non-maskable interrupt; this operating system ignores it.
    Nmi,
}

impl ResetType {
    /// Every one of them.
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
