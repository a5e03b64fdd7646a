//! Whether a Node of the control plane may be remediated: one at a time, and only if the others keep
//! the quorum (F6), on OpenShift or anywhere else.

/// The control plane, as it is seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ControlPlane {
    /// Its Nodes: name, whether it is ready, whether a remediation of it is there or on its way,
    /// whichever check made it.
    pub(super) nodes: Vec<(String, bool, bool)>,
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Why this Node may not be remediated now.
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

    /// Why the next step has to wait where several are remediated already, whoever began that: the
    /// first by name goes on (F6).
    pub(super) fn precedence(&self, node: &str) -> Option<String> {
        let mut before = self.nodes.iter().filter(|(name, ..)| name.as_str() < node);
        let (name, ..) = before.find(|(_, _, remediated)| *remediated)?;
        Some(only_one(name))
    }
}

fn only_one(name: &str) -> String {
    format!("Node {name} of the control plane is being remediated, and only one is at a time")
}
