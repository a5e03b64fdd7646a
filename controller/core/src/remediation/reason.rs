//! Every "because", once: the condition, the event, the log, the metric label and the CLI say the
//! same words.
//!
//! Must never hold a secret.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a remediation stands where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", content = "detail")]
#[allow(missing_docs, reason = "the Display below says what each one is")]
pub enum Because {
    Started,
    Working,
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
    OperationLost(String),
    OtherAgentBusy(String),
}

impl Because {
    /// The reason as a CamelCase word: condition reason and metric label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Started => "Started",
            Self::Working => "Working",
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
            Self::OperationLost(_) => "OperationLost",
            Self::OtherAgentBusy(_) => "OtherAgentBusy",
        }
    }

    /// Whether it cannot go on by itself just now: somebody or something else must change first.
    pub fn is_blocked(&self) -> bool {
        !matches!(
            self,
            Self::Started
                | Self::Working
                | Self::Holding
                | Self::Tainting
                | Self::PowerOffRunning
                | Self::WaitingForQuietLease
                | Self::NodeReplaced(_)
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
        )
    }
}

impl Because {
    /// It lasts until somebody or something else changes, and its words say what: no time is over by
    /// itself then.
    pub fn waits_for_somebody(&self) -> bool {
        self.is_blocked() || matches!(self, Self::Fenced | Self::ExhaustedKeptOff(_))
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => write!(f, "remediation started"),
            Self::Working => write!(f, "deciding what comes next"),
            Self::Holding => {
                write!(
                    f,
                    "putting our hold key on the BareMetalHost before the power-off"
                )
            }
            Self::Tainting => {
                write!(
                    f,
                    "confirmed off; putting the out-of-service taint on the node"
                )
            }
            Self::InvalidSpec(what) => write!(f, "{what}"),
            Self::MachineNotFound(what) => write!(f, "{what}; nothing is switched"),
            Self::HostNotFound(what) => write!(
                f,
                "no host for this machine: {what}; name it in an agent's inventory or link a \
                 BareMetalHost"
            ),
            Self::HostAmbiguous(what) => {
                write!(
                    f,
                    "it is not clear which host this machine runs on, so none is switched: {what}"
                )
            }
            Self::Paused => write!(f, "paused; nothing is switched until the pause ends"),
            Self::HostPaused(host) => write!(
                f,
                "BareMetalHost {host} is paused, so baremetal-operator would not heed our hold; \
                 going on once the annotation baremetalhost.metal3.io/paused is gone"
            ),
            Self::HostOffline(host) => write!(
                f,
                "BareMetalHost {host} has spec.online false: somebody wants it off, so it is not \
                 remediated"
            ),
            Self::HostNotProvisioned(host) => write!(
                f,
                "BareMetalHost {host} is not provisioned: baremetal-operator would not keep it off; \
                 waiting until it is"
            ),
            Self::HostServicing(host) => {
                write!(
                    f,
                    "BareMetalHost {host} is being serviced; waiting for its end"
                )
            }
            Self::HostDeleting(host) => write!(
                f,
                "BareMetalHost {host} is being deleted; nothing is switched"
            ),
            Self::UnsupportedHost(why) => write!(f, "this host cannot be fenced: {why}"),
            Self::HeldByOthers(keys) => write!(f, "held off by {keys}; waiting until they let go"),
            Self::RivalController(key) => write!(
                f,
                "CAPM3's own controller works on this object too (its hold key {key} is on the \
                 BareMetalHost), and two must not; stepping back until that one is off"
            ),
            Self::OtherRemediation(which) => write!(f, "{which} is remediated first"),
            Self::ControlPlaneQuorum(why) => write!(
                f,
                "switching off this control-plane machine could cost etcd its quorum: {why}"
            ),
            Self::AgentUnreachable(why) => write!(f, "no agent to reach the BMC through: {why}"),
            Self::BmcAccessMissing(what) => write!(
                f,
                "the BMC cannot be reached: {what}. Create it again, or delete this object: the host is \
                 then left as it is"
            ),
            Self::ClusterGone(cluster) => write!(
                f,
                "Cluster {cluster} is gone; its hosts are not remediated any more, and this one is left \
                 to its owner"
            ),
            Self::HostGone(host) => write!(
                f,
                "BareMetalHost {host} is gone; the power of the host is left to its owner"
            ),
            Self::StateLost(what) => write!(
                f,
                "the state of this remediation was removed from the object, and {what}. Nothing is \
                 switched. Make sure that the host is off or its workload is gone, take the \
                 out-of-service taint off, and switch the host on: then this goes on by itself"
            ),
            Self::PowerOffRunning => write!(f, "switching the host off; not confirmed off yet"),
            Self::FenceUnconfirmed(why) => write!(
                f,
                "the host is not confirmed off, so no workload is moved: {why}. Retrying; or make \
                 sure yourself that it is off and annotate this object with \
                 rackhand.dev/confirm-fenced=<its UID>"
            ),
            Self::IdentityMismatch(why) => write!(
                f,
                "the BMC belongs to another system: {why}. Correct the inventory or the \
                 BareMetalHost, then delete this object"
            ),
            Self::NodeReplaced(node) => write!(
                f,
                "another Node object is called {node} now; making sure that its kubelet is silent \
                 before it is tainted"
            ),
            Self::NodeMismatch(why) => {
                write!(f, "nothing is tainted, and the host stays off: {why}")
            }
            Self::LeaseRenewed(node) => write!(
                f,
                "the kubelet of node {node} is alive although this host was confirmed off: another \
                 host was switched off and is switched on again. Correct the BMC address of this \
                 host"
            ),
            Self::WaitingForQuietLease => {
                write!(
                    f,
                    "confirmed off; making sure that the node's Lease stands still"
                )
            }
            Self::WorkloadUnreachable(why) => {
                write!(f, "the workload cluster cannot be asked: {why}")
            }
            Self::PowerUnreadable(why) => write!(f, "the power state cannot be read: {why}"),
            Self::FenceViolated(what) => {
                write!(
                    f,
                    "the host was seen {what} while it had to stay off; switching it off again"
                )
            }
            Self::HoldLost(host) => write!(
                f,
                "our hold key on BareMetalHost {host} was removed while the host had to stay off; \
                 putting it back and confirming off again"
            ),
            Self::DrainSkipped(what) => write!(
                f,
                "switching on after the drain timeout, as the policy says, although this is still \
                 there: {what}"
            ),
            Self::Draining(what) => write!(f, "waiting for {what} to go"),
            Self::DrainBlocked(what) => {
                write!(
                    f,
                    "still there after the drain timeout, the host stays off: {what}"
                )
            }
            Self::PowerOnRunning => write!(f, "power-on asked for, not confirmed yet"),
            Self::PowerOnStaged(why) => write!(f, "power-on asked for; it {why}"),
            Self::PowerOnUnconfirmed(why) => {
                write!(f, "the host is not confirmed on: {why}. Retrying")
            }
            Self::Booting => write!(f, "confirmed on; waiting for the node to report"),
            Self::OffAgain => write!(
                f,
                "the host was seen off although it had been switched on; switching it on again"
            ),
            Self::StaysOff(times) => write!(
                f,
                "seen off {times} times after it had been switched on; whoever or whatever switches \
                 it off has to be found. It is not switched on again before the next attempt"
            ),
            Self::BootTimeout => write!(f, "the node did not become healthy in time"),
            Self::WaitingForHealth => write!(f, "the node reports; waiting for it to be healthy"),
            Self::Recovered => write!(f, "the node is back"),
            Self::Withdrawn => write!(f, "withdrawn before the power-off; nothing was switched"),
            Self::WithdrawnAfterOff => {
                write!(
                    f,
                    "withdrawn after the power-off was begun; switching on and cleaning up"
                )
            }
            Self::ExhaustedKeptOff(attempts) => write!(
                f,
                "not healthy after {}; the host is kept off until this object is deleted",
                Attempts(*attempts)
            ),
            Self::ExhaustedTold(attempts) => write!(
                f,
                "not healthy after {}; nothing more is done, as the policy says",
                Attempts(*attempts)
            ),
            Self::Cycling => write!(
                f,
                "confirmed off for a plain power cycle: no workload is moved in this attempt"
            ),
            Self::Fenced => write!(
                f,
                "confirmed off and drained; the host stays off until this object is deleted"
            ),
            Self::DeletingNode(node) => write!(
                f,
                "confirmed off; deleting node {node}, whose labels and annotations are kept on \
                 this object"
            ),
            Self::NodeGone(node) => write!(
                f,
                "node {node} is gone, and the policy is to replace the machine at once"
            ),
            Self::NodeNotFound(node) => write!(
                f,
                "there is no node {node} in this cluster; nothing is switched"
            ),
            Self::TaintSkipped(why) => write!(
                f,
                "switching on without a taint, as the policy says, since the workload cluster could \
                 not be asked for long: {why}"
            ),
            Self::DrainGivenUp(what) => write!(
                f,
                "given up after the drain timeout; the host stays off until this object is deleted. \
                 Still there: {what}"
            ),
            Self::TimedOut => write!(
                f,
                "the health check has asked to stop trying (remediation.medik8s.io/nhc-timed-out)"
            ),
            Self::ActionFailed(why) => write!(f, "not carried out, trying again: {why}"),
            Self::StateUnreadable(why) => write!(
                f,
                "what was done so far does not read, so nothing is done: {why}"
            ),
            Self::OperationLost(why) => write!(
                f,
                "withdrawn, and it is not known whether the host was switched off: {why}; switching it on"
            ),
            Self::OtherAgentBusy(which) => write!(
                f,
                "an operation on this host may still run at {which}; nothing is sent to its BMC through \
                 another agent before"
            ),
            Self::Exhausted(attempts) => {
                write!(
                    f,
                    "not healthy after {}; the Machine's owner takes over",
                    Attempts(*attempts)
                )
            }
        }
    }
}

/// How many, in words.
struct Attempts(u32);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => write!(f, "1 attempt"),
            several => write!(f, "{several} attempts"),
        }
    }
}
