//! Holds in the journals of agents.

use std::collections::BTreeSet;

use rackhand_core::remediation::{HostRef, LeftHoldAction, Policy, PowerDevice, left_hold};

use super::{Agents, CallFailure, OperationRequest, State};
use crate::store::object::Key;

/// A host that an agent holds off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentHold {
    /// The name of the RackAgent.
    pub(crate) agent: String,
    pub(crate) rack: String,
    /// The name of the host at the agent.
    pub(crate) host: String,
    /// The UID of the remediation that the host is held for.
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

    /// Forgets the holds of an owner that an agent has released. Otherwise they would be released once more, and
    /// reported as left, until the next query of the agent.
    pub(super) fn forget_hold(&self, agent: &str, owner: &str) {
        let mut agents = self.agents.write();
        if let Some(agent) = agents.get_mut(&Key::new("", agent)) {
            agent.holds.retain(|hold| hold.owner != owner);
        }
    }

    /// The agents of a rack that do not answer, and may hold hosts.
    pub(crate) fn silent_of_rack(&self, rack: &str) -> Vec<String> {
        let agents = self.agents.read();
        let of_rack = agents.of_rack(rack);
        let silent = of_rack.filter(|(_, agent)| matches!(agent.state, State::Silent { .. }));
        silent.map(|(key, _)| key.name.clone()).collect()
    }

    /// Ends what agents hold for remediations that are gone. A hold at an agent that does not answer stays.
    pub(crate) async fn end_holds_of(&self, owners: &BTreeSet<&str>) {
        let held = self.holds().into_iter();
        for held in held.filter(|held| owners.contains(held.owner.as_str())) {
            if let Err(error) = Box::pin(self.end_hold(&held)).await {
                let AgentHold { agent, host, .. } = &held;
                tracing::warn!(
                    agent,
                    host,
                    ?error,
                    "a hold of a remediation that is gone is not released"
                );
            }
        }
    }

    /// Ends the hold of an ended remediation: switches on the outlets that were switched off for it, and releases
    /// the hold once they are on. Sends Events about the RackAgent. Returns the action taken; the caller repeats
    /// the call until that action is the release.
    ///
    /// # Errors
    /// An agent of the rack does not answer, or rejects the call.
    pub(crate) async fn end_hold(&self, held: &AgentHold) -> Result<LeftHoldAction, CallFailure> {
        let history = self.history(&held.rack, &held.owner).await;
        let journals = history.map_err(CallFailure::Retryable)?;
        let has_outlets = |host: &str| self.names_outlets(&held.rack, host);
        let host_ref = |host: &str| HostRef {
            rack: held.rack.clone(),
            host: host.to_owned(),
            bmh: None,
            bmc: String::new(),
        };
        let action = left_hold(&held.owner, &journals, has_outlets);
        match &action {
            LeftHoldAction::Wait => {}
            LeftHoldAction::SwitchOutletsOn { id, host } => {
                let request = OperationRequest {
                    host: &host_ref(host),
                    endpoint: None,
                    id,
                    device: PowerDevice::Outlets,
                    at: None,
                    owner: &held.owner,
                    deadline: Policy::default().power_on_timeout,
                };
                self.begin_power_on(request).await?;
                let done = format!("switching on the outlets of host {host}");
                self.report_hold(held, "OutletsOnRunning", &done);
            }
            LeftHoldAction::Release => {
                let at = self
                    .of_name(&held.agent)
                    .ok_or_else(|| CallFailure::Retryable("it is not connected".into()))?;
                let host = host_ref(&held.host);
                self.release_at(at, &host, None, &held.owner).await?;
                let done = format!("released the hold on host {}", held.host);
                self.report_hold(held, "HoldReleased", &done);
            }
        }
        Ok(action)
    }

    /// Whether any agent of the rack names outlets of a host, whether or not it serves the rack now.
    fn names_outlets(&self, rack: &str, host: &str) -> bool {
        let agents = self.agents.read();
        let mut hosts = agents.of_rack(rack).flat_map(|(_, agent)| &agent.hosts);
        hosts.any(|known| known.name == host && !known.outlets.is_empty())
    }

    fn report_hold(&self, held: &AgentHold, reason: &'static str, done: &str) {
        let owner = &held.owner;
        if let Some(object) = self.index.rack_agent(&Key::new("", &held.agent)) {
            let message =
                format!("{done}: the remediation with UID {owner}, which it was for, has ended");
            self.events.send(&object, false, reason, &message);
        }
    }
}
