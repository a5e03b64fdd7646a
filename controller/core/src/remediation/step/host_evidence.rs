//! Collects what may show why the host failed, before the power-off of each attempt, and what its event log
//! recorded while it booted again.
//!
//! Invariant: neither delays the remediation by more than the evidence timeout, whatever the BMC, the agent
//! and the network do, and neither is a condition of what follows.

use super::{
    super::{AgentPin, BootLog, HostEvidence, Interrupt, Reason, State},
    Command, Decision, StepContext, after,
};

/// Part of the id of a diagnostic interrupt.
const INTERRUPT: &str = "/nmi/";

impl StepContext<'_> {
    /// Collects the evidence of this attempt, before the hold is set: with it, baremetal-operator switches the
    /// host off. `None` once it is recorded, or if none is collected.
    pub(super) fn collect_evidence(&self, s: &State) -> Option<Decision> {
        let timeout = self.policy.evidence_timeout;
        if s.attempt.evidence.is_some() || self.holds() || timeout.is_zero() {
            return None;
        }
        // The step was written when it began, so that a new leader does not begin again.
        let until = after(s.since, timeout);
        if let Some(evidence) = &self.o.collected.evidence {
            if evidence.interrupted && until > self.now {
                return Some(self.wait(s.clone(), Reason::WaitingForDump, until));
            }
            // It is only reported, and recorded with the power-off. An interrupt is recorded before the hold.
            if evidence.interrupt.is_none() && !self.may_have_interrupted(s) {
                return None;
            }
            return Some(self.record_evidence(s, HostEvidence::clone(evidence)));
        }
        if let Some(why) = self.bmc_down() {
            return Some(self.no_evidence(s, &why.to_string()));
        }
        if until <= self.now {
            return Some(self.no_evidence(s, &format!("nothing was reported within {timeout:?}")));
        }
        let interrupt = match self.interrupt(s) {
            Ok(interrupt) => interrupt,
            Err(pin) => {
                let mut s = s.clone();
                s.pinned = Some(*pin);
                return Some(self.quiet_write(s, Reason::CollectingEvidence));
            }
        };
        let command = Command::CollectEvidence { interrupt };
        if self.done(&command) {
            return Some(self.no_evidence(s, "the response was lost"));
        }
        Some(self.act(s.clone(), Reason::CollectingEvidence, command))
    }

    fn no_evidence(&self, s: &State, why: &str) -> Decision {
        let evidence = HostEvidence::not_collected(s.attempt.number, self.now, why);
        self.record_evidence(s, evidence)
    }

    fn record_evidence(&self, s: &State, evidence: HostEvidence) -> Decision {
        let s = self.with_evidence(s.clone(), evidence);
        self.quiet_write(s, Reason::CollectingEvidence)
    }

    /// The state with what was collected and is not recorded yet.
    pub(super) fn with_collected_evidence(&self, s: State) -> State {
        match &self.o.collected.evidence {
            Some(evidence) if s.attempt.evidence.is_none() => {
                self.with_evidence(s, HostEvidence::clone(evidence))
            }
            _ => s,
        }
    }

    fn with_evidence(&self, mut s: State, evidence: HostEvidence) -> State {
        let may_be_sent = self.may_have_interrupted(&s);
        let unknown = || may_be_sent.then(|| "what became of it is not known".to_owned());
        s.attempt.evidence = Some(Box::new(HostEvidence {
            attempt: s.attempt.number,
            interrupt: evidence.interrupt.clone().or_else(unknown),
            ..evidence.bounded()
        }));
        s
    }

    /// Whether an interrupt of this attempt may have been sent: it is pinned before that.
    fn may_have_interrupted(&self, s: &State) -> bool {
        let pin = s.pinned.as_ref().map(|pin| &pin.operation);
        pin == Some(&self.interrupt_id(s))
    }

    /// The diagnostic interrupt that is requested. It is a command, so it is pinned like an operation first
    /// (F6): `Err` is the pin to write. While another agent may still command the host, none is sent.
    fn interrupt(&self, s: &State) -> Result<Option<Interrupt>, Box<AgentPin>> {
        let Some(here) = &self.o.agent_id else {
            return Ok(None);
        };
        if !self.policy.diagnostic_interrupt || self.busy_elsewhere(s).is_some() {
            return Ok(None);
        }
        let id = self.interrupt_id(s);
        let pin = s.pinned.as_ref();
        if pin.is_none_or(|pin| pin.operation != id || pin.agent != *here) {
            return Err(Box::new(self.pin(here, id, self.policy.evidence_timeout)));
        }
        let (system_uuid, serial) = self.expected_identity(s);
        Ok(Some(Interrupt {
            id,
            system_uuid,
            serial,
        }))
    }

    fn interrupt_id(&self, s: &State) -> String {
        format!(
            "{}/{}@{}{INTERRUPT}0.0",
            self.o.object.uid,
            s.attempt.number,
            s.attempt.started.as_second()
        )
    }

    /// Cancels the diagnostic interrupt of this attempt that may still be queued at the agent: it would crash a
    /// host that is not switched off any more. `None` if none can have been begun, or once its time is over.
    pub(super) fn cancel_interrupt(&self, s: &State, reason: &Reason) -> Option<Decision> {
        let pin = s.pinned.as_ref()?;
        let is_queued = if pin.operation.contains(INTERRUPT) {
            pin.until.is_none_or(|until| until > self.now)
        } else {
            // The pin of the power-off, for which the hold is, has replaced that of an interrupt. Without it, no
            // interrupt was begun, and an agent that is away is not waited for (L1).
            let evidence = s.attempt.evidence.as_deref().filter(|_| s.agent_holds);
            evidence.is_some_and(|e| e.attempt == s.attempt.number && e.may_have_interrupted())
        };
        if !is_queued {
            return None;
        }
        let cancel = Command::Cancel {
            id: self.interrupt_id(s),
        };
        if self.done(&cancel) {
            return None;
        }
        Some(match self.agent_down() {
            None => self.act(s.clone(), reason.clone(), cancel),
            Some(why) => self.recheck(s.clone(), Reason::AgentUnreachable(why.to_owned())),
        })
    }

    /// Reads what the event log recorded since the power-off, once the host is back and everything is
    /// cleaned up. `None` once that is done.
    pub(super) fn collect_boot_log(&self, s: &State) -> Option<Decision> {
        let timeout = self.policy.evidence_timeout;
        let evidence = s.attempt.evidence.as_ref()?;
        let due = s.attempt.on.is_some() && evidence.boot_log.is_none() && !timeout.is_zero();
        if !due {
            return None;
        }
        let missing = |why: &str| BootLog {
            missing: Some(why.to_owned()),
            ..BootLog::default()
        };
        let boot_log = match (
            &self.o.collected.boot_log,
            &evidence.newest,
            self.bmc_down(),
        ) {
            (Some(boot_log), _, _) => BootLog::clone(boot_log),
            (None, None, _) => missing("the event log was not read before the power-off"),
            (None, _, Some(why)) => missing(&why.to_string()),
            (None, Some(_), None) if self.done(&Command::CollectBootLog) => {
                missing("the response was lost")
            }
            (None, Some(_), None) => {
                let command = Command::CollectBootLog;
                return Some(self.act(s.clone(), Reason::WaitingForHealth, command));
            }
        };
        let mut s = s.clone();
        if let Some(evidence) = &mut s.attempt.evidence {
            evidence.boot_log = Some(boot_log);
        }
        Some(self.quiet_write(s, Reason::WaitingForHealth))
    }
}
