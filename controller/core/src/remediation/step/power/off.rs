//! The power-off, until the BMC has reported off as often as F1 requires, or a person has confirmed
//! it (F8).

use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    super::{
        Mode, OffEvidence, OperationOutcome, OperationView, PowerDevice, Reason, State, Step,
        before_first_off, confirmed_off,
    },
    Command, Decision, Next, Note, StepContext, after,
    evidence::LatestReading,
    operation_id,
};
use super::firmware::Sent;

/// Time for an unconfirmed power-off to take effect before a power-on. Otherwise a host that is
/// still on would count as switched on.
pub(in crate::remediation::step) const SETTLE: Duration = Duration::from_secs(15);

/// Minimum interval while a confirmation waits until the BMC has been tried for long enough.
const CONFIRMATION_POLL: Duration = Duration::from_secs(1);

impl StepContext<'_> {
    pub(in crate::remediation::step) fn powering_off(&self, s: State) -> Decision {
        let o = self.o;
        // With the taint set, pods may be gone from the API already, so the host must be off and
        // drained first (F3, F4).
        if s.attempt.taint.is_none() && (self.withdrawn().is_some() || self.offline().is_some()) {
            return self.withdraw_power_off(s);
        }
        match &o.operation {
            Some(OperationView::Finished {
                outcome: OperationOutcome::FirmwareUpdate { update, why },
                ..
            }) => return self.refused_by_firmware(s, update, why, Sent::Nothing),
            Some(OperationView::Finished {
                outcome: OperationOutcome::UpdateAfterCommand { update, why },
                ..
            }) => return self.refused_by_firmware(s, update, why, Sent::Commands),
            _ => {}
        }
        if let Some(d) = self.resume_before_off(&s) {
            return d;
        }
        if let Some(name) = self.hold_missing() {
            let lost = Reason::HoldLost(name.to_owned());
            return match &o.operation {
                None => self.act(s, Reason::Holding, Command::AddHold),
                // The next power-off has another id, under which this one could not be cancelled (F9).
                Some(OperationView::Running | OperationView::Staged { .. })
                    if self.agent_down().is_none() =>
                {
                    self.cancel_operation(s, lost)
                }
                // Its readings may be from the time without a hold (F1).
                Some(_) => self.repeat_power_off(s, lost),
            };
        }
        if let Some(OperationView::Finished { outcome, .. }) = &o.operation
            && !matches!(outcome, OperationOutcome::Cancelled)
        {
            return self.power_off_finished(s, outcome);
        }
        if let Some(why) = self.operation_lost() {
            return self.power_off_failed(s, &why, Some(Duration::ZERO));
        }
        if let Some(d) = self.confirmation_by_person(&s) {
            return d;
        }
        let confirmation_pending = self.is_confirmation_pending(&s);
        let mut d = self.try_power_off(s);
        if let (Next::Wait(until), true, Some(at)) = (
            &d.next,
            confirmation_pending,
            self.confirmation_counts_from(),
        ) {
            d.next = Next::Wait((*until).min(at.max(after(self.now, CONFIRMATION_POLL))));
        }
        d
    }

    fn try_power_off(&self, s: State) -> Decision {
        let o = self.o;
        if let Some(OperationView::Finished { outcome, .. }) = &o.operation {
            return self.power_off_finished(s, outcome);
        }
        let down = match &o.operation {
            // A running operation needs neither address nor credentials.
            Some(_) => self
                .agent_down()
                .map(|why| Reason::AgentUnreachable(why.to_owned())),
            None => self.device_down(&s),
        };
        if let Some(why) = down {
            return self.bmc_unreachable(s, why);
        }
        match &o.operation {
            Some(OperationView::Rejected { why }) if s.device() == PowerDevice::Outlets => {
                self.outlets_off_failed(s, why)
            }
            Some(OperationView::Rejected { why }) => self.power_off_failed(s, why, None),
            // The operation has its own deadline at the agent.
            Some(_) => {
                let reason = self.unconfirmed(&s);
                self.recheck(s, reason)
            }
            None => self.begin_power_off(s),
        }
    }

    fn begin_power_off(&self, s: State) -> Decision {
        if before_first_off(&s)
            && let Some(d) = (self.refused_again(&s)).or_else(|| self.unmarked_before_off(&s))
        {
            return d;
        }
        if s.device() == PowerDevice::Outlets
            && let Some(d) = self.return_outlets(&s)
        {
            return d;
        }
        let reason = self.unconfirmed(&s);
        if let Some(at) = s.retry_at.filter(|at| *at > self.now) {
            return self.wait(s, reason, at);
        }
        if let Some(d) = self.held_during_off(&s) {
            return d;
        }
        if let Some(d) = self.check_other_node_before_off(&s) {
            return d;
        }
        let Some(id) = operation_id(&self.o.object.uid, &s) else {
            return self.recheck(s, reason);
        };
        // Only the first operation waits for baremetal-operator.
        let grace = match s.is_first_off() {
            true => self.owner_grace(&s),
            false => Duration::ZERO,
        };
        let grace = self.power_off_grace(&s, grace);
        let (system_uuid, serial) = match s.device() {
            PowerDevice::Bmc => self.expected_identity(&s),
            PowerDevice::Outlets => Default::default(),
        };
        let command = Command::PowerOff {
            id: id.clone(),
            device: s.device(),
            command_after: grace,
            system_uuid,
            serial,
            during_update: self.cuts_through_update(&s),
        };
        let limit = self.policy.off_limit(grace);
        self.begin_operation(s, reason, id, limit, command)
    }

    /// System UUID and serial number that the BMC must report (F5); empty if unknown.
    pub(in crate::remediation::step) fn expected_identity(&self, s: &State) -> (String, String) {
        let uuid = s.attempt.node.as_ref().map(|n| n.system_uuid.clone());
        let serial = self.o.bmh.as_ref().and_then(|b| b.serial.clone());
        (uuid.unwrap_or_default(), serial.unwrap_or_default())
    }

    pub(in crate::remediation::step) fn unconfirmed(&self, s: &State) -> Reason {
        let used = match (self.person_confirms(), s.confirmation_used) {
            (true, true) => {
                "; the confirmation on this object does not count: it was given before it was \
                 requested, or has been used. Remove it, verify again that the host is off, then \
                 confirm again"
            }
            (true, false) => {
                "; the confirmation on this object is accepted once the BMC has been tried for as \
                 long as a power-off may take"
            }
            (false, _) => "",
        };
        if let Some(reason) = self.waits_for_update(s) {
            return reason;
        }
        match (&s.step, &s.failure) {
            (_, Some(why)) => Reason::FenceUnconfirmed(format!("{why}{used}")),
            (Step::AwaitingConfirmation, None) => {
                Reason::FenceUnconfirmed(format!("the power-off is being tried again{used}"))
            }
            (_, None) if s.device() == PowerDevice::Outlets => {
                Reason::OutletsOffRunning(self.outlets_message(s))
            }
            (_, None) => Reason::PowerOffRunning,
        }
    }

    fn bmc_unreachable(&self, mut s: State, why: Reason) -> Decision {
        if s.step == Step::AwaitingConfirmation {
            let reason = self.unconfirmed(&s);
            return self.recheck(s, reason);
        }
        let limit = after(s.since, self.policy.power_off_timeout);
        if limit > self.now {
            return self.wait(s, why, limit);
        }
        s.failure = Some(why.to_string());
        self.await_confirmation(s, after(self.now, self.policy.unconfirmed_interval))
    }

    fn power_off_finished(&self, s: State, outcome: &OperationOutcome) -> Decision {
        if s.device() == PowerDevice::Outlets {
            return self.outlets_off_finished(s, outcome);
        }
        match outcome {
            OperationOutcome::Confirmed { readings, taken } => {
                match confirmed_off(taken.as_ref(), readings, self.policy) {
                    Ok(taken) => {
                        let off = OffEvidence::Bmc {
                            at: self.now,
                            readings: readings.clone(),
                            taken: taken.clone(),
                        };
                        self.confirmed_by(s, off)
                    }
                    Err(why) => {
                        let why = format!("the agent's evidence does not confirm off: {why}");
                        self.bmc_off_failed(s, &why)
                    }
                }
            }
            OperationOutcome::IdentityMismatch { why } => {
                let reason = Reason::IdentityMismatch(why.clone());
                self.abort(self.with_refused_entry(s, reason.clone()), reason)
            }
            OperationOutcome::Unconfirmed { why }
            | OperationOutcome::FirmwareUpdate { why, .. }
            | OperationOutcome::UpdateAfterCommand { why, .. }
            | OperationOutcome::Failed { why } => self.bmc_off_failed(s, why),
            OperationOutcome::Cancelled => {
                self.power_off_failed(s, "the power-off was cancelled", None)
            }
            OperationOutcome::Interrupted => {
                let why = "the agent was restarted during the power-off";
                self.power_off_failed(s, why, Some(Duration::ZERO))
            }
        }
    }

    /// The host is off by this evidence.
    pub(in crate::remediation::step) fn confirmed_by(
        &self,
        mut s: State,
        off: OffEvidence,
    ) -> Decision {
        s.attempt.off = Some(off);
        s.attempt.update = None;
        s.attempt.lease_at_off = None;
        // A confirmation by a person is not needed, and must not count later.
        s.confirmation_used = self.person_confirms();
        let unknown = match &s.attempt.off {
            Some(OffEvidence::Bmc { taken, .. }) => taken.updates_unknown.clone(),
            _ => None,
        };
        let mut d = self.to(s, Step::ConfirmingOff, Reason::WaitingForQuietLease);
        // The step itself is no Event.
        if let Some(why) = unknown {
            d.notes.push(Note {
                warning: true,
                reason: Reason::FirmwareUpdateUnknown(String::new()).label(),
                step: None,
                message: format!(
                    "the host was switched off although it was not known whether its firmware was being updated: {why}"
                ),
            });
        }
        d
    }

    /// The power-off by the BMC has ended and proves nothing: the outlets are next, where they are known.
    fn bmc_off_failed(&self, s: State, why: &str) -> Decision {
        match self
            .return_outlets(&s)
            .or_else(|| self.cut_outlets(&s, why))
        {
            Some(d) => d,
            None => self.power_off_failed(s, why, None),
        }
    }

    pub(in crate::remediation::step) fn power_off_failed(
        &self,
        mut s: State,
        why: &str,
        pause: Option<Duration>,
    ) -> Decision {
        let news = s.failure.as_deref() != Some(why);
        s.tries = s.tries.saturating_add(1);
        let has_sent_nothing = matches!(
            self.o.operation,
            Some(
                OperationView::Finished {
                    commands_sent: 0,
                    ..
                } | OperationView::Rejected { .. }
            )
        );
        s.unsent = s.unsent.saturating_add(u32::from(has_sent_nothing));
        s.failure = Some(why.to_owned());
        if s.step == Step::PoweringOff && s.tries >= self.policy.power_off_tries {
            return self.await_confirmation(s, after(self.now, self.policy.unconfirmed_interval));
        }
        let pause = match s.step {
            Step::AwaitingConfirmation => self.policy.unconfirmed_interval,
            _ => pause.unwrap_or(self.policy.retry_interval),
        };
        s.retry_at = Some(after(self.now, pause));
        let reason = self.unconfirmed(&s);
        // The retries go on for as long as the BMC fails; the same failure is one Event.
        if news {
            self.write(s, reason)
        } else {
            self.quiet_write(s, reason)
        }
    }

    /// Waits for a confirmation (F8). The number of tries is kept, because operation ids must not
    /// be used again.
    pub(in crate::remediation::step) fn await_confirmation(
        &self,
        mut s: State,
        retry_at: Timestamp,
    ) -> Decision {
        s.step = Step::AwaitingConfirmation;
        s.since = self.now;
        s.retry_at = Some(retry_at);
        let reason = self.unconfirmed(&s);
        self.write(s, reason)
    }

    pub(in crate::remediation::step) fn person_confirms(&self) -> bool {
        self.o.object.confirm_fenced.as_deref() == Some(self.o.object.uid.as_str())
    }

    /// Accepts the confirmation of a person if the BMC cannot report off, or cannot prove it (F8). It counts once, for
    /// the wait in which it was requested: a confirmed off, a new power-off and a new attempt
    /// consume it. It is accepted only after this process has tried to reach the BMC for as long as
    /// a power-off may take.
    fn confirmation_by_person(&self, s: &State) -> Option<Decision> {
        let mut s = s.clone();
        match (self.person_confirms(), s.confirmation_used) {
            (true, false) => {}
            (false, true) => {
                s.confirmation_used = false;
                let reason = self.unconfirmed(&s);
                return Some(self.quiet_write(s, reason));
            }
            _ => return None,
        }
        let reason = self.unconfirmed(&s);
        // What a BMC reports and cannot prove was tried for as long before this step.
        let mut is_unproven = false;
        if self.bmc_down().is_none() {
            match self.power_now(&s) {
                LatestReading::NotRead => return Some(self.act(s, reason, Command::ReadPower)),
                LatestReading::On(_) => return None,
                LatestReading::Off if s.step == Step::AwaitingConfirmation => is_unproven = true,
                LatestReading::Off => return None,
                LatestReading::Unclear(_) | LatestReading::Unreadable(_) => {}
            }
        }
        let counts_from = self.confirmation_counts_from();
        if !is_unproven && counts_from.is_none_or(|at| at > self.now) {
            return None;
        }
        if self.agent_down().is_none() {
            // A power-off that continues would later interfere with the power-on.
            if matches!(
                self.o.operation,
                Some(OperationView::Running | OperationView::Staged { .. })
            ) {
                let cancel = Command::Cancel {
                    id: operation_id(&self.o.object.uid, &s)?,
                };
                if !self.done(&cancel) {
                    return Some(self.act(s, reason, cancel));
                }
                return Some(self.recheck(s, reason));
            }
        }
        s.confirmation_used = true;
        s.attempt.off = Some(OffEvidence::Person { at: self.now });
        s.attempt.lease_at_off = None;
        Some(self.to(s, Step::ConfirmingOff, Reason::WaitingForQuietLease))
    }

    fn is_confirmation_pending(&self, s: &State) -> bool {
        self.person_confirms() && !s.confirmation_used
    }

    /// When the BMC has been silent for long enough to accept a confirmation instead; `None` if it
    /// answers.
    fn confirmation_counts_from(&self) -> Option<Timestamp> {
        let since = self.o.silent_since?;
        Some(after(since, self.policy.power_off_timeout))
    }

    /// F11: ends a power-off whose remediation is withdrawn, or whose host its owner wants off. What was sent
    /// decides how.
    fn withdraw_power_off(&self, mut s: State) -> Decision {
        let offline = self.offline();
        let finishing = s.attempt.end_reason == Some(Reason::WithdrawnAfterOff);
        let reason = offline.clone().unwrap_or(Reason::WithdrawnAfterOff);
        let agent_down = self
            .agent_down()
            .map(|why| Reason::AgentUnreachable(why.to_owned()));
        if !finishing
            && offline.is_none()
            && let Some(d) = self.finish_by_power_on(&s, SETTLE)
        {
            return d;
        }
        let (sent, outcome) = match (&self.o.operation, agent_down) {
            (Some(OperationView::Running | OperationView::Staged { .. }) | None, Some(why)) => {
                return self.recheck(s, why);
            }
            (Some(OperationView::Running | OperationView::Staged { .. }), None) => {
                return self.await_or_cancel_off(s, reason, finishing);
            }
            (None, None) if finishing && offline.is_none() => {
                return match (self.hold_missing(), self.bmc_down()) {
                    (Some(_), _) => self.act(s, reason, Command::AddHold),
                    (None, Some(why)) => self.recheck(s, why),
                    (None, None) => self.begin_power_off(s),
                };
            }
            (
                Some(OperationView::Finished {
                    outcome,
                    commands_sent,
                }),
                _,
            ) => (*commands_sent > 0, Some(outcome)),
            (Some(OperationView::Rejected { .. }) | None, _) => (false, None),
        };
        if let Some(why) = offline {
            return self.abort(s, why);
        }
        let cut_short = matches!(
            outcome,
            Some(OperationOutcome::Cancelled | OperationOutcome::Interrupted)
        );
        let confirmed = matches!(outcome, Some(OperationOutcome::Confirmed { .. }));
        // During the grace period baremetal-operator may have switched the host off on our behalf.
        let by_operator = s.mode == Mode::Cooperative && outcome.is_some();
        if s.is_first_off() && !(sent || confirmed || by_operator) {
            return self.abort(s, self.withdrawn().unwrap_or(Reason::Withdrawn));
        }
        s.attempt.end_reason = Some(reason.clone());
        // Outlets that were cut short are switched on again at once: nothing in them takes effect later.
        if sent && cut_short && !finishing && s.attempt.outlets.is_none() {
            // A command that was sent may still take effect, and the host would be left off. The
            // power-off is finished first.
            s.tries = s.tries.saturating_add(1);
            s.retry_at = None;
            return self.write(s, reason);
        }
        let mut d = self.power_on_next(s, reason);
        if sent && !confirmed {
            d.state.retry_at = Some(after(self.now, SETTLE));
        }
        d
    }

    fn await_or_cancel_off(&self, s: State, reason: Reason, finishing: bool) -> Decision {
        if finishing {
            return self.recheck(s, reason);
        }
        self.cancel_operation(s, reason)
    }

    /// Cancels the operation of this step at the agent and waits until it has ended.
    pub(in crate::remediation::step) fn cancel_operation(
        &self,
        s: State,
        reason: Reason,
    ) -> Decision {
        let cancel = operation_id(&self.o.object.uid, &s).map(|id| Command::Cancel { id });
        match cancel.filter(|cancel| !self.done(cancel)) {
            Some(cancel) => self.act(s, reason, cancel),
            None => self.recheck(s, reason),
        }
    }
}
