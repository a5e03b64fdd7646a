//! The operation at the agent that belongs to the current state.
//!
//! Invariant: silence is not an outcome.

use std::time::Duration;

use jiff::Timestamp;

use super::Shell;
use crate::remediation::{AgentId, BEGIN_WITHIN, OperationView, operation_id, pin::proves_absence};

/// An operation whose events are received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrackedOperation {
    /// Id of the operation, derived from the remediation and its attempt.
    pub id: String,
    /// The agent has answered, and the answer is still valid.
    pub known: bool,
    /// The latest answer; `None` if the agent does not know the operation.
    pub view: Option<OperationView>,
    /// The agent that answered that it does not know the operation.
    pub unknown_to: Option<AgentId>,
    /// Whether that agent stood by when it answered.
    pub stood_by: bool,
    /// Whether events of the operation are being received.
    pub following: bool,
}

/// What an agent reports about an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OperationEvent {
    /// The current state of the operation.
    View(OperationView),
    /// The agent does not know the operation.
    Unknown {
        /// The agent and its journal.
        by: AgentId,
        /// Whether it stands by, and begins no operation.
        stands_by: bool,
    },
    /// The connection was lost; nothing is known.
    Lost,
    /// No more events follow.
    Ended,
}

/// An operation whose events are received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Follow {
    /// Id of the operation, derived from the remediation and its attempt.
    pub id: String,
    /// The agent that the operation is pinned to; otherwise the agent that serves the rack is queried.
    pub at: Option<String>,
}

/// The result of a command that begins an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Begun {
    /// The agent has accepted the command.
    Accepted,
    /// The agent has rejected the command.
    Rejected {
        /// The reason, as a clause for messages.
        why: String,
    },
    /// The call failed, and the operation may have begun nevertheless: the agent is queried before it is
    /// begun again.
    Unclear,
}

impl Shell {
    /// The operation of the current state; `None` if the agent has to be queried first. After a
    /// restart or a lost connection only the agent knows it. `serving` is the agent that serves the rack: that another
    /// one did not know the operation counts only if it stood by (F6).
    pub(super) fn track(&mut self, serving: &AgentId) -> Option<Option<OperationView>> {
        let Some(id) = self.operation_id() else {
            self.operation = None;
            return Some(None);
        };
        if self.operation.as_ref().is_none_or(|t| t.id != id) {
            self.operation = Some(TrackedOperation {
                id,
                known: false,
                view: None,
                unknown_to: None,
                stood_by: false,
                following: false,
            });
        }
        let tracked = self.operation.as_mut().filter(|tracked| tracked.known)?;
        if let (None, Some(by)) = (&tracked.view, &tracked.unknown_to)
            && !proves_absence(by.agent == serving.agent, tracked.stood_by)
        {
            tracked.known = false;
            return None;
        }
        Some(tracked.view.clone())
    }

    fn operation_id(&self) -> Option<String> {
        let state = self.state.as_ref()?;
        operation_id(&self.uid, state)
    }

    /// The outcome, if it was received: it does not change when the agent becomes silent.
    pub(super) fn finished_operation(&self) -> Option<OperationView> {
        let id = self.operation_id()?;
        let tracked = self.operation.as_ref().filter(|t| t.id == id)?;
        let finished = |v: &OperationView| matches!(v, OperationView::Finished { .. });
        tracked.view.clone().filter(finished)
    }

    /// The agent that answered that it does not know the operation of the current state.
    pub(super) fn unknown_to(&self) -> Option<AgentId> {
        let tracked = self.operation.as_ref()?;
        let unknown = tracked.known && tracked.view.is_none();
        tracked.unknown_to.clone().filter(|_| unknown)
    }

    /// Begins to receive the events of the operation; `None` if there is none, or if they are
    /// received already.
    pub fn follow(&mut self) -> Option<Follow> {
        let tracked = self.operation.as_mut().filter(|t| !t.following)?;
        tracked.following = true;
        let id = tracked.id.clone();
        let at = self.pinned_agent(&id);
        Some(Follow { id, at })
    }

    /// Whether events of the operation are being received.
    pub fn is_following(&self) -> bool {
        self.operation.as_ref().is_some_and(|t| t.following)
    }

    /// The agent that this operation is pinned to.
    pub fn pinned_agent(&self, id: &str) -> Option<String> {
        let pin = self.state.as_ref()?.pinned.as_ref()?;
        (pin.operation == *id).then(|| pin.agent.agent.clone())
    }

    /// How long a request to begin this operation, which lasts for `limit` at most, may be on its way if it is sent now
    /// (F6); `None`: it would last longer than its pin, so that a new decision is required.
    pub fn begin_within(&self, id: &str, limit: Duration, now: Timestamp) -> Option<Duration> {
        let pin = self.state.as_ref().and_then(|s| s.pinned.as_ref());
        let within = match pin.filter(|pin| pin.operation == *id) {
            Some(pin) => pin.begin_within(limit, now),
            // It is begun where nothing is known of agents, and refused.
            None => BEGIN_WITHIN,
        };
        (!within.is_zero()).then_some(within)
    }

    /// The result of the command that begins the operation.
    pub fn began(&mut self, begun: Begun) {
        let Some(tracked) = &mut self.operation else {
            return;
        };
        match begun {
            Begun::Accepted | Begun::Unclear => {
                (tracked.known, tracked.following) = (false, false);
                tracked.view = None;
            }
            Begun::Rejected { why } => {
                tracked.known = true;
                tracked.view = Some(OperationView::Rejected { why });
            }
        }
    }

    /// An event of the operation was received.
    pub fn operation_event(&mut self, event: OperationEvent) {
        let Some(tracked) = &mut self.operation else {
            return;
        };
        let finished = matches!(tracked.view, Some(OperationView::Finished { .. }));
        match event {
            OperationEvent::View(view) => {
                tracked.known = true;
                tracked.view = Some(view);
            }
            OperationEvent::Unknown { by, stands_by } => {
                tracked.known = true;
                tracked.view = None;
                (tracked.unknown_to, tracked.stood_by) = (Some(by), stands_by);
                tracked.following = false;
            }
            OperationEvent::Lost => {
                tracked.following = false;
                tracked.known &= finished;
            }
            OperationEvent::Ended => {
                tracked.following = false;
                let rejected = matches!(tracked.view, Some(OperationView::Rejected { .. }));
                tracked.known &= finished || rejected;
            }
        }
    }
}
