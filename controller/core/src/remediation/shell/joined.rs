//! Joins writes: which steps are passed without a write of their own.
//!
//! F2 asks for a record before an effect. Between two writes that follow from one observation nothing is done, so
//! that a crash between them is the same as one before the first. Each write costs two calls of the API server, and
//! with many hosts at once these calls are what takes the time. A step that is left out here is written on its own.
//!
//! Invariant: what is decided for a state that is not written yet never rests on what was observed for another one.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Shell;
use crate::remediation::{
    Collected, Decision, Evictions, Next, Observation, OperationView, OtherNodes, PodDeletions,
    State, Step, step,
};

/// Most steps that one write records.
const MOST_JOINED: usize = 3;

impl Shell {
    /// Decides on an observation of the recorded state, and joins the writes that need no effect and no other
    /// observation between them.
    #[must_use]
    pub fn decide(&self, o: &Observation, now: Timestamp) -> Decision {
        let mut decision = step(o, self.state.as_ref(), now);
        for _ in 0..MOST_JOINED {
            if decision.next != Next::Write {
                break;
            }
            let o = of_unwritten_state(o, &decision.state);
            let next = step(&o, Some(&decision.state), now);
            if next.next != Next::Write || !self.may_join(&o, &decision.state, &next.state) {
                break;
            }
            decision = joined(decision, next);
        }
        decision
    }

    /// Whether `next` may be recorded with `unwritten`, which follows from the recorded state.
    fn may_join(&self, o: &Observation, unwritten: &State, next: &State) -> bool {
        let recorded = self.state.as_ref();
        let from = recorded.map(|s| s.step);
        match (unwritten.step, next.step) {
            // Nothing is done before the host is taken, which is decided on a live reading in either case (F6, F11).
            (Step::Pending, Step::Evicting | Step::Holding) => recorded.is_none(),
            // The evidence was collected before; with its record the power-off begins.
            (Step::Holding, Step::PoweringOff) => from == Some(Step::Holding),
            // F5: the Lease is pinned as it was read after the power-off had ended.
            (Step::ConfirmingOff, Step::ConfirmingOff) => {
                from == Some(Step::PoweringOff)
                    && next.attempt.lease_at_off.is_some()
                    && self.node.is_read_after_end()
            }
            // F9: the taint is recorded as ours before it is set. F14: the Nodes were compared for that.
            (Step::Tainting, Step::Tainting) => {
                from == Some(Step::ConfirmingOff)
                    && matches!(o.other_nodes, OtherNodes::Compared(_))
            }
            // The hold key is given up to the owner, who has the host as off (F16).
            (Step::PoweringOn, Step::PoweringOn) => {
                let is_released = |s: &State| s.attempt.handover.released.is_some();
                from != Some(Step::PoweringOn) && is_released(next) && !is_released(unwritten)
            }
            (Step::Booting, Step::Restoring) => from == Some(Step::PoweringOn),
            // What the event log recorded since the power-off is recorded with the end.
            (Step::Booting | Step::Restoring, Step::Succeeded) => from == Some(unwritten.step),
            _ => false,
        }
    }

    /// Whether the operation of the recorded state has ended, as far as this process was told.
    pub(super) fn has_operation_ended(&self) -> bool {
        matches!(
            self.finished_operation(),
            Some(OperationView::Finished { .. })
        )
    }
}

/// What was observed, without what was observed for the operation and the commands of the recorded state.
fn of_unwritten_state(o: &Observation, unwritten: &State) -> Observation {
    let mut o = Observation {
        operation: None,
        answered: None,
        drain: None,
        completed: BTreeSet::new(),
        pod_deletions: PodDeletions::default(),
        evictions: Evictions::default(),
        collected: Collected::default(),
        ..o.clone()
    };
    if unwritten.outlets_may_be_off() {
        o.journal.outlets_off_in = None;
    }
    o
}

fn joined(first: Decision, next: Decision) -> Decision {
    let mut notes = first.notes;
    notes.extend(next.notes);
    Decision {
        notes,
        begins: first.begins || next.begins,
        ..next
    }
}
