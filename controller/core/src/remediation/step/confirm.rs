//! Off is confirmed: is it this Node that is off (F5)? Only then the taint (F1).

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{
        Because, NodeAction, NodeFacts, OffEvidence, State, Step, Strategy, Taint, TaintOwner,
        WorkloadDown, WorkloadView,
    },
    Command, Cx, Decision, Next, after,
    proof::{Fresh, LAST_WORD, by_person, no_command_taken},
    same_node::is_pinned,
};

/// How often to look at a Lease that must stand still.
const LEASE_POLL: Duration = Duration::from_secs(1);

impl Cx<'_> {
    /// F5: the Lease must stand still. Only then does off mean that this Node is off.
    pub(super) fn confirming_off(&self, mut s: State) -> Decision {
        if let Some(d) = self.leave_hold(&s) {
            return d;
        }
        if no_command_taken(&s) {
            return self.fence_again(s, Because::PowerOffRunning);
        }
        let cycles = self.only_cycles(&s);
        let node = match self.node() {
            Some(node) => node,
            None if cycles => return self.cycling(s, None),
            None => return self.no_node_to_fence(s),
        };
        if let Some(d) = self.other_machine(&s, node) {
            return d;
        }
        if !is_pinned(&s, node) {
            // The boot that has just ended, not one that began after the last look: another
            // bootID than this one is a boot after the power-on.
            self.pin_node(&mut s, node);
            return self.quiet_write(s, Because::WaitingForQuietLease);
        }
        if let Some(d) = self.lease_renewed(&s, node) {
            return d;
        }
        let quiet = self.lease_quiet_from(node);
        if cycles {
            return self.cycling(s, quiet);
        }
        let Some(at) = quiet else {
            return self.to(s, Step::Tainting, Because::Tainting);
        };
        let mut d = self.watch_hold(s, Because::WaitingForQuietLease, Some(LEASE_POLL));
        if let Next::Wait(until) = d.next {
            d.next = Next::Wait(until.min(at));
        }
        d
    }

    /// This attempt moves nothing: neither pods nor volumes can come to run twice. A taint that
    /// stands already moves them all the same.
    fn only_cycles(&self, s: &State) -> bool {
        let first = s.strategy == Strategy::PowerCycleFirst && s.attempt == 1;
        let tainted = self.node().is_some_and(|n| n.taint != Taint::Absent);
        first && s.keep_off.is_none() && s.taint.is_none() && !tainted
    }

    /// A short while off, and the Lease stands still where it can be seen (F5).
    fn cycling(&self, s: State, quiet: Option<Timestamp>) -> Decision {
        let off = s.off.as_ref().map_or(s.since, OffEvidence::at);
        let held = after(off, self.policy.cycle_hold);
        let until = quiet.map_or(held, |quiet| quiet.max(held));
        if until > self.now {
            let mut d = self.watch_hold(s, Because::Cycling, Some(LEASE_POLL));
            if let Next::Wait(next) = d.next {
                d.next = Next::Wait(next.min(until));
            }
            return d;
        }
        match self.not_off(&s, Because::Cycling) {
            Some(d) => d,
            None => self.power_on_next(s, Because::PowerOnRunning),
        }
    }

    /// What to do without a Node.
    fn no_node_to_fence(&self, s: State) -> Decision {
        match &self.o.workload {
            WorkloadView::Unreachable { why } => self.deferred(s, why),
            // Without a Node there is nothing to taint, but its pods may still be there.
            WorkloadView::NotJoined if s.node.is_none() => {
                self.after_off(s, Because::PowerOnRunning)
            }
            _ => self.to(
                s,
                Step::Draining,
                Because::Draining("pods and volumes".into()),
            ),
        }
    }

    /// The taint waits for the workload cluster. As long as there is none, switching on again moves
    /// nothing: that is the user's choice (F4).
    fn deferred(&self, s: State, why: &str) -> Decision {
        let off = s.off.as_ref().map_or(s.since, OffEvidence::at);
        let over = after(off, self.policy.defer_timeout) <= self.now;
        let may = self.policy.workload_down == WorkloadDown::PowerOn
            && s.taint.is_none()
            && !self.keeps_off(&s);
        if !over || !may {
            return self.watch_hold(s, Because::WorkloadUnreachable(why.to_owned()), None);
        }
        let because = Because::TaintSkipped(why.to_owned());
        match self.not_off(&s, because.clone()) {
            Some(d) => d,
            None => self.power_on_next(s, because),
        }
    }

    /// F1: off is read once more right before the taint, and recorded as ours before it is set (F9).
    pub(super) fn tainting(&self, mut s: State) -> Decision {
        if let Some(d) = self.leave_hold(&s) {
            return d;
        }
        if s.taint.is_none() && no_command_taken(&s) {
            return self.fence_again(s, Because::PowerOffRunning);
        }
        let Some(node) = self.node() else {
            return self.no_node_to_fence(s);
        };
        if let Some(d) = self
            .other_node(&s, node)
            .or_else(|| self.lease_renewed(&s, node))
        {
            return d;
        }
        if let Some(d) = self.not_off(&s, Because::Tainting) {
            return d;
        }
        if s.node_action.unwrap_or(self.o.node_action) == NodeAction::Delete {
            return self.deleting_node(s, node);
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

    /// The way of clusters that do not know the taint: their own controllers clean up after a Node
    /// that is gone. What it was is kept on the object before that.
    fn deleting_node(&self, mut s: State, node: &NodeFacts) -> Decision {
        let because = Because::DeletingNode(node.name.clone());
        if s.node_action.is_none() || s.taint.is_none() {
            s.node_action = Some(NodeAction::Delete);
            s.taint = Some(TaintOwner::Us);
            return self.write(s, because);
        }
        let command = if self.o.request.node_backup {
            Command::DeleteNode {
                uid: node.uid.clone(),
            }
        } else {
            Command::BackUpNode
        };
        self.act(s, because, command)
    }

    /// What to do while the BMC does not say off just now; `None`: it does, or a person vouches for
    /// a BMC that cannot say.
    pub(super) fn not_off(&self, s: &State, because: Because) -> Option<Decision> {
        let s = s.clone();
        if s.off.is_none() {
            return Some(self.violated(s, "in a state that nobody has proven"));
        }
        match (self.power_within(&s, LAST_WORD), self.bmc_down()) {
            (Fresh::Off, _) => None,
            (Fresh::On(seen) | Fresh::Unclear(seen), _) => Some(self.violated(s, &seen)),
            (Fresh::Ask, None) => Some(self.act(s, because, Command::ReadPower)),
            (Fresh::Ask | Fresh::Unreadable(_), _) if by_person(&s) => None,
            (Fresh::Ask, Some(why)) => Some(self.recheck(s, why)),
            (Fresh::Unreadable(why), _) => {
                Some(self.watch_hold(s, Because::PowerUnreadable(why), None))
            }
        }
    }

    /// Why it does not go on from a confirmed off: it is not held any more, nobody wants it any more, or
    /// the BMC has been silent for too long.
    pub(super) fn leave_hold(&self, s: &State) -> Option<Decision> {
        self.hold_lost(s)
            .or_else(|| self.untainted_end(s))
            .or_else(|| self.silent_too_long(s))
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
        if self.withdrawn().is_some() {
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
