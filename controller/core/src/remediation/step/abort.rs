//! Aborting, ending and escalating a remediation.

use super::{
    super::{Mode, OnExhausted, OperationOutcome, OperationView, PowerDevice, Reason, State, Step},
    Command, Decision, Next, Note, RemediationOutcome, StepContext, after, operation_id,
};

impl StepContext<'_> {
    pub(super) fn abort(&self, mut s: State, reason: Reason) -> Decision {
        s.attempt.end_reason = Some(reason.clone());
        // An outdated state may call outlets off that were switched on since.
        if reason != Reason::StateOutdated || self.o.journal.outlets_off_in.is_some() {
            s.restore_outlets();
        }
        self.to(s, Step::Aborting, reason)
    }

    /// Aborts during a power-on. An operation that is queued at the agent is cancelled first,
    /// because it would otherwise be carried out after the remediation has ended.
    pub(super) fn abort_power_on(&self, s: State, why: Reason) -> Decision {
        if let Some(d) = self.cancel_power_on(&s, &why) {
            return d;
        }
        // The power-on may have been begun nevertheless.
        if self.o.operation.is_none()
            && let Some(down) = self.agent_down()
        {
            return self.recheck(s, Reason::AgentUnreachable(down.to_owned()));
        }
        let came_on = matches!(
            &self.o.operation,
            Some(OperationView::Finished {
                outcome: OperationOutcome::Confirmed { .. },
                ..
            })
        );
        let mut d = self.abort(s, why);
        if came_on {
            d.notes.push(Note {
                warning: true,
                reason: "PowerOnNotCancelled",
                step: None,
                message:
                    "the power-on was carried out before it could be cancelled: the host is on; \
                          switch it off by hand if it is to be off"
                        .into(),
            });
        }
        d
    }

    /// Removes everything that was added (F9) and switches on a host that was switched off by
    /// mistake (F5). A part that is out of reach does not delay the others.
    pub(super) fn aborting(&self, s: State) -> Decision {
        let reason = s.attempt.end_reason.clone().unwrap_or(Reason::Withdrawn);
        let is_taken = matches!(
            reason,
            Reason::HostNotProvisioned(_) | Reason::HostServicing(_) | Reason::HostDeleting(_)
        );
        let taint = match is_taken {
            true => self.clean_up_taken_node(&s, &reason),
            false => self.clean_up_node(&s, &reason),
        };
        if let Some(d) = &taint
            && matches!(&d.next, Next::Do(command) if *command != Command::ReadPower)
        {
            return d.clone();
        }
        if self.holds() && !self.is_hold_kept() || self.hold_may_arrive(&s) {
            return self.act(s, reason, Command::RemoveHold);
        }
        // F5: another host was switched off by mistake. This is not the case for a host released by
        // F11.
        let innocent = matches!(reason, Reason::LeaseRenewed(_) | Reason::NodeMismatch(_));
        // Outlets are returned whoever wants the host off: without them nobody can switch it.
        let left_off = innocent || self.is_left_off(&s);
        let is_undone =
            s.device() == PowerDevice::Outlets || left_off && self.wanted_off_by_others().is_none();
        let power = || match is_undone {
            true => self.undo_power_off(&s, &reason),
            false => self
                .cancel_power_on(&s, &reason)
                .or_else(|| self.wait_for_other_agent(&s))
                .or_else(|| self.release(&s, &reason)),
        };
        let power = self.cancel_interrupt(&s, &reason).or_else(power);
        let unblock = || self.unblock_move(&s, reason.clone());
        match power.or(taint).or_else(unblock) {
            Some(d) => d,
            None if matches!(reason, Reason::Withdrawn | Reason::EmptiedUntilDeleted) => {
                self.finish(s, reason, RemediationOutcome::Withdrawn)
            }
            None if s.refused_entry.as_ref().is_some_and(|r| r.reason == reason)
                && self.withdrawn().is_none() =>
            {
                self.await_other_entry(s, reason)
            }
            None => {
                let mut s = s;
                if !s.is_recorded() {
                    s.record_attempt(reason.clone(), self.now);
                }
                // A power-off was taken back, and the Node is back.
                let step = match reason {
                    Reason::Recovered => Step::Succeeded,
                    _ => Step::Blocked,
                };
                self.to(s, step, reason)
            }
        }
    }

    /// Whether our hold key may still appear on a BareMetalHost that does not have it yet (F7): a former
    /// leader may have been suspended while it sent the write. [`Command::RemoveHold`] makes the API
    /// server refuse that write.
    pub(super) fn hold_may_arrive(&self, s: &State) -> bool {
        let began = s.mode == Mode::Cooperative && !s.agent_holds && s.attempt.off.is_none();
        let host = self.o.bmh.as_ref().filter(|b| !b.deleting);
        began && host.is_some() && !self.done(&Command::RemoveHold)
    }

    /// Why the host is kept off by others, if it is.
    pub(super) fn wanted_off_by_others(&self) -> Option<Reason> {
        self.offline().or_else(|| self.held_by_others())
    }

    /// A8: hold keys of other controllers.
    pub(super) fn held_by_others(&self) -> Option<Reason> {
        let bmh = self.o.bmh.as_ref().filter(|b| !b.detached)?;
        if let Some(rival @ Reason::RivalController(_)) = &self.o.conflict {
            return Some(rival.clone());
        }
        let keys: Vec<&str> = bmh.foreign_holds.iter().map(String::as_str).collect();
        (!keys.is_empty()).then(|| Reason::HeldByOthers(keys.join(", ")))
    }

    /// Whether the host may have been left off: baremetal-operator switched it off on our behalf,
    /// and it was detached since, so that nobody else switches it on again.
    fn is_left_off(&self, s: &State) -> bool {
        let detached = self
            .o
            .bmh
            .as_ref()
            .is_some_and(|b| b.detached && !b.deleting);
        detached && s.mode == Mode::Cooperative && s.agent_holds
    }

    /// Cancels the power-on that is queued or running at the agent and waits until it has ended;
    /// `None` if there is none.
    pub(super) fn cancel_power_on(&self, s: &State, reason: &Reason) -> Option<Decision> {
        if !matches!(
            self.o.operation,
            Some(OperationView::Running | OperationView::Staged { .. })
        ) {
            return None;
        }
        if let Some(why) = self.agent_down() {
            let why = Reason::AgentUnreachable(why.to_owned());
            return Some(self.recheck(s.clone(), why));
        }
        let cancel = Command::Cancel {
            id: operation_id(&self.o.object.uid, s)?,
        };
        Some(if self.done(&cancel) {
            self.recheck(s.clone(), reason.clone())
        } else {
            self.act(s.clone(), reason.clone(), cancel)
        })
    }

    /// Releases the hold at the agent, if a power-off may have been begun there.
    fn release(&self, s: &State, reason: &Reason) -> Option<Decision> {
        if !s.agent_holds || self.done(&Command::Release) {
            return None;
        }
        Some(match self.agent_down() {
            None => self.act(s.clone(), reason.clone(), Command::Release),
            Some(why) => self.recheck(s.clone(), Reason::AgentUnreachable(why.to_owned())),
        })
    }

    /// Switches the host on again; `None` once it is on.
    fn undo_power_off(&self, s: &State, reason: &Reason) -> Option<Decision> {
        let mut s = s.clone();
        let id = operation_id(&self.o.object.uid, &s)?;
        let failure = match &self.o.operation {
            Some(OperationView::Finished { outcome, .. }) => match outcome {
                OperationOutcome::Confirmed { readings, .. } => match s.device() {
                    PowerDevice::Bmc => return None,
                    PowerDevice::Outlets => match self.outlets_on(s.clone(), readings) {
                        Ok(d) => return Some(d),
                        Err(why) => why.to_string(),
                    },
                },
                OperationOutcome::Unconfirmed { why }
                | OperationOutcome::Failed { why }
                | OperationOutcome::FirmwareUpdate { why, .. }
                | OperationOutcome::UpdateAfterCommand { why, .. }
                | OperationOutcome::IdentityMismatch { why } => why.clone(),
                OperationOutcome::Cancelled => "cancelled by an operator".into(),
                OperationOutcome::Interrupted => "the agent was restarted".into(),
            },
            Some(OperationView::Rejected { why }) => why.clone(),
            Some(OperationView::Staged { due, .. }) => {
                let limit = self.policy.on_limit();
                let extended = self.extend_pin(&s, reason, *due, limit);
                return Some(extended.unwrap_or_else(|| self.recheck(s, reason.clone())));
            }
            Some(OperationView::Running) => return Some(self.recheck(s, reason.clone())),
            None if self.operation_lost().is_some() => self.operation_lost().unwrap_or_default(),
            None => {
                if let Some(d) = self.outlets_unlisted(&s) {
                    return Some(d);
                }
                match self.device_down(&s) {
                    // The host cannot be switched on, and the object is deleted: end without it (L1).
                    Some(Reason::BmcAccessMissing(_)) if self.o.object.deleting => return None,
                    Some(why) => return Some(self.recheck(s, why)),
                    None => {}
                }
                if let Some(at) = s.retry_at.filter(|at| *at > self.now) {
                    let failure = s.failure.clone().unwrap_or_default();
                    let reason = self.power_on_failure(&s, failure);
                    return Some(self.wait(s, reason, at));
                }
                // F5: another host was switched off by mistake, which is undone at once unless Ironic would
                // switch it off again (F16).
                if self.owner().is_some_and(|b| b.powered_on != Some(true)) {
                    match self.owner_switches_on(&s, reason.clone()) {
                        Some(Ok(())) => return self.release(&s, reason),
                        Some(Err(d)) => return Some(d),
                        None => {}
                    }
                }
                let command = self.power_on_command(&s, &id);
                let limit = self.policy.on_limit();
                return Some(self.begin_operation(s, reason.clone(), id, limit, command));
            }
        };
        if self.has_restored_outlets(&s) {
            // The outlets are on; a BMC that does not answer is not waited for.
            return None;
        }
        s.tries = s.tries.saturating_add(1);
        let worn_out = s.tries >= self.policy.power_off_tries;
        let pause = if worn_out {
            self.policy.unconfirmed_interval
        } else {
            self.policy.retry_interval
        };
        s.retry_at = Some(after(self.now, pause));
        let news = s.failure.as_ref() != Some(&failure);
        s.failure = Some(failure.clone());
        let reason = self.power_on_failure(&s, failure);
        Some(if news {
            self.write(s, reason)
        } else {
            self.quiet_write(s, reason)
        })
    }

    /// The command that hands the Machine over; `None` if that is done, or is not the policy.
    pub(super) fn escalation_command(&self, s: &State) -> Option<Command> {
        let retire = match self.o.policy(Some(s)).map(|p| p.on_exhausted) {
            Some(OnExhausted::Retire) => true,
            Some(OnExhausted::Escalate) => false,
            // The policy cannot be parsed: the Machine is handed to its owner, the host is not marked.
            None => false,
            Some(OnExhausted::StayOff | OnExhausted::Notify) => return None,
        };
        if self.o.object.deleting || matches!(s.attempt.end_reason, Some(Reason::ExhaustedTold(_)))
        {
            return None;
        }
        let o = self.o;
        let told = o.machine.as_ref().is_none_or(|m| m.owner_remediated_false);
        let marked = !retire || o.bmh.as_ref().is_none_or(|b| b.unhealthy_mark);
        (!told || !marked).then_some(Command::Escalate { retire })
    }

    /// Terminal steps: escalates if that is due, then ends the work on the object.
    pub(super) fn ended(&self, s: State) -> Decision {
        let end_reason = s.attempt.end_reason.clone();
        let reason = match s.step {
            Step::Succeeded => Reason::Recovered,
            Step::Escalated => end_reason.unwrap_or(Reason::Exhausted(s.attempt.number)),
            _ => end_reason.unwrap_or(Reason::Working),
        };
        if s.step == Step::Escalated
            && let Some(command) = self.escalation_command(&s)
        {
            return self.act(s, reason, command);
        }
        let outcome = outcome(&s).unwrap_or(RemediationOutcome::Failed);
        self.finish(s, reason, outcome)
    }
}

/// The outcome by the stored state; `None` if the remediation has not ended.
pub fn outcome(s: &State) -> Option<RemediationOutcome> {
    match s.step {
        Step::Succeeded => Some(RemediationOutcome::Succeeded),
        Step::Escalated if matches!(s.attempt.end_reason, Some(Reason::ExhaustedTold(_))) => {
            Some(RemediationOutcome::Failed)
        }
        Step::Escalated => Some(RemediationOutcome::Escalated),
        Step::Blocked => Some(RemediationOutcome::Failed),
        _ => None,
    }
}
