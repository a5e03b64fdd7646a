//! What a decision about a maintenance says: the reason, what is recorded, and what is done.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MaintenancePhase, MaintenanceRecord, Mark};
use crate::remediation::Reason;

/// Why a maintenance is where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub enum MaintenanceReason {
    /// It has just been created.
    Started,
    /// No host can be found for it.
    TargetNotFound,
    /// Another maintenance of the same host comes first.
    Queued,
    /// Another controller's health check would act on the host.
    CheckWouldAct,
    /// Another holder has medik8s' Lease of the Node.
    NodeLeaseHeld,
    /// Its remediation waits.
    RemediationWaits,
    /// Its remediation is made anew.
    MadeAnew,
    /// The marks are being set by which health checks leave the host alone.
    SettingMarks,
    /// A mark cannot be set, so nothing is evicted or switched.
    MarkRefused,
    /// The Node is cordoned, and its pods leave.
    Evicting,
    /// The host is switched off, and what is left moves.
    PoweringOff,
    /// The host can be worked on.
    Parked,
    /// It was deleted.
    Deleted,
    /// Its time is over.
    TimeOver,
    /// Somebody has deleted its remediation.
    RemediationDeleted,
    /// Its remediation has failed.
    RemediationFailed,
    /// Its remediation is gone, and has left its taint on the Node.
    TaintLeft,
    /// Its remediation is gone, and its cordon is still on the Node.
    CordonLeft,
    /// Its remediation is gone, and its hold on the host is not released.
    HoldLeft,
    /// A mark cannot be taken back.
    MarkLeft,
    /// The annotation of the Machine that no health check heeds cannot be taken back.
    AnnotationLeft,
}

impl MaintenanceReason {
    /// The reason as one word.
    pub fn label(self) -> &'static str {
        match self {
            Self::Started => "Started",
            Self::TargetNotFound => "TargetNotFound",
            Self::Queued => "Queued",
            Self::CheckWouldAct => "CheckWouldAct",
            Self::NodeLeaseHeld => "NodeLeaseHeld",
            Self::RemediationWaits => "RemediationWaits",
            Self::MadeAnew => "MadeAnew",
            Self::SettingMarks => "SettingMarks",
            Self::MarkRefused => "MarkRefused",
            Self::Evicting => "Evicting",
            Self::PoweringOff => "PoweringOff",
            Self::Parked => "Parked",
            Self::Deleted => "Deleted",
            Self::TimeOver => "TimeOver",
            Self::RemediationDeleted => "RemediationDeleted",
            Self::RemediationFailed => "RemediationFailed",
            Self::TaintLeft => "TaintLeft",
            Self::CordonLeft => "CordonLeft",
            Self::HoldLeft => "HoldLeft",
            Self::MarkLeft => "MarkLeft",
            Self::AnnotationLeft => "AnnotationLeft",
        }
    }
}

/// The reason why the remediation of a maintenance waits whose marks are not all set, by the reason that its status shows:
/// somebody has to do something only where a mark cannot be had. Otherwise it is set once the remediation could begin,
/// or set again, within seconds. `by`: the maintenance, for messages.
#[must_use]
pub fn unmarked_reason(shown: Option<&str>, by: String) -> Reason {
    use MaintenanceReason as R;
    let kept = [
        R::TargetNotFound,
        R::Queued,
        R::CheckWouldAct,
        R::NodeLeaseHeld,
        R::MarkRefused,
        R::MarkLeft,
    ];
    match kept.iter().any(|kept| Some(kept.label()) == shown) {
        true => Reason::WaitingForMarks(by),
        false => Reason::SettingMarks(by),
    }
}

/// One thing that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MaintenanceAction {
    /// Put our finalizer on the object.
    AddFinalizer,
    /// Take our finalizer off the object.
    RemoveFinalizer,
    /// Create the remediation.
    CreateRemediation,
    /// Delete the remediation.
    DeleteRemediation,
    /// Change the strategy of the remediation to that of the spec.
    UpdateRemediation,
    /// Set or renew a mark.
    Set(Mark),
    /// Take a mark back.
    TakeBack(Mark),
}

/// What a person has to know at once although the reason does not say it, or somebody has to do something about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceWarning {
    /// What has happened, as one word.
    pub reason: String,
    /// The same in a sentence, with what to do.
    pub message: String,
}

/// What is recorded, and what is done once it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceDecision {
    /// The phase that people see.
    pub phase: MaintenancePhase,
    /// Why, as one word.
    pub reason: MaintenanceReason,
    /// What happens, to which host, and what is next.
    pub message: String,
    /// What is recorded before anything is done.
    pub record: MaintenanceRecord,
    /// What may be in place after what is done.
    pub in_place: Vec<Mark>,
    /// Until when the locator LED may be lit after what is done.
    pub led_until: Option<Timestamp>,
    /// When the maintenance ends, as far as that is known.
    pub ends: Option<Timestamp>,
    /// What is to be told by Events of their own.
    pub warnings: Vec<MaintenanceWarning>,
    /// What is done. The order is that of the list; each is idempotent.
    pub actions: Vec<MaintenanceAction>,
}

impl MaintenanceDecision {
    /// Takes out the actions that set or renew a mark that health checks heed, and that the status records already, as
    /// `recorded`. They are taken back by that record (F9), so they need not wait for the next one: medik8s' Lease would
    /// expire while the status cannot be written.
    #[must_use]
    pub fn take_renewals(&mut self, recorded: &[Mark]) -> Vec<MaintenanceAction> {
        let is_renewal = |action: &MaintenanceAction| match action {
            MaintenanceAction::Set(mark) => mark.is_heeded() && recorded.contains(mark),
            _ => false,
        };
        self.actions
            .extract_if(.., |action| is_renewal(action))
            .collect()
    }
}
