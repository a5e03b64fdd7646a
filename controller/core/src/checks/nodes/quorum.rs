//! Whether a Node of the control plane may be remediated: one at a time, and only if the others keep
//! the quorum (F6), on OpenShift or anywhere else.

use crate::fleet::roles::Roles;

/// A Node of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlaneNode {
    /// Name of the Node.
    pub(super) name: String,
    /// Its roles.
    pub(super) roles: Roles,
    /// Whether it is Ready.
    pub(super) ready: bool,
    /// Whether a remediation of it, by any check, exists or is being created.
    pub(super) remediated: bool,
}

/// The Nodes of the control plane, including Nodes that run etcd only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ControlPlane {
    /// Each Node once.
    pub(super) nodes: Vec<PlaneNode>,
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Why this Node must not be remediated now, if so.
    pub(super) fn refusal(&self, node: &str) -> Option<String> {
        let is_other = |other: &&PlaneNode| other.name != node;
        if let Some(other) = self
            .nodes
            .iter()
            .filter(is_other)
            .find(|other| other.remediated)
        {
            return Some(only_one(&other.name));
        }
        let shows_etcd = self.nodes.iter().any(|n| n.roles.etcd);
        let members = || self.nodes.iter().filter(|n| n.roles.is_member(shows_etcd));
        if members().all(|member| is_other(&member)) {
            return None;
        }
        let all = members().count();
        let needed = all / 2 + 1;
        let ready = members()
            .filter(is_other)
            .filter(|member| member.ready)
            .count();
        (ready < needed).then(|| {
            format!(
                "the control plane of {all} would lose its quorum: {ready} other Nodes are ready, \
                 {needed} are needed; repair another one first. If nothing can be lost, because the majority \
                 is lost already or there is no etcd, create a PowerRemediation of Node {node} and annotate it \
                 with rackhand.dev/override-quorum=<its UID>, unless the controller ignores words of persons"
            )
        })
    }

    /// Why the next step has to wait if several Nodes are remediated already, by any check: only the first
    /// by name continues (F6).
    pub(super) fn precedence(&self, node: &str) -> Option<String> {
        let mut before = self.nodes.iter().filter(|n| n.name.as_str() < node);
        let first = before.find(|n| n.remediated)?;
        Some(only_one(&first.name))
    }

    /// Records that a remediation of a Node is being created.
    pub(super) fn remediates(&mut self, node: &str) {
        for other in &mut self.nodes {
            other.remediated |= other.name == node;
        }
    }
}

fn only_one(name: &str) -> String {
    format!("Node {name} of the control plane is being remediated; only one may be at a time")
}
