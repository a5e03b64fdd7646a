//! A host that is emptied and stays on.
//!
//! Invariant: where a person has asked for that, nothing of ours switches the host off, whatever becomes of its Node, until
//! a person says so: somebody may be working on it.

use super::{
    super::super::{
        super::{Drain, Eviction, EvictionPolicy, NodeFacts, Reason, State, Step, Strategy},
        Decision, Next, StepContext, after,
        fenced::FENCED_WATCH,
    },
    Outlook, POLL,
};

impl StepContext<'_> {
    /// Keeps a Node cordoned whose pods have left, and its host on, until the object is deleted. A request to stop changes
    /// nothing here, because nothing is being tried.
    pub(in crate::remediation::step) fn stay_evicted(&self, s: State) -> Decision {
        let deleted = self
            .o
            .object
            .deleting
            .then_some(Reason::EmptiedUntilDeleted);
        if let Some(why) = deleted.or_else(|| self.offline()).or_else(|| s.rival()) {
            return self.abort(s, why);
        }
        if let Some(d) = self.add_finalizer(&s) {
            return d;
        }
        if let Some(mut s) = self.with_wish_to_switch(&s) {
            // What somebody has bound to the Node since leaves first.
            let is_ready = self.node().is_some_and(|node| node.ready);
            let former = s.attempt.eviction.take().unwrap_or_default();
            s.attempt.eviction = Some(Box::new(self.eviction_again(*former, is_ready)));
            let reason = Reason::Evicting("the pods of the node".into());
            return self.to(s, Step::Evicting, reason);
        }
        let has_finished = s.attempt.eviction.as_ref().is_some_and(|e| e.finished);
        let left = (self.o.drain.as_ref()).map_or_else(String::new, Drain::describe_evictable);
        let mut reason = match left.is_empty() {
            true => Reason::Evicted,
            false => Reason::EvictedInPart(left.clone()),
        };
        match self.outlook(&s) {
            // Who works on a host may start it again, or unplug its network.
            Outlook::Dead(node) if self.is_left_on(&s) => {
                if !left.is_empty() {
                    reason = silent_host(node, &left);
                }
                if let Some(d) = self.cordon_now(&s, node, &reason) {
                    return d;
                }
            }
            // What is left on one that has failed can move only once it is off.
            Outlook::Dead(_) if !left.is_empty() => return self.fence_failed(s),
            Outlook::Alive(node) => {
                if let Some(mut d) = self.cordon(&s, node, &reason) {
                    if let Next::Wait(due) = d.next {
                        d.next = Next::Wait(due.min(after(self.now, FENCED_WATCH)));
                    }
                    return d;
                }
                // Somebody has bound pods to it since.
                if has_finished && !left.is_empty() {
                    let s = self.with_eviction(s, node);
                    return self.to(s, Step::Evicting, Reason::Evicting(left));
                }
            }
            Outlook::Dead(_) | Outlook::NoNode | Outlook::Unknown(_) => {}
        }
        let until = after(self.now, FENCED_WATCH);
        self.wait(s, reason, until)
    }

    /// Whether nothing of ours switches the host off, whatever becomes of its Node: a person has asked for it to be
    /// emptied and left on, and may be working on it. A health check has asked nobody to.
    pub(super) fn is_left_on(&self, s: &State) -> bool {
        s.strategy == Strategy::Evict && self.o.object.made_by_check.is_none()
    }

    /// The state in which a host that was to be left on is switched all the same, because a person has changed the
    /// strategy since; `None` if nobody has.
    pub(super) fn with_wish_to_switch(&self, s: &State) -> Option<State> {
        let wanted = self.o.object.policy.as_ref().ok()?;
        if s.strategy != Strategy::Evict || wanted.strategy == Strategy::Evict {
            return None;
        }
        let mut s = s.clone();
        s.strategy = wanted.strategy;
        s.policy = Some(Box::new(wanted.clone()));
        Some(s)
    }

    /// Waits, with the pods that are left, for a host that nobody hears and that is not to be switched.
    pub(super) fn await_silent_host(
        &self,
        s: State,
        node: &NodeFacts,
        eviction: &Eviction,
    ) -> Decision {
        let reason = Reason::Evicting("the pods of the node".into());
        if let Some(d) = (self.unmarked(&s)).or_else(|| self.cordon_now(&s, node, &reason)) {
            return d;
        }
        let Some(drain) = &self.o.drain else {
            return self.wait(s, reason, after(self.now, POLL));
        };
        let left = drain.describe_evictable();
        if left.is_empty() {
            return self.end_eviction(s, left);
        }
        let is_over = eviction.until <= self.now;
        match self.policy.eviction_blocked {
            EvictionPolicy::Proceed if is_over => self.end_eviction(s, left),
            EvictionPolicy::Abort if is_over => self.abort(s, Reason::EvictionAborted(left)),
            _ => self.recheck(s, silent_host(node, &left)),
        }
    }
}

/// Why a host stays on that nobody hears, with pods that only its power-off would move.
fn silent_host(node: &NodeFacts, left: &str) -> Reason {
    let since = node.ready_since;
    let since = since.map_or_else(String::new, |since| format!(" since {since}"));
    let name = &node.name;
    Reason::SilentHostLeftOn(format!(
        "node {name} is shown as Unknown{since}; left on it: {left}"
    ))
}
