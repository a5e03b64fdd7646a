//! The end of a failed attempt: the next one, or the policy for exhausted attempts.

use std::time::Duration;

use super::{
    super::{Attempt, OnExhausted, Reason, State, Step},
    Decision, StepContext, after,
};

impl StepContext<'_> {
    pub(super) fn attempt_failed(&self, mut s: State, reason: Reason) -> Decision {
        // Whether there is another attempt depends on the policy, which cannot be parsed.
        if let Err(e) = &self.o.object.policy
            && s.policy.is_none()
        {
            return self.recheck(s, Reason::InvalidSpec(e.to_string()));
        }
        s.record_attempt(reason.clone(), self.now);
        if let Some(why) = s.rival() {
            return self.give_way(s, why);
        }
        if s.attempt.number > self.policy.retry_limit {
            return self.attempts_exhausted(s);
        }
        s.attempt.number = s.attempt.number.saturating_add(1);
        s.power_off_repeats = 0;
        self.start_next_attempt(s, reason)
    }

    /// The host is back, under another name: the attempt has not failed, and another one begins only if that
    /// Node is deleted or a person overrules it.
    pub(super) fn attempt_ended_by_other_node(&self, mut s: State) -> Decision {
        let reason = s.attempt.end_reason.clone().unwrap_or(Reason::BootTimeout);
        s.record_attempt(reason.clone(), self.now);
        if let Some(why) = s.rival() {
            return self.give_way(s, why);
        }
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
        let later = after(s.attempt.started, Duration::from_secs(1));
        let outlets = s.attempt.outlets.take().filter(|used| used.may_be_off());
        s.attempt = Attempt {
            outlets,
            ..Attempt::new(s.attempt.number, self.now.max(later))
        };
        s
    }

    /// Applies the policy for exhausted attempts.
    pub(super) fn attempts_exhausted(&self, mut s: State) -> Decision {
        let reason = match self.policy.on_exhausted {
            OnExhausted::Escalate | OnExhausted::Retire => Reason::Exhausted(s.attempt.number),
            OnExhausted::Notify => Reason::ExhaustedTold(s.attempt.number),
            OnExhausted::StayOff => {
                let reason = Reason::ExhaustedKeptOff(s.attempt.number);
                s.keep_off = Some(reason.clone());
                // Operation ids of the failed attempt must not be used again.
                s.power_off_repeats = s.power_off_repeats.saturating_add(1);
                return self.start_next_attempt(s, reason);
            }
        };
        s.attempt.end_reason = Some(reason.clone());
        warning(self.to(s, Step::Escalated, reason))
    }
}

fn warning(mut d: Decision) -> Decision {
    for note in &mut d.notes {
        note.warning = true;
    }
    d
}
