//! The power-on, by baremetal-operator or the agent, until the host is confirmed on.

use std::time::Duration;

use super::super::{
    super::{OperationOutcome, OperationView, PowerDevice, PowerReading, Reason, State, Step},
    Command, Decision, StepContext, after,
    evidence::LatestReading,
    node::identity::is_unproven,
    operation_id,
};

impl StepContext<'_> {
    pub(in crate::remediation::step) fn power_on_next(
        &self,
        mut s: State,
        reason: Reason,
    ) -> Decision {
        s.restore_outlets();
        let d = self.to(s, Step::PoweringOn, reason);
        self.pinned_with(d, self.policy.on_limit())
    }

    /// Switches the host on. F4 holds because this step is entered only drained, without a taint,
    /// or by policy.
    pub(in crate::remediation::step) fn powering_on(&self, s: State) -> Decision {
        if let Some(why) = self.offline().or_else(|| self.returned_to_owner()) {
            return self.abort_power_on(s, why);
        }
        if let Some(d) = self.release_hold(&s) {
            return d;
        }
        if let Some(OperationView::Finished { outcome, .. }) = &self.o.operation {
            return match outcome {
                OperationOutcome::Confirmed { readings, .. } => self.power_on_finished(s, readings),
                OperationOutcome::Interrupted => {
                    self.power_on_failed(s, "the agent was restarted", true)
                }
                OperationOutcome::Cancelled => {
                    self.power_on_failed(s, "the power-on was cancelled", false)
                }
                OperationOutcome::Unconfirmed { why }
                | OperationOutcome::Failed { why }
                | OperationOutcome::FirmwareUpdate { why, .. }
                | OperationOutcome::UpdateAfterCommand { why, .. }
                | OperationOutcome::IdentityMismatch { why } => self.power_on_failed(s, why, false),
            };
        }
        if let Some(why) = self.agent_down() {
            return self.recheck(s, Reason::AgentUnreachable(why.to_owned()));
        }
        match &self.o.operation {
            Some(OperationView::Rejected { why }) => self.power_on_failed(s, why, false),
            Some(OperationView::Staged { why, due }) if *due > self.now => {
                let reason = Reason::PowerOnStaged(why.clone());
                let limit = self.policy.on_limit();
                self.extend_pin(&s, &reason, *due, limit)
                    .unwrap_or_else(|| self.recheck(s, reason))
            }
            Some(_) => {
                let reason = self.power_on_reason(&s);
                self.recheck(s, reason)
            }
            None => match self.operation_lost() {
                Some(why) => self.power_on_failed(s, &why, true),
                None => self.begin_power_on(s),
            },
        }
    }

    fn power_on_finished(&self, s: State, readings: &[PowerReading]) -> Decision {
        match s.device() {
            PowerDevice::Bmc => self.confirmed_on(s),
            PowerDevice::Outlets => match self.outlets_on(s.clone(), readings) {
                Ok(d) => self.pinned_with(d, self.policy.on_limit()),
                Err(why) => self.power_on_failed(s, &why.to_string(), false),
            },
        }
    }

    fn begin_power_on(&self, s: State) -> Decision {
        let reason = self.power_on_reason(&s);
        if let Some(d) = self.outlets_unlisted(&s) {
            return d;
        }
        if self.has_restored_outlets(&s) && self.agent_down().is_none() && self.bmc_down().is_some()
        {
            return self.confirmed_on(s);
        }
        if let Some(why) = self.device_down(&s) {
            // The object is deleted, so nobody waits for this host: report it and end (L1).
            return if self.o.object.deleting {
                self.abort(s, why)
            } else {
                self.recheck(s, why)
            };
        }
        if let Some(at) = s.retry_at.filter(|at| *at > self.now) {
            return self.wait(s, reason, at);
        }
        match self.owner_switches_on(&s, reason.clone()) {
            Some(Ok(())) if s.agent_holds && !self.done(&Command::Release) => {
                return self.act(s, reason, Command::Release);
            }
            Some(Ok(())) => return self.confirmed_on(s),
            Some(Err(d)) => return d,
            None => {}
        }
        if s.tries == 0
            && let Some(d) = self.check_identity_before_on(&s)
        {
            return d;
        }
        match operation_id(&self.o.object.uid, &s) {
            Some(id) => {
                let command = self.power_on_command(&s, &id);
                self.begin_operation(s, reason, id, self.policy.on_limit(), command)
            }
            None => self.recheck(s, reason),
        }
    }

    fn power_on_reason(&self, s: &State) -> Reason {
        match (&s.failure, s.device()) {
            (Some(why), _) => self.power_on_failure(s, why.clone()),
            (None, PowerDevice::Bmc) => Reason::PowerOnRunning,
            (None, PowerDevice::Outlets) => Reason::OutletsOnRunning(self.outlet_names(s)),
        }
    }

    /// A7, F16: removes our hold key once its owner has the host as off, and waits for others who keep the host off.
    fn release_hold(&self, s: &State) -> Option<Decision> {
        let bmh = self.o.bmh.as_ref()?;
        if bmh.our_hold {
            // A power-off that another agent still carries out would switch the host off again.
            let wait = self.wait_for_other_agent(s);
            let wait = wait.or_else(|| self.await_owner_off(s));
            let wait = wait.or_else(|| self.remove_orphaned_holds(s));
            let is_recorded = s.attempt.handover.released.is_some();
            let record = || self.record_release(s).filter(|_| !is_recorded);
            let removed = wait.or_else(record).or_else(|| self.remove_hold(s));
            if removed.is_some() {
                return removed;
            }
        }
        if bmh.detached {
            return None;
        }
        if let Some(d) = self.remove_orphaned_holds(s) {
            return Some(d);
        }
        match self.held_by_others() {
            Some(why) => Some(self.await_others(s, why)),
            None if bmh.our_hold => None,
            None => self.hold_again(s).or_else(|| self.record_release(s)),
        }
    }

    /// F5: checks the Lease once more immediately before the power-on. If the BMC no longer reports
    /// off, the host may have come on by itself, or the power-on is what undoes the mistake. A host
    /// that was on since may have renewed the Lease itself.
    fn check_identity_before_on(&self, s: &State) -> Option<Decision> {
        let node = self.node().filter(|node| {
            s.attempt.on.is_none() && Self::lease_moved(s, node) && !is_unproven(s)
        })?;
        match self.power_now(s) {
            LatestReading::Off if self.read_since_renewal(s, node) => {
                Some(self.abort(s.clone(), Reason::LeaseRenewed(node.name.clone())))
            }
            LatestReading::NotRead | LatestReading::Off => {
                Some(self.act(s.clone(), Reason::PowerOnRunning, Command::ReadPower))
            }
            LatestReading::On(_) | LatestReading::Unclear(_) | LatestReading::Unreadable(_) => None,
        }
    }

    fn confirmed_on(&self, mut s: State) -> Decision {
        s.attempt.on = Some(self.now);
        s.agent_holds = false;
        let reason = self.booting_reason(&s);
        self.to(s, Step::Booting, reason)
    }

    fn power_on_failed(&self, mut s: State, why: &str, at_once: bool) -> Decision {
        let news = s.failure.as_deref() != Some(why);
        s.tries = s.tries.saturating_add(1);
        s.failure = Some(why.to_owned());
        let reason = self.power_on_reason(&s);
        let worn_out = s.tries >= self.policy.power_off_tries;
        if self.has_restored_outlets(&s) && (worn_out || !at_once) {
            // The host may boot by its restore policy, and its BMC may be dead: the Node decides.
            return self.confirmed_on(s);
        }
        if worn_out && !at_once && self.o.object.deleting {
            // The object is deleted, so nobody waits for this host: report it and end (L1). An agent that was
            // restarted says nothing about the host.
            return self.abort(s, reason);
        }
        let pause = match (worn_out, at_once) {
            (true, _) => self.policy.unconfirmed_interval,
            (_, true) => Duration::ZERO,
            _ => self.policy.retry_interval,
        };
        s.retry_at = Some(after(self.now, pause));
        if news {
            self.write(s, reason)
        } else {
            self.quiet_write(s, reason)
        }
    }
}
