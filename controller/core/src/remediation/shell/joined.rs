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
    AgentView, BmcAccess, Collected, Command, Decision, Evictions, Next, Observation, OffEvidence,
    OperationOutcome, OperationView, OtherNodes, PodDeletions, PowerView, Reason, State, Step,
    TaintOwner, step,
};

/// Most steps that are joined to one write.
const MOST_JOINED: usize = 4;

impl Shell {
    /// Decides on an observation of the recorded state, and joins the writes that need no effect and no other
    /// observation between them.
    #[must_use]
    pub fn decide(&self, o: &Observation, now: Timestamp) -> Decision {
        match self.read_before_confirmed(o, now) {
            Some(read) => read,
            None => self.decide_joined(o, self.read_since_end(), now),
        }
    }

    /// `read`: when the BMC was read since the end of the operation of the recorded state was known.
    fn decide_joined(&self, o: &Observation, read: Option<Timestamp>, now: Timestamp) -> Decision {
        let mut decision = step(o, self.state.as_ref(), now);
        if let Some(asked) = read.filter(|asked| *asked <= now)
            && let Some(OffEvidence::Bmc { at, .. }) = self.confirmed_off_by(&mut decision)
        {
            // What was read since then is younger than the readings of the evidence.
            *at = asked;
        }
        for _ in 0..MOST_JOINED {
            if decision.next != Next::Write {
                break;
            }
            let o = of_unwritten_state(o, &decision.state);
            let next = step(&o, Some(&decision.state), now);
            if next.next != Next::Write
                || !self.may_join(&o, read.is_some(), &decision.state, &next.state)
            {
                break;
            }
            decision = joined(decision, next);
        }
        decision
    }

    /// Reads the BMC once more before the confirmed off is recorded, where the taint follows at once if it reports off:
    /// both are one record then. The readings of the evidence do not count for the taint (F1), because they may have
    /// waited at the agent until a controller returned.
    fn read_before_confirmed(&self, o: &Observation, now: Timestamp) -> Option<Decision> {
        let state = self.state.as_ref()?;
        let can_be_read = o.agent == AgentView::Ready && o.access == BmcAccess::Known;
        if state.step != Step::PoweringOff || !can_be_read || self.is_read_after_end {
            return None;
        }
        let Some(OperationView::Finished {
            outcome: OperationOutcome::Confirmed { readings, .. },
            ..
        }) = &o.operation
        else {
            return None;
        };
        let assumed = PowerView {
            asked: now,
            answered: now,
            lease: None,
            result: Ok(readings.last()?.clone()),
        };
        let mut if_off = o.clone();
        if_off.power = Some(assumed);
        let d = self.decide_joined(&if_off, Some(now), now);
        matches!(d.state.step, Step::Tainting | Step::Draining).then(|| Decision {
            state: state.clone(),
            next: Next::Do(Command::ReadPower),
            reason: Reason::PowerOffRunning,
            notes: Vec::new(),
            begins: false,
        })
    }

    /// The evidence of a decision which says that the power-off has ended with one.
    fn confirmed_off_by<'d>(&self, decision: &'d mut Decision) -> Option<&'d mut OffEvidence> {
        let from = self.state.as_ref()?.step;
        let is_confirmed = (from, decision.state.step) == (Step::PoweringOff, Step::ConfirmingOff);
        let off = decision.state.attempt.off.as_mut()?;
        (is_confirmed && decision.next == Next::Write).then_some(off)
    }

    /// Whether `next` may be recorded with `unwritten`, which follows from the recorded state. `is_read`: the BMC was read
    /// since the end of the operation of the recorded state was known.
    fn may_join(&self, o: &Observation, is_read: bool, unwritten: &State, next: &State) -> bool {
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
            // F1: the BMC was read once more after the end of the power-off, and F5: so was the Lease that is pinned.
            // What a person has confirmed is recorded on its own, with its copy.
            (Step::ConfirmingOff, Step::Tainting) => {
                from == Some(Step::PoweringOff)
                    && matches!(unwritten.attempt.off, Some(OffEvidence::Bmc { .. }))
                    && is_read
                    && self.node.is_read_after_end()
            }
            // F9: the taint is recorded as ours before it is set. F14: the Nodes were compared for that.
            (Step::Tainting, Step::Tainting | Step::Draining) => {
                let is_recorded = unwritten.attempt.taint == Some(TaintOwner::Us);
                matches!(from, Some(Step::PoweringOff | Step::ConfirmingOff))
                    && (is_recorded || matches!(o.other_nodes, OtherNodes::Compared(_)))
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
