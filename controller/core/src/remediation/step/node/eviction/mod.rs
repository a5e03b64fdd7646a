//! Pods leave a host that is still on before anything is switched.
//!
//! Invariants: a pod leaves through the Eviction API alone, so that no PodDisruptionBudget is overruled here; nothing is
//! held, and nothing is switched, in these steps, so that a remediation leaves them as it leaves Pending; a host on which
//! nothing can end a pod any more is not waited for, unless it is to be left on.

mod left;
mod left_on;
mod resumed;

use std::time::Duration;

use jiff::Timestamp;

use left::who_forbade;

use super::super::{
    super::{
        BoundPod, Drain, Eviction, EvictionPolicy, EvictionResult, ForbiddenEviction, NodeFacts,
        PodRef, PowerState, Reason, State, Step, Strategy, WorkloadView,
    },
    Command, Decision, Next, Note, RECHECK, StepContext, after,
};

/// Time for the pods of a Node that is not Ready and whose kubelet answers.
const BRIEF: Duration = Duration::from_secs(30);
/// Time without a pod that left, after which those of such a Node are not waited for any more.
const STANDSTILL: Duration = Duration::from_secs(20);
/// Pause before the eviction of a pod is requested again, as of kubectl drain.
const AGAIN: Duration = Duration::from_secs(5);
/// Interval of listing the pods.
const POLL: Duration = Duration::from_secs(2);
/// Pods of one command. The Node is read again before each.
const BATCH: usize = 32;

/// Whether the pods of the Node can leave it.
enum Outlook<'a> {
    /// A kubelet ends pods that are evicted.
    Alive(&'a NodeFacts),
    /// Nothing on the host ends a pod any more.
    Dead(&'a NodeFacts),
    /// There is no Node.
    NoNode,
    /// It cannot be read.
    Unknown(&'a str),
}

impl StepContext<'_> {
    /// Goes on from Pending or Retrying: the pods leave first, where they can and are to.
    pub(in crate::remediation::step) fn leave_pending(&self, mut s: State) -> Decision {
        let former = s.attempt.eviction.take();
        let former = former.map(|former| *former).unwrap_or_default();
        // Without any time for it, only Proceed goes on without an eviction.
        let is_wanted = !self.policy.eviction_timeout.is_zero()
            || self.policy.eviction_blocked != EvictionPolicy::Proceed;
        let evicts = is_wanted && !self.only_cycles(&s);
        let keeps_on = s.strategy == Strategy::Evict;
        let ready = match self.outlook(&s) {
            _ if !evicts && !keeps_on => return self.to(s, Step::Holding, Reason::Started),
            Outlook::NoNode if keeps_on => return self.to(s, Step::Evicted, Reason::Evicted),
            Outlook::Dead(_) if self.is_left_on(&s) => false,
            Outlook::Dead(_) if self.is_patient(&s) => {
                // Its pods are waited for if it is Ready again before anything is sent.
                let forbidden = former.forbidden.clone();
                s.attempt.eviction = Some(Box::new(self.eviction_again(former, false)));
                return self.fence_before_eviction(s, &forbidden);
            }
            Outlook::Dead(_) => return self.fence_before_eviction(s, &former.forbidden),
            Outlook::NoNode => return self.to(s, Step::Holding, Reason::Started),
            Outlook::Unknown(_) if !self.is_patient(&s) => {
                return self.to(s, Step::Holding, Reason::Started);
            }
            Outlook::Unknown(_) => true,
            Outlook::Alive(node) => node.ready,
        };
        // A Node that becomes Ready meanwhile is back (F11).
        s.node_was_down |= !ready;
        s.attempt.eviction = Some(Box::new(self.eviction_again(former, ready)));
        self.to(self.with_cordon(s), Step::Evicting, Reason::Started)
    }

    /// Fences a host that has failed before its pods were asked to leave, or while the remediation waited again. Whose
    /// eviction was forbidden before that is told.
    fn fence_before_eviction(&self, s: State, forbidden: &[ForbiddenEviction]) -> Decision {
        match who_forbade(forbidden) {
            None => self.to(s, Step::Holding, Reason::Started),
            Some(who) => self.fence_with_pods(s, format!("{who} before")),
        }
    }

    /// A new eviction, with what is only reported of the one before.
    fn eviction_again(&self, former: Eviction, ready: bool) -> Eviction {
        Eviction {
            evicted: former.evicted,
            pods: former.pods,
            forbidden: former.forbidden,
            ..self.new_eviction(ready)
        }
    }

    fn new_eviction(&self, ready: bool) -> Eviction {
        Eviction {
            until: self.eviction_until(self.now, ready),
            ready,
            left: None,
            moved: self.now,
            evicted: 0,
            pods: Vec::new(),
            forbidden: Vec::new(),
            finished: false,
        }
    }

    /// Cordons the Node, and evicts its pods until none is left or their time is over.
    pub(in crate::remediation::step) fn evicting(&self, s: State) -> Decision {
        if let Some(d) = self.leave_eviction(&s).or_else(|| self.add_finalizer(&s)) {
            return d;
        }
        if let Some(s) = self.with_wish_to_switch(&s) {
            return self.quiet_write(s, Reason::Evicting("the pods of the node".into()));
        }
        let Some(eviction) = s.attempt.eviction.clone() else {
            return self.end_eviction(s, String::new());
        };
        match self.outlook(&s) {
            Outlook::Alive(node) => match self.unmarked(&s) {
                Some(d) => d,
                None => self.evict_from(s, node, &eviction),
            },
            Outlook::Dead(node) if self.is_left_on(&s) => {
                self.await_silent_host(s, node, &eviction)
            }
            Outlook::Dead(_) => self.fence_failed(s),
            Outlook::NoNode => self.await_pods_without_node(s, &eviction),
            Outlook::Unknown(why) => {
                let is_over = eviction.until <= self.now;
                if is_over && !self.is_patient(&s) {
                    return self.end_eviction(s, format!("they cannot be listed ({why})"));
                }
                self.recheck(s, Reason::WorkloadUnreachable(why.to_owned()))
            }
        }
    }

    /// Waits until the pods of a Node that was deleted are gone: the garbage collector of pods deletes them soon, and
    /// what runs of them on the host has not ended before that.
    fn await_pods_without_node(&self, s: State, eviction: &Eviction) -> Decision {
        let left = (self.o.drain.as_ref()).map_or_else(String::new, Drain::describe_evictable);
        if left.is_empty() {
            return self.end_eviction(s, left);
        }
        let is_over = eviction.until <= self.now;
        let reason = match self.policy.eviction_blocked {
            EvictionPolicy::Proceed if is_over => return self.end_eviction(s, left),
            EvictionPolicy::Abort if is_over => {
                return self.abort(s, Reason::EvictionAborted(left));
            }
            _ if is_over => Reason::EvictionWaits(left),
            _ => Reason::Evicting(left),
        };
        self.wait(s, reason, after(self.now, POLL))
    }

    /// Fences a host on which nothing ends a pod any more. No budget can keep what is left on it, and an Event names
    /// whose eviction was forbidden.
    fn fence_failed(&self, mut s: State) -> Decision {
        self.count_evicted(&mut s);
        let kept = s.attempt.eviction.as_ref();
        let kept = kept.map_or(&[][..], |eviction| &eviction.forbidden);
        let left = match &self.o.drain {
            Some(drain) => self.overruled(drain, kept),
            None => who_forbade(kept).map_or_else(String::new, |who| format!("{who} before")),
        };
        if left.is_empty() {
            return self.to(s, Step::Holding, Reason::Holding);
        }
        self.fence_with_pods(s, left)
    }

    fn fence_with_pods(&self, s: State, left: String) -> Decision {
        let reason = Reason::FailedWithPods(left);
        let note = Note {
            step: None,
            warning: true,
            reason: reason.label(),
            message: reason.to_string(),
        };
        let mut d = self.to(s, Step::Holding, reason);
        d.notes = vec![note];
        d
    }

    /// Why the eviction ends before anything was switched: as in Pending and Holding.
    fn leave_eviction(&self, s: &State) -> Option<Decision> {
        let why = self
            .withdrawn()
            .or_else(|| self.offline())
            .or_else(|| s.rival());
        if let Some(why) = why {
            return Some(self.abort(s.clone(), why));
        }
        if let Some(d) = self.refused_again(s).or_else(|| self.taken_before_off(s)) {
            return Some(d);
        }
        if self.o.object.paused {
            return Some(self.wait_to_begin(s, Reason::Paused));
        }
        // F11. What keeps a host from being used was not requested because its Node was down.
        let is_back = s.node_was_down && !self.keeps_off(s) && self.recovered(s);
        is_back.then(|| match s.is_off_taken_back() {
            // The agent holds the host.
            true => self.abort(s.clone(), Reason::Recovered),
            false => self.wait_to_begin(s, Reason::WaitingForHealth),
        })
    }

    fn evict_from(&self, s: State, node: &NodeFacts, eviction: &Eviction) -> Decision {
        let reason = Reason::Evicting("the pods of the node".into());
        let is_read = (self.o.power.as_ref()).is_some_and(|view| view.asked >= s.since);
        if !is_read && self.bmc_down().is_none() {
            // A host that has lost its power is not waited for.
            return self.act(s, reason, Command::ReadPower);
        }
        if let Some(d) = self.cordon_now(&s, node, &reason) {
            return d;
        }
        let Some(drain) = &self.o.drain else {
            return self.wait(s, reason, after(self.now, POLL));
        };
        let pods: Vec<&BoundPod> = drain.evictable().collect();
        if pods.is_empty() {
            return self.end_eviction(s, String::new());
        }
        if let Some(s) = self.with_progress(&s, node, eviction, pods.len()) {
            return self.quiet_write(s, reason);
        }
        let is_refused = |pod: &&BoundPod| {
            let answer = self.o.evictions.of(pod);
            answer.is_some_and(|answer| matches!(answer.result, EvictionResult::Refused(_)))
        };
        let stands = !eviction.ready && after(eviction.moved, STANDSTILL) <= self.now;
        let is_over = eviction.until <= self.now || stands || pods.iter().all(is_refused);
        let what = self.what_is_left(drain);
        match self.policy.eviction_blocked {
            EvictionPolicy::Proceed if is_over => return self.end_eviction(s, what),
            EvictionPolicy::Abort if is_over => {
                return self.abort(s, Reason::EvictionAborted(what));
            }
            _ => {}
        }
        // Whoever uncordons the Node keeps its pods from leaving for good, and not their time from ending.
        if let Some(mut d) = self.cordon(&s, node, &reason) {
            if let Next::Wait(due) = d.next
                && eviction.until > self.now
            {
                d.next = Next::Wait(due.min(eviction.until));
            }
            return d;
        }
        let is_blocked = pods.iter().any(|pod| {
            let answer = self.o.evictions.of(pod);
            answer.is_some_and(|answer| !matches!(answer.result, EvictionResult::Evicted))
        });
        let reason = match (is_over, is_blocked) {
            (true, _) => Reason::EvictionWaits(what),
            (false, true) => Reason::EvictionBlocked(what),
            (false, false) => Reason::Evicting(what),
        };
        let next = self.next_evictions(&pods);
        if !next.is_empty() {
            let node = node.uid.clone();
            let command = Command::EvictPods { node, pods: next };
            return self.act(s, reason, command);
        }
        let mut until = after(self.now, POLL);
        if eviction.until > self.now {
            until = until.min(eviction.until);
        }
        self.wait(s, reason, until)
    }

    /// The pods whose eviction is requested now, in a stable order.
    fn next_evictions(&self, pods: &[&BoundPod]) -> Vec<PodRef> {
        let is_due = |pod: &BoundPod| {
            let Some(answer) = self.o.evictions.of(pod) else {
                return true;
            };
            // A time ahead was taken before the clock was set back.
            after(answer.at, AGAIN) <= self.now || answer.at > self.now
        };
        let due = pods
            .iter()
            .filter(|pod| !pod.is_terminating && is_due(pod))
            .map(|pod| pod.id.clone());
        let mut due: Vec<PodRef> = due.collect();
        due.sort();
        due.truncate(BATCH);
        due
    }

    /// The state with what has changed about the time of the eviction; `None` if nothing has.
    fn with_progress(
        &self,
        s: &State,
        node: &NodeFacts,
        eviction: &Eviction,
        pods: usize,
    ) -> Option<State> {
        if eviction.ready != node.ready {
            return Some(self.with_eviction(s.clone(), node));
        }
        let pods = u32::try_from(pods).unwrap_or(u32::MAX);
        // Each change is a write, so it is followed only where it decides.
        let has_moved = !node.ready && eviction.left.is_none_or(|left| pods < left);
        has_moved.then(|| {
            let mut s = s.clone();
            s.attempt.eviction = Some(Box::new(Eviction {
                left: Some(pods),
                moved: self.now,
                ..eviction.clone()
            }));
            s
        })
    }

    /// The state with the time that the pods of this Node have from now on.
    fn with_eviction(&self, mut s: State, node: &NodeFacts) -> State {
        let former = s.attempt.eviction.take();
        let again = former.as_ref().is_none_or(|former| former.finished);
        let since = match node.ready && !again {
            true => s.since,
            false => self.now,
        };
        let until = self.eviction_until(since, node.ready);
        let until = match &former {
            Some(former) if !node.ready && !again => until.min(former.until),
            _ => until,
        };
        let former = former.map(|former| *former).unwrap_or_default();
        s.attempt.eviction = Some(Box::new(Eviction {
            until,
            ..self.eviction_again(former, node.ready)
        }));
        s
    }

    /// When the time of pods is over that began at `since`.
    fn eviction_until(&self, since: Timestamp, ready: bool) -> Timestamp {
        let limit = match ready {
            true => self.policy.eviction_timeout,
            false => self.policy.eviction_timeout.min(BRIEF),
        };
        let until = after(since, limit);
        match self.o.object.given_up_at {
            // The other half is for the power-off and what follows.
            Some(end) => {
                let left = Duration::try_from(end.duration_since(self.now)).unwrap_or_default();
                until.min(after(self.now, left / 2))
            }
            None => until,
        }
    }

    /// Goes on after the pods have left; or without those that are `left`, if that is not empty.
    fn end_eviction(&self, mut s: State, left: String) -> Decision {
        self.count_evicted(&mut s);
        if let Some(eviction) = &mut s.attempt.eviction {
            eviction.finished = left.is_empty();
        }
        let keeps_on = s.strategy == Strategy::Evict;
        let (step, reason) = match (keeps_on, left.is_empty()) {
            (true, true) => (Step::Evicted, Reason::Evicted),
            (true, false) => (Step::Evicted, Reason::EvictedInPart(left)),
            (false, true) => (Step::Holding, Reason::Holding),
            (false, false) => (Step::Holding, Reason::EvictionUnfinished(left)),
        };
        let evicted = s.attempt.eviction.as_ref().map_or(0, |e| e.evicted);
        let note = match &reason {
            Reason::EvictedInPart(_) | Reason::EvictionUnfinished(_) => Note {
                step: None,
                warning: true,
                reason: reason.label(),
                message: reason.to_string(),
            },
            _ => Note {
                step: None,
                warning: false,
                reason: "EvictionFinished",
                message: format!(
                    "no pod is left on the node that could be evicted; evicted by Rackhand: {evicted}"
                ),
            },
        };
        let mut d = self.to(s, step, reason);
        d.notes = vec![note];
        d
    }

    /// Whether somebody waits for the pods whatever it takes, so that a Node which is only hard to read is not cut.
    fn is_patient(&self, s: &State) -> bool {
        s.strategy == Strategy::Evict || self.policy.eviction_blocked != EvictionPolicy::Proceed
    }

    /// Whether the operating system of the host still does something, as far as its Node tells.
    pub(in crate::remediation::step) fn can_end_pods(&self, s: &State) -> bool {
        matches!(self.outlook(s), Outlook::Alive(_))
    }

    fn outlook(&self, s: &State) -> Outlook<'_> {
        match &self.o.workload {
            WorkloadView::Present(node) if self.is_dead(s, node) => Outlook::Dead(node),
            WorkloadView::Present(node) => Outlook::Alive(node),
            WorkloadView::Unreachable { why } => Outlook::Unknown(why),
            WorkloadView::NotJoined
            | WorkloadView::ClusterGone { .. }
            | WorkloadView::Missing { .. } => Outlook::NoNode,
        }
    }

    /// Whether nothing on the host ends a pod any more: its BMC reports exactly off, the control plane has seen no sign of
    /// its kubelet for its grace period, or its Node is not Ready and the kubelet's Lease is silent. The kubelet of a Node
    /// that is Ready is silent for as long while somebody restarts it, or its API server is slow: only the control plane
    /// calls that dead. A BMC that was reset may report off for a host that runs: whoever waits for the pods takes the word
    /// of the control plane alone.
    fn is_dead(&self, s: &State, node: &NodeFacts) -> bool {
        let view = (self.o.power.as_ref()).filter(|view| !self.older_than(view.answered, RECHECK));
        let is_off = view
            .and_then(|view| view.result.as_ref().ok())
            .is_some_and(|reading| reading.state == PowerState::Off);
        if node.ready_unknown {
            return true;
        }
        match &node.lease {
            _ if is_off => !self.is_patient(s),
            Some(_) => !node.ready && !self.is_patient(s) && self.lease_quiet_from(node).is_none(),
            None => !node.ready,
        }
    }
}
