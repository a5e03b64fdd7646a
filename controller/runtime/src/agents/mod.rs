//! Connections to rack agents.
//!
//! One task per RackAgent object claims the leader's term, lists the hosts and detects silence.
//! Invariant: no command is sent in a term that this process does not hold at that moment (F7).

mod calls;
mod connections;
#[cfg(test)]
pub(crate) mod fixture;
mod holds;
mod journals;
mod metrics;
mod overview;
mod racks;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rackhand_api::kinds::rack_agent::RackAgentSpec;
use rackhand_core::{hosts::Racks, lease::TermOutlier};
use rackhand_proto::v1;
use rackhand_transport::{ClientTls, classify};
use serde::Deserialize as _;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use crate::{
    leader::{Leader, events::Events},
    store::{
        index::{Change, ChangeQueue, Index},
        object::{Key, Kind},
    },
};
pub(crate) use calls::{
    CallFailure, OffRequest, OperationRequest,
    convert::host_evidence::{evidence, log_entries},
    evidence::EvidenceRequest,
    follow::OperationEvent,
};
use connections::{clock::AgentClock, known::KnownAgents, required::UpgradeRequired};
pub(crate) use holds::AgentHold;
use journals::SeenJournals;
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

/// The connection state of an agent.
#[derive(Clone, PartialEq, Eq)]
enum State {
    Silent { why: ConnectError },
    Ready { term: u64, standby: bool },
}

/// Why an agent is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The agent does not answer, or answers incorrectly.
    #[error("{0}")]
    Unreachable(String),
    /// The agent rejects the leader's term, and the leader does not raise its term to that of the agent.
    #[error(transparent)]
    TermOutlier(#[from] TermOutlier),
    /// The version of the agent lacks a feature that safety requires.
    #[error(transparent)]
    UpgradeRequired(#[from] UpgradeRequired),
}

impl ConnectError {
    /// The reason of the condition and of the Event.
    fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "NotConnected",
            Self::TermOutlier(_) => "TermOutlier",
            Self::UpgradeRequired(_) => "UpgradeRequired",
        }
    }
}

impl From<String> for ConnectError {
    fn from(why: String) -> Self {
        Self::Unreachable(why)
    }
}

struct Agent {
    spec: RackAgentSpec,
    state: State,
    client: Option<Client>,
    /// The agent's clock; `None` before its first response.
    clock: Option<AgentClock>,
    hosts: Vec<v1::Host>,
    /// The instance id of the agent's journal; empty if it does not report one.
    journal: String,
    seen_journals: SeenJournals,
    /// The journals in the status of the RackAgent.
    reported_journals: SeenJournals,
    /// The holds in the agent's journal.
    holds: Vec<v1::Hold>,
    seen: bool,
    /// Whether the agent was probed, with or without success.
    tried: bool,
    /// Ends the wait until the next probe.
    probe_now: Arc<Notify>,
    stop: CancellationToken,
}

/// The connections to all rack agents.
pub(crate) struct Agents {
    agents: RwLock<KnownAgents>,
    /// The agent that serves each rack, which is kept while it answers. Locked after `agents`.
    serving: Mutex<BTreeMap<String, Key>>,
    /// The hosts of each rack, replaced when an agent of it changes. Locked after `agents`.
    racks: RwLock<Racks>,
    counter: AtomicU64,
    leader: Leader,
    election: String,
    tls: ClientTls,
    connect: AgentConnector,
    index: Arc<Index>,
    metrics: AgentMetrics,
    status: AgentStatus,
    events: Events,
}

impl Agents {
    pub(crate) fn new(
        leader: Leader,
        election: String,
        (tls, connect): (ClientTls, AgentConnector),
        index: Arc<Index>,
        metrics: AgentMetrics,
        status: AgentStatus,
        events: Events,
    ) -> Arc<Self> {
        Arc::new(Self {
            agents: RwLock::default(),
            serving: Mutex::default(),
            racks: RwLock::default(),
            counter: AtomicU64::new(0),
            leader,
            election,
            tls,
            connect,
            index,
            metrics,
            status,
            events,
        })
    }

    /// Maintains a connection per RackAgent of the index until `cancel`.
    pub(crate) async fn run(self: Arc<Self>, inbox: Arc<ChangeQueue>, cancel: CancellationToken) {
        let mut tasks = JoinSet::new();
        let mut changed: BTreeSet<Key> = self.index.keys(Kind::RackAgent).into_iter().collect();
        loop {
            for key in std::mem::take(&mut changed) {
                self.reconcile(&key, &mut tasks, &cancel);
            }
            self.count();
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
        let Some(object) = self.index.rack_agent(key) else {
            self.remove(key);
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
                self.remove(key);
                self.status.mark_disconnected(key, &why.into(), &seen);
                return;
            }
        };
        if self.agents.read().get(key).is_some_and(|a| a.spec == spec) {
            return;
        }
        let mut seen_journals = SeenJournals::of(&object);
        if let Some(before) = self.agents.read().get(key) {
            seen_journals.merge(&before.seen_journals);
        }
        self.remove(key);
        let (stop, probe_now) = (cancel.child_token(), Arc::new(Notify::new()));
        let agent = Agent {
            spec: spec.clone(),
            state: State::Silent {
                why: "not connected yet".to_owned().into(),
            },
            client: None,
            clock: None,
            hosts: Vec::new(),
            journal: String::new(),
            reported_journals: seen_journals.clone(),
            seen_journals,
            holds: Vec::new(),
            seen: false,
            tried: false,
            probe_now: probe_now.clone(),
            stop: stop.clone(),
        };
        self.agents.write().insert(key.clone(), agent);
        self.rebuild_rack(&spec.rack);
        let (this, key) = (self.clone(), key.clone());
        tasks.spawn(async move { this.maintain(&key, &spec, &probe_now, &stop).await });
    }

    fn remove(&self, key: &Key) {
        let removed = self.agents.write().remove(key);
        if let Some(agent) = removed {
            agent.stop.cancel();
            let rack = agent.spec.rack;
            self.rebuild_rack(&rack);
            self.index.announce(&Change::Agent(rack));
        }
    }

    fn count(&self) {
        let agents = self.agents.read();
        let (mut connected, mut outliers) = (0, 0);
        for (_, agent) in agents.iter() {
            match &agent.state {
                State::Ready { .. } => connected += 1,
                State::Silent {
                    why: ConnectError::TermOutlier(_),
                } => outliers += 1,
                State::Silent { .. } => {}
            }
        }
        self.metrics.set(agents.len(), connected, outliers);
    }

    fn term(&self, number: u64) -> v1::Term {
        v1::Term {
            election: self.election.clone(),
            number,
            holder: self.leader.identity().to_owned(),
        }
    }

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

    fn rebuild_rack(&self, name: &str) {
        let agents = self.agents.read();
        let of_rack = agents.of_rack(name);
        let said = of_rack.map(|(_, a)| (&a.spec, a.hosts.as_slice()));
        let rack = racks::of(said).remove(name);
        // Under the lock of the agents, so that an older result never replaces a newer one.
        let mut racks = self.racks.write();
        match rack {
            Some(rack) => racks.set(name, rack),
            None => racks.remove(name),
        }
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

    /// Probes the agents of a rack now, after a call to one has failed: another one may take over.
    pub(crate) fn probe_rack(&self, rack: &str) {
        let agents = self.agents.read();
        for (_, agent) in agents.of_rack(rack) {
            agent.probe_now.notify_waiters();
        }
    }

    /// The next sequence number. One counter serves all hosts, so it also increases for each host.
    fn sequence(&self) -> u64 {
        self.counter
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }
}

/// Whether a change concerns the connections to rack agents.
pub(crate) fn concerns(change: &Change) -> bool {
    matches!(change, Change::Object(Kind::RackAgent, _))
}

/// The RackAgent that a change concerns, if any.
fn rack_agent(change: Change) -> Option<Key> {
    match change {
        Change::Object(Kind::RackAgent, key) => Some(key),
        _ => None,
    }
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
