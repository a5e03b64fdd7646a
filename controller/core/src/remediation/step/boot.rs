//! On again, until the Node is back.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{
        Because, Mode, NodeMark, OnExhausted, OperationOutcome, OperationView, PowerState, State,
        Step, Taint, TaintOwner, WorkloadView,
    },
    Command, Cx, Decision, Outcome, RECHECK, after, operation_id,
    proof::Fresh,
    same_node::{contradiction_with_mark, is_unproven},
};

/// What a Node still gets to report after its API was out of reach beyond the boot timeout: a
/// kubelet writes its status every 10 s.
const BLIND_GRACE: Duration = Duration::from_secs(60);

/// How often the BMC is asked whether baremetal-operator has switched the host on.
const TURN_POLL: Duration = Duration::from_secs(1);

/// Where the boot timeout stands.
enum BootClock {
    Until(Timestamp),
    Over,
    /// It cannot be judged now: why.
    Blind(Because),
    /// Something has to be kept first.
    Write(Box<Decision>),
}

impl Cx<'_> {
    pub(super) fn power_on_next(&self, s: State, because: Because) -> Decision {
        let d = self.to(s, Step::PoweringOn, because);
        self.pinned_with(d, self.policy.power_on_timeout)
    }

    /// The Node is Ready and its health check does not say otherwise.
    pub(super) fn recovered(&self) -> bool {
        let still_unhealthy = self
            .o
            .machine
            .as_ref()
            .is_some_and(|m| m.health_check_succeeded == Some(false) && !m.not_checked);
        self.node().is_some_and(|n| n.ready) && !still_unhealthy
    }

    /// F4 holds here: the step is only reached drained, without a taint, or by policy.
    pub(super) fn powering_on(&self, s: State) -> Decision {
        if let Some(why) = self.offline().or_else(|| self.given_back()) {
            return self.abort_power_on(s, why);
        }
        if let Some(d) = self.let_go(&s) {
            return d;
        }
        if let Some(OperationView::Finished { outcome, .. }) = &self.o.operation {
            return match outcome {
                OperationOutcome::Confirmed { .. } => self.is_on(s),
                OperationOutcome::Interrupted => self.on_failed(s, "the agent was restarted", true),
                OperationOutcome::Cancelled => {
                    self.on_failed(s, "the power-on was cancelled", false)
                }
                OperationOutcome::Unconfirmed { why }
                | OperationOutcome::Failed { why }
                | OperationOutcome::IdentityMismatch { why } => self.on_failed(s, why, false),
            };
        }
        if let Some(why) = self.agent_down() {
            return self.recheck(s, Because::AgentUnreachable(why.to_owned()));
        }
        match &self.o.operation {
            Some(OperationView::Rejected { why }) => self.on_failed(s, why, false),
            Some(OperationView::Staged { why, turn }) if *turn > self.now => {
                let because = Because::PowerOnStaged(why.clone());
                let limit = self.policy.power_on_timeout;
                self.extend_pin(&s, &because, *turn, limit)
                    .unwrap_or_else(|| self.recheck(s, because))
            }
            Some(_) => {
                let because = self.on_because(&s);
                self.recheck(s, because)
            }
            None => match self.operation_lost() {
                Some(why) => self.on_failed(s, &why, true),
                None => self.begin_on(s),
            },
        }
    }

    fn begin_on(&self, s: State) -> Decision {
        let because = self.on_because(&s);
        if let Some(why) = self.bmc_down() {
            // Nobody waits for this host any more: say so and let the object go (L1).
            return if self.o.request.deleting {
                self.abort(s, why)
            } else {
                self.recheck(s, why)
            };
        }
        if let Some(at) = s.retry_at.filter(|at| *at > self.now) {
            return self.wait(s, because, at);
        }
        if s.tries == 0
            && let Some(d) = self.operators_turn(&s).or_else(|| self.other_host(&s))
        {
            return d;
        }
        match operation_id(&self.o.request.uid, &s) {
            Some(id) => {
                let command = Command::PowerOn { id: id.clone() };
                self.begin_operation(s, because, id, self.policy.power_on_timeout, command)
            }
            None => self.recheck(s, because),
        }
    }

    fn on_because(&self, s: &State) -> Because {
        s.failure
            .clone()
            .map_or(Because::PowerOnRunning, Because::PowerOnUnconfirmed)
    }

    /// A7: our key goes first, and whoever else wants the host off or is at work on it goes before
    /// us.
    fn let_go(&self, s: &State) -> Option<Decision> {
        let bmh = self.o.bmh.as_ref()?;
        if bmh.our_hold {
            return Some(self.act(s.clone(), Because::PowerOnRunning, Command::RemoveHold));
        }
        if bmh.detached {
            return None;
        }
        if let Some(why) = self.held_by_others() {
            return Some(self.recheck(s.clone(), why));
        }
        if bmh.servicing {
            let because = Because::HostServicing(bmh.name.clone());
            return Some(self.recheck(s.clone(), because));
        }
        None
    }

    /// A7: baremetal-operator switches on. After the grace the agent does.
    fn operators_turn(&self, s: &State) -> Option<Decision> {
        if s.mode != Mode::Cooperative {
            return None;
        }
        let s = s.clone();
        // An older reading may be of the time before the power-off.
        let view = self.o.power.as_ref().filter(|view| view.asked >= s.since);
        let grace = after(s.since, self.policy.cooperative_grace);
        let next = view.map_or(self.now, |view| after(view.answered, TURN_POLL));
        match self.power_now(&s) {
            Fresh::On(_) if view.is_some() && self.exactly_on() => {
                if s.agent_holds && !self.done(&Command::Release) {
                    return Some(self.act(s, Because::PowerOnRunning, Command::Release));
                }
                Some(self.is_on(s))
            }
            fresh if view.is_none() || matches!(fresh, Fresh::Ask) => {
                Some(self.act(s, Because::PowerOnRunning, Command::ReadPower))
            }
            _ if grace <= self.now => None,
            _ if next <= self.now => Some(self.act(s, Because::PowerOnRunning, Command::ReadPower)),
            _ => Some(self.wait(s, Because::PowerOnRunning, next.min(grace))),
        }
    }

    fn exactly_on(&self) -> bool {
        let said = self
            .o
            .power
            .as_ref()
            .and_then(|view| view.result.as_ref().ok());
        said.is_some_and(|r| r.state == PowerState::On)
    }

    /// F5 holds until power-on: the last look before it is sent. Where the BMC does not insist on
    /// off, the host may have come on by itself, or power-on is what undoes our error. One that was on
    /// since may have reported from there.
    fn other_host(&self, s: &State) -> Option<Decision> {
        let node = self
            .node()
            .filter(|node| s.on.is_none() && Self::lease_moved(s, node) && !is_unproven(s))?;
        match self.power_now(s) {
            Fresh::Off if self.read_since_renewal(s, node) => {
                Some(self.abort(s.clone(), Because::LeaseRenewed(node.name.clone())))
            }
            Fresh::Ask | Fresh::Off => {
                Some(self.act(s.clone(), Because::PowerOnRunning, Command::ReadPower))
            }
            Fresh::On(_) | Fresh::Unclear(_) | Fresh::Unreadable(_) => None,
        }
    }

    fn is_on(&self, mut s: State) -> Decision {
        s.on = Some(self.now);
        s.agent_holds = false;
        self.to(s, Step::Booting, Because::Booting)
    }

    fn on_failed(&self, mut s: State, why: &str, at_once: bool) -> Decision {
        let news = s.failure.as_deref() != Some(why);
        s.tries = s.tries.saturating_add(1);
        s.failure = Some(why.to_owned());
        let because = self.on_because(&s);
        let worn_out = s.tries >= self.policy.power_off_tries;
        if worn_out && self.o.request.deleting {
            // Nobody waits for this host any more: say so and let the object go (L1).
            return self.abort(s, because);
        }
        let pause = match (worn_out, at_once) {
            (true, _) => self.policy.unconfirmed_interval,
            (_, true) => Duration::ZERO,
            _ => self.policy.retry_interval,
        };
        s.retry_at = Some(after(self.now, pause));
        if news {
            self.write(s, because)
        } else {
            self.quiet_write(s, because)
        }
    }

    /// Until the Node has shown a sign of life that is younger than the power-on.
    pub(super) fn booting(&self, mut s: State) -> Decision {
        if let Some(why) = self.offline() {
            return self.abort(s, why);
        }
        let nothing_to_undo = self.withdrawn().is_some()
            && s.taint != Some(TaintOwner::Us)
            && !self.o.request.node_backup;
        if self.alive(&s) || nothing_to_undo {
            return self.to(s, Step::Restoring, Because::WaitingForHealth);
        }
        match self.boot_clock(&s) {
            BootClock::Until(deadline) => self.watch_boot(s, Because::Booting, deadline),
            BootClock::Blind(why) => self.watch_boot(s, why, after(self.now, RECHECK)),
            BootClock::Write(d) => *d,
            BootClock::Over => {
                s.ending = Some(Because::BootTimeout);
                self.to(s, Step::Restoring, Because::BootTimeout)
            }
        }
    }

    fn alive(&self, s: &State) -> bool {
        let node = self.node();
        if node.is_some_and(|node| contradiction_with_mark(s, node).is_some()) {
            return false;
        }
        match (node, &s.node) {
            (Some(node), Some(NodeMark { boot_id, .. })) => {
                node.boot_id != *boot_id || Self::lease_moved(s, node)
            }
            (Some(node), None) => node.ready,
            (None, _) => false,
        }
    }

    /// An API out of reach says nothing about a Node: its absence must not cost a power cycle.
    fn boot_clock(&self, s: &State) -> BootClock {
        let mut s = s.clone();
        let limit = after(s.on.unwrap_or(s.since), self.policy.boot_timeout);
        let deadline = s.retry_at.map_or(limit, |at| at.max(limit));
        match &self.o.workload {
            WorkloadView::Unreachable { why } if deadline <= self.now => {
                let because = Because::WorkloadUnreachable(why.clone());
                if s.failure.is_some() {
                    return BootClock::Blind(because);
                }
                s.failure = Some(why.clone());
                BootClock::Write(Box::new(self.write(s, because)))
            }
            WorkloadView::Unreachable { .. } => BootClock::Until(deadline),
            _ if s.failure.is_some() => {
                s.failure = None;
                s.retry_at = Some(after(self.now, BLIND_GRACE.min(self.policy.boot_timeout)));
                BootClock::Write(Box::new(self.quiet_write(s, Because::Booting)))
            }
            _ if deadline <= self.now => BootClock::Over,
            _ => BootClock::Until(deadline),
        }
    }

    /// F9: what we added goes; then the Node must become Ready.
    pub(super) fn restoring(&self, s: State) -> Decision {
        if let Some(d) = self.clean_node(&s, Because::WaitingForHealth) {
            return d;
        }
        if self.holds() {
            return self.act(s, Because::WaitingForHealth, Command::RemoveHold);
        }
        if self.o.request.deleting {
            let because = s.ending.clone().unwrap_or(Because::Recovered);
            return self.leave(s, because, Outcome::Withdrawn);
        }
        let mut s = s;
        // One that nobody waited for may still look as it did before the power-off.
        let same = self
            .node()
            .is_none_or(|n| contradiction_with_mark(&s, n).is_none());
        let recovered = self.recovered() && same && (self.withdrawn().is_none() || self.alive(&s));
        match self.withdrawn() {
            Some(why) if !recovered => return self.abort(s, why),
            None if s.ending == Some(Because::BootTimeout) => {
                return self.attempt_failed(s, Because::BootTimeout);
            }
            _ => {}
        }
        if recovered {
            s.ending = None;
            s.record_attempt(Because::Recovered, self.now);
            return self.to(s, Step::Succeeded, Because::Recovered);
        }
        // The verdict on the Machine comes after the Node's, and not by an event of the Node.
        let recheck = after(self.now, RECHECK);
        match self.boot_clock(&s) {
            BootClock::Write(d) => *d,
            BootClock::Over => self.attempt_failed(s, Because::BootTimeout),
            BootClock::Blind(why) => self.watch_boot(s, why, recheck),
            BootClock::Until(deadline) => {
                self.watch_boot(s, Because::WaitingForHealth, recheck.min(deadline))
            }
        }
    }

    /// Takes off the taint that we added, puts back what the Node had; `None`: nothing of ours is on
    /// the Node, and nothing of its own is missing.
    pub(super) fn clean_node(&self, s: &State, because: Because) -> Option<Decision> {
        let tainted = s.taint == Some(TaintOwner::Us);
        let kept = self.o.request.node_backup;
        if !tainted && !kept {
            return None;
        }
        match &self.o.workload {
            WorkloadView::Present(_) if kept => {
                Some(self.act(s.clone(), because, Command::RestoreNode))
            }
            WorkloadView::Present(node) => match node.taint {
                Taint::Ours => Some(self.act(s.clone(), because, Command::RemoveTaint)),
                // Another value: a person has put theirs in its place.
                Taint::Absent | Taint::Other => None,
            },
            WorkloadView::Unreachable { why } => {
                Some(self.recheck(s.clone(), Because::WorkloadUnreachable(why.clone())))
            }
            WorkloadView::NotJoined
            | WorkloadView::Missing { .. }
            | WorkloadView::ClusterGone { .. } => None,
        }
    }

    fn attempt_failed(&self, mut s: State, because: Because) -> Decision {
        // Whether there is another attempt is for the user to say, and what they say does not read.
        if let Err(e) = &self.o.request.policy {
            return self.recheck(s, Because::InvalidSpec(e.to_string()));
        }
        s.record_attempt(because.clone(), self.now);
        if s.attempt > self.policy.retry_limit {
            return self.exhausted(s);
        }
        s.attempt = s.attempt.saturating_add(1);
        s.fences = 0;
        self.begin_anew(s, because)
    }

    fn begin_anew(&self, mut s: State, because: Because) -> Decision {
        s.attempt_started = self.now;
        s.node = None;
        s.off = None;
        s.lease_at_off = None;
        s.taint = None;
        s.node_action = None;
        s.drained = None;
        s.on = None;
        s.ons = 0;
        s.ending = None;
        warning(self.to(s, Step::Retrying, because))
    }

    /// No attempt is left: what the policy says.
    pub(super) fn exhausted(&self, mut s: State) -> Decision {
        let because = match self.policy.on_exhausted {
            OnExhausted::Escalate | OnExhausted::Retire => Because::Exhausted(s.attempt),
            OnExhausted::Notify => Because::ExhaustedTold(s.attempt),
            OnExhausted::StayOff => {
                let because = Because::ExhaustedKeptOff(s.attempt);
                s.keep_off = Some(because.clone());
                // The operations of the attempt that has failed keep their names.
                s.fences = s.fences.saturating_add(1);
                return self.begin_anew(s, because);
            }
        };
        s.ending = Some(because.clone());
        warning(self.to(s, Step::Escalated, because))
    }
}

fn warning(mut d: Decision) -> Decision {
    for note in &mut d.notes {
        note.warning = true;
    }
    d
}
