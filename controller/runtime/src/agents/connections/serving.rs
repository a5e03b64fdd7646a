//! Selection of the agent that serves a rack.
//!
//! Invariant: one agent is selected and kept while it answers (F6). No command is sent through a standby
//! agent.

use rackhand_core::remediation::{AgentId, ServingChoice, ServingState, choose_serving};

use super::{AgentConnections, agent::State, clock::AgentClock};
use crate::{agents::Client, store::object::Key};

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

impl AgentConnections {
    /// Whether this agent serves its rack. The previous serving agent is kept while it answers.
    pub(super) fn serves(&self, key: &Key, rack: &str) -> bool {
        let agents = self.agents.read();
        let mut serving = self.serving.lock();
        let standing = |current: &Key| {
            let agent = agents.get(current);
            agent.map_or(ServingState::Silent, |agent| agent.serving_state(rack))
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

    /// The agents of a rack that do not answer, and may hold hosts.
    pub(crate) fn silent_of_rack(&self, rack: &str) -> Vec<String> {
        let agents = self.agents.read();
        let of_rack = agents.of_rack(rack);
        let silent = of_rack.filter(|(_, agent)| matches!(agent.state, State::Silent { .. }));
        silent.map(|(key, _)| key.name.clone()).collect()
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

    use rackhand_api::kinds::rack_agent::RackAgentSpec;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        agents::{
            connections::{agent::Agent, fixture},
            journals::SeenJournals,
        },
        store::{index::Index, log_capture::LogCapture},
    };

    /// Adds an agent of rack r1 that was tried, and that answers or does not.
    fn put(agents: &AgentConnections, name: &str, answers: bool) -> Key {
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
        let mut agent = Agent::new(spec, SeenJournals::default(), CancellationToken::new());
        (agent.state, agent.seen, agent.tried) = (state, answers, true);
        agents.agents.write().insert(key.clone(), agent);
        key
    }

    #[tokio::test]
    async fn only_agent_of_a_rack_never_stands_by_and_is_no_warning() {
        let agents = fixture::agents(Arc::new(Index::new(Vec::new()))).await;
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
