//! Off is confirmed: is it this Node that is off (F5)? Only then the taint (F1).

use std::time::Duration;

use super::{
    super::{Because, NodeFacts, State, Step, Taint, TaintOwner, WorkloadView},
    Command, Cx, Decision, Next, after,
    proof::{Fresh, by_person},
};

/// How often to look at a Lease that must stand still.
const LEASE_POLL: Duration = Duration::from_secs(1);

impl Cx<'_> {
    /// F5: the Lease must stand still. Only then does off mean that this Node is off.
    pub(super) fn confirming_off(&self, mut s: State) -> Decision {
        if let Some(d) = self.hold_lost(&s).or_else(|| self.untainted_end(&s)) {
            return d;
        }
        let node = match self.node_to_fence(&s) {
            Ok(node) => node,
            Err(d) => return *d,
        };
        if s.lease_at_off.is_none() {
            // The boot that has just ended, not one that began after the last look: another
            // bootID than this one is a boot after the power-on.
            self.mark_node(&mut s);
            let renewed = node.lease.as_ref().map(|l| l.renewed.clone());
            s.lease_at_off = Some(renewed.unwrap_or_default());
            return self.quiet_write(s, Because::WaitingForQuietLease);
        }
        if let Some(d) = self.lease_renewed(&s, node) {
            return d;
        }
        let Some(at) = self.lease_quiet_from(node) else {
            return self.to(s, Step::Tainting, Because::Tainting);
        };
        let mut d = self.watch_hold(s, Because::WaitingForQuietLease, Some(LEASE_POLL));
        if let Next::Wait(Some(until)) = d.next {
            d.next = Next::Wait(Some(until.min(at)));
        }
        d
    }

    /// The Node to taint, or what to do without one.
    fn node_to_fence(&self, s: &State) -> Result<&NodeFacts, Box<Decision>> {
        Err(Box::new(match &self.o.workload {
            WorkloadView::Present(node) => return Ok(node),
            WorkloadView::Unreachable { why } => {
                self.watch_hold(s.clone(), Because::WorkloadUnreachable(why.clone()), None)
            }
            // Without a Node there is nothing to taint, but its pods may still be there.
            WorkloadView::NotJoined | WorkloadView::Missing { .. } => self.without_node(s.clone()),
        }))
    }

    fn without_node(&self, s: State) -> Decision {
        let never_had_one = matches!(self.o.workload, WorkloadView::NotJoined) && s.node.is_none();
        if never_had_one {
            return self.power_on_next(s, Because::PowerOnRunning);
        }
        self.to(
            s,
            Step::Draining,
            Because::Draining("pods and volumes".into()),
        )
    }

    /// F1: off is read once more right before the taint, and recorded as ours before it is set (F9).
    pub(super) fn tainting(&self, mut s: State) -> Decision {
        if let Some(d) = self.hold_lost(&s).or_else(|| self.untainted_end(&s)) {
            return d;
        }
        let node = match self.node_to_fence(&s) {
            Ok(node) => node,
            Err(d) => return *d,
        };
        if let Some(d) = self.lease_renewed(&s, node) {
            return d;
        }
        if let Some(d) = self.not_off(&s, Because::Tainting) {
            return d;
        }
        match (s.taint, node.taint) {
            (None, Taint::Ours | Taint::Other) => {
                s.taint = Some(TaintOwner::Other);
                self.quiet_write(s, Because::Tainting)
            }
            (None | Some(TaintOwner::Other), Taint::Absent) => {
                s.taint = Some(TaintOwner::Us);
                self.quiet_write(s, Because::Tainting)
            }
            (Some(TaintOwner::Us), Taint::Absent) => {
                self.act(s, Because::Tainting, Command::AddTaint)
            }
            (Some(_), Taint::Ours | Taint::Other) => self.to(
                s,
                Step::Draining,
                Because::Draining("pods and volumes".into()),
            ),
        }
    }

    /// What to do while the BMC does not say off just now; `None`: it does, or a person vouches for
    /// a BMC that cannot say.
    pub(super) fn not_off(&self, s: &State, because: Because) -> Option<Decision> {
        let s = s.clone();
        if s.off.is_none() {
            return Some(self.violated(s, "in a state that nobody has proven"));
        }
        match (self.power_now(&s), self.agent_down()) {
            (Fresh::Off, _) => None,
            (Fresh::On(seen) | Fresh::Unclear(seen), _) => Some(self.violated(s, &seen)),
            (Fresh::Ask, None) => Some(self.act(s, because, Command::ReadPower)),
            (Fresh::Ask | Fresh::Unreadable(_), _) if by_person(&s) => None,
            (Fresh::Ask, Some(why)) => {
                Some(self.wait(s, Because::AgentUnreachable(why.to_owned()), None))
            }
            (Fresh::Unreadable(why), _) => {
                Some(self.watch_hold(s, Because::PowerUnreadable(why), None))
            }
        }
    }

    /// Withdrawn, or wanted off, and no taint of ours stands: nothing to drain.
    pub(super) fn untainted_end(&self, s: &State) -> Option<Decision> {
        if s.taint.is_some() {
            return None;
        }
        let mut s = s.clone();
        if let Some(why) = self.offline() {
            return Some(self.abort(s, why));
        }
        if self.o.request.deleting {
            s.ending = Some(Because::WithdrawnAfterOff);
            return Some(self.power_on_next(s, Because::WithdrawnAfterOff));
        }
        None
    }

    /// The step has lasted longer than this.
    pub(super) fn late(&self, s: &State, limit: Duration) -> bool {
        after(s.since, limit) <= self.now
    }
}
