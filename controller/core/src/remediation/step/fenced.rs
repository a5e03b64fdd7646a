//! A host that is kept off, by strategy or because no attempt is left.
//!
//! Invariant: the host is not switched on before the remediation is withdrawn, nor while pods are left
//! on it.

use std::time::Duration;

use super::{
    super::{NodeFacts, Reason, State, Step, Taint, TaintOwner, WorkloadView},
    Command, Decision, Next, StepContext, after,
    evidence::LatestReading,
};

/// Interval of power readings of a host that is kept off, possibly for weeks.
pub(super) const FENCED_WATCH: Duration = Duration::from_secs(30);

impl StepContext<'_> {
    /// Continues after the host is off and drained.
    pub(super) fn after_off(&self, mut s: State, reason: Reason) -> Decision {
        if self.keeps_off(&s) {
            // An earlier request to stop was withdrawn.
            s.attempt.end_reason = None;
            let reason = s.keep_off.clone().unwrap_or(Reason::Fenced);
            return self.to(s, Step::Fenced, reason);
        }
        self.power_on_next(s, reason)
    }

    /// Keeps taint and power until the object is deleted. A request to stop changes nothing here,
    /// because nothing is being tried.
    pub(super) fn fenced(&self, s: State) -> Decision {
        if self.o.object.deleting {
            return self.power_on_withdrawn(s);
        }
        if let Some(d) = self.hold_lost(&s) {
            return d;
        }
        if let WorkloadView::Present(node) = &self.o.workload
            && let Some(d) = self.fenced_node(&s, node)
        {
            return d;
        }
        let (reason, cordoned) = match self.fenced_cordon(&s) {
            Some(d) => match d.next {
                Next::Wait(due) => (d.reason, Some(due)),
                _ => return d,
            },
            None => (s.failed().cloned().unwrap_or(Reason::Fenced), None),
        };
        let given_up = matches!(s.attempt.end_reason, Some(Reason::DrainGivenUp(_)));
        if given_up && let Some(command) = self.escalation_command(&s) {
            return self.act(s, reason, command);
        }
        let due = self
            .o
            .power
            .as_ref()
            .is_none_or(|view| self.older_than(view.answered, FENCED_WATCH));
        match self.power_within(&s, FENCED_WATCH) {
            LatestReading::On(seen) | LatestReading::Unclear(seen) => self.fence_violated(s, &seen),
            fresh
                if (due || matches!(fresh, LatestReading::NotRead))
                    && self.reading_down(&s).is_none() =>
            {
                self.act(s, reason, Command::ReadPower)
            }
            _ => {
                let until = after(self.now, FENCED_WATCH);
                self.wait(s, reason, cordoned.map_or(until, |due| until.min(due)))
            }
        }
    }

    fn fenced_node(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        if let Some(d) = self
            .check_node(s, node)
            .or_else(|| self.lease_renewed(s, node))
        {
            return Some(d);
        }
        if node.taint == Taint::Absent {
            // The taint was removed: back to Tainting, which proves off first.
            let mut s = s.clone();
            s.attempt.taint = Some(TaintOwner::Us);
            return Some(self.to(s, Step::Tainting, Reason::Tainting));
        }
        None
    }

    /// A Node that was cordoned stays so until its host is back. Why the host is off is not hidden by who uncordons it,
    /// where that is a failure.
    fn fenced_cordon(&self, s: &State) -> Option<Decision> {
        let node = self.node()?;
        let was_cordoned = (s.cordoned.as_ref()).is_some_and(|of| of.uid == node.uid);
        let reason = s.failed().cloned().unwrap_or(Reason::Fenced);
        match (was_cordoned, s.failed()) {
            (false, _) => None,
            (true, None) => self.cordon(s, node, &reason),
            (true, Some(_)) => self.cordon_now(s, node, &reason),
        }
    }

    fn power_on_withdrawn(&self, mut s: State) -> Decision {
        if s.attempt.drained.is_none() && s.attempt.taint.is_some() {
            let reason = Reason::Draining("pods and volumes".into());
            return self.to(s, Step::Draining, reason);
        }
        if let Some(why) = self.wanted_off_by_others() {
            return self.abort(s, why);
        }
        // What a host is kept off for by strategy ends with the object; one that has failed was to come back.
        let why = match s.failed() {
            Some(_) => Reason::WithdrawnAfterOff,
            None => Reason::KeptOffUntilDeleted,
        };
        s.attempt.end_reason = Some(why.clone());
        self.power_on_next(s, why)
    }
}
