//! Receives the events of the operation that the shell follows.

use jiff::Timestamp;
use rackhand_core::remediation::{
    AgentFacts, AgentId, AgentView, Follow, HostRef, OperationEvent as Event, PinnedOperation,
};
use tokio::{sync::mpsc, task::AbortHandle};
use tracing::Instrument as _;

use super::engine::Engine;
use crate::agents::OperationEvent;

/// The events of one operation. They end when this is dropped.
pub(super) struct OperationStream {
    events: mpsc::UnboundedReceiver<OperationEvent>,
    task: AbortHandle,
}

impl Drop for OperationStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Engine {
    /// Compares a state that was read, and not written by this process, with the journals of the agents
    /// of its rack, before anything is done through them (F12).
    async fn compare_history(&mut self, host: &HostRef) -> Result<(), String> {
        if self.shell.journal.is_some() {
            return Ok(());
        }
        let agents = &self.context.agents;
        let journals = agents.history(&host.rack, &self.uid).await?;
        self.shell.journals_read(&journals);
        Ok(())
    }

    /// The agent of the host and its operation of the current state. The agent is queried if only
    /// that tells.
    pub(super) async fn agent_facts(&mut self, host: Option<&HostRef>) -> AgentFacts {
        self.drain_events();
        let serving = match host {
            Some(host) => match self.compare_history(host).await {
                Ok(()) => self.context.agents.of_rack(&host.rack).map(|at| at.id),
                Err(why) => Err(why),
            },
            None => Err(String::new()),
        };
        let mut queried = false;
        loop {
            if let Some(facts) = self.shell.agent(host, serving.clone(), queried) {
                return facts;
            }
            let Some(host) = host.filter(|_| !queried) else {
                let why = "the agent was not queried".to_owned();
                return AgentFacts {
                    agent: AgentView::Unreachable { why },
                    agent_id: None,
                    operation: None,
                };
            };
            self.follow(host);
            self.next_operation_event().await;
            queried = true;
        }
    }

    /// State of the pinned operation by its agent, queried while it prevents another agent
    /// (`serving`) from beginning anything.
    pub(super) async fn pinned_operation(
        &self,
        serving: Option<&AgentId>,
        now: Timestamp,
    ) -> PinnedOperation {
        let Some(pin) = self.shell.pinned_query(serving, now) else {
            return PinnedOperation::Unknown;
        };
        let agents = &self.context.agents;
        agents
            .operation_at(&pin.agent.agent, &pin.operation)
            .await
            .unwrap_or_else(|why| {
                tracing::debug!(remediation = %self.id, why, "the earlier agent does not report the state of its operation");
                PinnedOperation::Unknown
            })
    }

    /// Starts to receive the events of the operation, unless they are received already.
    pub(super) fn follow(&mut self, host: &HostRef) {
        let Some(Follow { id, at }) = self.shell.follow() else {
            return;
        };
        let (sender, events) = mpsc::unbounded_channel();
        let agents = self.context.agents.clone();
        let following = agents.follow(host.rack.clone(), at, id, sender);
        // Owned by the stream; ends with it or after the outcome.
        let task = tokio::spawn(following.in_current_span()).abort_handle();
        self.events = Some(OperationStream { events, task });
    }

    /// Waits for the next event; never returns if none is expected.
    pub(super) async fn next_operation_event(&mut self) {
        let Some(stream) = self.events.as_mut().filter(|_| self.shell.is_following()) else {
            return std::future::pending().await;
        };
        let told = stream.events.recv().await;
        self.apply_event(told);
    }

    fn drain_events(&mut self) {
        while let Some(stream) = self.events.as_mut().filter(|_| self.shell.is_following()) {
            match stream.events.try_recv() {
                Ok(told) => self.apply_event(Some(told)),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => self.apply_event(None),
            }
        }
        if !self.shell.is_following() {
            self.events = None;
        }
    }

    fn apply_event(&mut self, told: Option<OperationEvent>) {
        let event = match told {
            Some(OperationEvent::View(view)) => Event::View(view),
            Some(OperationEvent::Unknown { by }) => Event::Unknown { by },
            // Reported with the response of the BMC; the same command is announced before that,
            // too.
            Some(OperationEvent::Command { command, answer }) => {
                if !answer.is_empty() {
                    let message = format!("{command} sent to the BMC, answer: {answer}");
                    self.emit_event(false, "CommandSent", &message);
                }
                return;
            }
            Some(OperationEvent::Lost(why)) => {
                tracing::debug!(remediation = %self.id, why, "lost sight of the operation");
                Event::Lost
            }
            // The stream has ended after the outcome.
            None => Event::Ended,
        };
        self.shell.operation_event(event);
    }
}
