//! The operation at the agent that belongs to the current step.
//!
//! Invariant: silence is not an outcome.

use jiff::Timestamp;
use rackhand_core::remediation::{
    AgentId, HostRef, OperationView, PinnedOperation, State, operation_id,
};
use tokio::{sync::mpsc, task::AbortHandle};

use super::engine::Engine;
use crate::agents::OperationEvent;

/// An operation whose events are received.
pub(super) struct TrackedOperation {
    id: String,
    view: Option<OperationView>,
    /// The agent that answered that it does not know the operation.
    unknown_to: Option<AgentId>,
    /// The agent has answered.
    known: bool,
    events: Option<mpsc::UnboundedReceiver<OperationEvent>>,
    task: Option<AbortHandle>,
}

impl Drop for TrackedOperation {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Engine {
    /// The operation of the current state; `Err` if the agent did not answer.
    pub(super) async fn operation_view(
        &mut self,
        host: Option<&HostRef>,
    ) -> Result<Option<OperationView>, String> {
        let id = self
            .recorded
            .state
            .as_ref()
            .and_then(|s| operation_id(&self.uid, s));
        let (Some(id), Some(host)) = (id, host) else {
            self.operation = None;
            return Ok(None);
        };
        if self.operation.as_ref().is_none_or(|t| t.id != id) {
            self.operation = Some(TrackedOperation {
                id,
                view: None,
                unknown_to: None,
                known: false,
                events: None,
                task: None,
            });
        }
        self.drain_events();
        let Some(tracked) = &mut self.operation else {
            return Ok(None);
        };
        if tracked.known {
            return Ok(tracked.view.clone());
        }
        // After a restart or a broken connection only the agent knows it.
        self.follow(host);
        self.next_operation_event().await;
        let Some(tracked) = &self.operation else {
            return Ok(None);
        };
        if tracked.known {
            Ok(tracked.view.clone())
        } else {
            Err("the agent did not say where the operation stands".into())
        }
    }

    /// State of the pinned operation by its agent, queried while it prevents another agent
    /// (`serving`) from beginning anything.
    pub(super) async fn pinned_operation(
        &self,
        serving: Option<&AgentId>,
        state: Option<&State>,
        now: Timestamp,
    ) -> PinnedOperation {
        let pin = state.and_then(|s| s.pinned.as_ref());
        let Some(pin) = pin.filter(|pin| pin.until.is_some_and(|until| until > now)) else {
            return PinnedOperation::Unknown;
        };
        let present = state.and_then(|s| operation_id(&self.uid, s));
        let taken_over = serving.is_some_and(|id| id.agent != pin.agent.agent);
        if !taken_over || present.as_ref() == Some(&pin.operation) {
            return PinnedOperation::Unknown;
        }
        let agents = &self.context.agents;
        agents
            .operation_at(&pin.agent.agent, &pin.operation)
            .await
            .unwrap_or_else(|why| {
                tracing::debug!(remediation = %self.id, why, "the earlier agent does not say where its operation stands");
                PinnedOperation::Unknown
            })
    }

    /// The agent that answered that it does not know the operation of the current state.
    pub(super) fn unknown_to(&self) -> Option<AgentId> {
        let tracked = self.operation.as_ref()?;
        let unknown = tracked.known && tracked.view.is_none();
        tracked.unknown_to.clone().filter(|_| unknown)
    }

    /// The outcome, if it was received: it does not change when the agent becomes silent.
    pub(super) fn operation_finished(&mut self) -> Option<OperationView> {
        let id = self
            .recorded
            .state
            .as_ref()
            .and_then(|s| operation_id(&self.uid, s))?;
        self.drain_events();
        let tracked = self.operation.as_ref().filter(|t| t.id == id)?;
        tracked
            .view
            .clone()
            .filter(|v| matches!(v, OperationView::Finished { .. }))
    }

    /// Starts to receive the events of the operation.
    pub(super) fn follow(&mut self, host: &HostRef) {
        let Some(tracked) = &mut self.operation else {
            return;
        };
        if tracked.events.is_some() {
            return;
        }
        let (sender, events) = mpsc::unbounded_channel();
        let agents = self.context.agents.clone();
        let state = self.recorded.state.as_ref();
        let pinned = state
            .and_then(|s| s.pinned.as_ref())
            .filter(|pin| pin.operation == tracked.id)
            .map(|pin| pin.agent.agent.clone());
        let following = agents.follow(host.rack.clone(), pinned, tracked.id.clone(), sender);
        // Owned by `TrackedOperation`; ends with it or after the outcome.
        tracked.task = Some(tokio::spawn(following).abort_handle());
        tracked.events = Some(events);
    }

    /// Queries the agent again, after the operation was begun or may have been begun.
    pub(super) fn query_again(&mut self) {
        if let Some(tracked) = &mut self.operation {
            tracked.known = false;
            tracked.view = None;
            tracked.events = None;
        }
    }

    /// Records that the agent rejected the operation.
    pub(super) fn rejected(&mut self, why: String) {
        if let Some(tracked) = &mut self.operation {
            tracked.known = true;
            tracked.view = Some(OperationView::Rejected { why });
        }
    }

    /// Waits for the next event; never returns if none is expected.
    pub(super) async fn next_operation_event(&mut self) {
        let Some(TrackedOperation {
            events: Some(events),
            ..
        }) = &mut self.operation
        else {
            return std::future::pending().await;
        };
        let told = events.recv().await;
        self.apply_event(told);
    }

    fn drain_events(&mut self) {
        while let Some(TrackedOperation {
            events: Some(events),
            ..
        }) = &mut self.operation
        {
            match events.try_recv() {
                Ok(told) => self.apply_event(Some(told)),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => self.apply_event(None),
            }
        }
    }

    fn apply_event(&mut self, told: Option<OperationEvent>) {
        let Some(tracked) = &mut self.operation else {
            return;
        };
        match told {
            Some(OperationEvent::View(view)) => {
                tracked.known = true;
                tracked.view = Some(view);
            }
            Some(OperationEvent::Unknown { by }) => {
                tracked.known = true;
                tracked.view = None;
                tracked.unknown_to = Some(by);
                tracked.events = None;
            }
            // Reported with the response of the BMC; the same command is announced before that,
            // too.
            Some(OperationEvent::Command { command, answer }) if !answer.is_empty() => {
                let message = format!("{command} sent to the BMC, answer: {answer}");
                self.emit_event(false, "CommandSent", &message);
            }
            Some(OperationEvent::Command { .. }) => {}
            Some(OperationEvent::Lost(why)) => {
                tracing::debug!(remediation = %self.id, why, "lost sight of the operation");
                tracked.events = None;
                if !matches!(tracked.view, Some(OperationView::Finished { .. })) {
                    tracked.known = false;
                }
            }
            // The stream has ended after the outcome.
            None => {
                tracked.events = None;
                if !matches!(
                    tracked.view,
                    Some(OperationView::Finished { .. } | OperationView::Rejected { .. })
                ) {
                    tracked.known = false;
                }
            }
        }
    }
}
