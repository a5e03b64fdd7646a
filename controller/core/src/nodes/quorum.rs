//! Whether a Node of the control plane may be remediated: one at a time, and only if the others keep
//! the quorum (F6), on OpenShift or anywhere else.

/// The Nodes of the control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ControlPlane {
    /// Name of each Node, whether it is ready, and whether a remediation of it, by any check, exists or
    /// is being created.
    pub(super) nodes: Vec<(String, bool, bool)>,
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Why this Node must not be remediated now, if so.
    pub(super) fn refusal(&self, node: &str) -> Option<String> {
        let others = || self.nodes.iter().filter(|(name, ..)| name != node);
        if let Some((name, ..)) = others().find(|(_, _, remediated)| *remediated) {
            return Some(only_one(name));
        }
        let all = self.nodes.len();
        let needed = all / 2 + 1;
        let ready = others().filter(|(_, ready, _)| *ready).count();
        (ready < needed).then(|| {
            format!(
                "the control plane of {all} would lose its quorum: {ready} other Nodes are ready, \
                 {needed} are needed"
            )
        })
    }

    /// Why the next step has to wait if several Nodes are remediated already, by any check: only the first
    /// by name continues (F6).
    pub(super) fn precedence(&self, node: &str) -> Option<String> {
        let mut before = self.nodes.iter().filter(|(name, ..)| name.as_str() < node);
        let (name, ..) = before.find(|(_, _, remediated)| *remediated)?;
        Some(only_one(name))
    }
}

fn only_one(name: &str) -> String {
    format!("Node {name} of the control plane is being remediated; only one may be at a time")
}
