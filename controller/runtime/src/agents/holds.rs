//! Holds in the journals of agents.

use rackhand_core::remediation::HostRef;

use super::{Agents, CallFailure, State};
use crate::store::object::Key;

/// A host that an agent holds off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentHold {
    /// The name of the RackAgent.
    pub(crate) agent: String,
    pub(crate) rack: String,
    /// The name of the host at the agent.
    pub(crate) host: String,
    /// The UID of the remediation on whose behalf it is held.
    pub(crate) owner: String,
    /// Whether a controller of this election requested it; `None` if the agent does not report
    /// that.
    pub(crate) is_ours: Option<bool>,
}

impl Agents {
    /// The holds of all agents that answer.
    pub(crate) fn holds(&self) -> Vec<AgentHold> {
        let agents = self.agents.read();
        let answering = agents
            .iter()
            .filter(|(_, agent)| matches!(agent.state, State::Ready { .. }));
        let of_agent = answering.flat_map(|(key, agent)| {
            agent.holds.iter().map(|hold| AgentHold {
                agent: key.name.clone(),
                rack: agent.spec.rack.clone(),
                host: hold.host.clone(),
                owner: hold.owner.clone(),
                is_ours: (!hold.election.is_empty()).then(|| hold.election == self.election),
            })
        });
        of_agent.collect()
    }

    /// The agents of a rack that do not answer, and may hold hosts.
    pub(crate) fn silent_of_rack(&self, rack: &str) -> Vec<String> {
        let agents = self.agents.read();
        let mark_disconnected = agents.iter().filter(|(_, agent)| {
            agent.spec.rack == rack && matches!(agent.state, State::Silent { .. })
        });
        mark_disconnected.map(|(key, _)| key.name.clone()).collect()
    }

    /// Releases a hold at the agent that has it, and sends an Event about its RackAgent.
    pub(crate) async fn release_held(&self, held: &AgentHold) -> Result<(), CallFailure> {
        let at = self
            .of_name(&held.agent)
            .ok_or_else(|| CallFailure::Retryable("it is not connected".into()))?;
        let host = HostRef {
            rack: held.rack.clone(),
            host: held.host.clone(),
            bmh: None,
            bmc: String::new(),
        };
        self.release_at(at, &host, None, &held.owner).await?;
        if let Some(object) = self.index.rack_agent(&Key::new("", &held.agent)) {
            let message = format!(
                "released the hold on host {}: the remediation with UID {}, which it was for, has ended",
                held.host, held.owner
            );
            self.events.send(&object, false, "HoldReleased", &message);
        }
        Ok(())
    }
}
