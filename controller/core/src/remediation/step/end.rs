//! Ways out: calling off, giving up, handing over.

use super::{
    super::{Because, Mode, OnExhausted, OperationOutcome, OperationView, State, Step},
    Command, Cx, Decision, Next, Note, Outcome, after, operation_id,
};

impl Cx<'_> {
    pub(super) fn abort(&self, mut s: State, because: Because) -> Decision {
        s.ending = Some(because.clone());
        self.to(s, Step::Aborting, because)
    }

    /// A power-on that is queued at the agent must not fire once nobody waits for it: it ends first.
    pub(super) fn abort_power_on(&self, s: State, why: Because) -> Decision {
        if let Some(d) = self.stop_power_on(&s, &why) {
            return d;
        }
        // It may have been begun all the same.
        if self.o.operation.is_none()
            && let Some(down) = self.agent_down()
        {
            return self.recheck(s, Because::AgentUnreachable(down.to_owned()));
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
                message:
                    "the power-on had been carried out before it could be cancelled: the host \
                          is on; switch it off by hand if it is to be off"
                        .into(),
            });
        }
        d
    }

    /// F9, and F5's "undo": what we added goes, an innocent host is switched on again. What is out of
    /// reach keeps nothing else waiting.
    pub(super) fn aborting(&self, s: State) -> Decision {
        let because = s.ending.clone().unwrap_or(Because::Withdrawn);
        let taint = self.clean_node(&s, because.clone());
        if let Some(d) = &taint
            && matches!(d.next, Next::Do(_))
        {
            return d.clone();
        }
        if self.holds() {
            return self.act(s, because, Command::RemoveHold);
        }
        // F5: another host was switched off in error. A host that F11 lets go was not.
        let innocent = matches!(because, Because::LeaseRenewed(_));
        let power = if (innocent || self.left_off(&s)) && self.wanted_off().is_none() {
            self.undo(&s, &because)
        } else {
            self.stop_power_on(&s, &because)
                .or_else(|| self.release(&s, &because))
        };
        match power.or(taint) {
            Some(d) => d,
            None if because == Because::Withdrawn => self.leave(s, because, Outcome::Withdrawn),
            None => {
                let mut s = s;
                if !s.is_recorded() {
                    s.record_attempt(because.clone(), self.now);
                }
                self.to(s, Step::Blocked, because)
            }
        }
    }

    /// Somebody besides us keeps the host off, and who.
    pub(super) fn wanted_off(&self) -> Option<Because> {
        self.offline().or_else(|| self.held_by_others())
    }

    /// A8: reboot keys of others.
    pub(super) fn held_by_others(&self) -> Option<Because> {
        let bmh = self.o.bmh.as_ref().filter(|b| !b.detached)?;
        if let Some(rival @ Because::RivalController(_)) = &self.o.conflict {
            return Some(rival.clone());
        }
        let keys: Vec<&str> = bmh.foreign_holds.iter().map(String::as_str).collect();
        (!keys.is_empty()).then(|| Because::HeldByOthers(keys.join(", ")))
    }

    /// baremetal-operator may have switched the host off at our word, and the host was detached
    /// since: its owner wants it on, and nobody else switches it on again.
    fn left_off(&self, s: &State) -> bool {
        let detached = self
            .o
            .bmh
            .as_ref()
            .is_some_and(|b| b.detached && !b.deleting);
        detached && s.mode == Mode::Cooperative && s.agent_holds
    }

    /// Cancels the power-on that is queued or running at the agent, and waits for its end; `None`:
    /// none is known to be left.
    pub(super) fn stop_power_on(&self, s: &State, because: &Because) -> Option<Decision> {
        if !matches!(
            self.o.operation,
            Some(OperationView::Running | OperationView::Staged { .. })
        ) {
            return None;
        }
        if let Some(why) = self.agent_down() {
            let why = Because::AgentUnreachable(why.to_owned());
            return Some(self.recheck(s.clone(), why));
        }
        let cancel = Command::Cancel {
            id: operation_id(&self.o.request.uid, s)?,
        };
        Some(if self.done(&cancel) {
            self.recheck(s.clone(), because.clone())
        } else {
            self.act(s.clone(), because.clone(), cancel)
        })
    }

    /// Where no power-off was begun there is nothing to let go of, and no agent to wait for.
    fn release(&self, s: &State, because: &Because) -> Option<Decision> {
        if !s.agent_holds || self.done(&Command::Release) {
            return None;
        }
        Some(match self.agent_down() {
            None => self.act(s.clone(), because.clone(), Command::Release),
            Some(why) => self.recheck(s.clone(), Because::AgentUnreachable(why.to_owned())),
        })
    }

    /// Switches on again; `None`: it is on.
    fn undo(&self, s: &State, because: &Because) -> Option<Decision> {
        let mut s = s.clone();
        let id = operation_id(&self.o.request.uid, &s)?;
        let failure = match &self.o.operation {
            Some(OperationView::Finished { outcome, .. }) => match outcome {
                OperationOutcome::Confirmed { .. } => return None,
                OperationOutcome::Unconfirmed { why }
                | OperationOutcome::Failed { why }
                | OperationOutcome::IdentityMismatch { why } => why.clone(),
                OperationOutcome::Cancelled => "cancelled by an operator".into(),
                OperationOutcome::Interrupted => "the agent was restarted".into(),
            },
            Some(OperationView::Rejected { why }) => why.clone(),
            Some(OperationView::Staged { turn, .. }) => {
                let limit = self.policy.power_on_timeout;
                let extended = self.extend_pin(&s, because, *turn, limit);
                return Some(extended.unwrap_or_else(|| self.recheck(s, because.clone())));
            }
            Some(OperationView::Running) => return Some(self.recheck(s, because.clone())),
            None if self.operation_lost().is_some() => self.operation_lost().unwrap_or_default(),
            None => {
                match self.bmc_down() {
                    // Nobody can, and nobody waits for it any more.
                    Some(Because::BmcAccessMissing(_)) if self.o.request.deleting => return None,
                    Some(why) => return Some(self.recheck(s, why)),
                    None => {}
                }
                if let Some(at) = s.retry_at.filter(|at| *at > self.now) {
                    let failure = s.failure.clone().unwrap_or_default();
                    return Some(self.wait(s, Because::PowerOnUnconfirmed(failure), at));
                }
                let command = Command::PowerOn { id: id.clone() };
                let limit = self.policy.power_on_timeout;
                return Some(self.begin_operation(s, because.clone(), id, limit, command));
            }
        };
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
        let because = Because::PowerOnUnconfirmed(failure);
        Some(if news {
            self.write(s, because)
        } else {
            self.quiet_write(s, because)
        })
    }

    /// What is left to do for the Machine's owner; `None`: nothing, or nobody asked for it.
    pub(super) fn hand_over(&self, s: &State) -> Option<Command> {
        let retire = match self.o.request.policy.as_ref().map(|p| p.on_exhausted) {
            Ok(OnExhausted::Retire) => true,
            Ok(OnExhausted::Escalate) => false,
            // Its owner is asked, since an attempt failed for good; more than that nobody said.
            Err(_) => false,
            Ok(OnExhausted::StayOff | OnExhausted::Notify) => return None,
        };
        if self.o.request.deleting || matches!(s.ending, Some(Because::ExhaustedTold(_))) {
            return None;
        }
        let o = self.o;
        let told = o.machine.as_ref().is_none_or(|m| m.owner_remediated_false);
        let marked = !retire || o.bmh.as_ref().is_none_or(|b| b.unhealthy_mark);
        (!told || !marked).then_some(Command::Escalate { retire })
    }

    /// Terminal steps: hand over where that is due, then let the object go.
    pub(super) fn ended(&self, s: State) -> Decision {
        let ending = s.ending.clone();
        let because = match s.step {
            Step::Succeeded => Because::Recovered,
            Step::Escalated => ending.unwrap_or(Because::Exhausted(s.attempt)),
            _ => ending.unwrap_or(Because::Working),
        };
        if s.step == Step::Escalated
            && let Some(command) = self.hand_over(&s)
        {
            return self.act(s, because, command);
        }
        let outcome = outcome(&s).unwrap_or(Outcome::Failed);
        self.leave(s, because, outcome)
    }
}

/// How it has ended, by what is written; `None`: it has not.
pub fn outcome(s: &State) -> Option<Outcome> {
    match s.step {
        Step::Succeeded => Some(Outcome::Succeeded),
        Step::Escalated if matches!(s.ending, Some(Because::ExhaustedTold(_))) => {
            Some(Outcome::Failed)
        }
        Step::Escalated => Some(Outcome::Escalated),
        Step::Blocked => Some(Outcome::Failed),
        _ => None,
    }
}
