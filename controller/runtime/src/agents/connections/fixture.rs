//! Connections without an agent, for tests.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use rackhand_core::hosts::{Rack, Racks};

use super::AgentConnections;
use crate::{
    agents::{AgentMetrics, AgentQueries, AgentStatus},
    leader::{
        LeaderMetrics,
        events::Events,
        fixture::leader,
        writer::{Lane, Writer},
    },
    store::{fake_api::Objects, index::Index, object::Served},
};

/// Connections to no agent. Nothing is written.
pub(crate) async fn agents(index: Arc<Index>) -> AgentConnections {
    let client = Objects::default().client();
    let (leader, _) = leader(&client).await;
    let mut registry = Registry::default();
    let metrics = LeaderMetrics::register(&mut registry);
    let (writer, _) = Writer::new(&leader, metrics, Lane::Checks);
    let (events, _) = Events::new(client.clone(), &leader, writer.clone());
    let (status, _) = AgentStatus::new(client, Arc::new(Served::default()), writer);
    AgentConnections::new(index, AgentMetrics::register(&mut registry), status, events)
}

/// Connections that know a rack without hosts, `r1`.
pub(crate) async fn with_rack(index: Arc<Index>) -> AgentConnections {
    let agents = agents(index).await;
    *agents.racks.write() = Racks::from([("r1".to_owned(), Rack::default())]);
    agents
}

/// Calls over these connections.
pub(crate) fn queries(agents: &Arc<AgentConnections>) -> AgentQueries {
    AgentQueries::new(agents.clone())
}
