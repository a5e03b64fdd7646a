//! The cordon of a Node whose pods are to leave before its host is switched (F9).
//!
//! Invariants: it is recorded before it is set; only a cordon that carries the UID of this remediation is removed, and
//! the remediation does not end before that.

use super::super::{
    super::{Cordon, CordonedNode, NodeFacts, Reason, State, WorkloadView},
    Command, Decision, StepContext,
};

impl StepContext<'_> {
    /// The state in which the Node is recorded as cordoned by this remediation, if nobody has cordoned it.
    pub(in crate::remediation::step) fn with_cordon(&self, mut s: State) -> State {
        if let Some(node) = self.node().filter(|node| node.cordon == Cordon::Absent) {
            s.cordoned = Some(CordonedNode::of(node));
        }
        s
    }

    /// Cordons the Node; `None` if it is cordoned, by whomever.
    pub(in crate::remediation::step) fn cordon(
        &self,
        s: &State,
        node: &NodeFacts,
        reason: &Reason,
    ) -> Option<Decision> {
        if node.cordon != Cordon::Absent {
            return None;
        }
        let recorded = s.cordoned.as_ref().map(|recorded| &recorded.uid);
        if recorded != Some(&node.uid) {
            return Some(self.quiet_write(self.with_cordon(s.clone()), reason.clone()));
        }
        let node = node.uid.clone();
        Some(self.act(s.clone(), reason.clone(), Command::Cordon { node }))
    }

    /// Removes our cordon; `None` if there is none.
    pub(in crate::remediation::step) fn uncordon(
        &self,
        s: &State,
        reason: &Reason,
    ) -> Option<Decision> {
        match &self.o.workload {
            WorkloadView::Present(node) if self.is_cordoned_by_us(node) => {
                let node = node.uid.clone();
                Some(self.act(s.clone(), reason.clone(), Command::Uncordon { node }))
            }
            WorkloadView::Unreachable { why } if s.cordoned.is_some() => {
                Some(self.recheck(s.clone(), Reason::WorkloadUnreachable(why.clone())))
            }
            _ => None,
        }
    }

    fn is_cordoned_by_us(&self, node: &NodeFacts) -> bool {
        matches!(&node.cordon, Cordon::Rackhand { uid } if *uid == self.o.object.uid)
    }
}
