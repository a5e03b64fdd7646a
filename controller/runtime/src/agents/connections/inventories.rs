//! What agents report of their racks: hosts, outlets and holds.

use std::sync::Arc;

use kube::api::DynamicObject;
use parking_lot::RwLockReadGuard;
use rackhand_core::{
    hosts::Racks,
    overview::{AgentFacts, AgentView, InventoryEntry},
};
use rackhand_proto::v1;
use serde_json::Value;

use super::{
    AgentConnections,
    agent::{Agent, State},
};
use crate::store::object::Key;

/// A hold as an agent reports it.
pub(in crate::agents) struct ReportedHold {
    /// The name of the RackAgent.
    pub(in crate::agents) agent: String,
    pub(in crate::agents) rack: String,
    pub(in crate::agents) hold: v1::Hold,
}

impl AgentConnections {
    /// The hosts of each rack. Those of a silent agent are included as it last reported them.
    pub(crate) fn racks(&self) -> RwLockReadGuard<'_, Racks> {
        self.racks.read()
    }

    /// Whether the inventory of a rack knows a host.
    pub(crate) fn has_host(&self, rack: &str, host: &str) -> bool {
        let agents = self.agents.read();
        let mut of_rack = agents.of_rack(rack);
        of_rack.any(|(_, a)| a.hosts.iter().any(|h| h.name == host))
    }

    /// All outlets that feed a host, as `PDU/outlet`, by the inventory of the agent that serves its rack.
    /// Empty if they are not known, as with an agent of an earlier version.
    pub(crate) fn outlets(&self, rack: &str, host: &str) -> Vec<String> {
        let agents = self.agents.read();
        let serving = self.serving.lock().get(rack).cloned();
        let agent = serving.and_then(|key| agents.get(&key));
        let hosts = agent.into_iter().flat_map(|agent| &agent.hosts);
        let named = hosts.filter(|known| known.name == host);
        named
            .flat_map(|known| &known.outlets)
            .map(|outlet| format!("{}/{}", outlet.pdu, outlet.outlet))
            .collect()
    }

    /// System UUID and serial number of a host in the inventory of the agent that serves its rack, as one
    /// text; `None` if the inventory does not have the host.
    pub(crate) fn identity_of(&self, rack: &str, host: &str) -> Option<String> {
        let agents = self.agents.read();
        let serving = self.serving.lock().get(rack).cloned();
        let agent = serving.and_then(|key| agents.get(&key))?;
        let found = agent.hosts.iter().find(|known| known.name == host)?;
        Some(format!(
            "system UUID {:?}, serial {:?}, no system UUID: {}",
            found.system_uuid, found.serial, found.no_system_uuid
        ))
    }

    /// Whether any agent of the rack names outlets of a host, whether or not it serves the rack now.
    pub(in crate::agents) fn names_outlets(&self, rack: &str, host: &str) -> bool {
        let agents = self.agents.read();
        let mut hosts = agents.of_rack(rack).flat_map(|(_, agent)| &agent.hosts);
        hosts.any(|known| known.name == host && !known.outlets.is_empty())
    }

    /// The holds of all agents that answer.
    pub(in crate::agents) fn reported_holds(&self) -> Vec<ReportedHold> {
        let agents = self.agents.read();
        let answering = agents
            .iter()
            .filter(|(_, agent)| matches!(agent.state, State::Ready { .. }));
        let of_agent = answering.flat_map(|(key, agent)| {
            agent.holds.iter().map(|hold| ReportedHold {
                agent: key.name.clone(),
                rack: agent.spec.rack.clone(),
                hold: hold.clone(),
            })
        });
        of_agent.collect()
    }

    /// Agents that never reported their hosts; a host that was not found may be theirs.
    pub(crate) fn never_seen(&self) -> Vec<String> {
        let agents = self.agents.read();
        agents
            .iter()
            .filter(|(_, a)| !a.seen)
            .map(|(key, a)| match &a.state {
                State::Silent { why } => format!("agent {key} of rack {}: {why}", a.spec.rack),
                State::Ready { .. } => format!("agent {key}"),
            })
            .collect()
    }

    /// All agents with their inventories. A silent agent is shown with the inventory that it reported last.
    pub(crate) fn overview(&self) -> Vec<AgentFacts> {
        let objects = self.index.rack_agents();
        let of = |(key, object): &(Key, Arc<DynamicObject>)| {
            // For one agent at a time, so that no writer waits for the inventories of all.
            let agents = self.agents.read();
            Some(facts(key, object, agents.get(key)?))
        };
        objects.iter().filter_map(of).collect()
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
