//! The power-on, by baremetal-operator or the agent, until the host is confirmed on.

use std::time::Duration;

use super::{
    super::{
        Mode, OperationOutcome, OperationView, PowerDevice, PowerReading, PowerState, Reason,
        State, Step,
    },
    Command, Decision, StepContext, after,
    evidence::LatestReading,
    node_identity::is_unproven,
    operation_id,
};

/// Interval of reading whether baremetal-operator has switched the host on.
const OPERATOR_POLL: Duration = Duration::from_secs(1);

impl StepContext<'_> {
    pub(super) fn power_on_next(&self, mut s: State, reason: Reason) -> Decision {
        s.restore_outlets();
        let d = self.to(s, Step::PoweringOn, reason);
        self.pinned_with(d, self.policy.power_on_timeout)
    }

    /// Switches the host on. F4 holds because this step is entered only drained, without a taint,
    /// or by policy.
    pub(super) fn powering_on(&self, s: State) -> Decision {
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
                let limit = self.policy.power_on_timeout;
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
                Ok(d) => self.pinned_with(d, self.policy.power_on_timeout),
                Err(why) => self.power_on_failed(s, &why, false),
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
            return if self.o.request.deleting {
                self.abort(s, why)
            } else {
                self.recheck(s, why)
            };
        }
        if let Some(at) = s.retry_at.filter(|at| *at > self.now) {
            return self.wait(s, reason, at);
        }
        if s.tries == 0
            && let Some(d) = self
                .wait_for_baremetal_operator(&s)
                .or_else(|| self.check_identity_before_on(&s))
        {
            return d;
        }
        match operation_id(&self.o.request.uid, &s) {
            Some(id) => {
                let command = self.power_on_command(&s, &id);
                self.begin_operation(s, reason, id, self.policy.power_on_timeout, command)
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

    /// A7: removes our hold key first, and waits for others who keep the host off or
    /// service it.
    fn release_hold(&self, s: &State) -> Option<Decision> {
        let bmh = self.o.bmh.as_ref()?;
        if bmh.our_hold {
            // A power-off that another agent still carries out would switch the host off again.
            if let Some(d) = self.wait_for_other_agent(s) {
                return Some(d);
            }
            return Some(self.act(s.clone(), Reason::PowerOnRunning, Command::RemoveHold));
        }
        if bmh.detached {
            return None;
        }
        if let Some(why) = self.held_by_others() {
            return Some(self.recheck(s.clone(), why));
        }
        if bmh.servicing {
            let reason = Reason::HostServicing(bmh.name.clone());
            return Some(self.recheck(s.clone(), reason));
        }
        None
    }

    /// A7: leaves the power-on to baremetal-operator during the grace period; the agent does it
    /// after that.
    fn wait_for_baremetal_operator(&self, s: &State) -> Option<Decision> {
        // It cannot switch on a host whose outlets are off.
        if s.mode != Mode::Cooperative || s.device() == PowerDevice::Outlets {
            return None;
        }
        let s = s.clone();
        // An older reading may be from before the power-off.
        let view = self.o.power.as_ref().filter(|view| view.asked >= s.since);
        let grace = after(s.since, self.policy.cooperative_grace);
        let next = view.map_or(self.now, |view| after(view.answered, OPERATOR_POLL));
        match self.power_now(&s) {
            LatestReading::On(_) if view.is_some() && self.exactly_on() => {
                if s.agent_holds && !self.done(&Command::Release) {
                    return Some(self.act(s, Reason::PowerOnRunning, Command::Release));
                }
                Some(self.confirmed_on(s))
            }
            fresh if view.is_none() || matches!(fresh, LatestReading::NotRead) => {
                Some(self.act(s, Reason::PowerOnRunning, Command::ReadPower))
            }
            _ if grace <= self.now => None,
            _ if next <= self.now => Some(self.act(s, Reason::PowerOnRunning, Command::ReadPower)),
            _ => Some(self.wait(s, Reason::PowerOnRunning, next.min(grace))),
        }
    }

    fn exactly_on(&self) -> bool {
        let reading = self
            .o
            .power
            .as_ref()
            .and_then(|view| view.result.as_ref().ok());
        reading.is_some_and(|r| r.state == PowerState::On)
    }

    /// F5: checks the Lease once more immediately before the power-on. If the BMC no longer reports
    /// off, the host may have come on by itself, or the power-on is what undoes the mistake. A host
    /// that was on since may have renewed the Lease itself.
    fn check_identity_before_on(&self, s: &State) -> Option<Decision> {
        let node = self
            .node()
            .filter(|node| s.on.is_none() && Self::lease_moved(s, node) && !is_unproven(s))?;
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
        s.on = Some(self.now);
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
        if worn_out && self.o.request.deleting {
            // The object is deleted, so nobody waits for this host: report it and end (L1).
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
