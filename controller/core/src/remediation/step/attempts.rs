//! The end of a failed attempt: the next one, or the policy for exhausted attempts.

use std::time::Duration;

use super::{
    super::{Handover, OnExhausted, Reason, State, Step},
    Decision, StepContext, after,
};

impl StepContext<'_> {
    pub(super) fn attempt_failed(&self, mut s: State, reason: Reason) -> Decision {
        // Whether there is another attempt depends on the policy, which cannot be parsed.
        if let Err(e) = &self.o.request.policy
            && s.policy.is_none()
        {
            return self.recheck(s, Reason::InvalidSpec(e.to_string()));
        }
        s.record_attempt(reason.clone(), self.now);
        if s.attempt > self.policy.retry_limit {
            return self.attempts_exhausted(s);
        }
        s.attempt = s.attempt.saturating_add(1);
        s.power_off_repeats = 0;
        self.start_next_attempt(s, reason)
    }

    /// The host is back, under another name: the attempt has not failed, and another one begins only if that
    /// Node is deleted or a person overrules it.
    pub(super) fn attempt_ended_by_other_node(&self, mut s: State) -> Decision {
        let reason = s.end_reason.clone().unwrap_or(Reason::BootTimeout);
        s.record_attempt(reason.clone(), self.now);
        self.start_next_attempt(s, reason)
    }

    fn start_next_attempt(&self, s: State, reason: Reason) -> Decision {
        warning(self.to(self.with_new_attempt(s), Step::Retrying, reason))
    }

    /// F5: waits for another entry of the host, after everything that was added is removed.
    pub(super) fn await_other_entry(&self, mut s: State, reason: Reason) -> Decision {
        // Otherwise the agent's journal would be taken for one of an attempt that this state does not know.
        s.record_attempt(reason.clone(), self.now);
        warning(self.to(self.with_new_attempt(s), Step::Pending, reason))
    }

    fn with_new_attempt(&self, mut s: State) -> State {
        // Ids of operations have the second in which an attempt began, also where its number stays.
        let later = after(s.attempt_started, Duration::from_secs(1));
        s.attempt_started = self.now.max(later);
        s.node = None;
        s.updating_since = None;
        s.off = None;
        s.outlets = s.outlets.filter(|used| used.may_be_off());
        s.lease_at_off = None;
        s.taint = None;
        s.node_action = None;
        s.drained = None;
        s.pods_deleted = 0;
        s.evidence = None;
        s.on = None;
        s.handover = Handover::default();
        s.power_on_repeats = 0;
        s.end_reason = None;
        s
    }

    /// Applies the policy for exhausted attempts.
    pub(super) fn attempts_exhausted(&self, mut s: State) -> Decision {
        let reason = match self.policy.on_exhausted {
            OnExhausted::Escalate | OnExhausted::Retire => Reason::Exhausted(s.attempt),
            OnExhausted::Notify => Reason::ExhaustedTold(s.attempt),
            OnExhausted::StayOff => {
                let reason = Reason::ExhaustedKeptOff(s.attempt);
                s.keep_off = Some(reason.clone());
                // Operation ids of the failed attempt must not be used again.
                s.power_off_repeats = s.power_off_repeats.saturating_add(1);
                return self.start_next_attempt(s, reason);
            }
        };
        s.end_reason = Some(reason.clone());
        warning(self.to(s, Step::Escalated, reason))
    }
}

fn warning(mut d: Decision) -> Decision {
    for note in &mut d.notes {
        note.warning = true;
    }
    d
}
