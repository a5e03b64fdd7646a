//! Selection of the agent that serves a rack.
//!
//! Invariant: one agent is selected and kept while it answers (F6). No command is sent through a standby
//! agent.

use rackhand_core::remediation::{AgentId, ServingChoice, ServingState, choose_serving};

use super::clock::AgentClock;
use crate::{
    agents::{Agent, Agents, Client, State},
    store::object::Key,
};

/// An agent that answers.
#[derive(Clone)]
pub(crate) struct AgentConnection {
    pub(in crate::agents) client: Client,
    /// The term that the leader has claimed at this agent.
    pub(in crate::agents) term: u64,
    /// Whether the agent stands by and begins no operation.
    pub(in crate::agents) standby: bool,
    /// The agent's clock.
    pub(in crate::agents) clock: AgentClock,
    /// The agent and its journal.
    pub(crate) id: AgentId,
}

impl Agent {
    fn connected(&self, key: &Key) -> Option<AgentConnection> {
        match (&self.state, &self.client, &self.clock) {
            (State::Ready { term, standby }, Some(client), Some(clock)) => Some(AgentConnection {
                client: client.clone(),
                term: *term,
                standby: *standby,
                clock: clock.clone(),
                id: AgentId {
                    agent: key.name.clone(),
                    journal: self.journal.clone(),
                },
            }),
            _ => None,
        }
    }
}

impl Agents {
    /// Whether this agent serves its rack. The previous serving agent is kept while it answers.
    pub(super) fn serves(&self, key: &Key, rack: &str) -> bool {
        let agents = self.agents.read();
        let mut serving = self.serving.lock();
        let standing = |current: &Key| match agents.get(current) {
            Some(agent) if agent.spec.rack != rack => ServingState::Silent,
            Some(agent) if !agent.tried => ServingState::Untried,
            Some(agent) if matches!(agent.state, State::Ready { .. }) => ServingState::Answers,
            _ => ServingState::Silent,
        };
        let current = serving.get(rack);
        match choose_serving(key, current.map(|current| (current, standing(current)))) {
            ServingChoice::Serve => true,
            ServingChoice::StandBy => false,
            ServingChoice::TakeOver => {
                if let Some(before) = current {
                    tracing::warn!(rack, %before, now = %key, "another agent takes over the rack");
                }
                serving.insert(rack.to_owned(), key.clone());
                true
            }
        }
    }

    /// The agent that serves a rack, with our term claimed.
    pub(crate) fn of_rack(&self, rack: &str) -> Result<AgentConnection, String> {
        let agents = self.agents.read();
        let serving = self.serving.lock().get(rack).cloned();
        let mut whys = Vec::new();
        for (key, agent) in agents.of_rack(rack) {
            match (agent.connected(key), &agent.state) {
                (Some(connected), State::Ready { standby: false, .. })
                    if serving.as_ref() == Some(key) =>
                {
                    return Ok(connected);
                }
                (_, State::Silent { why }) => whys.push(format!("agent {key}: {why}")),
                _ => whys.push(format!("agent {key}: it has not taken over the rack yet")),
            }
        }
        Err(if whys.is_empty() {
            format!("no RackAgent serves rack {rack}")
        } else {
            whys.join("; ")
        })
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

    /// The agents of a rack that answer, including standby agents.
    ///
    /// # Errors
    /// No agent answers.
    pub(in crate::agents) fn answering(&self, rack: &str) -> Result<Vec<AgentConnection>, String> {
        let connected: Vec<_> = {
            let agents = self.agents.read();
            agents
                .of_rack(rack)
                .filter_map(|(key, agent)| agent.connected(key))
                .collect()
        };
        if connected.is_empty() {
            self.of_rack(rack).map(|at| vec![at])
        } else {
            Ok(connected)
        }
    }

    /// The agent of this name, serving or standby, if it answers.
    pub(crate) fn of_name(&self, name: &str) -> Option<AgentConnection> {
        let agents = self.agents.read();
        let key = Key::new("", name);
        agents.get(&key)?.connected(&key)
    }

    /// All agents of a rack that answer and have a hold of this owner.
    pub(crate) fn holding(&self, rack: &str, owner: &str) -> Vec<AgentConnection> {
        let agents = self.agents.read();
        agents
            .of_rack(rack)
            .filter(|(_, agent)| agent.holds.iter().any(|hold| hold.owner == owner))
            .filter_map(|(key, agent)| agent.connected(key))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::registry::Registry;
    use rackhand_api::kinds::rack_agent::RackAgentSpec;
    use serde_json::json;
    use tokio::sync::Notify;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        agents::fixture::unseen_certificate,
        agents::{AgentMetrics, AgentStatus, SeenJournals},
        leader::{
            LeaderMetrics,
            events::Events,
            fixture::leader,
            writer::{Lane, Writer},
        },
        store::{fake_api::Objects, index::Index, log_capture::LogCapture, object::Served},
    };

    async fn agents() -> Arc<Agents> {
        let client = Objects::default().client();
        let (leader, _) = leader(&client).await;
        let mut registry = Registry::default();
        let metrics = LeaderMetrics::register(&mut registry);
        let (writer, _) = Writer::new(&leader, metrics, Lane::Requests);
        let (events, _) = Events::new(client.clone(), &leader, writer.clone());
        let (status, _) = AgentStatus::new(client, Arc::new(Served::default()), writer);
        Agents::new(
            leader,
            "election".into(),
            (
                unseen_certificate(),
                Arc::new(rackhand_transport::connect_lazy),
            ),
            Arc::new(Index::new(Vec::new())),
            AgentMetrics::register(&mut registry),
            status,
            events,
        )
    }

    /// Adds an agent of rack r1 that was tried, and that answers or does not.
    fn put(agents: &Agents, name: &str, answers: bool) -> Key {
        let key = Key::new("", name);
        let spec = json!({ "rack": "r1", "endpoint": "agent.example.org:8443" });
        let spec: RackAgentSpec = serde_json::from_value(spec).unwrap();
        let state = if answers {
            State::Ready {
                term: 1,
                standby: false,
            }
        } else {
            State::Silent {
                why: "no answer".to_owned().into(),
            }
        };
        let agent = Agent {
            spec,
            state,
            client: None,
            clock: None,
            hosts: Vec::new(),
            journal: String::new(),
            reported_journals: SeenJournals::default(),
            seen_journals: SeenJournals::default(),
            holds: Vec::new(),
            seen: answers,
            tried: true,
            probe_now: Arc::new(Notify::new()),
            stop: CancellationToken::new(),
        };
        agents.agents.write().insert(key.clone(), agent);
        key
    }

    #[tokio::test]
    async fn only_agent_of_a_rack_never_stands_by_and_is_no_warning() {
        let agents = agents().await;
        let log = LogCapture::start();
        // It is out of reach for a while, and comes back.
        for answers in [false, true, false, true] {
            let only = put(&agents, "a", answers);
            assert!(agents.serves(&only, "r1"), "{answers}");
        }
        let warned = log.take(tracing::Level::WARN);
        assert!(warned.is_empty(), "{warned:?}");
        // Where there are two, the other one takes over, and that is one.
        let first = put(&agents, "a", false);
        let second = put(&agents, "b", true);
        assert!(agents.serves(&second, "r1"));
        assert_eq!(log.take(tracing::Level::WARN).len(), 1);
        assert!(!agents.serves(&first, "r1"));
        assert!(log.take(tracing::Level::WARN).is_empty());
    }
}
