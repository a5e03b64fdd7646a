//! The operating system shuts down before the power is cut, where the policy gives it time.
//!
//! Invariants: a soft off proves nothing, so the power-off follows in any case, and the proof is its own (F1); once a soft
//! off may have been sent, the cycle is finished (F11).

use std::time::Duration;

use super::super::{
    super::{Mode, OperationOutcome, OperationView, PowerDevice, Reason, State, Step},
    Command, Decision, StepContext, after, operation_id,
};

/// Longest time for a shutdown.
const LONGEST: Duration = Duration::from_secs(600);

impl StepContext<'_> {
    /// Whether the operating system is asked first: it runs, as far as its Node tells, and has time.
    pub(in crate::remediation::step) fn wants_soft_off(&self, s: &State) -> bool {
        let has_time = !self.policy.soft_off_timeout.is_zero();
        has_time && s.device() == PowerDevice::Bmc && self.can_end_pods(s)
    }

    /// Time for which baremetal-operator acts before the agent does. It asks the operating system by itself, because our
    /// hold key says so.
    pub(in crate::remediation::step) fn owner_grace(&self, s: &State) -> Duration {
        let soft = match s.attempt.soft_off {
            true => self.policy.soft_off_timeout.min(LONGEST),
            false => Duration::ZERO,
        };
        match s.mode {
            Mode::Cooperative => self.policy.cooperative_grace.max(soft),
            Mode::Direct => Duration::ZERO,
        }
    }

    /// Goes from the hold to the power-off.
    pub(in crate::remediation::step) fn power_off_next(&self, mut s: State) -> Decision {
        s.agent_holds = true;
        // A confirmation that is there already was not requested in this attempt.
        s.confirmation_used = self.person_confirms();
        let limit = self.policy.off_limit(self.owner_grace(&s));
        let d = self.to(s, Step::PoweringOff, Reason::PowerOffRunning);
        self.pinned_with(d, limit)
    }

    /// Waits until the host has shut down, or its time is over.
    pub(in crate::remediation::step) fn shutting_down(&self, s: State) -> Decision {
        let operation = self.o.operation.as_ref();
        let limit = self.policy.soft_off_timeout.min(LONGEST);
        let until = after(s.since, limit);
        if let Some(why) = self.offline() {
            return self.abort(s, why);
        }
        if operation.is_none()
            && let Some(why) = self.agent_down()
        {
            // It may have been begun.
            let is_over = until <= self.now && self.withdrawn().is_none();
            return match is_over {
                true => self.power_off_next(s),
                false => self.recheck(s, Reason::AgentUnreachable(why.to_owned())),
            };
        }
        let is_begun = operation.is_some() || self.operation_lost().is_some();
        match (self.withdrawn(), is_begun) {
            (Some(why), false) => return self.abort(s, why),
            (Some(_), true) => {
                let mut s = s;
                s.attempt.end_reason = Some(Reason::WithdrawnAfterOff);
                let mut d = self.power_off_next(s);
                // The host may go off at any moment, so the power-off is finished first.
                d.state.tries = 1;
                d.state.pinned.clone_from(&self.pinned.cloned());
                return d;
            }
            (None, false) => {
                if let Some(d) =
                    (self.refused_again(&s)).or_else(|| self.resume_before_soft_off(&s))
                {
                    return d;
                }
                if let Some(d) = self.unmarked_before_off(&s) {
                    // The operating system has its whole time once it is asked.
                    let mut s = s;
                    s.attempt.soft_off = false;
                    return self.to(s, Step::Holding, d.reason);
                }
            }
            (None, true) => {}
        }
        let runs = matches!(
            operation,
            None | Some(OperationView::Running | OperationView::Staged { .. })
        );
        if let Some(OperationView::Finished {
            outcome: OperationOutcome::FirmwareUpdate { .. },
            ..
        }) = operation
        {
            // The operating system was not asked; the power-off finds the same update, and gives the turn back.
            let mut s = s;
            s.attempt.soft_off = false;
            return self.power_off_next(s);
        }
        if !runs || until <= self.now || self.operation_lost().is_some() {
            // A power-off of the same host overtakes what still runs.
            return self.power_off_next(s);
        }
        if operation.is_some() {
            return self.wait(s, Reason::ShuttingDown, until);
        }
        let Some(id) = operation_id(&self.o.object.uid, &s) else {
            return self.power_off_next(s);
        };
        if self.bmc_down().is_some() {
            return self.power_off_next(s);
        }
        let (system_uuid, serial) = self.expected_identity(&s);
        let command = Command::SoftOff {
            id: id.clone(),
            limit,
            system_uuid,
            serial,
        };
        self.begin_operation(s, Reason::AskingToShutDown, id, limit, command)
    }
}
