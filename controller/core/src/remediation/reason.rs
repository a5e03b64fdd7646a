//! Why a remediation is where it is, as one type for conditions, Events, logs, metric labels and the CLI.
//!
//! Invariant: no variant carries a secret.

mod message;

use serde::{Deserialize, Serialize};

/// The reason of the current step of a remediation. `Display` is its message for users.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
        match self {
            Self::Started => "Started",
            Self::Working => "Working",
            Self::CollectingEvidence => "CollectingEvidence",
            Self::WaitingForDump => "WaitingForDump",
            Self::Holding => "Holding",
            Self::Tainting => "Tainting",
            Self::InvalidSpec(_) => "InvalidSpec",
            Self::MachineNotFound(_) => "MachineNotFound",
            Self::HostNotFound(_) => "HostNotFound",
            Self::HostAmbiguous(_) => "HostAmbiguous",
            Self::Paused => "Paused",
            Self::HostPaused(_) => "HostPaused",
            Self::HostOffline(_) => "HostOffline",
            Self::HostNotProvisioned(_) => "HostNotProvisioned",
            Self::HostServicing(_) => "HostServicing",
            Self::HostDeleting(_) => "HostDeleting",
            Self::UnsupportedHost(_) => "UnsupportedHost",
            Self::HeldByOthers(_) => "HeldByOthers",
            Self::OtherRemediation(_) => "OtherRemediation",
            Self::HeldByPolicy(_) => "HeldByPolicy",
            Self::HeldBySharedCause(_) => "HeldBySharedCause",
            Self::Settling(_) => "Settling",
            Self::PolicyLimitReached(_) => "PolicyLimitReached",
            Self::RivalController(_) => "RivalController",
            Self::ControlPlaneQuorum(_) => "ControlPlaneQuorum",
            Self::AgentUnreachable(_) => "AgentUnreachable",
            Self::BmcAccessMissing(_) => "BmcAccessMissing",
            Self::ClusterGone(_) => "ClusterGone",
            Self::HostGone(_) => "HostGone",
            Self::StateLost(_) => "StateLost",
            Self::PowerOffRunning => "PowerOffRunning",
            Self::FenceUnconfirmed(_) => "FenceUnconfirmed",
            Self::IdentityMismatch(_) => "IdentityMismatch",
            Self::NodeReplaced(_) => "NodeReplaced",
            Self::NodeMismatch(_) => "NodeMismatch",
            Self::OtherNodeOnHost(_) => "OtherNodeOnHost",
            Self::CheckingOtherNode(_) => "CheckingOtherNode",
            Self::LeaseRenewed(_) => "LeaseRenewed",
            Self::WaitingForQuietLease => "WaitingForQuietLease",
            Self::WorkloadUnreachable(_) => "WorkloadUnreachable",
            Self::PowerUnreadable(_) => "PowerUnreadable",
            Self::FenceViolated(_) => "FenceViolated",
            Self::HoldLost(_) => "HoldLost",
            Self::DrainSkipped(_) => "DrainSkipped",
            Self::Draining(_) => "Draining",
            Self::DrainBlocked(_) => "DrainBlocked",
            Self::PowerOnRunning => "PowerOnRunning",
            Self::PowerOnStaged(_) => "PowerOnStaged",
            Self::PowerOnUnconfirmed(_) => "PowerOnUnconfirmed",
            Self::Booting => "Booting",
            Self::OffAgain => "OffAgain",
            Self::StaysOff(_) => "StaysOff",
            Self::BootTimeout => "BootTimeout",
            Self::WaitingForHealth => "WaitingForHealth",
            Self::Recovered => "Recovered",
            Self::Withdrawn => "Withdrawn",
            Self::WithdrawnAfterOff => "WithdrawnAfterOff",
            Self::Exhausted(_) => "Exhausted",
            Self::Cycling => "Cycling",
            Self::Fenced => "Fenced",
            Self::DeletingNode(_) => "DeletingNode",
            Self::NodeGone(_) => "NodeGone",
            Self::NodeNotFound(_) => "NodeNotFound",
            Self::TaintSkipped(_) => "TaintSkipped",
            Self::DrainGivenUp(_) => "DrainGivenUp",
            Self::TimedOut => "TimedOut",
            Self::ExhaustedKeptOff(_) => "ExhaustedKeptOff",
            Self::ExhaustedTold(_) => "ExhaustedTold",
            Self::ActionFailed(_) => "ActionFailed",
            Self::StateUnreadable(_) => "StateUnreadable",
            Self::StateOutdated => "StateOutdated",
            Self::OperationLost(_) => "OperationLost",
            Self::OtherAgentBusy(_) => "OtherAgentBusy",
            Self::OutletsOffRunning(_) => "OutletsOffRunning",
            Self::OutletsOnRunning(_) => "OutletsOnRunning",
            Self::OutletsNotOn(_) => "OutletsNotOn",
            Self::OutletsRestored(_) => "OutletsRestored",
            Self::OwnerDoesNotReportOff(_) => "OwnerDoesNotReportOff",
            Self::OwnerDoesNotSwitchOn(_) => "OwnerDoesNotSwitchOn",
            Self::OwnerDoesNotReportOn(_) => "OwnerDoesNotReportOn",
            Self::OrphanedHold(_) => "OrphanedHold",
            Self::MovedAway => "MovedAway",
            Self::MachineUpdating(_) => "MachineUpdating",
        }
    }

    /// Whether the remediation is blocked: something outside it must change before it continues.
    pub fn is_blocked(&self) -> bool {
        !matches!(
            self,
            Self::Started
                | Self::Working
                | Self::CollectingEvidence
                | Self::WaitingForDump
                | Self::Holding
                | Self::Tainting
                | Self::PowerOffRunning
                | Self::WaitingForQuietLease
                | Self::NodeReplaced(_)
                | Self::CheckingOtherNode(_)
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
                | Self::PolicyLimitReached(_)
                | Self::Settling(_)
                | Self::OutletsOffRunning(_)
                | Self::OutletsOnRunning(_)
                | Self::OutletsRestored(_)
                | Self::OwnerDoesNotReportOn(_)
                | Self::MovedAway
        )
    }
}

impl Reason {
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
