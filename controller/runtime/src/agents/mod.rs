//! Connections to rack agents.
//!
//! Owns one task per RackAgent object: claims the leader's term, lists the hosts, notices silence.
//! Must never send a command in a term that this process does not hold at that moment (F7).

mod calls;
mod holds;
mod journals;
mod racks;
mod serving;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::api::DynamicObject;
use parking_lot::{Mutex, RwLock};
use rackhand_api::kinds::rack_agent::RackAgentSpec;
use rackhand_core::{hosts::Rack, lease::TermOutlier};
use rackhand_proto::{ClientTls, classify, connect_lazy, v1};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

pub(crate) use calls::{CallFailure, Followed, OffRequest, Wanted};
pub(crate) use holds::Held;
use journals::SeenJournals;
pub(crate) use status::AgentStatus;

use crate::{
    events::Events,
    index::{Change, Inbox, Index},
    leader::Leader,
    metrics::Metrics,
    object::Key,
};

type Client = v1::power_client::PowerClient<Channel>;

/// Time between two looks at an agent; also how soon its silence is noticed.
const PROBE: Duration = Duration::from_secs(5);
/// The same while it is silent.
const PROBE_SILENT: Duration = Duration::from_secs(1);
/// How long a call to an agent that does not touch a BMC may take.
const CALL: Duration = Duration::from_secs(3);

/// What is known of an agent.
#[derive(Clone, PartialEq, Eq)]
enum State {
    Silent { why: Silence },
    Ready { term: u64, standby: bool },
}

/// Why an agent is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Silence {
    /// It does not answer, or not as it should.
    #[error("{0}")]
    Unreachable(String),
    /// It refuses our term, and its own is not followed.
    #[error(transparent)]
    TermOutlier(#[from] TermOutlier),
}

impl Silence {
    /// The reason of the condition and of the Event.
    fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "NotConnected",
            Self::TermOutlier(_) => "TermOutlier",
        }
    }
}

impl From<String> for Silence {
    fn from(why: String) -> Self {
        Self::Unreachable(why)
    }
}

struct Agent {
    spec: RackAgentSpec,
    state: State,
    client: Option<Client>,
    hosts: Vec<v1::Host>,
    /// The instance of its journal; empty: it does not say.
    journal: String,
    seen_journals: SeenJournals,
    /// Those that its status shows.
    shown_journals: SeenJournals,
    /// The hosts that its journal holds off.
    holds: Vec<v1::Hold>,
    seen: bool,
    /// It was looked at, whatever came of it.
    tried: bool,
    stop: CancellationToken,
}

/// All agents.
pub(crate) struct Agents {
    agents: RwLock<BTreeMap<Key, Agent>>,
    /// Which agent serves each rack: it is kept while it answers. Locked after `agents`.
    serving: Mutex<BTreeMap<String, Key>>,
    /// What each rack serves, made anew when that changes and not whenever somebody asks.
    racks: RwLock<Arc<BTreeMap<String, Rack>>>,
    counter: AtomicU64,
    leader: Leader,
    election: String,
    tls: ClientTls,
    index: Arc<Index>,
    metrics: Arc<Metrics>,
    status: AgentStatus,
    events: Events,
    bell: Notify,
}

impl Agents {
    pub(crate) fn new(
        leader: Leader,
        election: String,
        tls: ClientTls,
        index: Arc<Index>,
        metrics: Arc<Metrics>,
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
            index,
            metrics,
            status,
            events,
            bell: Notify::new(),
        })
    }

    /// Keeps a connection per RackAgent of the index until `cancel`.
    pub(crate) async fn run(self: Arc<Self>, inbox: Arc<Inbox>, cancel: CancellationToken) {
        let mut tasks = JoinSet::new();
        loop {
            self.reconcile(&mut tasks, &cancel);
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = inbox.take() => {}
                Some(_) = tasks.join_next() => {}
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    fn reconcile(self: &Arc<Self>, tasks: &mut JoinSet<()>, cancel: &CancellationToken) {
        let objects: BTreeMap<Key, Arc<DynamicObject>> =
            self.index.rack_agents().into_iter().collect();
        let gone: BTreeSet<Key> = self
            .agents
            .read()
            .keys()
            .filter(|k| !objects.contains_key(k))
            .cloned()
            .collect();
        for key in gone {
            self.remove(&key);
        }
        for (key, object) in objects {
            let spec = object
                .data
                .get("spec")
                .ok_or_else(|| "spec is missing".to_owned())
                .and_then(|s| {
                    serde_json::from_value::<RackAgentSpec>(s.clone())
                        .map_err(|e| format!("spec: {e}"))
                });
            let spec = match spec {
                Ok(spec) => spec,
                Err(why) => {
                    let seen = SeenJournals::of(&object);
                    self.remove(&key);
                    self.status.silent(&key, &why.into(), &seen);
                    continue;
                }
            };
            if self.agents.read().get(&key).is_some_and(|a| a.spec == spec) {
                continue;
            }
            let mut seen_journals = SeenJournals::of(&object);
            if let Some(before) = self.agents.read().get(&key) {
                seen_journals.merge(&before.seen_journals);
            }
            self.remove(&key);
            let stop = cancel.child_token();
            let agent = Agent {
                spec: spec.clone(),
                state: State::Silent {
                    why: "not connected yet".to_owned().into(),
                },
                client: None,
                hosts: Vec::new(),
                journal: String::new(),
                shown_journals: seen_journals.clone(),
                seen_journals,
                holds: Vec::new(),
                seen: false,
                tried: false,
                stop: stop.clone(),
            };
            self.agents.write().insert(key.clone(), agent);
            self.sum_up();
            let this = self.clone();
            tasks.spawn(async move { this.keep(&key, &spec, &stop).await });
        }
    }

    fn remove(&self, key: &Key) {
        let removed = self.agents.write().remove(key);
        if let Some(agent) = removed {
            agent.stop.cancel();
            self.sum_up();
            self.index.announce(&Change::Agent);
        }
    }

    async fn keep(&self, key: &Key, spec: &RackAgentSpec, stop: &CancellationToken) {
        let mut client = match connect_lazy(&spec.endpoint, &spec.rack, &self.tls) {
            Ok(channel) => Client::new(channel),
            Err(error) => {
                self.silent(key, &error.to_string().into());
                return;
            }
        };
        loop {
            let wait = match self.look(&mut client, key, spec).await {
                Ok(()) => PROBE,
                Err(why) => {
                    self.silent(key, &why);
                    PROBE_SILENT
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.bell.notified() => {}
            }
        }
    }

    /// Claims the term and lists the hosts.
    async fn look(
        &self,
        client: &mut Client,
        key: &Key,
        spec: &RackAgentSpec,
    ) -> Result<(), Silence> {
        let Some(number) = self.leader.term() else {
            return Err("this process does not lead".to_owned().into());
        };
        let standby = !self.serves(key, &spec.rack);
        let mut claim = tonic::Request::new(v1::ClaimTermRequest {
            term: Some(self.term(number)),
            standby,
            known_journals: self.seen_journals(key),
        });
        claim.set_timeout(CALL);
        let claimed = within(client.claim_term(claim)).await?;
        if !claimed.accepted {
            let highest = claimed.highest;
            self.leader.raise_term(&key.to_string(), number, highest)?;
            return Err(format!(
                "it has promised itself to term {highest} of this election; ours is {number} and goes up"
            )
            .into());
        }
        let mut list = tonic::Request::new(v1::ListHostsRequest {});
        list.set_timeout(CALL);
        let listed = within(client.list_hosts(list)).await?;
        if listed.rack != spec.rack {
            return Err(format!("it serves rack {:?}, not {:?}", listed.rack, spec.rack).into());
        }
        let state = State::Ready {
            term: number,
            standby,
        };
        self.ready(key, &state, client, listed);
        Ok(())
    }

    fn ready(&self, key: &Key, state: &State, client: &Client, listed: v1::ListHostsResponse) {
        let news = {
            let mut agents = self.agents.write();
            let Some(agent) = agents.get_mut(key) else {
                return;
            };
            agent.seen_journals.see(listed.journal.as_ref());
            let grew = agent.seen_journals != agent.shown_journals;
            let journal = listed.journal.unwrap_or_default().instance;
            let news =
                agent.state != *state || agent.hosts != listed.hosts || agent.journal != journal;
            if !agent.journal.is_empty() && agent.journal != journal {
                tracing::warn!(agent = %key, old = agent.journal, new = journal, "rack agent has another journal");
            }
            agent.state = state.clone();
            agent.client = Some(client.clone());
            agent.hosts = listed.hosts;
            agent.journal = journal;
            agent.holds = listed.holds;
            (agent.seen, agent.tried) = (true, true);
            if let State::Ready { term, standby } = *state
                && (news || grew)
            {
                let (rack, hosts) = (&agent.spec.rack, agent.hosts.as_slice());
                self.status
                    .ready(key, rack, term, standby, hosts, &agent.seen_journals);
                agent.shown_journals = agent.seen_journals.clone();
            }
            news.then(|| (agent.spec.clone(), agent.hosts.len()))
        };
        if let Some((spec, hosts)) = news {
            if let State::Ready { term, standby } = *state {
                tracing::info!(agent = %key, rack = spec.rack, hosts, term, standby, "rack agent connected");
            }
            self.sum_up();
            self.index.announce(&Change::Agent);
        }
        self.count();
    }

    fn silent(&self, key: &Key, why: &Silence) {
        let news = {
            let mut agents = self.agents.write();
            let Some(agent) = agents.get_mut(key) else {
                return;
            };
            let news = !matches!(&agent.state, State::Silent { why: w } if w == why);
            agent.state = State::Silent { why: why.clone() };
            agent.client = None;
            agent.tried = true;
            news.then(|| agent.seen_journals.clone())
        };
        if let Some(seen) = news {
            tracing::warn!(agent = %key, %why, "rack agent is not used");
            self.status.silent(key, why, &seen);
            if matches!(why, Silence::TermOutlier(_)) {
                self.tell(key, why);
            }
            self.index.announce(&Change::Agent);
            // Another agent of the rack may take over.
            self.look_again();
        }
        self.count();
    }

    fn tell(&self, key: &Key, why: &Silence) {
        let objects = self.index.rack_agents().into_iter();
        for (_, object) in objects.filter(|(k, _)| k == key) {
            self.events
                .send(&object, true, why.reason(), &why.to_string());
        }
    }

    fn seen_journals(&self, key: &Key) -> Vec<v1::Journal> {
        let agents = self.agents.read();
        let agent = agents.get(key);
        agent.map_or_else(Vec::new, |agent| agent.seen_journals.to_proto())
    }

    /// Takes up which journal has answered a call.
    fn see_journal(&self, agent: &str, journal: Option<&v1::Journal>) {
        let mut agents = self.agents.write();
        if let Some(agent) = agents.get_mut(&Key::new("", agent)) {
            agent.seen_journals.see(journal);
        }
    }

    fn count(&self) {
        let agents = self.agents.read();
        let (mut connected, mut outliers) = (0, 0);
        for agent in agents.values() {
            match &agent.state {
                State::Ready { .. } => connected += 1,
                State::Silent {
                    why: Silence::TermOutlier(_),
                } => outliers += 1,
                State::Silent { .. } => {}
            }
        }
        drop(agents);
        self.metrics.set_agents(connected, outliers);
    }

    fn term(&self, number: u64) -> v1::Term {
        v1::Term {
            election: self.election.clone(),
            number,
            holder: self.leader.identity().to_owned(),
        }
    }

    /// What each rack serves; an agent that has fallen silent still counts with what it said last.
    pub(crate) fn racks(&self) -> Arc<BTreeMap<String, Rack>> {
        self.racks.read().clone()
    }

    /// Whether the inventory of a rack knows a host.
    pub(crate) fn has_host(&self, rack: &str, host: &str) -> bool {
        let agents = self.agents.read();
        let mut serving = agents.values().filter(|a| a.spec.rack == rack);
        serving.any(|a| a.hosts.iter().any(|h| h.name == host))
    }

    fn sum_up(&self) {
        let agents = self.agents.read();
        let said = agents.values().map(|a| (&a.spec, a.hosts.as_slice()));
        let racks = Arc::new(racks::of(said));
        // Under the lock of the agents, so that an older sum never replaces a newer one.
        *self.racks.write() = racks;
    }

    /// Agents that never said which hosts they have: a host that is not found may be theirs.
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

    /// Look at all agents again now: a call to one has failed.
    pub(crate) fn look_again(&self) {
        self.bell.notify_waiters();
    }

    /// The next sequence: one counter for all hosts grows for each of them too.
    fn sequence(&self) -> u64 {
        self.counter
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }
}

/// A call with a deadline of our own: the one in the request is kept by the other side.
async fn within<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, String> {
    match tokio::time::timeout(CALL * 2, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(classify(&status).message),
        Err(_) => Err(format!("no answer within {:?}", CALL * 2)),
    }
}
