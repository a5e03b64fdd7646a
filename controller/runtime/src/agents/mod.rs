//! Connections to rack agents.
//!
//! One task per RackAgent object claims the leader's term, lists the hosts and detects silence.
//! Invariant: no command is sent in a term that this process does not hold at that moment (F7).

mod authority;
mod calls;
mod connections;
#[cfg(test)]
pub(crate) mod fixture;
mod holds;
mod journals;
mod metrics;
mod racks;
mod status;

use std::{sync::Arc, time::Duration};

use rackhand_proto::v1;
use rackhand_transport::{ClientTls, classify};
use tonic::transport::Channel;

use crate::{
    leader::{Leader, events::Events},
    store::{
        index::{Change, Index},
        object::Kind,
    },
};
use authority::Authority;
pub(crate) use calls::{
    AgentCommands, AgentQueries, CallFailure, OffRequest, OperationRequest, WatchEvent,
    convert::host_evidence::{evidence, log_entries},
    convert::watched::WatchedHost,
    evidence::EvidenceRequest,
    follow::OperationEvent,
};
use connections::ConnectError;
#[cfg(test)]
pub(crate) use connections::fixture as connection_fixture;
pub(crate) use connections::{AgentConnections, ConnectionTasks};
pub(crate) use holds::{AgentHold, AgentHolds};
pub(crate) use metrics::AgentMetrics;
pub(crate) use racks::of as racks_of;
pub(crate) use status::AgentStatus;

type Client = v1::power_client::PowerClient<Channel>;

/// Creates the channel to an agent from its address, its rack and the controller's certificate. The channel
/// connects at the first call.
pub type AgentConnector = Arc<
    dyn Fn(&str, &str, &ClientTls) -> Result<Channel, rackhand_transport::ConnectError>
        + Send
        + Sync,
>;

/// Timeout of a call that does not involve a BMC.
const CALL: Duration = Duration::from_secs(3);

/// The agents of this leader, by what is done with them.
pub(crate) struct Agents {
    /// What is known of them.
    pub(crate) connections: Arc<AgentConnections>,
    /// Calls that change nothing.
    pub(crate) queries: AgentQueries,
    /// Calls that command an agent.
    pub(crate) commands: AgentCommands,
    /// The end of holds that no remediation needs.
    pub(crate) holds: AgentHolds,
}

impl Agents {
    /// Returns the agents and the tasks that connect them, which the caller must run.
    pub(crate) fn new(
        (leader, election): (Leader, String),
        connector: (ClientTls, AgentConnector),
        index: Arc<Index>,
        metrics: AgentMetrics,
        status: AgentStatus,
        events: Events,
    ) -> (Self, ConnectionTasks) {
        let authority = Arc::new(Authority::new(leader, election));
        let connections = AgentConnections::new(index.clone(), metrics, status, events.clone());
        let connections = Arc::new(connections);
        let tasks = ConnectionTasks::new(connections.clone(), authority.clone(), connector);
        let queries = AgentQueries::new(connections.clone());
        let commands = AgentCommands::new(connections.clone(), authority.clone());
        let holds = AgentHolds::new(
            (connections.clone(), authority),
            (queries.clone(), commands.clone()),
            index,
            events,
        );
        let agents = Self {
            connections,
            queries,
            commands,
            holds,
        };
        (agents, tasks)
    }
}

/// Whether a change concerns the connections to rack agents.
pub(crate) fn concerns(change: &Change) -> bool {
    matches!(change, Change::Object(Kind::RackAgent, _))
}

/// A call with a local deadline, because only the other side enforces the deadline in the request.
async fn within<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, String> {
    match tokio::time::timeout(CALL * 2, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(classify(&status).message),
        Err(_) => Err(format!("no answer within {:?}", CALL * 2)),
    }
}
