//! What is known about a maintenance, its remediation and its marks.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::{Earlier, LeaseMark, LedMark, MachineMark, Mark, Stage};

/// What the spec asks for, beside the target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Whether the locator LED is lit while the host can be worked on.
    pub locator_led: bool,
    /// When the maintenance ends.
    pub until: Option<Timestamp>,
    /// How long it lasts, from the time at which the host can be worked on.
    pub duration: Option<Duration>,
}

/// What the controller has recorded in the status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct MaintenanceRecord {
    /// Whether the remediation had begun: something may have been changed.
    pub begun: bool,
    /// Whether every mark was in place by which health checks leave the host alone. The remediation goes no further
    /// without.
    pub marked: bool,
    /// Whether medik8s' Lease is listed among what is in place.
    pub leased: bool,
    /// Since when the host can be worked on.
    pub parked_since: Option<Timestamp>,
    /// Why the maintenance ends, once that was decided. It is not undone.
    pub ending: Option<super::MaintenanceReason>,
    /// What was told when that was decided.
    pub ending_message: String,
    /// Whether nothing is left of it.
    pub over: bool,
}

/// The remediation of the maintenance, by a live read where it is absent (F12).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RemediationSeen {
    /// No remediation was made, or it is gone.
    Absent,
    /// It cannot be said.
    Unknown {
        /// Why it cannot be read.
        why: String,
    },
    /// The remediation of this maintenance exists.
    Present {
        /// Whether it is being deleted.
        deleting: bool,
        /// How far it is.
        stage: Stage,
        /// Whether its strategy is not that of the spec any more.
        outdated: bool,
        /// Whether it goes no further before somebody does something.
        blocked: bool,
        /// Its reason, as one word.
        reason: String,
        /// The message of its status, which is shown as that of the maintenance.
        message: String,
    },
}

/// Changes of marks that failed when they were tried last, each with its error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FailedMarks {
    /// What could not be set or renewed.
    pub set: BTreeMap<Mark, String>,
    /// What could not be taken back.
    pub take_back: BTreeMap<Mark, String>,
}

impl FailedMarks {
    /// Why a mark that health checks heed could not be set. A locator LED is none of those.
    pub(super) fn heeded(&self) -> Option<&str> {
        let mut heeded = self.set.iter().filter(|(mark, _)| mark.is_heeded());
        heeded.next().map(|(_, why)| why.as_str())
    }
}

/// What a remediation has left that is gone: its finalizer was removed by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Leftovers {
    /// The Node, for messages.
    pub node: String,
    /// Whether the Node has its taint.
    pub taint: bool,
    /// Whether the Node has its cordon.
    pub cordon: bool,
    /// Whether an agent or the BareMetalHost has its hold.
    pub hold: bool,
}

/// What is known about a maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MaintenanceFacts {
    /// Whether the object is being deleted, or is gone.
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// What it asks for.
    pub wanted: Wanted,
    /// What earlier evaluations recorded in the status.
    pub record: MaintenanceRecord,
    /// Why no host can be found for it, or why the spec cannot be used.
    pub target: Result<(), String>,
    /// The maintenance of the same host whose turn comes before.
    pub earlier: Option<Earlier>,
    /// Why it must not begin, although there is a host.
    pub refused: Option<String>,
    /// `namespace/name` of the remediation, for messages.
    pub remediation_name: String,
    /// The remediation that was made for it.
    pub remediation: RemediationSeen,
    /// The mark on the Machine.
    pub machine: MachineMark,
    /// The Lease by which medik8s' operators leave the Node alone.
    pub lease: LeaseMark,
    /// What was done with the locator LED.
    pub led: LedMark,
    /// Changes of marks that failed when they were tried last.
    pub failed_marks: FailedMarks,
    /// What the remediation has left although it is gone.
    pub leftovers: Leftovers,
}
