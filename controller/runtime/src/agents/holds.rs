//! Holds in the journals of agents.

use std::{collections::BTreeSet, sync::Arc};

use rackhand_core::remediation::{
    BEGIN_WITHIN, HostRef, LeftHoldAction, Policy, PowerDevice, left_hold,
};

use super::{
    AgentCommands, AgentConnections, AgentQueries, CallFailure, OperationRequest,
    authority::Authority, connections::inventories::ReportedHold,
};
use crate::{
    leader::events::Events,
    store::{index::Index, object::Key},
};

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

/// Ends the holds of remediations that have ended or are gone.
#[derive(Clone)]
pub(crate) struct AgentHolds {
    connections: Arc<AgentConnections>,
    authority: Arc<Authority>,
    queries: AgentQueries,
    commands: AgentCommands,
    index: Arc<Index>,
    events: Events,
}

impl AgentHolds {
    pub(super) fn new(
        (connections, authority): (Arc<AgentConnections>, Arc<Authority>),
        (queries, commands): (AgentQueries, AgentCommands),
        index: Arc<Index>,
        events: Events,
    ) -> Self {
        Self {
            connections,
            authority,
            queries,
            commands,
            index,
            events,
        }
    }

    /// The holds of all agents that answer.
    pub(crate) fn list(&self) -> Vec<AgentHold> {
        let reported = self.connections.reported_holds().into_iter();
        let holds = reported.map(|ReportedHold { agent, rack, hold }| AgentHold {
            agent,
            rack,
            is_ours: (!hold.election.is_empty()).then(|| self.authority.is_ours(&hold.election)),
            host: hold.host,
            owner: hold.owner,
        });
        holds.collect()
    }

    /// Ends what agents hold for remediations that are gone. A hold at an agent that does not answer stays.
    pub(crate) async fn end_of(&self, owners: &BTreeSet<&str>) {
        let held = self.list().into_iter();
        for held in held.filter(|held| owners.contains(held.owner.as_str())) {
            if let Err(error) = Box::pin(self.end(&held)).await {
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
    pub(crate) async fn end(&self, held: &AgentHold) -> Result<LeftHoldAction, CallFailure> {
        let history = self.queries.history(&held.rack, &held.owner).await;
        let journals = history.map_err(CallFailure::Retryable)?;
        let has_outlets = |host: &str| self.connections.names_outlets(&held.rack, host);
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
                    deadline: Policy::default().on_limit(),
                    within: BEGIN_WITHIN,
                };
                self.commands.begin_power_on(request).await?;
                let done = format!("switching on the outlets of host {host}");
                self.report_hold(held, "OutletsOnRunning", &done);
            }
            LeftHoldAction::Release => {
                let at = self
                    .connections
                    .of_name(&held.agent)
                    .ok_or_else(|| CallFailure::Retryable("it is not connected".into()))?;
                let host = host_ref(&held.host);
                self.commands
                    .release_at(at, &host, None, &held.owner)
                    .await?;
                let done = format!("released the hold on host {}", held.host);
                self.report_hold(held, "HoldReleased", &done);
            }
        }
        Ok(action)
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
