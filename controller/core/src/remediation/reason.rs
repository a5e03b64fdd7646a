//! Why a remediation is where it is, as one type for conditions, Events, logs, metric labels and the CLI.
//!
//! Invariant: no variant carries a secret.

mod message;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The reason of the current step of a remediation. `Display` is its message for users.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "reason", content = "detail")]
#[allow(missing_docs, reason = "the Display below says what each one is")]
pub enum Reason {
    Started,
    Working,
    CollectingEvidence,
    WaitingForDump,
    Holding,
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
    Settling(String),
    PolicyLimitReached(String),
    RivalController(String),
    ControlPlaneQuorum(String),
    AgentUnreachable(String),
    BmcAccessMissing(String),
    ClusterGone(String),
    HostGone(String),
    StateLost(String),
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
}

impl Reason {
    /// The CamelCase reason of conditions and Events, and the metric label.
    pub fn label(&self) -> &'static str {
        self.into()
    }

    /// Whether the remediation is blocked: something outside it must change before it continues.
    pub fn is_blocked(&self) -> bool {
        match self {
            Self::Started
            | Self::Working
            | Self::CollectingEvidence
            | Self::WaitingForDump
            | Self::Holding
            | Self::Tainting
            | Self::Settling(_)
            | Self::PolicyLimitReached(_)
            | Self::PowerOffRunning
            | Self::NodeReplaced(_)
            | Self::CheckingOtherNode(_)
            | Self::WaitingForQuietLease
            | Self::WaitingForRenewal
            | Self::Draining(_)
            | Self::PowerOnRunning
            | Self::PowerOnStaged(_)
            | Self::Booting
            | Self::WaitingForHealth
            | Self::Recovered
            | Self::Withdrawn
            | Self::WithdrawnAfterOff
            | Self::Exhausted(_)
            | Self::Cycling
            | Self::Fenced
            | Self::DeletingNode(_)
            | Self::NodeGone(_)
            | Self::TaintSkipped(_)
            | Self::TimedOut
            | Self::ExhaustedKeptOff(_)
            | Self::ExhaustedTold(_)
            | Self::OperationLost(_)
            | Self::OutletsOffRunning(_)
            | Self::OutletsOnRunning(_)
            | Self::OutletsRestored(_)
            | Self::OwnerDoesNotReportOn(_)
            | Self::MovedAway => false,
            Self::InvalidSpec(_)
            | Self::MachineNotFound(_)
            | Self::HostNotFound(_)
            | Self::HostAmbiguous(_)
            | Self::Paused
            | Self::HostPaused(_)
            | Self::HostOffline(_)
            | Self::HostNotProvisioned(_)
            | Self::HostServicing(_)
            | Self::HostDeleting(_)
            | Self::UnsupportedHost(_)
            | Self::HeldByOthers(_)
            | Self::OtherRemediation(_)
            | Self::HeldByPolicy(_)
            | Self::HeldBySharedCause(_)
            | Self::RivalController(_)
            | Self::ControlPlaneQuorum(_)
            | Self::AgentUnreachable(_)
            | Self::BmcAccessMissing(_)
            | Self::ClusterGone(_)
            | Self::HostGone(_)
            | Self::StateLost(_)
            | Self::FenceUnconfirmed(_)
            | Self::IdentityMismatch(_)
            | Self::NodeMismatch(_)
            | Self::OtherNodeOnHost(_)
            | Self::LeaseRenewed(_)
            | Self::WorkloadUnreachable(_)
            | Self::PowerUnreadable(_)
            | Self::FenceViolated(_)
            | Self::HoldLost(_)
            | Self::DrainSkipped(_)
            | Self::DrainBlocked(_)
            | Self::PowerOnUnconfirmed(_)
            | Self::OffAgain
            | Self::StaysOff(_)
            | Self::BootTimeout
            | Self::NodeNotFound(_)
            | Self::DrainGivenUp(_)
            | Self::ActionFailed(_)
            | Self::StateUnreadable(_)
            | Self::StateOutdated
            | Self::OtherAgentBusy(_)
            | Self::OutletsNotOn(_)
            | Self::OwnerDoesNotReportOff(_)
            | Self::OwnerDoesNotSwitchOn(_)
            | Self::OrphanedHold(_)
            | Self::MachineUpdating(_) => true,
        }
    }

    /// Whether the reason is that of many remediations at once, and an Event of its own reports it.
    pub fn is_reported_once_for_many(&self) -> bool {
        matches!(self, Self::HeldBySharedCause(_))
    }

    /// Whether the wait has no deadline, because it ends only when something outside the remediation
    /// changes. The message names what.
    pub fn has_no_deadline(&self) -> bool {
        self.is_blocked() || matches!(self, Self::Fenced | Self::ExhaustedKeptOff(_))
    }
}
