//! Receives the events of the operation that the shell follows.

use jiff::Timestamp;
use rackhand_core::remediation::{
    AgentFacts, AgentId, AgentView, Follow, HostRef, OperationEvent as Event, PinnedOperation,
};
use tokio::{sync::mpsc, task::AbortHandle};
use tracing::Instrument as _;

use super::Observer;
use crate::{
    agents::OperationEvent,
    remediation::{observe::Scope, scope::Memory},
};

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

impl Observer {
    /// The agent of the host and its operation of the current state. The agent is queried if only
    /// that tells.
    pub(super) async fn agent_facts(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        host: Option<&HostRef>,
    ) -> AgentFacts {
        self.drain_events(scope, memory);
        let serving = match host {
            Some(host) => match compare_history(scope, memory, host).await {
                Ok(()) => scope.context.agents.of_rack(&host.rack).map(|at| at.id),
                Err(why) => Err(why),
            },
            None => Err(String::new()),
        };
        let mut queried = false;
        loop {
            if let Some(facts) = memory.shell.agent(host, serving.clone(), queried) {
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
            self.follow(scope, memory, host);
            self.next_operation_event(scope, memory).await;
            queried = true;
        }
    }

    /// Starts to receive the events of the operation, unless they are received already.
    pub(in crate::remediation) fn follow(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        host: &HostRef,
    ) {
        let Some(Follow { id, at }) = memory.shell.follow() else {
            return;
        };
        let (sender, events) = mpsc::unbounded_channel();
        let queries = scope.context.queries.clone();
        let following = queries.follow(host.rack.clone(), at, id, sender);
        // Owned by the stream; ends with it or after the outcome.
        let task = tokio::spawn(following.in_current_span()).abort_handle();
        self.events = Some(OperationStream { events, task });
    }

    /// Waits for the next event; never returns if none is expected.
    pub(in crate::remediation) async fn next_operation_event(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
    ) {
        let Some(stream) = self.events.as_mut().filter(|_| memory.shell.is_following()) else {
            return std::future::pending().await;
        };
        let told = stream.events.recv().await;
        apply_event(scope, memory, told);
    }

    fn drain_events(&mut self, scope: &Scope, memory: &mut Memory) {
        while let Some(stream) = self.events.as_mut().filter(|_| memory.shell.is_following()) {
            match stream.events.try_recv() {
                Ok(told) => apply_event(scope, memory, Some(told)),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => apply_event(scope, memory, None),
            }
        }
        if !memory.shell.is_following() {
            self.events = None;
        }
    }
}

/// Compares a state that was read, and not written by this process, with the journals of the agents
/// of its rack, before anything is done through them (F12).
async fn compare_history(scope: &Scope, memory: &mut Memory, host: &HostRef) -> Result<(), String> {
    if memory.shell.journal.is_some() {
        return Ok(());
    }
    let queries = &scope.context.queries;
    let journals = queries.history(&host.rack, &scope.uid).await?;
    memory.shell.journals_read(&journals);
    Ok(())
}

/// State of the pinned operation by its agent, queried while it prevents another agent
/// (`serving`) from beginning anything.
pub(super) async fn pinned_operation(
    scope: &Scope,
    memory: &Memory,
    serving: Option<&AgentId>,
    now: Timestamp,
) -> PinnedOperation {
    let Some(pin) = memory.shell.pinned_query(serving, now) else {
        return PinnedOperation::Unknown;
    };
    let queries = &scope.context.queries;
    queries
        .operation_at(&pin.agent.agent, &pin.operation)
        .await
        .unwrap_or_else(|why| {
            tracing::debug!(remediation = %scope.id, why, "the earlier agent does not report the state of its operation");
            PinnedOperation::Unknown
        })
}

fn apply_event(scope: &Scope, memory: &mut Memory, told: Option<OperationEvent>) {
    let event = match told {
        Some(OperationEvent::View(view)) => Event::View(view),
        Some(OperationEvent::Unknown { by, stands_by }) => Event::Unknown { by, stands_by },
        // Reported with the response of the BMC; the same command is announced before that,
        // too.
        Some(OperationEvent::Command { command, answer }) => {
            if !answer.is_empty() {
                let message = format!("{command} sent to the BMC, answer: {answer}");
                scope.log_progress("CommandSent", &message);
            }
            return;
        }
        Some(OperationEvent::Lost(why)) => {
            tracing::debug!(remediation = %scope.id, why, "lost sight of the operation");
            Event::Lost
        }
        // The stream has ended after the outcome.
        None => Event::Ended,
    };
    memory.shell.operation_event(event);
}
