//! The observed facts about one machine: the input of a verdict.
//!
//! Plain data; must never hold a verdict.

use jiff::Timestamp;

use super::SkipReason;

/// A status condition, of a Machine, a Node or a Cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Condition type, for example `Ready`.
    pub type_: String,
    /// `True`, `False` or `Unknown`; free text for Nodes.
    pub status: String,
    /// Reason of the condition; empty if it has none.
    pub reason: String,
    /// `lastTransitionTime`; `None` if it is missing.
    pub last_transition: Option<Timestamp>,
}

/// Since when a condition without `lastTransitionTime` has its status, as Cluster API, OpenShift and medik8s read it:
/// longer than any timeout. People and small agents set such conditions.
pub const LONG_AGO: Timestamp = Timestamp::UNIX_EPOCH;

impl Condition {
    /// Since when the condition has its status.
    pub fn since(&self) -> Timestamp {
        self.last_transition.unwrap_or(LONG_AGO)
    }
}

/// The Cluster of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClusterFacts {
    /// `spec.paused`.
    pub paused: bool,
    /// When `InfrastructureReady` became True; `None` if it is not True.
    pub infrastructure_ready: Option<Timestamp>,
    /// When `ControlPlaneInitialized` became True; `None` if it is not True.
    pub control_plane_initialized: Option<Timestamp>,
}

/// The facts about one Machine on which its verdict rests, in every dialect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MachineFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// From when the startup timeout runs: `metadata.creationTimestamp`, of OpenShift `status.lastUpdated`. `None`:
    /// from now at each evaluation, so that it never fires.
    pub starting_since: Option<Timestamp>,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Labelled as part of the control plane.
    pub control_plane: bool,
    /// Why it is no target of its check.
    pub skipped: Option<SkipReason>,
    /// Carries annotation `cluster.x-k8s.io/remediate-machine`.
    pub remediate_annotation: bool,
    /// `status.conditions` of the v1beta2 contract.
    pub conditions: Vec<Condition>,
    /// When the Machine's `InfrastructureReady` became True; `None` if it is not True.
    pub infrastructure_ready: Option<Timestamp>,
    /// `status.failureReason` and `failureMessage`, of Cluster API up to v1.10; of OpenShift in the phase `Failed`.
    pub failure: Option<String>,
    /// The present status of `HealthCheckSucceeded` (v1beta2 list, else v1beta1).
    pub health_condition: Option<bool>,
    /// The present status of `OwnerRemediated`.
    pub owner_remediated: Option<bool>,
    /// Whether `OwnerRemediated` is as a health check sets it: False, `WaitingForRemediation`. The owner
    /// has not responded yet.
    pub awaits_owner: bool,
}

/// The facts about one Node of a workload cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
}

/// What is known about the Node of a Machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeView {
    /// The Machine has no nodeRef yet.
    NotJoined,
    /// The Machine has a nodeRef, and a live read of the workload cluster found no such Node (F12).
    Missing {
        /// The name in the nodeRef.
        name: String,
    },
    /// The Machine has a nodeRef, and the watch shows no such Node. No live read of the workload
    /// cluster has confirmed yet that the Node is gone (F12).
    Unconfirmed {
        /// The name in the nodeRef.
        name: String,
    },
    /// The workload cluster cannot be queried now: the health of the Node is unknown.
    Unreachable {
        /// Why, as a clause for messages.
        why: String,
        /// The Machine has a nodeRef. While the workload cluster is unreachable no nodeRef can be set, so
        /// a missing one does not show that the Node has not joined.
        joined: bool,
    },
    /// The Node as last seen.
    Present(NodeFacts),
}

/// The remediation of a Machine (an object of the template's kind with its name).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MachineRemediation {
    /// There is no remediation of this name.
    None,
    /// The remediation exists and belongs to this Machine.
    Open,
    /// The remediation of this Machine is being deleted: its remediator is still at work.
    Deleting,
    /// The remediation of this name belongs to another Machine (by ownerReference UID).
    Foreign {
        /// Kind and name of the owner, for messages.
        owner: String,
    },
}

/// One selected Machine with everything that a plan needs; `M`: the facts that its dialect uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target<M = MachineFacts> {
    /// Facts about the Machine.
    pub machine: M,
    /// The Node of the Machine.
    pub node: NodeView,
    /// The remediation of the Machine.
    pub remediation: MachineRemediation,
}

// === impl MachineFacts ===

impl AsRef<Self> for MachineFacts {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsMut<Self> for MachineFacts {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}
