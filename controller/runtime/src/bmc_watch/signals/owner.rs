//! The state of all watched hosts, which one task owns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt};
use rackhand_core::{
    fleet::shared_cause::HostName,
    remediation::LeaseFacts,
    signals::{
        ConditionStatus, HardwareHealth, ListInterest, NotAFailure, OsStoppedFacts, PowerLoss,
        PowerLostFacts, Published, RackLosses, Signal, SignalCondition, end_of_disabled,
        hardware_failing, list_pace, os_stopped,
    },
};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    SignalWatch, facts,
    leases::{KnownLeases, ListedLeases, list},
    machines::Machines,
    metrics::SignalCounts,
    streams::Streams,
};
use crate::{
    agents::{WatchEvent, WatchedHost},
    bmc_watch::watched::{Fleet, Watched},
    leader::{
        node_conditions::{self, NewCondition},
        writer::Lane,
    },
    store::{object::Key, time_slice::TimeSlice},
};

/// Time between two live reads of the Node of a host that seems to have lost its power.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// The same once [`READS`] have not shown it: somebody works on the host, or its whole rack has no power.
const READ_AGAIN_LATER: SignedDuration = SignedDuration::from_secs(30);
/// Live reads in quick succession, which cover the time in which a Lease grows old.
const READS: u32 = 15;
/// Other hosts of a rack that are read at once when one has lost its power.
const RACK_SAMPLE: usize = 16;

/// What a task of the owner has done.
pub(super) enum Completed {
    /// A task that keeps a stream has ended.
    Stream,
    /// The Leases of a cluster were listed.
    Leases(Key, ListedLeases),
    /// The Node of a host was read live, after this time.
    Node(String, Timestamp, Option<(Box<Node>, Option<LeaseFacts>)>),
    /// The condition of a host was written, or not (`None`).
    Written(String, Signal, Option<SignalCondition>),
    /// The Machines of a Node show what it shows.
    Machine,
    /// All Machines show what their Nodes show.
    Machines,
}

/// One watched host with a Node.
struct Host {
    watched: Arc<Watched>,
    cluster: Key,
    node: String,
    /// `cluster/node`.
    name: HostName,
    loss: PowerLoss,
    /// The latest report of its agent; `None` while there is no stream.
    seen: Option<WatchedHost>,
    instance: String,
    health: HardwareHealth,
    /// What the Node shows of each signal: status and reason.
    published: BTreeMap<Signal, (ConditionStatus, String)>,
    /// The Node as it was read live when its host seemed to have lost its power.
    live: Option<Box<Node>>,
    is_reading: bool,
    /// Live reads since its power went off.
    reads: u32,
    read_after: Option<Timestamp>,
    writing: BTreeSet<Signal>,
    /// renewTime of the Lease for whose age the host was read.
    read_for: Option<String>,
}

impl Host {
    fn status(&self, signal: Signal) -> Option<ConditionStatus> {
        self.published.get(&signal).map(|(status, _)| *status)
    }

    /// Whether its Node shows a signal that is not False.
    fn has_signal(&self) -> bool {
        let mut shown = self.published.values();
        shown.any(|(status, _)| *status != ConditionStatus::False)
    }

    fn has_loss(&self) -> bool {
        self.loss.readings.loss().is_some()
    }

    fn list_interest(&self) -> ListInterest {
        ListInterest {
            is_reported: self.seen.is_some(),
            has_loss: self.has_loss(),
            has_signal: self.has_signal(),
        }
    }
}

/// The watched hosts of all racks.
pub(super) struct Owner {
    watch: SignalWatch,
    events: mpsc::Sender<(String, WatchEvent)>,
    hosts: BTreeMap<String, Host>,
    clusters: BTreeMap<Key, KnownLeases>,
    losses: RackLosses,
    streams: Streams,
    is_updating_machines: bool,
}

impl Owner {
    pub(super) fn new(watch: SignalWatch, events: mpsc::Sender<(String, WatchEvent)>) -> Self {
        Self {
            watch,
            events,
            hosts: BTreeMap::new(),
            clusters: BTreeMap::new(),
            losses: RackLosses::default(),
            streams: Streams::default(),
            is_updating_machines: false,
        }
    }

    /// Number of watched hosts with a Node.
    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Takes over the hosts of the fleet that have a Node.
    pub(super) fn place(&mut self, fleet: &Fleet) {
        let mut gone = std::mem::take(&mut self.hosts);
        for (id, watched) in fleet.hosts() {
            let Some((cluster, node)) = watched.node.clone() else {
                continue;
            };
            let kept = gone.remove(id);
            let kept = kept.filter(|host| host.cluster == cluster && host.node == node);
            let name: HostName = format!("{cluster}/{node}").into();
            let mut host = kept.unwrap_or_else(|| Host {
                watched: watched.clone(),
                cluster: cluster.clone(),
                node,
                name: name.clone(),
                loss: PowerLoss::default(),
                seen: None,
                instance: String::new(),
                health: HardwareHealth::default(),
                published: BTreeMap::new(),
                live: None,
                is_reading: false,
                reads: 0,
                read_after: None,
                writing: BTreeSet::new(),
                read_for: None,
            });
            host.watched = watched.clone();
            host.published = self.published(&host);
            self.losses.place(&name, &watched.host.rack);
            self.hosts.insert(id.to_owned(), host);
        }
        let names: BTreeSet<&HostName> = self.hosts.values().map(|host| &host.name).collect();
        for host in gone.values().filter(|host| !names.contains(&host.name)) {
            self.losses.remove(&host.name);
        }
        let clusters: BTreeSet<&Key> = self.hosts.values().map(|host| &host.cluster).collect();
        self.clusters
            .retain(|cluster, _| clusters.contains(cluster));
    }

    fn published(&self, host: &Host) -> BTreeMap<Signal, (ConditionStatus, String)> {
        let Some(node) = self.watch.index.node(&host.cluster, &host.node) else {
            return BTreeMap::new();
        };
        let signals = self.watch.signals.iter();
        let published =
            signals.filter_map(|signal| Some((*signal, facts::published(&node, *signal)?)));
        published.collect()
    }

    /// Opens streams, begins due lists, and decides on the hosts that something was read of.
    pub(super) fn tick(&mut self, tasks: &mut JoinSet<Completed>, now: Timestamp) {
        let mut racks: BTreeMap<String, BTreeMap<&str, (Arc<Watched>, bool)>> = BTreeMap::new();
        for (id, host) in &self.hosts {
            let is_refused = host.seen.as_ref().is_none_or(|seen| seen.is_refused);
            let of_rack = racks.entry(host.watched.host.rack.clone()).or_default();
            of_rack.insert(id, (host.watched.clone(), is_refused));
        }
        let names = racks.keys().cloned().collect();
        self.streams.open(&self.watch, &names, &self.events, tasks);
        for (rack, hosts) in &racks {
            self.streams.keep_hosts(&self.watch, rack, hosts, tasks);
        }
        self.begin_lists(tasks, now);
        self.judge_losses(now);
        let open: Vec<String> = {
            let hosts = self.hosts.iter();
            let open = hosts.filter(|(_, host)| host.has_loss() || host.has_signal());
            open.map(|(id, _)| id.clone()).collect()
        };
        for id in open {
            self.decide(tasks, &id, now);
        }
        self.show_counts();
    }

    fn begin_lists(&mut self, tasks: &mut JoinSet<Completed>, now: Timestamp) {
        let mut clusters: BTreeMap<Key, Vec<ListInterest>> = BTreeMap::new();
        for host in self.hosts.values() {
            let of_cluster = clusters.entry(host.cluster.clone()).or_default();
            of_cluster.push(host.list_interest());
        }
        for (cluster, hosts) in clusters {
            let Some(pace) = list_pace(hosts) else {
                continue;
            };
            let known = self.clusters.entry(cluster.clone()).or_default();
            let Some(client) = self.watch.workloads.client(&cluster) else {
                continue;
            };
            if known.begin_list(pace) {
                tasks.spawn(async move { Completed::Leases(cluster, list(client, now).await) });
            }
        }
    }

    /// Records who is off although nobody of ours has switched it, and judges what racks have in common.
    fn judge_losses(&mut self, now: Timestamp) {
        let mut any = false;
        for host in self.hosts.values() {
            let loss = host.loss.readings.loss();
            let loss = loss.filter(|loss| self.switched(host, loss.on).is_none());
            any |= loss.is_some();
            self.losses
                .record(&host.name, loss.map(|loss| loss.first_off), now);
        }
        if any {
            self.losses.judge(now);
        }
    }

    fn switched(&self, host: &Host, on: Timestamp) -> Option<NotAFailure> {
        let by_agent = host
            .seen
            .as_ref()
            .and_then(|seen| facts::switched(seen, on));
        by_agent.or_else(|| {
            let active = self.watch.active.lock();
            facts::remediation(active.values(), &host.watched, &host.name)
        })
    }

    /// A message of a stream.
    pub(super) fn reported(
        &mut self,
        tasks: &mut JoinSet<Completed>,
        rack: &str,
        event: WatchEvent,
        now: Timestamp,
    ) {
        let (instance, hosts) = match event {
            WatchEvent::Hosts { instance, hosts } => (instance, hosts),
            WatchEvent::Ended {
                why,
                is_unsupported,
            } => {
                self.streams.ended(rack, &why, is_unsupported);
                let of_rack = self.hosts.values_mut();
                for host in of_rack.filter(|host| host.watched.host.rack == rack) {
                    host.loss.readings.interrupt();
                    host.seen = None;
                }
                return;
            }
        };
        let mut lost = BTreeSet::new();
        // One of them: all have the same rack.
        let mut of_rack = None;
        for seen in hosts {
            let id = seen.id.clone();
            let Some(host) = self.hosts.get_mut(&id) else {
                continue;
            };
            let was_lost = host.loss.readings.loss().is_some();
            if seen.readings.is_empty() || host.instance != instance {
                host.loss.readings.interrupt();
                host.instance.clone_from(&instance);
            }
            for reading in &seen.readings {
                host.loss.readings.record(*reading);
            }
            let is_lost = host.loss.readings.loss().is_some();
            host.seen = Some(seen);
            if is_lost && !was_lost {
                host.live = None;
                (host.reads, host.read_after) = (0, None);
                of_rack.get_or_insert_with(|| host.name.clone());
                lost.insert(id.clone());
            }
            self.decide(tasks, &id, now);
        }
        let Some(of_rack) = of_rack else { return };
        // A second reading of them, and readings of those that may have lost their power with them.
        let others = self.losses.others_of_rack(&of_rack, RACK_SAMPLE);
        let of_names = self
            .hosts
            .iter()
            .filter(|(_, host)| others.contains(&host.name));
        lost.extend(of_names.map(|(id, _)| id.clone()));
        let lost: Vec<String> = lost.into_iter().collect();
        self.streams.read(&self.watch, rack, &lost);
    }

    /// The result of a task.
    pub(super) fn completed(
        &mut self,
        tasks: &mut JoinSet<Completed>,
        completed: Completed,
        now: Timestamp,
    ) {
        match completed {
            Completed::Stream | Completed::Machine => {}
            Completed::Machines => self.is_updating_machines = false,
            Completed::Leases(cluster, listed) => self.listed(tasks, &cluster, listed, now),
            Completed::Node(id, asked, read) => {
                let Some(host) = self.hosts.get_mut(&id) else {
                    return;
                };
                host.is_reading = false;
                host.reads = host.reads.saturating_add(1);
                let pause = if host.reads < READS {
                    READ_AGAIN
                } else {
                    READ_AGAIN_LATER
                };
                host.read_after = now.checked_add(pause).ok();
                let Some((node, lease)) = read else {
                    return;
                };
                host.live = Some(node);
                if let Some(lease) = lease {
                    let known = self.clusters.entry(host.cluster.clone()).or_default();
                    known.leases.record(&host.node, lease, asked);
                }
                self.decide_power(tasks, &id, now);
            }
            Completed::Written(id, signal, written) => {
                let Some(host) = self.hosts.get(&id) else {
                    return;
                };
                if let Some(condition) = written {
                    self.update_machine(tasks, host.node.clone(), signal, condition);
                }
                let published = self.published(host);
                if let Some(host) = self.hosts.get_mut(&id) {
                    host.writing.remove(&signal);
                    host.published = published;
                }
            }
        }
    }

    fn listed(
        &mut self,
        tasks: &mut JoinSet<Completed>,
        cluster: &Key,
        listed: ListedLeases,
        now: Timestamp,
    ) {
        let known = self.clusters.entry(cluster.clone()).or_default();
        known.end_list(listed.took, listed.leases.as_ref().map(Vec::len));
        let Ok(leases) = listed.leases else {
            return;
        };
        let memory = self.watch.leases.memory(cluster);
        let leases = leases.into_iter().map(|(node, renewed, duration)| {
            // A new renewTime is as old as the answer.
            let facts = memory.lock().observe(&node, renewed, duration, now);
            (node, facts)
        });
        known.leases.record_all(leases, listed.asked);
        // Hosts whose Lease has grown old are read at once, twice.
        let mut old: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut stopped = Vec::new();
        for (id, host) in self
            .hosts
            .iter_mut()
            .filter(|(_, host)| host.cluster == *cluster)
        {
            let Some(lease) = known.leases.of(&host.node) else {
                continue;
            };
            let is_new = host.read_for.as_ref() != Some(&lease.facts.renewed);
            if lease.has_moved && lease.silent_from() <= now && is_new && host.seen.is_some() {
                host.read_for = Some(lease.facts.renewed.clone());
                let of_rack = old.entry(host.watched.host.rack.clone()).or_default();
                of_rack.push(id.clone());
            }
            if host.seen.as_ref().is_some_and(|seen| seen.stop.is_some()) {
                stopped.push(id.clone());
            }
        }
        for (rack, hosts) in &old {
            if self.streams.read(&self.watch, rack, hosts) {
                continue;
            }
            // With the next list.
            for id in hosts {
                if let Some(host) = self.hosts.get_mut(id) {
                    host.read_for = None;
                }
            }
        }
        for id in stopped {
            self.decide(tasks, &id, now);
        }
    }

    /// Decides on every signal of a host.
    fn decide(&mut self, tasks: &mut JoinSet<Completed>, id: &str, now: Timestamp) {
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        let loss = host.loss.readings.loss();
        let published = host.status(Signal::PowerLost);
        let is_open = published == Some(ConditionStatus::True);
        let is_due = host.read_after.is_none_or(|at| at <= now);
        let switched = loss.and_then(|loss| self.switched(host, loss.on));
        if host.loss.needs_node(published, switched.as_ref()) {
            if !host.is_reading && is_due {
                self.read_node(tasks, id, now);
            }
        } else if is_open || switched.is_some() || host.loss.readings.is_on() {
            self.decide_power(tasks, id, now);
        }
        self.decide_os(tasks, id);
        self.decide_hardware(tasks, id, now);
    }

    /// Reads the Node and its Lease live before its host is said to have lost its power (F12).
    fn read_node(&mut self, tasks: &mut JoinSet<Completed>, id: &str, now: Timestamp) {
        let Some(host) = self.hosts.get_mut(id) else {
            return;
        };
        let Some(client) = self.watch.workloads.get(&host.cluster) else {
            return;
        };
        host.is_reading = true;
        let memory = self.watch.leases.memory(&host.cluster);
        let (id, node) = (id.to_owned(), host.node.clone());
        tasks.spawn(async move {
            let read = client.node(&node, &memory).await;
            let read = read.ok().and_then(|read| read.found);
            Completed::Node(id, now, read.map(|(node, lease)| (Box::new(node), lease)))
        });
    }

    fn decide_power(&mut self, tasks: &mut JoinSet<Completed>, id: &str, now: Timestamp) {
        if !self.watch.signals.contains(&Signal::PowerLost) {
            return;
        }
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        let known = self.clusters.get(&host.cluster);
        let lease = known.and_then(|known| known.leases.of(&host.node)).cloned();
        let others = known.map(|known| known.leases.others(&host.node));
        let on = host
            .loss
            .readings
            .loss()
            .map_or(Timestamp::MAX, |loss| loss.on);
        let is_lit = host.seen.as_ref().is_some_and(|seen| seen.is_locator_lit);
        let not_a_failure = self
            .switched(host, on)
            .or_else(|| host.live.as_deref().and_then(facts::by_node))
            .or_else(|| facts::by_owner(&self.watch.index, &host.watched))
            .or_else(|| is_lit.then_some(NotAFailure::LocatorLit));
        let shared = self.losses.of(&host.name, now);
        let Some(host) = self.hosts.get_mut(id) else {
            return;
        };
        let published = host.published.get(&Signal::PowerLost);
        let published = published.map(|(status, reason)| Published {
            status: *status,
            reason,
        });
        let condition = host.loss.decide(&PowerLostFacts {
            host: id,
            lease: lease.as_ref(),
            others: others.unwrap_or_default(),
            not_a_failure,
            shared,
            published,
        });
        self.publish(tasks, id, Signal::PowerLost, condition);
    }

    fn decide_os(&mut self, tasks: &mut JoinSet<Completed>, id: &str) {
        if !self.watch.signals.contains(&Signal::OsStopped) {
            return;
        }
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        let known = self.clusters.get(&host.cluster);
        let stop = host.seen.as_ref().and_then(|seen| seen.stop.as_ref());
        let condition = os_stopped(&OsStoppedFacts {
            host: id,
            is_on: host.loss.readings.is_on(),
            stop,
            lease: known.and_then(|known| known.leases.of(&host.node)),
            others: known
                .map(|known| known.leases.others(&host.node))
                .unwrap_or_default(),
            is_switched: self.switched(host, Timestamp::MAX).is_some(),
            published: host.status(Signal::OsStopped),
        });
        self.publish(tasks, id, Signal::OsStopped, condition);
    }

    fn decide_hardware(&mut self, tasks: &mut JoinSet<Completed>, id: &str, now: Timestamp) {
        if !self.watch.signals.contains(&Signal::HardwareFailing) {
            return;
        }
        let Some(host) = self.hosts.get_mut(id) else {
            return;
        };
        let reported = host.seen.as_ref().and_then(|seen| seen.defects.as_deref());
        let owner = facts::owner_report(&self.watch.index, &host.watched);
        let published = host.status(Signal::HardwareFailing);
        let condition = hardware_failing(&mut host.health, id, reported, &owner, published, now);
        self.publish(tasks, id, Signal::HardwareFailing, condition);
    }

    /// Writes a condition, unless the Node has it already with this reason.
    fn publish(
        &mut self,
        tasks: &mut JoinSet<Completed>,
        id: &str,
        signal: Signal,
        condition: Option<SignalCondition>,
    ) {
        let Some((host, condition)) = self.hosts.get_mut(id).zip(condition) else {
            return;
        };
        let Some(node) = self.watch.index.node(&host.cluster, &host.node) else {
            return;
        };
        let same = (condition.status, condition.reason.to_owned());
        if host.writing.contains(&signal) || facts::published(&node, signal) == Some(same) {
            return;
        }
        let Some(client) = self.watch.workloads.client(&host.cluster) else {
            return;
        };
        host.writing.insert(signal);
        let SignalCondition {
            status,
            reason,
            message,
        } = &condition;
        if *status == ConditionStatus::True {
            tracing::warn!(host = id, node = host.node, %signal, message, "hardware signal");
        } else {
            tracing::info!(host = id, node = host.node, %signal, reason, message, "hardware signal");
        }
        let watch = self.watch.clone();
        let (id, cluster, name) = (id.to_owned(), host.cluster.clone(), host.node.clone());
        tasks.spawn(async move {
            let is_written = write(&watch, client, (&cluster, &name), signal, &condition).await;
            Completed::Written(id, signal, is_written.then_some(condition))
        });
    }

    /// Begins to show on the Machines of a Node what was written to it. It is a task of its own, so that a slow API
    /// server of the management cluster delays no condition of a Node.
    fn update_machine(
        &self,
        tasks: &mut JoinSet<Completed>,
        node: String,
        signal: Signal,
        condition: SignalCondition,
    ) {
        let machines = Machines::of(&self.watch);
        tasks.spawn(async move {
            machines.follow(&node, signal, &condition).await;
            Completed::Machine
        });
    }

    /// Begins to show on all Machines what their Nodes show, unless that goes on.
    pub(super) fn update_machines(&mut self, tasks: &mut JoinSet<Completed>) {
        if std::mem::replace(&mut self.is_updating_machines, true) {
            return;
        }
        let hosts = self.hosts.values();
        let with_signal = hosts.filter(|host| !host.published.is_empty());
        let nodes = with_signal.map(|host| host.node.clone()).collect();
        let machines = Machines::of(&self.watch);
        tasks.spawn(async move {
            machines.follow_all(nodes).await;
            Completed::Machines
        });
    }

    fn show_counts(&self) {
        let mut counts = SignalCounts::default();
        // Who else waits for the lock is not to wait for a pass over all hosts.
        let active: Vec<_> = self.watch.active.lock().values().cloned().collect();
        for host in self.hosts.values() {
            match &host.seen {
                Some(seen) if !seen.readings.is_empty() => counts.watched += 1,
                Some(seen) if !seen.is_refused => {}
                _ => counts.unwatched += 1,
            }
            let is_true =
                |(_, (status, _)): &(_, &(ConditionStatus, _))| *status == ConditionStatus::True;
            for (signal, _) in host.published.iter().filter(is_true) {
                *counts.nodes.entry(*signal).or_default() += 1;
                let remediation = facts::remediation(active.iter(), &host.watched, &host.name);
                if remediation.is_none() {
                    *counts.without_remediation.entry(*signal).or_default() += 1;
                }
            }
        }
        self.watch.metrics.set(&counts);
    }
}

/// Writes the condition of a signal, and returns whether it is written. A failure is logged: the next decision writes
/// it again.
async fn write(
    watch: &SignalWatch,
    client: Client,
    (cluster, name): (&Key, &str),
    signal: Signal,
    condition: &SignalCondition,
) -> bool {
    let new = NewCondition {
        condition_type: signal.condition_type(),
        status: condition.status.label(),
        reason: condition.reason,
        message: &condition.message,
    };
    // It owns the condition of this signal and no other part of the status.
    let manager = format!("rackhand-signal-{}", signal.label().to_lowercase());
    let writer = watch.writer.on(Lane::Checks);
    let parts = (&writer, client, &*watch.index);
    let written = node_conditions::write(parts, (cluster, name), &manager, &new).await;
    if let Err(error) = &written {
        tracing::warn!(%error, "the condition is written again with the next decision");
    }
    written.is_ok()
}

/// Ends what is still published of signals that are switched off.
pub(super) async fn end_disabled(watch: &SignalWatch) {
    let disabled = Signal::ALL
        .into_iter()
        .filter(|signal| !watch.signals.contains(signal));
    let disabled: Vec<Signal> = disabled.collect();
    if disabled.is_empty() {
        return;
    }
    let mut clusters = watch.index.clusters();
    clusters.push(Key::local());
    let mut slice = TimeSlice::begin();
    for cluster in clusters {
        for node in watch.index.nodes_in_pages(&cluster) {
            slice.pause_if_over().await;
            for signal in &disabled {
                let published = facts::published(&node, *signal).map(|(status, _)| status);
                let Some(condition) = end_of_disabled(&watch.signals, *signal, published) else {
                    continue;
                };
                let Some(client) = watch.workloads.client(&cluster) else {
                    continue;
                };
                let name = node.name_any();
                write(watch, client, (&cluster, &name), *signal, &condition).await;
            }
        }
    }
}
