//! Inputs of a rehearsal: checks, their members and the members' hosts.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::{
    checks::machines::{
        self, ClusterFacts, Condition, MachineFacts, NodeView, OpenShiftCheck, OpenShiftMachine,
    },
    checks::nodes,
    fleet::placement::PolicyFacts,
    fleet::shared_cause::Domain,
};

/// A health check that is rehearsed.
#[derive(Debug, Clone)]
pub struct RehearsedCheck {
    /// `namespace/name`, or the name of a check of Nodes.
    pub name: String,
    /// The rules of the check.
    pub rules: CheckRules,
}

/// The rules of a check.
#[derive(Debug, Clone)]
pub enum CheckRules {
    /// A MachineHealthCheck of Cluster API, and its Cluster.
    Machines(machines::Check, ClusterFacts),
    /// A MachineHealthCheck of OpenShift.
    OpenShift(OpenShiftCheck),
    /// A NodeHealthCheck of medik8s.
    Nodes(nodes::Check),
}

/// A member of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberFacts {
    /// A Machine and its Node.
    Machine {
        /// Facts about the Machine.
        machine: MachineFacts,
        /// What is known about the Node of the Machine.
        node: NodeView,
    },
    /// A Machine of OpenShift and its Node.
    OpenShift {
        /// Facts about the Machine.
        machine: OpenShiftMachine,
        /// What is known about the Node of the Machine.
        node: NodeView,
    },
    /// A Node, as a member of a check of Nodes.
    Node(nodes::NodeFacts),
}

/// The host of a member, as the policies see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Name of the Node.
    pub node: Option<String>,
    /// The policies that select the host, and where it is.
    pub policy: PolicyFacts,
    /// Annotations of its Node.
    pub annotations: BTreeSet<String>,
}

/// A Node of the history, as the judgement of shared causes sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// What its host shares with others.
    pub domains: BTreeSet<Domain>,
    /// Since when it is not Ready.
    pub failed: Option<Timestamp>,
}

impl HostFacts {
    /// By what earlier remediations of the host are found: its Node, or the member without one.
    pub(super) fn host<'a>(&'a self, member: &'a str) -> &'a str {
        self.node.as_deref().unwrap_or(member)
    }
}

impl MemberFacts {
    /// Name of the Machine or Node.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Machine { machine, .. } => &machine.name,
            Self::OpenShift { machine, .. } => &machine.facts.name,
            Self::Node(node) => &node.name,
        }
    }

    /// The same after a remediation: its Node is Ready since then. `node` is its name if that is known.
    pub(super) fn ready(&self, node: Option<&str>, since: Timestamp) -> Self {
        let conditions = vec![Condition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: "KubeletReady".to_owned(),
            last_transition: Some(since),
        }];
        let present = |recorded: &NodeView| match node {
            Some(name) => NodeView::Present(machines::NodeFacts {
                name: name.to_owned(),
                conditions: conditions.clone(),
            }),
            None => recorded.clone(),
        };
        match self {
            Self::Node(facts) => Self::Node(nodes::NodeFacts {
                conditions,
                ..facts.clone()
            }),
            Self::Machine { machine, node } => Self::Machine {
                machine: machine.clone(),
                node: present(node),
            },
            Self::OpenShift { machine, node } => Self::OpenShift {
                machine: machine.clone(),
                node: present(node),
            },
        }
    }
}
