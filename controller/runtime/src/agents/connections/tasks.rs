//! The connection task of each agent: claims the term, lists the hosts, and detects silence.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rackhand_api::kinds::rack_agent::RackAgentSpec;
use rackhand_proto::v1;
use rackhand_transport::ClientTls;
use serde::Deserialize as _;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    AgentConnections,
    agent::{Agent, ConnectError, State},
    required,
};
use crate::{
    agents::{AgentConnector, CALL, Client, authority::Authority, journals::SeenJournals, within},
    store::{
        index::{Change, ChangeQueue},
        object::{Key, Kind},
    },
};

/// Interval of probes, after which the silence of an agent is detected.
const PROBE: Duration = Duration::from_secs(5);
/// Interval of probes of a silent agent.
const PROBE_SILENT: Duration = Duration::from_secs(1);

/// Keeps the connections to all rack agents.
pub(crate) struct ConnectionTasks {
    connections: Arc<AgentConnections>,
    authority: Arc<Authority>,
    tls: ClientTls,
    connect: AgentConnector,
}

impl ConnectionTasks {
    pub(in crate::agents) fn new(
        connections: Arc<AgentConnections>,
        authority: Arc<Authority>,
        (tls, connect): (ClientTls, AgentConnector),
    ) -> Self {
        Self {
            connections,
            authority,
            tls,
            connect,
        }
    }

    /// Maintains a connection per RackAgent of the index until `cancel`.
    pub(crate) async fn run(self, inbox: Arc<ChangeQueue>, cancel: CancellationToken) {
        let this = Arc::new(self);
        let known = this.connections.index.keys(Kind::RackAgent);
        let mut tasks = JoinSet::new();
        let mut changed: BTreeSet<Key> = known.into_iter().collect();
        loop {
            for key in std::mem::take(&mut changed) {
                this.reconcile(&key, &mut tasks, &cancel);
            }
            this.connections.count();
            tokio::select! {
                () = cancel.cancelled() => break,
                changes = inbox.take() => changed = changes.into_iter().filter_map(rack_agent).collect(),
                Some(_) = tasks.join_next() => {}
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Begins, renews or ends the connection of a RackAgent to match its object.
    fn reconcile(self: &Arc<Self>, key: &Key, tasks: &mut JoinSet<()>, cancel: &CancellationToken) {
        let Some(object) = self.connections.index.rack_agent(key) else {
            self.connections.remove(key);
            return;
        };
        let spec = object
            .data
            .get("spec")
            .ok_or_else(|| "spec is missing".to_owned())
            .and_then(|s| RackAgentSpec::deserialize(s).map_err(|e| format!("spec: {e}")));
        let spec = match spec {
            Ok(spec) => spec,
            Err(why) => {
                let seen = SeenJournals::of(&object);
                self.connections.remove(key);
                self.connections
                    .status
                    .mark_disconnected(key, &why.into(), &seen);
                return;
            }
        };
        if self
            .connections
            .agents
            .read()
            .get(key)
            .is_some_and(|a| a.spec == spec)
        {
            return;
        }
        let mut seen_journals = SeenJournals::of(&object);
        if let Some(before) = self.connections.agents.read().get(key) {
            seen_journals.merge(&before.seen_journals);
        }
        self.connections.remove(key);
        let stop = cancel.child_token();
        let agent = Agent::new(spec.clone(), seen_journals, stop.clone());
        let probe_now = agent.probe_now.clone();
        self.connections.insert(key.clone(), agent);
        let (this, key) = (self.clone(), key.clone());
        tasks.spawn(async move { this.maintain(&key, &spec, &probe_now, &stop).await });
    }

    /// Probes the agent until `stop`.
    async fn maintain(
        &self,
        key: &Key,
        spec: &RackAgentSpec,
        probe_now: &Notify,
        stop: &CancellationToken,
    ) {
        let mut client = match (self.connect)(&spec.endpoint, &spec.rack, &self.tls) {
            Ok(channel) => Client::new(channel),
            Err(error) => {
                self.connections
                    .mark_disconnected(key, &error.to_string().into());
                return;
            }
        };
        loop {
            let wait = match self.probe(&mut client, key, spec).await {
                Ok(()) => PROBE,
                Err(why) => {
                    self.connections.mark_disconnected(key, &why);
                    PROBE_SILENT
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = probe_now.notified() => {}
            }
        }
    }

    /// Claims the term and lists the hosts.
    async fn probe(
        &self,
        client: &mut Client,
        key: &Key,
        spec: &RackAgentSpec,
    ) -> Result<(), ConnectError> {
        let Some(term) = self.authority.term() else {
            return Err("this process does not lead".to_owned().into());
        };
        let number = term.number;
        let standby = !self.connections.serves(key, &spec.rack);
        let mut claim = tonic::Request::new(v1::ClaimTermRequest {
            term: Some(term),
            standby,
            known_journals: self.connections.seen_journals(key),
            sequence: self.authority.sequence(),
            list_hosts: true,
        });
        claim.set_timeout(CALL);
        let mut claimed = within(client.claim_term(claim)).await?;
        if !claimed.accepted {
            let highest = claimed.highest;
            self.authority
                .raise_term(&key.to_string(), number, highest)?;
            return Err(format!(
                "it has accepted term {highest} of this election; ours is {number} and is being raised"
            )
            .into());
        }
        let clock = required::clock(&claimed)?;
        let listed = claimed.hosts.take();
        let listed = listed.ok_or_else(|| "it does not list its hosts".to_owned())?;
        if listed.rack != spec.rack {
            return Err(format!("it serves rack {:?}, not {:?}", listed.rack, spec.rack).into());
        }
        let state = State::Ready {
            term: number,
            standby,
        };
        self.connections
            .mark_ready(key, &state, client, listed, clock);
        Ok(())
    }
}

/// The RackAgent that a change concerns, if any.
fn rack_agent(change: Change) -> Option<Key> {
    match change {
        Change::Object(Kind::RackAgent, key) => Some(key),
        _ => None,
    }
}
