//! Off and kept off: because that was the strategy, or because nothing else is left.
//!
//! Must never let go of the host before the request is withdrawn, nor while pods are left on it.

use std::time::Duration;

use super::{
    super::{Because, NodeFacts, State, Step, Taint, TaintOwner, WorkloadView},
    Command, Cx, Decision, after,
    proof::Fresh,
};

/// Time between two looks at the power of a host that is kept off: nothing hangs on it but our word,
/// and a BMC is not asked more often than that for weeks.
pub(super) const FENCED_WATCH: Duration = Duration::from_secs(30);

impl Cx<'_> {
    /// What follows once the host is off and nothing is left on it.
    pub(super) fn after_off(&self, mut s: State, because: Because) -> Decision {
        if self.keeps_off(&s) {
            // Told to stop, and not any more.
            s.ending = None;
            let because = s.keep_off.clone().unwrap_or(Because::Fenced);
            return self.to(s, Step::Fenced, because);
        }
        self.power_on_next(s, because)
    }

    /// The taint stays for as long as the host is off. Deleting the object is what brings the host
    /// back; being told to stop is not, since nothing is being tried.
    pub(super) fn fenced(&self, s: State) -> Decision {
        if self.o.request.deleting {
            return self.let_come_back(s);
        }
        if let Some(d) = self.hold_lost(&s) {
            return d;
        }
        if let WorkloadView::Present(node) = &self.o.workload
            && let Some(d) = self.fenced_node(&s, node)
        {
            return d;
        }
        let given_up = matches!(s.ending, Some(Because::DrainGivenUp(_)));
        let because = s.failed().cloned().unwrap_or(Because::Fenced);
        if given_up && let Some(command) = self.hand_over(&s) {
            return self.act(s, because, command);
        }
        let due = self
            .o
            .power
            .as_ref()
            .is_none_or(|view| self.older_than(view.answered, FENCED_WATCH));
        match self.power_within(&s, FENCED_WATCH) {
            Fresh::On(seen) | Fresh::Unclear(seen) => self.violated(s, &seen),
            fresh if (due || matches!(fresh, Fresh::Ask)) && self.bmc_down().is_none() => {
                self.act(s, because, Command::ReadPower)
            }
            _ => {
                let until = after(self.now, FENCED_WATCH);
                self.wait(s, because, until)
            }
        }
    }

    fn fenced_node(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        if let Some(d) = self
            .other_node(s, node)
            .or_else(|| self.lease_renewed(s, node))
        {
            return Some(d);
        }
        (node.taint == Taint::Absent).then(|| {
            // Taken off: through Tainting, which proves off first.
            let mut s = s.clone();
            s.taint = Some(TaintOwner::Us);
            self.to(s, Step::Tainting, Because::Tainting)
        })
    }

    fn let_come_back(&self, mut s: State) -> Decision {
        if s.drained.is_none() && s.taint.is_some() {
            let because = Because::Draining("pods and volumes".into());
            return self.to(s, Step::Draining, because);
        }
        if let Some(why) = self.wanted_off() {
            return self.abort(s, why);
        }
        s.ending = Some(Because::WithdrawnAfterOff);
        self.power_on_next(s, Because::WithdrawnAfterOff)
    }
}
