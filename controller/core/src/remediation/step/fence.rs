//! Switching off, until the BMC has said off as often as F1 asks, or a person has (F8).

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{
        Because, Mode, OffEvidence, OperationOutcome, OperationView, State, Step, before_first_off,
        confirmed_off,
    },
    Command, Cx, Decision, Next, after, operation_id,
    proof::Fresh,
};

/// What a power-off that was sent and not confirmed gets to take effect before power-on is asked
/// for: a host that is still on would pass for switched on.
const SETTLE: Duration = Duration::from_secs(15);

/// Least time between two looks while a person's word waits for the BMC to have been tried.
const WORD_POLL: Duration = Duration::from_secs(1);

impl Cx<'_> {
    pub(super) fn powering_off(&self, s: State) -> Decision {
        let o = self.o;
        // With the taint on, pods may be gone from the API already: only off and drained is a way
        // out then (F3, F4).
        if s.taint.is_none() && (self.withdrawn().is_some() || self.offline().is_some()) {
            return self.call_off(s);
        }
        if let Some(name) = self.hold_missing() {
            return match &o.operation {
                None => self.act(s, Because::Holding, Command::AddHold),
                // What it reads may be of the time without a hold (F1).
                Some(_) => {
                    let because = Because::HoldLost(name.to_owned());
                    self.fence_again(s, because)
                }
            };
        }
        if let Some(OperationView::Finished { outcome, .. }) = &o.operation
            && !matches!(outcome, OperationOutcome::Cancelled)
        {
            return self.off_finished(s, outcome);
        }
        if let Some(why) = self.operation_lost() {
            return self.off_failed(s, &why, Some(Duration::ZERO));
        }
        if let Some(d) = self.persons_word(&s) {
            return d;
        }
        let waits_for_word = self.word_waits(&s);
        let mut d = self.try_off(s);
        if let (Next::Wait(until), true, Some(at)) = (&d.next, waits_for_word, self.believed_at()) {
            d.next = Next::Wait((*until).min(at.max(after(self.now, WORD_POLL))));
        }
        d
    }

    fn try_off(&self, s: State) -> Decision {
        let o = self.o;
        if let Some(OperationView::Finished { outcome, .. }) = &o.operation {
            return self.off_finished(s, outcome);
        }
        let down = match &o.operation {
            // What runs at the agent needs no more from us.
            Some(_) => self
                .agent_down()
                .map(|why| Because::AgentUnreachable(why.to_owned())),
            None => self.bmc_down(),
        };
        if let Some(why) = down {
            return self.bmc_lost(s, why);
        }
        match &o.operation {
            Some(OperationView::Rejected { why }) => self.off_failed(s, why, None),
            // It has a deadline of its own at the agent.
            Some(_) => {
                let because = self.unconfirmed(&s);
                self.recheck(s, because)
            }
            None => self.begin_off(s),
        }
    }

    fn begin_off(&self, s: State) -> Decision {
        if before_first_off(&s)
            && let Some(d) = self.quorum_lost(&s)
        {
            return d;
        }
        let because = self.unconfirmed(&s);
        if let Some(at) = s.retry_at.filter(|at| *at > self.now) {
            return self.wait(s, because, at);
        }
        let Some(id) = operation_id(&self.o.request.uid, &s) else {
            return self.recheck(s, because);
        };
        // Only the first operation leaves baremetal-operator its time.
        let grace = s.mode == Mode::Cooperative && s.tries == 0 && s.fences == 0;
        let grace = if grace {
            self.policy.cooperative_grace
        } else {
            Duration::ZERO
        };
        let node = s.node.as_ref();
        let command = Command::PowerOff {
            id: id.clone(),
            command_after: grace,
            system_uuid: node.map(|n| n.system_uuid.clone()).unwrap_or_default(),
            serial: self
                .o
                .bmh
                .as_ref()
                .and_then(|b| b.serial.clone())
                .unwrap_or_default(),
        };
        let limit = self.policy.power_off_timeout.saturating_add(grace);
        self.begin_operation(s, because, id, limit, command)
    }

    fn unconfirmed(&self, s: &State) -> Because {
        let used = match (self.person_confirms(), s.person_heard) {
            (true, true) => {
                "; the confirmation on this object does not count: it was given before it was asked \
                 for, or has been used. Remove it, make sure again, then confirm again"
            }
            (true, false) => {
                "; the confirmation on this object is taken once the BMC was tried for as long as a \
                 power-off may take"
            }
            (false, _) => "",
        };
        match (&s.step, &s.failure) {
            (_, Some(why)) => Because::FenceUnconfirmed(format!("{why}{used}")),
            (Step::AwaitingConfirmation, None) => {
                Because::FenceUnconfirmed(format!("the power-off is being tried again{used}"))
            }
            (_, None) => Because::PowerOffRunning,
        }
    }

    fn bmc_lost(&self, mut s: State, why: Because) -> Decision {
        if s.step == Step::AwaitingConfirmation {
            let because = self.unconfirmed(&s);
            return self.recheck(s, because);
        }
        let limit = after(s.since, self.policy.power_off_timeout);
        if limit > self.now {
            return self.wait(s, why, limit);
        }
        s.failure = Some(why.to_string());
        self.await_person(s, after(self.now, self.policy.unconfirmed_interval))
    }

    fn off_finished(&self, mut s: State, outcome: &OperationOutcome) -> Decision {
        match outcome {
            OperationOutcome::Confirmed { readings, taken } => {
                if let Err(why) = confirmed_off(taken.as_ref(), readings, self.policy) {
                    let why = format!("the agent's proof is not enough: {why}");
                    return self.off_failed(s, &why, None);
                }
                s.off = Some(OffEvidence::Bmc {
                    at: self.now,
                    readings: readings.clone(),
                    taken: taken.clone(),
                });
                s.lease_at_off = None;
                // The BMC has its own word: a person's is not needed any more, nor kept for later.
                s.person_heard = self.person_confirms();
                self.to(s, Step::ConfirmingOff, Because::WaitingForQuietLease)
            }
            OperationOutcome::IdentityMismatch { why } => {
                self.abort(s, Because::IdentityMismatch(why.clone()))
            }
            OperationOutcome::Unconfirmed { why } | OperationOutcome::Failed { why } => {
                self.off_failed(s, why, None)
            }
            OperationOutcome::Cancelled => self.off_failed(s, "the power-off was cancelled", None),
            OperationOutcome::Interrupted => {
                let why = "the agent was restarted in the middle";
                self.off_failed(s, why, Some(Duration::ZERO))
            }
        }
    }

    fn off_failed(&self, mut s: State, why: &str, pause: Option<Duration>) -> Decision {
        let news = s.failure.as_deref() != Some(why);
        s.tries = s.tries.saturating_add(1);
        s.failure = Some(why.to_owned());
        if s.step == Step::PoweringOff && s.tries >= self.policy.power_off_tries {
            return self.await_person(s, after(self.now, self.policy.unconfirmed_interval));
        }
        let pause = match s.step {
            Step::AwaitingConfirmation => self.policy.unconfirmed_interval,
            _ => pause.unwrap_or(self.policy.retry_interval),
        };
        s.retry_at = Some(after(self.now, pause));
        let because = self.unconfirmed(&s);
        // It is tried for as long as the BMC is dead: the same word is one Event.
        if news {
            self.write(s, because)
        } else {
            self.quiet_write(s, because)
        }
    }

    /// F8. Tries and failure are kept: the operation's id must not be used again.
    pub(super) fn await_person(&self, mut s: State, retry_at: Timestamp) -> Decision {
        s.step = Step::AwaitingConfirmation;
        s.since = self.now;
        s.retry_at = Some(retry_at);
        let because = self.unconfirmed(&s);
        self.write(s, because)
    }

    pub(super) fn person_confirms(&self) -> bool {
        self.o.request.confirm_fenced.as_deref() == Some(self.o.request.uid.as_str())
    }

    /// F8: a person's word, where the BMC has none of its own. It counts once, for the moment in which
    /// it was asked for: a confirmed off, a new power-off and a new attempt use it up. It is believed
    /// only after this process has tried for as long as a power-off may take to hear the BMC.
    fn persons_word(&self, s: &State) -> Option<Decision> {
        let mut s = s.clone();
        match (self.person_confirms(), s.person_heard) {
            (true, false) => {}
            (false, true) => {
                s.person_heard = false;
                let because = self.unconfirmed(&s);
                return Some(self.quiet_write(s, because));
            }
            _ => return None,
        }
        let because = self.unconfirmed(&s);
        if self.bmc_down().is_none() {
            match self.power_now(&s) {
                Fresh::Ask => return Some(self.act(s, because, Command::ReadPower)),
                Fresh::On(_) | Fresh::Off => return None,
                Fresh::Unclear(_) | Fresh::Unreadable(_) => {}
            }
        }
        if self.believed_at().is_none_or(|at| at > self.now) {
            return None;
        }
        if self.agent_down().is_none() {
            // A power-off that goes on would later fight our power-on.
            if matches!(
                self.o.operation,
                Some(OperationView::Running | OperationView::Staged { .. })
            ) {
                let cancel = Command::Cancel {
                    id: operation_id(&self.o.request.uid, &s)?,
                };
                if !self.done(&cancel) {
                    return Some(self.act(s, because, cancel));
                }
                return Some(self.recheck(s, because));
            }
        }
        s.person_heard = true;
        s.off = Some(OffEvidence::Person { at: self.now });
        s.lease_at_off = None;
        Some(self.to(s, Step::ConfirmingOff, Because::WaitingForQuietLease))
    }

    fn word_waits(&self, s: &State) -> bool {
        self.person_confirms() && !s.person_heard
    }

    /// When the BMC has been silent for long enough to believe a person instead; `None`: it answers.
    fn believed_at(&self) -> Option<Timestamp> {
        let since = self.o.silent_since?;
        Some(after(since, self.policy.power_off_timeout))
    }

    /// F11: the request is withdrawn, or the host is wanted off. What was sent decides.
    fn call_off(&self, mut s: State) -> Decision {
        let offline = self.offline();
        let finishing = s.ending == Some(Because::WithdrawnAfterOff);
        let because = offline.clone().unwrap_or(Because::WithdrawnAfterOff);
        let agent_down = self
            .agent_down()
            .map(|why| Because::AgentUnreachable(why.to_owned()));
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
                return self.stop_off(s, because, finishing);
            }
            (None, None) if finishing && offline.is_none() => {
                return match (self.hold_missing(), self.bmc_down()) {
                    (Some(_), _) => self.act(s, because, Command::AddHold),
                    (None, Some(why)) => self.recheck(s, why),
                    (None, None) => self.begin_off(s),
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
        // While it only looked, baremetal-operator may have switched off at our word.
        let by_operator = s.mode == Mode::Cooperative && outcome.is_some();
        if s.tries == 0 && s.fences == 0 && !(sent || confirmed || by_operator) {
            return self.abort(s, self.withdrawn().unwrap_or(Because::Withdrawn));
        }
        s.ending = Some(because.clone());
        if sent && cut_short && !finishing {
            // What was sent may take effect at any moment: "on" as read now would be left off. It
            // is finished first.
            s.tries = s.tries.saturating_add(1);
            s.retry_at = None;
            return self.write(s, because);
        }
        let mut d = self.power_on_next(s, because);
        if sent && !confirmed {
            d.state.retry_at = Some(after(self.now, SETTLE));
        }
        d
    }

    fn stop_off(&self, s: State, because: Because, finishing: bool) -> Decision {
        if finishing {
            return self.recheck(s, because);
        }
        self.stop_operation(s, because)
    }

    /// Cancels what runs at the agent for this step, and waits for its end.
    pub(super) fn stop_operation(&self, s: State, because: Because) -> Decision {
        let cancel = operation_id(&self.o.request.uid, &s).map(|id| Command::Cancel { id });
        match cancel.filter(|cancel| !self.done(cancel)) {
            Some(cancel) => self.act(s, because, cancel),
            None => self.recheck(s, because),
        }
    }
}
