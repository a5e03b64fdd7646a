//! Why a remediation is where it is, as one type for conditions, Events, logs, metric labels and the CLI.
//!
//! Invariant: no variant carries a secret.

mod table;
mod words;

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use table::EndedBy;
pub use words::{APPROVE, WORDS_IGNORED, WordsOfPersons};

/// The reason of the current step of a remediation. `Display` is its message for users. `table` has the message of each
/// reason, and who ends the wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "reason", content = "detail")]
#[cfg_attr(test, derive(strum::EnumIter))]
#[allow(missing_docs, reason = "the table says what each one is")]
pub enum Reason {
    Started,
    Working,
    CollectingEvidence,
    WaitingForDump,
    Holding,
    Evicting(String),
    EvictionBlocked(String),
    EvictionWaits(String),
    EvictionUnfinished(String),
    EvictionAborted(String),
    Evicted,
    EvictedInPart(String),
    SilentHostLeftOn(String),
    CordonRemoved(String),
    FailedWithPods(String),
    Tainting,
    InvalidSpec(String),
    MachineNotFound(String),
    HostNotFound(String),
    HostAmbiguous(String),
    Paused,
    HostPaused(String),
    HostOffline(String),
    HostNotProvisioned(String),
    HostServicing(String),
    HostDeleting(String),
    UnsupportedHost(String),
    HeldByOthers(String),
    OtherRemediation(String),
    HeldByPolicy(String),
    HeldBySharedCause(String),
    SettingMarks(String),
    WaitingForMarks(String),
    Settling(String),
    PolicyLimitReached(String),
    /// The API server of the workload cluster is slow, and other remediations of it begin first.
    ApiServerSlow(String),
    RivalController(String),
    ControlPlaneQuorum(String),
    AgentUnreachable(String),
    BmcAccessMissing(String),
    ClusterGone(String),
    HostGone(String),
    StateLost(String),
    AskingToShutDown,
    ShuttingDown,
    PowerOffRunning,
    FenceUnconfirmed(String),
    IdentityMismatch(String),
    NodeReplaced(String),
    NodeMismatch(String),
    OtherNodeOnHost(String),
    CheckingOtherNode(String),
    LeaseRenewed(String),
    WaitingForQuietLease,
    /// The Node of a remediation that began elsewhere is shown as Ready, which its kubelet has to prove (F11).
    WaitingForRenewal,
    WorkloadUnreachable(String),
    PowerUnreadable(String),
    FenceViolated(String),
    HoldLost(String),
    DrainSkipped(String),
    Draining(String),
    DrainBlocked(String),
    PowerOnRunning,
    PowerOnStaged(String),
    PowerOnUnconfirmed(String),
    Booting,
    OffAgain,
    StaysOff(u32),
    BootTimeout,
    WaitingForHealth,
    Recovered,
    Withdrawn,
    WithdrawnAfterOff,
    KeptOffUntilDeleted,
    EmptiedUntilDeleted,
    Exhausted(u32),
    Cycling,
    Fenced,
    DeletingNode(String),
    NodeGone(String),
    NodeNotFound(String),
    TaintSkipped(String),
    DrainGivenUp(String),
    TimedOut,
    ExhaustedKeptOff(u32),
    ExhaustedTold(u32),
    ActionFailed(String),
    StateUnreadable(String),
    StateOutdated,
    OperationLost(String),
    OtherAgentBusy(String),
    OutletsOffRunning(String),
    OutletsOnRunning(String),
    OutletsNotOn(String),
    OutletsRestored(String),
    OwnerDoesNotReportOff(String),
    OwnerDoesNotSwitchOn(String),
    OwnerDoesNotReportOn(String),
    OrphanedHold(String),
    MovedAway,
    MachineUpdating(String),
    CheckingFirmware,
    FirmwareUpdateRunning(String),
    FirmwareUpdateUnknown(String),
    UpdateDuringPowerOff(String),
    BootingThroughUpdate(String),
}

impl Reason {
    /// The CamelCase reason of conditions and Events, and the metric label.
    pub fn label(&self) -> &'static str {
        self.into()
    }

    /// Whether the remediation is blocked: something outside it must change before it continues.
    pub fn is_blocked(&self) -> bool {
        self.ended_by() == EndedBy::Outside
    }

    /// Whether the wait has no deadline, because it ends only when something outside the remediation
    /// changes. The message names what.
    #[cfg(test)]
    pub(super) fn has_no_deadline(&self) -> bool {
        match self.ended_by() {
            EndedBy::Rackhand => false,
            EndedBy::Withdrawal | EndedBy::Outside => true,
        }
    }

    /// Whether the marks of a maintenance are waited for.
    pub fn is_of_marks(&self) -> bool {
        matches!(self, Self::SettingMarks(_) | Self::WaitingForMarks(_))
    }

    /// The reasons of [`Self::is_of_marks`], each as one word.
    pub(crate) fn of_marks() -> [&'static str; 2] {
        [Self::SettingMarks, Self::WaitingForMarks].map(|reason| reason(String::new()).label())
    }

    /// Whether the reason is that of many remediations at once, and an Event of its own reports it.
    pub fn is_reported_once_for_many(&self) -> bool {
        matches!(self, Self::HeldBySharedCause(_))
    }

    fn ended_by(&self) -> EndedBy {
        self.with_row(|ended_by, _| ended_by)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_row(|_, message| f.write_fmt(message))
    }
}
