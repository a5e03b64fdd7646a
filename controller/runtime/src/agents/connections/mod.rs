//! The connections to agents: what is known of each agent, which one serves a rack, and one task for each of them.

mod agent;
pub(super) mod clock;
#[cfg(test)]
pub(crate) mod fixture;
pub(super) mod inventories;
mod known;
pub(super) mod required;
pub(super) mod serving;
mod tasks;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, RwLock};
use rackhand_core::hosts::Racks;
use rackhand_proto::v1;

pub(super) use agent::ConnectError;
use agent::{Agent, State};
use clock::AgentClock;
use known::KnownAgents;
pub(crate) use tasks::ConnectionTasks;

use super::{AgentMetrics, AgentStatus, Client, racks};
use crate::{
    leader::events::Events,
    store::{
        index::{Change, Index},
        object::Key,
    },
};

/// What is known of all rack agents.
pub(crate) struct AgentConnections {
    agents: RwLock<KnownAgents>,
    /// The agent that serves each rack, which is kept while it answers. Locked after `agents`.
    serving: Mutex<BTreeMap<String, Key>>,
    /// The hosts of each rack, replaced when an agent of it changes. Locked after `agents`.
    racks: RwLock<Racks>,
    index: Arc<Index>,
    metrics: AgentMetrics,
    status: AgentStatus,
    events: Events,
}

impl AgentConnections {
    pub(super) fn new(
        index: Arc<Index>,
        metrics: AgentMetrics,
        status: AgentStatus,
        events: Events,
    ) -> Self {
        Self {
            agents: RwLock::default(),
            serving: Mutex::default(),
            racks: RwLock::default(),
            index,
            metrics,
            status,
            events,
        }
    }

    fn insert(&self, key: Key, agent: Agent) {
        let rack = agent.spec.rack.clone();
        self.agents.write().insert(key, agent);
        self.rebuild_rack(&rack);
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

    fn mark_ready(
        &self,
        key: &Key,
        state: &State,
        client: &Client,
        listed: v1::ListHostsResponse,
        clock: AgentClock,
    ) {
        let changed = {
            let mut agents = self.agents.write();
            let Some(agent) = agents.get_mut(key) else {
                return;
            };
            agent.seen_journals.see(listed.journal.as_ref());
            let new_journal = agent.seen_journals != agent.reported_journals;
            let journal = listed.journal.unwrap_or_default().instance;
            let changed =
                agent.state != *state || agent.hosts != listed.hosts || agent.journal != journal;
            if !agent.journal.is_empty() && agent.journal != journal {
                tracing::warn!(agent = %key, old = agent.journal, new = journal, "rack agent has another journal");
            }
            agent.state = state.clone();
            agent.client = Some(client.clone());
            agent.clock = Some(clock);
            agent.hosts = listed.hosts;
            agent.journal = journal;
            agent.holds = listed.holds;
            (agent.seen, agent.tried) = (true, true);
            if let State::Ready { term, standby } = *state
                && (changed || new_journal)
            {
                let (rack, hosts) = (&agent.spec.rack, agent.hosts.as_slice());
                self.status
                    .mark_ready(key, rack, term, standby, hosts, &agent.seen_journals);
                agent.reported_journals = agent.seen_journals.clone();
            }
            changed.then(|| (agent.spec.clone(), agent.hosts.len()))
        };
        if let Some((spec, hosts)) = changed {
            if let State::Ready { term, standby } = *state {
                tracing::info!(agent = %key, rack = spec.rack, hosts, term, standby, "rack agent connected");
            }
            self.rebuild_rack(&spec.rack);
            self.index.announce(&Change::Agent(spec.rack));
            self.count();
        }
    }

    fn mark_disconnected(&self, key: &Key, why: &ConnectError) {
        let changed = {
            let mut agents = self.agents.write();
            let Some(agent) = agents.get_mut(key) else {
                return;
            };
            let changed = !matches!(&agent.state, State::Silent { why: w } if w == why);
            agent.state = State::Silent { why: why.clone() };
            agent.client = None;
            agent.tried = true;
            changed.then(|| (agent.spec.rack.clone(), agent.seen_journals.clone()))
        };
        if let Some((rack, journals)) = changed {
            tracing::warn!(agent = %key, %why, "rack agent is not used");
            self.status.mark_disconnected(key, why, &journals);
            if !matches!(why, ConnectError::Unreachable(_)) {
                self.emit_event(key, why);
            }
            // Another agent of the rack may take over.
            self.probe_rack(&rack);
            self.index.announce(&Change::Agent(rack));
            self.count();
        }
    }

    fn seen_journals(&self, key: &Key) -> Vec<v1::Journal> {
        let agents = self.agents.read();
        let agent = agents.get(key);
        agent.map_or_else(Vec::new, |agent| agent.seen_journals.to_proto())
    }

    /// Records the journal that an agent reported in a response.
    pub(in crate::agents) fn see_journal(&self, agent: &str, journal: Option<&v1::Journal>) {
        let mut agents = self.agents.write();
        if let Some(agent) = agents.get_mut(&Key::new("", agent)) {
            agent.seen_journals.see(journal);
        }
    }

    /// Forgets the holds of an owner that an agent has released. Otherwise they would be released once more, and
    /// reported as left, until the next query of the agent.
    pub(in crate::agents) fn forget_hold(&self, agent: &str, owner: &str) {
        let mut agents = self.agents.write();
        if let Some(agent) = agents.get_mut(&Key::new("", agent)) {
            agent.holds.retain(|hold| hold.owner != owner);
        }
    }

    /// Probes the agents of a rack now, after a call to one has failed: another one may take over.
    pub(in crate::agents) fn probe_rack(&self, rack: &str) {
        let agents = self.agents.read();
        for (_, agent) in agents.of_rack(rack) {
            agent.probe_now.notify_waiters();
        }
    }

    fn emit_event(&self, key: &Key, why: &ConnectError) {
        if let Some(object) = self.index.rack_agent(key) {
            self.events
                .send(&object, true, why.reason(), &why.to_string());
        }
    }
}
