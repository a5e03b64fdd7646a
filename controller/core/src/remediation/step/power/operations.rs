//! Operations at agents: where they are begun, and what it means that an agent does not know one
//! (F6, F12). The rules of pins are in [`crate::remediation::PinView`].

use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    super::{
        AgentId, AgentPin, BEGIN_WITHIN, HostView, Mode, OperationView, OutletStage, PinView,
        PinnedOperation, Reason, State, Step, observation::agent_view::LONGEST_POWER_ON_DELAY,
        on_wall,
    },
    Command, Decision, StepContext, after, operation_id,
};

/// Time that a pin adds to the deadline of its operation: for the record of the pin, what is written and observed before
/// the command, the way to the agent, and the last call to the BMC.
const SLACK: Duration = Duration::from_secs(60);

/// Most time that it adds where an earlier pin was too short.
const LONGEST_SLACK: Duration = Duration::from_secs(600);

impl StepContext<'_> {
    /// Begins an operation once it is pinned and no other agent may still command the host. `limit`
    /// is its deadline.
    pub(in crate::remediation::step) fn begin_operation(
        &self,
        mut s: State,
        reason: Reason,
        id: String,
        limit: Duration,
        command: Command,
    ) -> Decision {
        let Some(here) = &self.o.agent_id else {
            return self.act(s, reason, command);
        };
        if let Some(d) = self.wait_for_other_agent(&s) {
            return d;
        }
        let lacks = match s.pinned.as_ref().filter(|pin| pin.is_of(here, &id)) {
            Some(pin) if pin.begin_within(limit, self.now) >= BEGIN_WITHIN => {
                return self.act(s, reason, command);
            }
            Some(pin) => pin.lacks(limit, self.now),
            None => Duration::ZERO,
        };
        // It was not enough for how long records and observations take now, and the same one would not be either (L1).
        let slack = SLACK.saturating_add(lacks.saturating_mul(2));
        s.pinned = Some(AgentPin {
            until: Some(after(after(self.now, limit), slack.min(LONGEST_SLACK))),
            ..self.pin(here, id, limit)
        });
        self.quiet_write(s, reason)
    }

    /// Waits for the end of an operation that another agent may still carry out on this host (F6),
    /// and cancels it where that agent answers; `None` if there is none.
    pub(in crate::remediation::step) fn wait_for_other_agent(&self, s: &State) -> Option<Decision> {
        let (agent, until) = self.busy_elsewhere(s)?;
        let shown = on_wall(until, self.o.wall_ahead);
        let reason = Reason::OtherAgentBusy(format!("agent {agent} until {shown:.0}"));
        Some(match self.cancel_elsewhere(s) {
            Some(cancel) => self.act(s.clone(), reason, cancel),
            None => self.wait(s.clone(), reason, until),
        })
    }

    /// Adds the pin to the write that enters a step whose operation is begun next.
    pub(in crate::remediation::step) fn pinned_with(
        &self,
        mut d: Decision,
        limit: Duration,
    ) -> Decision {
        let id = operation_id(&self.o.object.uid, &d.state);
        if let (Some(here), Some(id)) = (&self.o.agent_id, id)
            && self.busy_elsewhere(&d.state).is_none()
        {
            d.state.pinned = Some(self.pin(here, id, limit));
        }
        d
    }

    pub(in crate::remediation::step) fn pin(
        &self,
        here: &AgentId,
        operation: String,
        limit: Duration,
    ) -> AgentPin {
        AgentPin {
            agent: here.clone(),
            operation,
            until: Some(after(after(self.now, limit), SLACK)),
        }
    }

    /// The agent, other than the one that serves the rack now, that may still carry out an
    /// operation on this host (F6), and until when.
    pub(in crate::remediation::step) fn busy_elsewhere(
        &self,
        s: &State,
    ) -> Option<(String, Timestamp)> {
        let pin = s.pinned.as_ref()?;
        let seen = self.pin_view(self.o.agent_id.as_ref()?, pin);
        let until = pin.busy_elsewhere(&seen)?;
        Some((pin.agent.agent.clone(), until))
    }

    /// What is observed of a pinned operation.
    fn pin_view<'a>(&'a self, here: &'a AgentId, pin: &AgentPin) -> PinView<'a> {
        PinView {
            here,
            operation: self.operation.as_deref(),
            is_reported: self.o.operation.is_some(),
            unknown_to: self.o.answered.as_ref(),
            // Another pin than the stored one was not queried.
            pinned: match self.pinned == Some(pin) {
                true => self.o.pinned,
                false => PinnedOperation::Unknown,
            },
            now: self.now,
        }
    }

    /// Cancels, once, an operation that runs at an agent that answers and stands by.
    fn cancel_elsewhere(&self, s: &State) -> Option<Command> {
        let pin = s.pinned.as_ref()?;
        let cancel = Command::Cancel {
            id: pin.operation.clone(),
        };
        (self.o.pinned == PinnedOperation::Running && !self.done(&cancel)).then_some(cancel)
    }

    /// Why it is unknown what became of the operation of this state: the agent that answered does
    /// not know it, but it was to be begun at another agent or in another journal.
    pub(in crate::remediation::step) fn operation_lost(&self) -> Option<String> {
        let (id, pin) = (self.operation.as_ref()?, self.pinned?);
        let answered = self.o.answered.as_ref()?;
        if !pin.is_lost(&self.pin_view(answered, pin)) {
            return None;
        }
        let agent = &answered.agent;
        Some(if *agent == pin.agent.agent {
            format!(
                "agent {agent} has another journal than when operation {id} was to be begun there"
            )
        } else {
            format!(
                "operation {id} was to be begun at agent {}, and agent {agent}, which answers now, does \
                 not know it",
                pin.agent.agent
            )
        })
    }

    /// Why it is unknown what was done: the agent holds the host for this remediation and does not
    /// know the operation.
    pub(in crate::remediation::step) fn hold_unexplained(&self) -> Option<String> {
        let here = self.o.agent_id.as_ref().filter(|_| self.o.held)?;
        let unknown = self.o.operation.is_none();
        unknown.then(|| {
            format!(
                "agent {} holds the host off for this remediation and has no record of the power-off",
                here.agent
            )
        })
    }

    /// The state with the host that was found, if it has none.
    pub(in crate::remediation::step) fn with_host(&self, s: &State) -> State {
        let mut s = s.clone();
        if s.host.is_none()
            && let HostView::Found(host) = &self.o.host
        {
            s.host = Some(host.clone());
            s.mode = match &self.o.bmh {
                Some(bmh) if !bmh.detached => Mode::Cooperative,
                _ => Mode::Direct,
            };
        }
        s
    }

    /// Switches the host on after a withdrawal, if it is unknown whether it was switched off;
    /// `None` if that is known.
    pub(in crate::remediation::step) fn finish_by_power_on(
        &self,
        s: &State,
        settle: Duration,
    ) -> Option<Decision> {
        if self.agent_down().is_some() {
            return None;
        }
        let why = self.operation_lost().or_else(|| self.hold_unexplained())?;
        let mut s = self.with_host(s);
        if s.step == Step::Pending && !self.o.outlets.is_empty() {
            // The state that said what was done is lost: the outlets may have been switched off.
            s.attempt.outlets = Some(self.use_of_outlets(&why, OutletStage::On));
        }
        s.agent_holds = true;
        s.attempt.end_reason = Some(Reason::WithdrawnAfterOff);
        let mut d = self.power_on_next(s, Reason::OperationLost(why));
        // A command that was sent may take effect at any moment.
        d.state.retry_at = Some(after(self.now, settle));
        for note in &mut d.notes {
            note.warning = true;
            note.reason = d.reason.label();
        }
        Some(d)
    }

    /// Extends the pin of a staggered power-on, which may command the BMC later than its pin says.
    pub(in crate::remediation::step) fn extend_pin(
        &self,
        s: &State,
        reason: &Reason,
        due: Timestamp,
        limit: Duration,
    ) -> Option<Decision> {
        let needed = after(due.min(after(self.now, LONGEST_POWER_ON_DELAY)), limit);
        let pin = s.pinned.as_ref()?;
        if self.operation.as_ref() != Some(&pin.operation) || pin.until? >= needed {
            return None;
        }
        let mut s = s.clone();
        s.pinned = Some(AgentPin {
            until: Some(after(needed, SLACK)),
            ..pin.clone()
        });
        Some(self.quiet_write(s, reason.clone()))
    }

    /// Completes a state before it is written: pins the Cluster as soon as it is known, and marks a
    /// pinned operation that has ended.
    pub(in crate::remediation::step) fn settled(&self, mut next: State) -> State {
        if next.cluster.is_none() {
            next.cluster.clone_from(&self.o.cluster);
        }
        let ended = matches!(
            self.o.operation,
            Some(OperationView::Finished { .. } | OperationView::Rejected { .. })
        );
        let pinned = self.pinned.map(|pin| &pin.operation);
        if let Some(pin) = &mut next.pinned
            && (ended && self.operation.as_ref() == Some(&pin.operation)
                || self.o.pinned == PinnedOperation::Ended && pinned == Some(&pin.operation))
        {
            pin.until = None;
        }
        self.note_cordon(&mut next);
        next
    }
}
