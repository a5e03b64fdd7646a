//! Puts the overview together.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::{SignedDuration, Timestamp};

use super::{
    BareMetalHostEntry, HostCounts, HostState, HostView, InventoryEntry, NodeEntry, NodeReady,
    Overview, OverviewFacts, RackView, RemediationEntry, RunningRemediation, hosts::NodeIndex,
};
use crate::hosts::RackNetworks;

/// How long a finished remediation is shown.
const SHOWN_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Computes the overview for `now`.
pub fn overview(facts: &OverviewFacts, now: Timestamp) -> Overview {
    let mut builder = Builder::new(facts);
    for agent in &facts.agents {
        let rack = builder.racks.entry(agent.rack.clone()).or_default();
        rack.agents.push(agent.view.clone());
        for host in &agent.hosts {
            builder.add_inventory(&agent.rack, host);
        }
    }
    for host in &facts.bare_metal_hosts {
        builder.add_bare_metal_host(host);
    }
    let (racks, counts) = builder.finish();
    let mut remediations: Vec<RemediationEntry> = facts.running.iter().map(entry).collect();
    remediations.sort_by_key(|r| (!r.view.blocked, r.view.since, r.view.remediation.clone()));
    let is_recent = |at: Timestamp| now.duration_since(at) <= SHOWN_FOR;
    Overview {
        now,
        leader: facts.leader.clone(),
        counts,
        racks,
        unreachable_clusters: facts.unreachable.clone(),
        shared_causes: facts.shared_causes.clone(),
        maintenances: facts.maintenances.clone(),
        checks: facts.checks.clone(),
        remediations,
        finished: facts
            .finished
            .iter()
            .filter(|f| is_recent(f.finished))
            .cloned()
            .collect(),
    }
}

fn entry(running: &RunningRemediation) -> RemediationEntry {
    RemediationEntry {
        host: running
            .host
            .as_ref()
            .map(|(rack, host)| format!("{rack}/{host}")),
        node: running.node.as_ref().map(|(_, name)| name.clone()),
        requested_by: running.requested_by.clone(),
        timeline: running.timeline.clone(),
        view: running.view.clone(),
    }
}

#[derive(Default)]
struct RackBuilder {
    agents: Vec<super::AgentView>,
    hosts: Vec<HostView>,
}

struct Builder<'a> {
    racks: BTreeMap<String, RackBuilder>,
    /// BMC networks by rack, to find the rack of a BareMetalHost without a label.
    networks: RackNetworks,
    /// The rack that has agents, if there is only one.
    only_rack: Option<&'a str>,
    nodes: NodeIndex<'a>,
    by_host: BTreeMap<(&'a str, &'a str), &'a RunningRemediation>,
    by_node: BTreeMap<(&'a str, &'a str), &'a RunningRemediation>,
    /// Hosts of inventories, because two agents of a rack report the same ones.
    seen: BTreeSet<(&'a str, &'a str)>,
    /// Nodes that a host of an inventory runs: their BareMetalHost is the same host.
    placed: BTreeMap<(&'a str, &'a str), (String, usize)>,
    counts: HostCounts,
}

impl<'a> Builder<'a> {
    fn new(facts: &'a OverviewFacts) -> Self {
        let mut networks = RackNetworks::default();
        for agent in &facts.agents {
            networks.add(&agent.rack, &agent.bmc_networks);
        }
        let with_agents: BTreeSet<&str> = facts.agents.iter().map(|a| a.rack.as_str()).collect();
        let only_rack = with_agents.first().filter(|_| with_agents.len() == 1);
        let named =
            |key: &'a Option<(String, String)>| key.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
        let running = || facts.running.iter();
        Self {
            racks: BTreeMap::new(),
            networks,
            only_rack: only_rack.copied(),
            nodes: NodeIndex::new(&facts.nodes),
            by_host: running()
                .filter_map(|r| Some((named(&r.host)?, r)))
                .collect(),
            by_node: running()
                .filter_map(|r| Some((named(&r.node)?, r)))
                .collect(),
            seen: BTreeSet::new(),
            placed: BTreeMap::new(),
            counts: HostCounts::default(),
        }
    }

    fn add_inventory(&mut self, rack: &'a str, host: &'a InventoryEntry) {
        if !self.seen.insert((rack, &host.name)) {
            return;
        }
        let node = self.nodes.of_inventory(host);
        let mut view = self.host(rack, &host.name, node);
        view.position.clone_from(&host.position);
        view.held_by.clone_from(&host.held_by);
        let hosts = &mut self.racks.entry(rack.to_owned()).or_default().hosts;
        if let Some(node) = node {
            let place = (rack.to_owned(), hosts.len());
            self.placed.insert((&node.cluster, &node.name), place);
        }
        hosts.push(view);
    }

    fn add_bare_metal_host(&mut self, host: &'a BareMetalHostEntry) {
        let named = host.node.as_ref().map(|(c, n)| (c.as_str(), n.as_str()));
        let power = host.powered_on.map(|on| if on { "on" } else { "off" });
        if let Some((rack, at)) = named.and_then(|node| self.placed.get(&node)) {
            let known = self.racks.get_mut(rack).and_then(|r| r.hosts.get_mut(*at));
            if let Some(known) = known.filter(|known| known.power.is_none()) {
                known.power = power.map(str::to_owned);
            }
            return;
        }
        let rack = match &host.rack {
            Some(rack) => rack.clone(),
            None => match self.networks.serving(&host.address).as_slice() {
                [rack] => (*rack).to_owned(),
                [] => self.only_rack.unwrap_or_default().to_owned(),
                _ => String::new(),
            },
        };
        let node = named.and_then(|node| self.nodes.named(node));
        let mut view = self.host(&rack, &host.name, node);
        if view.power.is_none() {
            view.power = power.map(str::to_owned);
        }
        self.racks.entry(rack).or_default().hosts.push(view);
    }

    fn host(&self, rack: &str, name: &str, node: Option<&NodeEntry>) -> HostView {
        let of_node = node.and_then(|n| self.by_node.get(&(n.cluster.as_str(), n.name.as_str())));
        let running = self.by_host.get(&(rack, name)).or(of_node);
        let (state, since) = match (running, node) {
            (Some(r), _) if r.view.blocked => (HostState::Blocked, r.view.since),
            (Some(r), _) => (HostState::Remediating, r.view.since),
            (None, Some(n)) if n.ready == NodeReady::True => (HostState::Ready, n.since),
            (None, Some(n)) => (HostState::NotReady, n.since),
            (None, None) => (HostState::WithoutNode, None),
        };
        HostView {
            name: name.to_owned(),
            position: String::new(),
            node: node.map(|n| match n.cluster.as_str() {
                "" => n.name.clone(),
                cluster => format!("{cluster}/{}", n.name),
            }),
            state,
            since,
            power: running.and_then(|r| r.power.clone()),
            step: running.map(|r| r.view.step.clone()),
            remediation: running.map(|r| r.view.remediation.clone()),
            held_by: String::new(),
            fencing_unavailable: node.and_then(|n| n.fencing_unavailable.clone()),
        }
    }

    fn finish(mut self) -> (Vec<RackView>, HostCounts) {
        let none = self.racks.remove("");
        let of_no_rack = none.map(|rack| (String::new(), rack));
        let mut racks = Vec::new();
        for (name, mut rack) in self.racks.into_iter().chain(of_no_rack) {
            for host in &rack.hosts {
                self.counts.add(host);
            }
            rack.hosts
                .sort_by_cached_key(|h| (Reverse(unit(&h.position)), natural(&h.name)));
            racks.push(RackView {
                name,
                agents: rack.agents,
                hosts: rack.hosts,
            });
        }
        (racks, self.counts)
    }
}

impl HostCounts {
    fn add(&mut self, host: &HostView) {
        self.all += 1;
        self.fencing_unavailable += usize::from(host.fencing_unavailable.is_some());
        *match host.state {
            HostState::Ready => &mut self.ready,
            HostState::NotReady => &mut self.not_ready,
            HostState::Remediating => &mut self.remediating,
            HostState::Blocked => &mut self.blocked,
            HostState::WithoutNode => &mut self.without_node,
        } += 1;
    }
}

/// The rack unit that a position names: its last number.
fn unit(position: &str) -> Option<u32> {
    let mut numbers = position.split(|c: char| !c.is_ascii_digit());
    numbers.rfind(|n| !n.is_empty())?.parse().ok()
}

/// Orders `node-2` before `node-10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text_ends = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, tail) = rest.split_at(text_ends);
        let number_ends = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (number, tail) = tail.split_at(number_ends);
        parts.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = tail;
    }
    parts
}
