//! Calls to agents that change nothing.

use std::sync::Arc;

use rackhand_core::remediation::{EntryProgress, JournalEntry, PinnedOperation};
use rackhand_proto::v1;

use super::{traced, traced_operation};
use crate::agents::{CALL, connections::AgentConnections, within};

/// Maximum number of operations in one list of an agent.
const LONGEST_HISTORY: u32 = 1_000;

/// Queries agents. Nothing of it commands one.
#[derive(Clone)]
pub(crate) struct AgentQueries {
    pub(super) connections: Arc<AgentConnections>,
}

fn journal_entry(operation: v1::OperationInfo) -> JournalEntry {
    let progress = match &operation.outcome {
        None => EntryProgress::Running,
        Some(outcome) if outcome.code() == v1::OutcomeCode::Confirmed => EntryProgress::Confirmed,
        Some(_) => EntryProgress::Ended,
    };
    JournalEntry {
        progress,
        is_off: operation.action == "off",
        is_release: operation.action == "release",
        id: operation.operation_id,
        host: operation.host,
    }
}

impl AgentQueries {
    pub(in crate::agents) fn new(connections: Arc<AgentConnections>) -> Self {
        Self { connections }
    }

    /// The state of an operation at one agent that does not serve its rack.
    ///
    /// # Errors
    /// The agent does not answer.
    pub(crate) async fn operation_at(
        &self,
        agent: &str,
        id: &str,
    ) -> Result<PinnedOperation, String> {
        let at = self
            .connections
            .of_name(agent)
            .ok_or("it is not connected")?;
        let stands_by = at.standby;
        let mut client = at.client;
        let message = v1::ListOperationsRequest {
            operation_id: id.to_owned(),
            limit: 1,
            ..v1::ListOperationsRequest::default()
        };
        let mut request = traced_operation(message, id);
        request.set_timeout(CALL);
        let listed = within(client.list_operations(request)).await?.operations;
        let is_over = listed.first().map(|operation| operation.outcome.is_some());
        Ok(PinnedOperation::recorded(is_over, stands_by))
    }

    /// The journal entries about a remediation, from each agent of the rack that answers, the newest first.
    ///
    /// # Errors
    /// No agent answers, or the serving agent does not.
    pub(crate) async fn history(
        &self,
        rack: &str,
        uid: &str,
    ) -> Result<Vec<Vec<JournalEntry>>, String> {
        let mut journals = Vec::new();
        for at in self.connections.answering(rack)? {
            let message = v1::ListOperationsRequest {
                owner: uid.to_owned(),
                limit: LONGEST_HISTORY,
                ..v1::ListOperationsRequest::default()
            };
            let mut client = at.client;
            let mut request = traced(message, uid, "history");
            request.set_timeout(CALL);
            let listed = match within(client.list_operations(request)).await {
                Ok(listed) => listed,
                // A standby agent must not delay the serving agent.
                Err(_) if at.standby => continue,
                Err(why) => return Err(format!("agent {}: {why}", at.id.agent)),
            };
            journals.push(listed.operations.into_iter().map(journal_entry).collect());
        }
        Ok(journals)
    }
}
