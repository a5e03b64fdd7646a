//! The connection task of one agent: claims the term, lists the hosts, and detects silence.

use std::time::Duration;

use rackhand_api::kinds::rack_agent::RackAgentSpec;
use rackhand_proto::v1;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{clock::AgentClock, required};
use crate::{
    agents::{Agents, CALL, Client, ConnectError, State, within},
    store::{index::Change, object::Key},
};

/// Interval of probes, after which the silence of an agent is detected.
const PROBE: Duration = Duration::from_secs(5);
/// Interval of probes of a silent agent.
const PROBE_SILENT: Duration = Duration::from_secs(1);

impl Agents {
    /// Probes the agent until `stop`.
    pub(in crate::agents) async fn maintain(
        &self,
        key: &Key,
        spec: &RackAgentSpec,
        probe_now: &Notify,
        stop: &CancellationToken,
    ) {
        let mut client = match (self.connect)(&spec.endpoint, &spec.rack, &self.tls) {
            Ok(channel) => Client::new(channel),
            Err(error) => {
                self.mark_disconnected(key, &error.to_string().into());
                return;
            }
        };
        loop {
            let wait = match self.probe(&mut client, key, spec).await {
                Ok(()) => PROBE,
                Err(why) => {
                    self.mark_disconnected(key, &why);
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
        let Some(number) = self.leader.term() else {
            return Err("this process does not lead".to_owned().into());
        };
        let standby = !self.serves(key, &spec.rack);
        let mut claim = tonic::Request::new(v1::ClaimTermRequest {
            term: Some(self.term(number)),
            standby,
            known_journals: self.seen_journals(key),
            sequence: self.sequence(),
            list_hosts: true,
        });
        claim.set_timeout(CALL);
        let mut claimed = within(client.claim_term(claim)).await?;
        if !claimed.accepted {
            let highest = claimed.highest;
            self.leader.raise_term(&key.to_string(), number, highest)?;
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
        self.mark_ready(key, &state, client, listed, clock);
        Ok(())
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

    fn emit_event(&self, key: &Key, why: &ConnectError) {
        if let Some(object) = self.index.rack_agent(key) {
            self.events
                .send(&object, true, why.reason(), &why.to_string());
        }
    }
}
