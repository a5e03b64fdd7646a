//! Agents for the status page.

use kube::api::DynamicObject;
use rackhand_core::overview::{AgentFacts, AgentView, InventoryEntry};
use serde_json::Value;

use super::{Agent, Agents, State};
use crate::store::object::Key;

impl Agents {
    /// All agents with their inventories. A silent agent is shown with the inventory that it reported last.
    pub(crate) fn overview(&self) -> Vec<AgentFacts> {
        let objects = self.index.rack_agents();
        let agents = self.agents.read();
        objects
            .iter()
            .filter_map(|(key, object)| Some(facts(key, object, agents.get(key)?)))
            .collect()
    }
}

fn facts(key: &Key, object: &DynamicObject, agent: &Agent) -> AgentFacts {
    let last_seen = object.data.pointer("/status/lastSeen");
    let (connected, standby, message) = match &agent.state {
        State::Ready { standby, .. } => (true, *standby, String::new()),
        State::Silent { why } => (false, false, why.to_string()),
    };
    AgentFacts {
        view: AgentView {
            name: key.name.clone(),
            connected,
            standby,
            last_seen: last_seen
                .and_then(Value::as_str)
                .and_then(|text| text.parse().ok()),
            message,
        },
        rack: agent.spec.rack.clone(),
        bmc_networks: agent.spec.bmc_networks.clone(),
        hosts: agent
            .hosts
            .iter()
            .map(|host| InventoryEntry {
                name: host.name.clone(),
                node_name: host.node_name.clone(),
                provider_id: host.provider_id.clone(),
                system_uuid: host.system_uuid.clone(),
                position: host.position.clone(),
                held_by: host.held_by.clone(),
            })
            .collect(),
    }
}
