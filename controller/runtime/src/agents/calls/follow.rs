//! The event stream of an operation.

use rackhand_core::remediation::{AgentId, ObservedOperation, OperationView};
use rackhand_proto::v1;
use rackhand_transport::{CallErrorKind, Refusal, classify, journal_of};
use tokio::sync::mpsc;

use super::{
    AgentQueries,
    convert::{finished, reading, staged},
    traced_operation,
};
use crate::agents::CALL;

/// An event of an operation.
#[derive(Debug)]
pub(crate) enum OperationEvent {
    /// A command was sent to the BMC.
    Command { command: String, answer: String },
    /// The current state of the operation.
    View(OperationView),
    /// The agent does not know the operation.
    Unknown {
        /// The agent and its journal.
        by: AgentId,
        /// Whether it stood by when it was queried.
        stands_by: bool,
    },
    /// The connection was lost; nothing is known.
    Lost(String),
}

impl AgentQueries {
    /// Sends the events of an operation until its outcome, or until the receiver is dropped.
    pub(crate) async fn follow(
        self,
        rack: String,
        at: Option<String>,
        id: String,
        events: mpsc::UnboundedSender<OperationEvent>,
    ) {
        let pinned = at.and_then(|name| self.connections.of_name(&name));
        let at = match pinned.map_or_else(|| self.connections.of_rack(&rack), Ok) {
            Ok(at) => at,
            Err(why) => {
                events.send(OperationEvent::Lost(why)).ok();
                return;
            }
        };
        let (mut client, asked, stands_by) = (at.client, at.id, at.standby);
        // A probe shows sooner than the next call whether only this stream was lost.
        let lost = |why: String| {
            self.connections.probe_rack(&rack);
            events.send(OperationEvent::Lost(why)).ok();
        };
        let message = v1::AwaitRequest {
            operation_id: id.clone(),
        };
        let request = traced_operation(message, &id);
        let opened = tokio::time::timeout(CALL * 2, client.r#await(request)).await;
        let mut stream = match opened {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => {
                return match classify(&status).kind {
                    CallErrorKind::Refused(Refusal::UnknownOperation) => {
                        let journal = journal_of(&status).map_or(asked.journal, str::to_owned);
                        let by = AgentId { journal, ..asked };
                        events.send(OperationEvent::Unknown { by, stands_by }).ok();
                    }
                    _ => lost(classify(&status).message),
                };
            }
            Err(_) => return lost("the agent did not answer".into()),
        };
        if events
            .send(OperationEvent::View(OperationView::Running))
            .is_err()
        {
            return;
        }
        let mut observed = ObservedOperation::default();
        loop {
            // Without a deadline: the operation has one, and keep-alive detects a dead agent.
            let message = tokio::select! {
                () = events.closed() => return,
                message = stream.message() => message,
            };
            match message {
                Ok(Some(v1::AwaitResponse {
                    event: Some(event), ..
                })) => {
                    use v1::await_response::Event;
                    let told = match event {
                        Event::CommandSent(c) => OperationEvent::Command {
                            command: c.command,
                            answer: c.answer,
                        },
                        Event::Outcome(outcome) => {
                            let view = finished(&outcome, &observed);
                            events.send(OperationEvent::View(view)).ok();
                            return;
                        }
                        Event::Waiting(waiting) => match staged(waiting) {
                            Some(view) => OperationEvent::View(view),
                            None => continue,
                        },
                        Event::Reading(read) => {
                            match reading(&read) {
                                Ok(read) => observed.reading(read),
                                Err(_) => observed.interrupted(),
                            }
                            continue;
                        }
                        Event::Failure(_) => {
                            observed.interrupted();
                            continue;
                        }
                        Event::Accepted(_) => continue,
                    };
                    if events.send(told).is_err() {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return lost("the agent ended the stream without an outcome".into()),
                Err(status) => return lost(classify(&status).message),
            }
        }
    }
}
