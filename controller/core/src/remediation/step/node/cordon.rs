//! The cordon of a Node whose pods are to leave before its host is switched (F9).
//!
//! Invariants: it is recorded before it is set; only a cordon that carries the UID of this remediation is removed, and
//! the remediation does not end before that; each time that it is set again, because somebody else has removed it, is
//! recorded before too, and comes later than the last one by a pause that grows.

use jiff::Timestamp;

use super::super::{
    super::{Cordon, CordonedNode, NodeFacts, Reason, State, WorkloadView},
    Command, Decision, Next, StepContext,
};

impl StepContext<'_> {
    /// The state in which the Node is recorded as cordoned by this remediation, if nobody has cordoned it.
    pub(in crate::remediation::step) fn with_cordon(&self, mut s: State) -> State {
        if let Some(node) = self.node().filter(|node| node.cordon == Cordon::Absent) {
            s.cordoned = Some(CordonedNode::of(node));
        }
        s
    }

    /// Cordons the Node; `None` if it is cordoned, by whomever. Waits where somebody else has removed the cordon again and
    /// again.
    pub(in crate::remediation::step) fn cordon(
        &self,
        s: &State,
        node: &NodeFacts,
        reason: &Reason,
    ) -> Option<Decision> {
        if node.cordon != Cordon::Absent {
            return None;
        }
        let recorded = s.cordoned.as_ref();
        let Some(recorded) = recorded.filter(|recorded| recorded.uid == node.uid) else {
            return Some(self.quiet_write(self.with_cordon(s.clone()), reason.clone()));
        };
        let command = Command::Cordon {
            node: node.uid.clone(),
        };
        if !recorded.seen && !self.done(&command) {
            return Some(self.act(s.clone(), reason.clone(), command));
        }
        let due = recorded.due(self.now);
        if self.now < due {
            let why = Reason::CordonRemoved(removed(recorded, due));
            return Some(self.wait(s.clone(), why, due));
        }
        let mut s = s.clone();
        s.cordoned = Some(recorded.again(self.now));
        Some(self.quiet_write(s, reason.clone()))
    }

    /// The same where something else is more urgent than a cordon that may not be set again yet.
    pub(in crate::remediation::step) fn cordon_now(
        &self,
        s: &State,
        node: &NodeFacts,
        reason: &Reason,
    ) -> Option<Decision> {
        self.cordon(s, node, reason)
            .filter(|d| !matches!(d.next, Next::Wait(_)))
    }

    /// Notes in a state that is written that the cordon is there.
    pub(in crate::remediation::step) fn note_cordon(&self, s: &mut State) {
        if let (Some(recorded), Some(node)) = (&mut s.cordoned, self.node())
            && recorded.uid == node.uid
            && self.is_cordoned_by_us(node)
        {
            recorded.seen = true;
        }
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

/// What somebody else does to a Node, and when it is cordoned again.
fn removed(recorded: &CordonedNode, due: Timestamp) -> String {
    let (name, times) = (&recorded.name, recorded.removed);
    format!(
        "node {name} was uncordoned by somebody else, {times} times by now; it is cordoned again at {due}"
    )
}
