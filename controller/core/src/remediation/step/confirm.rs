//! From the confirmed off to the taint: checks that the host that is off runs this Node (F5), then
//! taints it (F1).

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{
        NodeAction, NodeFacts, OffEvidence, Reason, State, Step, Strategy, Taint, TaintOwner,
        UnreachablePolicy, WorkloadView,
    },
    Command, Decision, Next, StepContext, after,
    evidence::{LATEST_READING_AGE, LatestReading, by_person},
    node::identity::is_pinned,
};

/// Interval of reading a Lease that must not be renewed.
pub(super) const LEASE_POLL: Duration = Duration::from_secs(1);

impl StepContext<'_> {
    /// F5: waits until the Lease has not been renewed for long enough. Only then does the reading
    /// of off apply to this Node.
    pub(super) fn confirming_off(&self, mut s: State) -> Decision {
        if let Some(d) = self.interrupt_hold(&s) {
            return d;
        }
        let cycles = self.only_cycles(&s);
        let node = match self.node() {
            Some(node) => node,
            None if cycles => return self.cycling(s, None),
            None => return self.fence_without_node(s),
        };
        if let Some(d) = self.check_machine(&s, node) {
            return d;
        }
        if !is_pinned(&s, node) {
            // The bootID of the boot that has just ended; another one later means a boot after the
            // power-on.
            self.pin_node(&mut s, node);
            return self.quiet_write(s, Reason::WaitingForQuietLease);
        }
        if let Some(d) = self.lease_renewed(&s, node) {
            return d;
        }
        let quiet = self.lease_quiet_from(node);
        if cycles {
            return self.cycling(s, quiet);
        }
        let Some(at) = quiet else {
            return match self.require_off(&s, Reason::WaitingForQuietLease) {
                Some(d) => d,
                None => self.to(s, Step::Tainting, Reason::Tainting),
            };
        };
        let mut d = self.monitor_hold(s, Reason::WaitingForQuietLease, Some(LEASE_POLL));
        if let Next::Wait(until) = d.next {
            d.next = Next::Wait(until.min(at));
        }
        d
    }

    /// Whether this attempt is a plain power cycle, which moves no workload. An existing taint
    /// moves it anyway.
    pub(super) fn only_cycles(&self, s: &State) -> bool {
        let first = s.strategy == Strategy::PowerCycleFirst && s.attempt.number == 1;
        let tainted = self.node().is_some_and(|n| n.taint != Taint::Absent);
        first && s.keep_off.is_none() && s.attempt.taint.is_none() && !tainted
    }

    /// Keeps the host off for the hold time of a plain power cycle, and until the Lease, if it can
    /// be read, has not been renewed (F5).
    fn cycling(&self, s: State, quiet: Option<Timestamp>) -> Decision {
        let off = s.attempt.off.as_ref().map_or(s.since, OffEvidence::at);
        let held = after(off, self.policy.cycle_hold);
        let until = quiet.map_or(held, |quiet| quiet.max(held));
        if until > self.now {
            let mut d = self.monitor_hold(s, Reason::Cycling, Some(LEASE_POLL));
            if let Next::Wait(next) = d.next {
                d.next = Next::Wait(next.min(until));
            }
            return d;
        }
        match self.require_off(&s, Reason::Cycling) {
            Some(d) => d,
            None => self.power_on_next(s, Reason::PowerOnRunning),
        }
    }

    /// Continues without a Node.
    fn fence_without_node(&self, s: State) -> Decision {
        if let Some(d) = self.check_identity(&s, None) {
            return d;
        }
        match &self.o.workload {
            WorkloadView::Unreachable { why } => self.deferred(s, why),
            // There is nothing to taint, but the pods of the Node may still exist.
            WorkloadView::NotJoined if s.attempt.node.is_none() => {
                match self.check_other_node_after_off(&s) {
                    Some(d) => d,
                    None => self.after_off(s, Reason::PowerOnRunning),
                }
            }
            _ => self.to(
                s,
                Step::Draining,
                Reason::Draining("pods and volumes".into()),
            ),
        }
    }

    /// Defers the taint while the workload cluster is out of reach. Without a taint nothing was
    /// moved, so the policy may permit to switch the host on (F4).
    pub(super) fn deferred(&self, s: State, why: &str) -> Decision {
        let off = s.attempt.off.as_ref().map_or(s.since, OffEvidence::at);
        let over = after(off, self.policy.defer_timeout) <= self.now;
        let may = self.policy.workload_down == UnreachablePolicy::PowerOn
            && s.attempt.taint.is_none()
            && !self.keeps_off(&s);
        if !over || !may {
            return self.monitor_hold(s, Reason::WorkloadUnreachable(why.to_owned()), None);
        }
        let reason = Reason::TaintSkipped(why.to_owned());
        match self.require_off(&s, reason.clone()) {
            Some(d) => d,
            None => self.power_on_next(s, reason),
        }
    }

    /// Reads off once more (F1), and records the taint as ours before it is set (F9): with the step that waits for what
    /// it does. A taint that was removed meanwhile is set here.
    pub(super) fn tainting(&self, mut s: State) -> Decision {
        if let Some(d) = self.interrupt_hold(&s) {
            return d;
        }
        let Some(node) = self.node() else {
            return self.fence_without_node(s);
        };
        if let Some(d) = self
            .check_node(&s, node)
            .or_else(|| self.lease_renewed(&s, node))
        {
            return d;
        }
        if let Some(d) = self.require_off(&s, Reason::Tainting) {
            return d;
        }
        if s.attempt.taint != Some(TaintOwner::Us)
            && node.taint == Taint::Absent
            && let Some(d) = self.check_other_node_after_off(&s)
        {
            return d;
        }
        if s.attempt.node_action.unwrap_or(self.o.node_action) == NodeAction::Delete {
            return self.deleting_node(s, node);
        }
        match (s.attempt.taint, node.taint) {
            (None, Taint::Ours) if self.is_former_taint(node) => {
                s.attempt.taint = Some(TaintOwner::Us);
                self.quiet_write(s, Reason::Tainting)
            }
            (None, Taint::Ours | Taint::Other) => {
                s.attempt.taint = Some(TaintOwner::Other);
                self.quiet_write(s, Reason::Tainting)
            }
            (None | Some(TaintOwner::Other), Taint::Absent) => {
                s.attempt.taint = Some(TaintOwner::Us);
                self.to(s, Step::Draining, Reason::Tainting)
            }
            (Some(TaintOwner::Us), Taint::Absent) => {
                self.act(s, Reason::Tainting, Command::AddTaint)
            }
            (Some(_), Taint::Ours | Taint::Other) => self.to(
                s,
                Step::Draining,
                Reason::Draining("pods and volumes".into()),
            ),
        }
    }

    /// Deletes the Node in a cluster that does not support the taint, after its labels and
    /// annotations were saved on the object.
    fn deleting_node(&self, mut s: State, node: &NodeFacts) -> Decision {
        let reason = Reason::DeletingNode(node.name.clone());
        if s.attempt.node_action.is_none() || s.attempt.taint.is_none() {
            s.attempt.node_action = Some(NodeAction::Delete);
            s.attempt.taint = Some(TaintOwner::Us);
            return self.write(s, reason);
        }
        let command = if self.o.object.node_backup {
            Command::DeleteNode {
                uid: node.uid.clone(),
            }
        } else {
            Command::BackUpNode
        };
        self.act(s, reason, command)
    }

    /// The decision if the BMC does not report off now; `None` if it does, or if a person has
    /// confirmed off for a BMC that cannot report it.
    pub(super) fn require_off(&self, s: &State, reason: Reason) -> Option<Decision> {
        let s = s.clone();
        if s.attempt.off.is_none() {
            return Some(self.fence_violated(s, "in a state that has not been confirmed"));
        }
        match (
            self.power_within(&s, LATEST_READING_AGE),
            self.reading_down(&s),
        ) {
            (LatestReading::Off, _) => None,
            (LatestReading::On(seen) | LatestReading::Unclear(seen), _) => {
                Some(self.fence_violated(s, &seen))
            }
            (LatestReading::NotRead, None) => Some(self.act(s, reason, Command::ReadPower)),
            (LatestReading::NotRead | LatestReading::Unreadable(_), _) if by_person(&s) => None,
            (LatestReading::NotRead, Some(why)) => Some(self.recheck(s, why)),
            (LatestReading::Unreadable(why), _) => {
                Some(self.monitor_hold(s, Reason::PowerUnreadable(why), None))
            }
        }
    }

    /// Leaves the steps after a confirmed off: the hold was removed, the remediation was withdrawn, or
    /// the BMC has been silent for too long.
    pub(super) fn interrupt_hold(&self, s: &State) -> Option<Decision> {
        self.hold_lost(s)
            .or_else(|| self.end_untainted(s))
            .or_else(|| self.silent_too_long(s))
    }

    /// Ends a withdrawn remediation, or one whose host its owner wants off, if no taint was set.
    pub(super) fn end_untainted(&self, s: &State) -> Option<Decision> {
        if s.attempt.taint.is_some() {
            return None;
        }
        let mut s = s.clone();
        if let Some(why) = self.offline() {
            return Some(self.abort(s, why));
        }
        if self.withdrawn().is_some() {
            s.attempt.end_reason = Some(Reason::WithdrawnAfterOff);
            return Some(self.power_on_next(s, Reason::WithdrawnAfterOff));
        }
        None
    }

    /// Whether the step has lasted longer than `limit`.
    pub(super) fn late(&self, s: &State, limit: Duration) -> bool {
        after(s.since, limit) <= self.now
    }
}
