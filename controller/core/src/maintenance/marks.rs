//! What a maintenance sets beside its remediation, each with its sign of whose it is. It is taken back only where the
//! sign is ours (F9).

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long medik8s' maintenance Lease lasts without a renewal. It is renewed after a third of it.
pub const LEASE_LASTS: Duration = Duration::from_secs(300);

/// How long a locator LED stays lit without a renewal. IPMI counts 255 s at most.
pub const LED_LIT_FOR: Duration = Duration::from_secs(240);

/// Time after which the locator LED is lit again.
pub const LED_RENEWED_AFTER: Duration = Duration::from_secs(80);

/// Something that a maintenance sets and must take back.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "", rename = "MaintenanceMark")]
pub enum Mark {
    /// The PowerRemediation, with everything that it has set.
    Remediation,
    /// The annotation cluster.x-k8s.io/skip-remediation on the Machine.
    SkipRemediation,
    /// medik8s' maintenance Lease of the Node.
    Lease,
    /// The locator LED of the host.
    LocatorLED,
}

/// The annotation `cluster.x-k8s.io/skip-remediation` of the Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MachineMark {
    /// The host has no Machine of Cluster API.
    NoMachine,
    /// The Machine has no such annotation.
    Absent,
    /// This maintenance has set it.
    Ours,
    /// Somebody else has set it.
    Theirs,
}

/// medik8s' maintenance Lease of the Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeaseMark {
    /// No operator of medik8s works on this Node.
    NotUsed,
    /// Nobody holds it.
    Free,
    /// This maintenance holds it.
    Ours {
        /// When it was renewed last.
        renewed: Timestamp,
    },
    /// Another holder has it, and it has not expired.
    Theirs {
        /// Identity of the holder.
        holder: String,
    },
    /// It could not be read.
    Unread {
        /// Why it cannot be read.
        why: String,
    },
}

impl LeaseMark {
    /// Whether medik8s' operators heed it, or there are none.
    pub(super) fn is_in_place(&self, now: Timestamp) -> bool {
        match self {
            Self::Ours { renewed } => {
                now < renewed.checked_add(LEASE_LASTS).unwrap_or(Timestamp::MAX)
            }
            Self::NotUsed => true,
            Self::Free | Self::Theirs { .. } | Self::Unread { .. } => false,
        }
    }

    /// Whether it is to be renewed now.
    pub(super) fn due(&self, now: Timestamp) -> bool {
        match self {
            Self::Ours { renewed } => {
                now >= renewed
                    .checked_add(LEASE_LASTS / 3)
                    .unwrap_or(Timestamp::MAX)
            }
            Self::Free => true,
            Self::NotUsed | Self::Theirs { .. } | Self::Unread { .. } => false,
        }
    }
}

/// What was done with the locator LED, as far as this process knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LedMark {
    /// When it was lit last by this process.
    pub lit: Option<Timestamp>,
    /// Until when it may be lit, as recorded before it was lit; it then goes out by itself.
    pub until: Option<Timestamp>,
    /// Whether this process has put it out since it was recorded.
    pub out: bool,
}

impl LedMark {
    /// Whether it may be lit.
    pub(super) fn may_be_lit(self, now: Timestamp) -> bool {
        !self.out && self.until.is_some_and(|until| now < until)
    }

    /// Whether it is to be lit now, for the first time or again.
    pub(super) fn due(self, now: Timestamp) -> bool {
        self.lit
            .is_none_or(|lit| now >= lit.checked_add(LED_RENEWED_AFTER).unwrap_or(Timestamp::MAX))
    }
}
