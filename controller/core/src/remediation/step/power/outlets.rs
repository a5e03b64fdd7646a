//! The power-off by the outlets of the PDUs that feed the host, after its BMC could not prove off, and
//! their return.
//!
//! Invariants: nothing is sent to the outlets while the BMC may still carry out a command of this
//! attempt (F6), nor before the state says so (F2); outlets that may be off are switched on again on
//! every path (F9).

use std::time::Duration;

use super::super::{
    super::{
        EvidenceError, OUTLETS_PROTOCOL, OffEvidence, OperationOutcome, OutletStage, OutletUse,
        PowerDevice, PowerReading, PowerState, Reason, State, Step, confirmed_off,
    },
    Command, Decision, Note, StepContext, after,
};

impl StepContext<'_> {
    /// Goes on to the outlets after a power-off by the BMC has ended without a confirmation; `None` if
    /// they may not be used now. The operation has ended, so that the BMC carries out nothing more.
    pub(in crate::remediation::step) fn cut_outlets(
        &self,
        s: &State,
        why: &str,
    ) -> Option<Decision> {
        if self.o.outlets.is_empty() || self.agent_down().is_some() || self.o.conflict.is_some() {
            return None;
        }
        let refuted = |used: &OutletUse| used.stage == OutletStage::Refuted;
        if self.is_back(s) || s.attempt.outlets.as_deref().is_some_and(refuted) {
            return None;
        }
        let first = s.attempt.outlets.is_none();
        let mut s = s.clone();
        s.tries = s.tries.saturating_add(1);
        s.since = self.now;
        s.retry_at = None;
        s.attempt.outlets = Some(self.use_of_outlets(why, OutletStage::Off));
        let reason = Reason::OutletsOffRunning(self.outlets_message(&s));
        let mut d = if first {
            self.write(s, reason)
        } else {
            self.quiet_write(s, reason)
        };
        for note in &mut d.notes {
            (note.warning, note.reason) = (true, d.reason.label());
        }
        Some(self.pinned_with(d, self.policy.off_limit(Duration::ZERO)))
    }

    /// The use of all outlets that the inventory names, for the state. `because`: why the BMC is not enough.
    pub(in crate::remediation::step) fn use_of_outlets(
        &self,
        because: &str,
        stage: OutletStage,
    ) -> Box<OutletUse> {
        Box::new(OutletUse {
            outlets: self.o.outlets.clone(),
            because: because.to_owned(),
            stage,
        })
    }

    /// F12: follows what the journals of the agents say beyond the stored state, which was set back; `None` if
    /// they say nothing more.
    pub(in crate::remediation::step) fn follow_journal(&self, s: &State) -> Option<Decision> {
        if s.step.is_terminal() {
            return None;
        }
        let with_outlets = self.unknown_outlets(s);
        if self.o.journal.is_outdated && s.step != Step::Aborting {
            let s = with_outlets.unwrap_or_else(|| s.clone());
            return Some(self.abort(s, Reason::StateOutdated));
        }
        let mut with_outlets = with_outlets?;
        if !self.o.object.finalizer {
            // A remediation that is deleted now ends without them; its hold at the agent is what is left.
            let add = !self.o.object.deleting;
            return add.then(|| self.act(s.clone(), Reason::Started, Command::AddFinalizer));
        }
        let reason = Reason::OutletsOnRunning(self.outlet_names(&with_outlets));
        if s.step == Step::Aborting {
            with_outlets.restore_outlets();
        }
        let is_on = matches!(s.step, Step::PoweringOn | Step::Booting | Step::Restoring);
        let mut d = match is_on {
            true => self.power_on_next(with_outlets, reason),
            false => self.write(with_outlets, Reason::Working),
        };
        d.notes = vec![Note {
            warning: true,
            reason: "OutletsFound",
            step: None,
            message: format!(
                "by the journal of the agent, outlets {} were switched off for this remediation after its state \
                 was written: they are switched on again before it ends",
                self.outlet_names(&d.state)
            ),
        }];
        Some(d)
    }

    /// F9: the state with outlets that the agents may have left off and that it does not know; `None` if there
    /// are none. They count as not proven off, so that they prove nothing and are switched on again.
    fn unknown_outlets(&self, s: &State) -> Option<State> {
        let attempt = self.o.journal.outlets_off_in?;
        let is_known = s.outlets_may_be_off()
            || s.attempt.number > attempt
            || s.attempt.outlets.is_some() && s.attempt.number == attempt;
        if is_known || self.o.outlets.is_empty() {
            return None;
        }
        let mut s = self.with_host(s);
        s.attempt.outlets =
            Some(self.use_of_outlets("its state was set back", OutletStage::Unproven));
        s.agent_holds = true;
        // What was done before the state was set back is no evidence of what is done now.
        s.attempt.started = self.now;
        s.tries = 0;
        Some(s)
    }

    /// F11: whether the Node is Ready and nothing was moved away from it. Its outlets are not switched off.
    fn is_back(&self, s: &State) -> bool {
        s.attempt.taint.is_none() && self.node().is_some_and(|node| node.ready)
    }

    /// F11: the host came back although outlets of it were, or may have been, switched off: they are
    /// switched on again, instead of waiting for a BMC that cannot prove off.
    pub(in crate::remediation::step) fn return_outlets(&self, s: &State) -> Option<Decision> {
        let back = s.outlets_may_be_off() && self.is_back(s);
        back.then(|| {
            let reason = Reason::OutletsOnRunning(self.outlet_names(s));
            self.power_on_next(s.clone(), reason)
        })
    }

    /// Which outlets, and why they are used.
    pub(in crate::remediation::step) fn outlets_message(&self, s: &State) -> String {
        s.attempt
            .outlets
            .as_deref()
            .map_or_else(String::new, |used| {
                format!("{} (the BMC: {})", used.names(), used.because)
            })
    }

    /// The power-off by the outlets has ended.
    pub(in crate::remediation::step) fn outlets_off_finished(
        &self,
        s: State,
        outcome: &OperationOutcome,
    ) -> Decision {
        let why = match outcome {
            OperationOutcome::Confirmed { readings, taken } => {
                let proof = of_outlets(readings)
                    .and_then(|()| confirmed_off(taken.as_ref(), readings, self.policy));
                match proof {
                    Ok(taken) => {
                        let off = OffEvidence::Outlets {
                            at: self.now,
                            readings: readings.clone(),
                            taken: taken.clone(),
                        };
                        return self.confirmed_by(s, off);
                    }
                    Err(why) => format!("the agent's evidence does not confirm off: {why}"),
                }
            }
            OperationOutcome::IdentityMismatch { why }
            | OperationOutcome::Unconfirmed { why }
            | OperationOutcome::FirmwareUpdate { why, .. }
            | OperationOutcome::UpdateAfterCommand { why, .. }
            | OperationOutcome::Failed { why } => why.clone(),
            OperationOutcome::Cancelled => "the power-off was cancelled".into(),
            OperationOutcome::Interrupted => {
                let why = "the agent was restarted during the power-off";
                return self.power_off_failed(s, why, Some(Duration::ZERO));
            }
        };
        self.outlets_off_failed(s, &why)
    }

    /// The outlets do not prove off either: a person is needed (F8), and the BMC is tried again
    /// meanwhile.
    pub(in crate::remediation::step) fn outlets_off_failed(
        &self,
        mut s: State,
        why: &str,
    ) -> Decision {
        let bmc = s
            .attempt
            .outlets
            .as_deref()
            .map_or("", |used| &used.because);
        let names = s
            .attempt
            .outlets
            .as_deref()
            .map(OutletUse::names)
            .unwrap_or_default();
        let failure = format!("{bmc}; outlets {names}: {why}");
        let news = s.failure.as_ref() != Some(&failure);
        s.tries = s.tries.saturating_add(1);
        s.failure = Some(failure);
        s.set_outlets(OutletStage::Unproven);
        let retry_at = after(self.now, self.policy.unconfirmed_interval);
        if s.step == Step::AwaitingConfirmation && !news {
            s.retry_at = Some(retry_at);
            let reason = self.unconfirmed(&s);
            return self.quiet_write(s, reason);
        }
        self.await_confirmation(s, retry_at)
    }

    /// Why the power of a host that has to stay off can not be read now.
    pub(in crate::remediation::step) fn reading_down(&self, s: &State) -> Option<Reason> {
        match s.reads_outlets() {
            false => self.bmc_down(),
            true => self
                .agent_down()
                .map(|why| Reason::AgentUnreachable(why.to_owned())),
        }
    }

    /// The command of a power-off or power-on by the outlets needs no BMC, only the agent.
    pub(in crate::remediation::step) fn device_down(&self, s: &State) -> Option<Reason> {
        match s.device() {
            PowerDevice::Bmc => self.bmc_down(),
            PowerDevice::Outlets => self
                .agent_down()
                .map(|why| Reason::AgentUnreachable(why.to_owned())),
        }
    }

    /// The outlets are on, by the evidence of the power-on that has ended: the BMC comes next.
    ///
    /// # Errors
    /// The evidence does not show that.
    pub(in crate::remediation::step) fn outlets_on(
        &self,
        mut s: State,
        readings: &[PowerReading],
    ) -> Result<Decision, EvidenceError> {
        of_outlets(readings)?;
        if readings.iter().any(|r| r.state != PowerState::On) {
            return Err(EvidenceError::NotOn);
        }
        self.outlets_restored(&mut s);
        let reason = Reason::OutletsRestored(self.outlet_names(&s));
        Ok(self.write(s, reason))
    }

    /// Ends the return of outlets that no inventory names any more: whoever removed them from there
    /// answers for them.
    pub(in crate::remediation::step) fn outlets_unlisted(&self, s: &State) -> Option<Decision> {
        if s.device() != PowerDevice::Outlets
            || !self.o.outlets.is_empty()
            || self.agent_down().is_some()
        {
            return None;
        }
        let mut s = s.clone();
        self.outlets_restored(&mut s);
        let names = self.outlet_names(&s);
        let reason = Reason::OutletsRestored(names.clone());
        let mut d = self.write(s, reason);
        d.notes = vec![Note {
            warning: true,
            reason: "OutletsNotListed",
            step: None,
            message: format!(
                "the inventory of the agent names no outlets of this host any more, so outlets {names}, which \
                 may be off, are not switched on: make sure that they are on"
            ),
        }];
        Some(d)
    }

    fn outlets_restored(&self, s: &mut State) {
        s.set_outlets(OutletStage::Restored);
        s.tries = s.tries.saturating_add(1);
        s.since = self.now;
        (s.retry_at, s.failure) = (None, None);
    }

    pub(in crate::remediation::step) fn outlet_names(&self, s: &State) -> String {
        s.attempt
            .outlets
            .as_deref()
            .map(OutletUse::names)
            .unwrap_or_default()
    }

    /// Whether the outlets were switched on again in this attempt. The host may then boot by its restore
    /// policy, whatever its BMC reports.
    pub(in crate::remediation::step) fn has_restored_outlets(&self, s: &State) -> bool {
        s.attempt
            .outlets
            .as_deref()
            .is_some_and(|used| !used.may_be_off())
    }

    /// Why the power-on is not confirmed yet.
    pub(in crate::remediation::step) fn power_on_failure(&self, s: &State, why: String) -> Reason {
        match s.device() {
            PowerDevice::Bmc => Reason::PowerOnUnconfirmed(why),
            PowerDevice::Outlets => {
                Reason::OutletsNotOn(format!("{}: {why}", self.outlet_names(s)))
            }
        }
    }

    /// The time that is added to the deadline of a power-off, because baremetal-operator acts first. The
    /// outlets are not switched by it.
    pub(in crate::remediation::step) fn power_off_grace(
        &self,
        s: &State,
        grace: Duration,
    ) -> Duration {
        match s.device() {
            PowerDevice::Bmc => grace,
            PowerDevice::Outlets => Duration::ZERO,
        }
    }

    /// The command that begins a power-on.
    pub(in crate::remediation::step) fn power_on_command(&self, s: &State, id: &str) -> Command {
        Command::PowerOn {
            id: id.to_owned(),
            device: s.device(),
        }
    }
}

/// Checks that all readings are of the outlets: one of the BMC proves nothing about them.
fn of_outlets(readings: &[PowerReading]) -> Result<(), EvidenceError> {
    match readings.iter().find(|r| r.protocol != OUTLETS_PROTOCOL) {
        Some(other) => Err(EvidenceError::NotOfOutlets {
            protocol: other.protocol.clone(),
        }),
        None if readings.is_empty() => Err(EvidenceError::NoOutletReading),
        None => Ok(()),
    }
}
