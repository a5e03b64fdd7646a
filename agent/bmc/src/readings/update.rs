//! Updates of firmware that a BMC reports.

use std::{fmt, time::Duration};

/// How far an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UpdatePhase {
    /// Something is transferred, verified or written. A host that loses its power now may be unusable afterwards.
    Running,
    /// It begins with the next start of the host; nothing is written before that.
    AtNextStart,
}

/// One update.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FirmwareUpdate {
    /// The resource that reports it, such as `task 12` or `job JID_1`.
    pub source: String,
    /// What is updated, in the words of the BMC; empty: it does not say.
    pub name: String,
    /// How far it is.
    pub phase: UpdatePhase,
    /// Its state in the word of the BMC.
    pub state: String,
    /// `PercentComplete`, from 0 to 100.
    pub percent: Option<u8>,
    /// The last message of the BMC about it; empty: there is none.
    pub message: String,
}

impl fmt::Display for FirmwareUpdate {
    /// `job JID_1 "BIOS", Running, 40 %: Transferring`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if !self.name.is_empty() {
            write!(f, " \"{}\"", self.name)?;
        }
        write!(f, ", {}", self.state)?;
        if let Some(percent) = self.percent {
            write!(f, ", {percent} %")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// Maximum number of updates that are reported.
pub const MAX_UPDATES: usize = 16;

/// Requests of a whole reading of updates, with a reserve: a BMC answers each about as fast as it answers for its power.
pub(crate) const UPDATE_REQUESTS: u32 = 24;

/// What a BMC reports about updates of firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FirmwareUpdates {
    /// The updates that run or begin with the next start, at most [`MAX_UPDATES`].
    pub updates: Vec<FirmwareUpdate>,
    /// The resources that were read, such as `UpdateService`.
    pub read: Vec<String>,
    /// The resources that exist and could not be read, each with the reason. An update may be hidden there.
    pub unread: Vec<String>,
    /// Longest time without a response of the BMC during the reading; `None`: it answered nothing.
    pub silence: Option<Duration>,
    /// How long a whole reading takes, by the answers that came; `None`: there was none.
    pub needs: Option<Duration>,
}

impl FirmwareUpdates {
    /// The first update that runs.
    pub fn running(&self) -> Option<&FirmwareUpdate> {
        let mut updates = self.updates.iter();
        updates.find(|update| update.phase == UpdatePhase::Running)
    }

    /// Why it is not known whether an update runs; `None`: it is known.
    pub fn unknown(&self) -> Option<String> {
        let is_known = self.running().is_some() || self.unread.is_empty();
        (!is_known).then(|| self.unread.join("; "))
    }
}
