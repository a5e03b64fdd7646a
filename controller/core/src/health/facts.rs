//! What was observed about one machine; the input of a verdict.
//!
//! Owns plain data only; must never hold a judgement.

use jiff::Timestamp;

/// A status condition, of a Machine, a Node or a Cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Condition type, for example `Ready`.
    pub type_: String,
    /// `True`, `False` or `Unknown`; free text for Nodes.
    pub status: String,
    /// The reason that its setter gave.
    pub reason: String,
    /// When the status changed last; `None` where the setter left it out.
    pub last_transition: Option<Timestamp>,
}

/// The Cluster of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClusterFacts {
    /// `spec.paused`.
    pub paused: bool,
    /// Since when `InfrastructureReady` is True; `None`: it is not.
    pub infrastructure_ready: Option<Timestamp>,
    /// Since when `ControlPlaneInitialized` is True; `None`: it is not.
    pub control_plane_initialized: Option<Timestamp>,
}

/// One Machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MachineFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Carries label `cluster.x-k8s.io/control-plane`.
    pub control_plane: bool,
    /// Carries annotation `cluster.x-k8s.io/paused`.
    pub paused: bool,
    /// Carries annotation `cluster.x-k8s.io/skip-remediation`.
    pub skip_remediation: bool,
    /// Carries annotation `cluster.x-k8s.io/remediate-machine`.
    pub remediate_annotation: bool,
    /// `status.conditions` of the v1beta2 contract.
    pub conditions: Vec<Condition>,
    /// Since when its `InfrastructureReady` is True.
    pub infrastructure_ready: Option<Timestamp>,
    /// `status.failureReason` and `failureMessage`, of Cluster API up to v1.10.
    pub failure: Option<String>,
    /// The status of its `HealthCheckSucceeded` as it stands (v1beta2 list, else v1beta1).
    pub health_condition: Option<bool>,
    /// The status of its `OwnerRemediated` as it stands.
    pub owner_remediated: Option<bool>,
    /// Its `OwnerRemediated` is as a health check sets it: False, `WaitingForRemediation`. Its owner has
    /// not answered yet.
    pub awaits_owner: bool,
}

/// One Node of a workload cluster.
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
    /// The workload cluster cannot be queried now: nothing is known, which is not unhealthy.
    Unreachable {
        /// Why, for people.
        why: String,
        /// The Machine has a nodeRef. While the workload cluster is away nobody can set one, so that
        /// a missing nodeRef does not show that the Node has not joined.
        joined: bool,
    },
    /// The Node as last seen.
    Present(NodeFacts),
}

/// The remediation request of a Machine (an object of the template's kind with its name).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RequestView {
    /// There is none.
    None,
    /// There is one that belongs to this Machine.
    Open,
    /// There is one of this Machine, and it is being deleted: its remediator still works.
    Deleting,
    /// There is one of that name which belongs to another Machine (by ownerReference UID).
    Foreign {
        /// Whose it is, for people.
        owner: String,
    },
}

/// One selected Machine with everything that a plan needs; `M`: what its dialect looks at in a Machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target<M = MachineFacts> {
    /// The Machine.
    pub machine: M,
    /// Its Node.
    pub node: NodeView,
    /// The remediation of this Machine.
    pub request: RequestView,
}
