//! The hosts of the fleet, with their placement and their failures.
//!
//! A change of a Node costs one lookup. After a change of an agent, a Machine or a BareMetalHost, the placement
//! of the whole fleet is read again in the background, because such a change may concern any host.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_core::{
    fleet::placement::Placement,
    fleet::shared_cause::{Domain, DomainKind, HostName},
    remediation::{HostRef, HostView},
};
use tokio::time::{Duration, Instant};

use super::{CauseWatch, SHARE, host_name};
use crate::{
    clusters::{node_facts, ready},
    hosts::{Target, find_machine, host, shared_names},
    store::{
        index::{Change, Connection},
        object::Key,
        time_slice::{TimeSlice, beside},
    },
};

/// Minimum interval between two reads of the whole fleet.
const REFRESH: Duration = Duration::from_secs(2);

/// The time of the last read of the whole fleet, and whether a new read is required.
#[derive(Default)]
pub(super) struct Fleet {
    read: Option<Instant>,
    /// Duration of that read.
    took: Duration,
    is_outdated: bool,
    /// Number of topology changes from BMCs that the read includes.
    topology: u64,
}

/// The known facts about a Node.
struct Member {
    name: HostName,
    domains: BTreeSet<Domain>,
    /// Since when it is not Ready.
    failed: Option<Timestamp>,
}

impl Fleet {
    /// Applies changes, or reads the whole fleet if that is due.
    pub(super) async fn update(&mut self, watch: &CauseWatch, changes: BTreeSet<Change>) {
        let mut nodes = Vec::new();
        beside(changes.len(), || {
            for change in changes {
                match change {
                    Change::Node(cluster, node) => nodes.push((cluster, node)),
                    _ => self.is_outdated = true,
                }
            }
        });
        let topology = watch.topologies.changes();
        if std::mem::replace(&mut self.topology, topology) != topology {
            self.is_outdated = true;
        }
        let pause = REFRESH.max(self.took * SHARE);
        let is_due = |read: Instant| self.is_outdated && read.elapsed() >= pause;
        if self.read.is_none_or(is_due) {
            self.is_outdated = false;
            let begun = Instant::now();
            read_all(watch).await;
            self.took = begun.elapsed();
            self.read = Some(Instant::now());
        }
        let mut slice = TimeSlice::begin();
        for (cluster, node) in nodes {
            slice.pause_if_over().await;
            apply(watch, &cluster, &node, false);
        }
    }
}

async fn read_all(watch: &CauseWatch) {
    let index = &watch.index;
    let mut connected = BTreeMap::new();
    let mut clusters = index.clusters();
    clusters.push(Key::local());
    let mut seen: BTreeSet<HostName> = BTreeSet::new();
    let mut slice = TimeSlice::begin();
    for cluster in clusters {
        let is_up = matches!(index.connection(&cluster), Connection::Up);
        connected.insert(cluster.to_string(), is_up);
        for node in index.node_names_in_pages(&cluster) {
            slice.pause_if_over().await;
            apply(watch, &cluster, &node, true);
            seen.insert(host_name(&cluster, &node));
        }
    }
    // The Nodes of a cluster that cannot be read are kept as they were.
    let is_gone = |name: &HostName| {
        let cluster = name.rsplit_once('/').map_or("", |(cluster, _)| cluster);
        !seen.contains(name) && connected.get(cluster).is_none_or(|is_up| *is_up)
    };
    let known: Vec<HostName> = watch
        .causes
        .inner
        .lock()
        .failures
        .hosts()
        .cloned()
        .collect();
    let gone = beside(known.len(), || {
        let gone = known.into_iter().filter(is_gone);
        gone.collect::<Vec<_>>()
    });
    for name in gone {
        slice.pause_if_over().await;
        let mut inner = watch.causes.inner.lock();
        inner.failures.remove(&name);
        inner.readings.remove(&name);
    }
    beside(seen.len(), || drop(seen));
}

/// Applies the state of a Node. With `again`, its host is resolved even if its rack is known.
fn apply(watch: &CauseWatch, cluster: &Key, node: &str, again: bool) {
    let name = host_name(cluster, node);
    let known = {
        let inner = watch.causes.inner.lock();
        inner.failures.domains(&name).cloned().unwrap_or_default()
    };
    let Some(found) = watch.index.node(cluster, node) else {
        if matches!(watch.index.connection(cluster), Connection::Up) {
            let mut inner = watch.causes.inner.lock();
            inner.failures.remove(&name);
            inner.readings.remove(&name);
        }
        return;
    };
    let member = member(watch, cluster, name, &found, &known, again);
    let now = Timestamp::now();
    let mut inner = watch.causes.inner.lock();
    inner.failures.place(&member.name, member.domains);
    match member.failed {
        Some(at) => inner.failures.fail(&member.name, at, now),
        None => {
            inner.failures.recover(&member.name);
            inner.readings.remove(&member.name);
        }
    }
}

fn member(
    watch: &CauseWatch,
    cluster: &Key,
    name: HostName,
    node: &Node,
    known: &BTreeSet<Domain>,
    again: bool,
) -> Member {
    let is_place = |domain: &&Domain| {
        let kinds = [DomainKind::Rack, DomainKind::Pdu, DomainKind::Switch];
        kinds.contains(&domain.kind)
    };
    let has_rack = known.iter().any(|domain| domain.kind == DomainKind::Rack);
    let resolved = (again || !has_rack).then(|| resolve(watch, cluster, node));
    let (host, bmh) = resolved.flatten().unzip();
    let rack = host.as_ref().map(|host| host.rack.clone());
    let bmh = bmh.flatten();
    let of_bmh = bmh.and_then(|key| watch.index.host(&key));
    let of_bmh = of_bmh.as_ref().map(|entry| entry.object.annotations());
    let (pdus, switches) = shared_names(of_bmh.into_iter().chain([node.annotations()]));
    let mut placement = Placement {
        cluster: Some(cluster.to_string()),
        pdus,
        switches,
        kernel: kernel_version(node),
        rack: rack.clone(),
        labels: None,
    };
    let located = host.and_then(|host| complete(watch, &name, &host, &mut placement));
    let mut domains = Domain::of(&placement);
    domains.extend(located);
    if rack.is_none() {
        // For example, a rack with a lost agent keeps its hosts.
        let named: BTreeSet<DomainKind> = domains.iter().map(|domain| domain.kind).collect();
        let kept = known.iter().filter(is_place);
        domains.extend(kept.filter(|domain| !named.contains(&domain.kind)).cloned());
    }
    Member {
        name,
        domains,
        failed: not_ready_since(node, Timestamp::now()),
    }
}

/// Completes the placement of a host with the topology from its BMC. Returns the part of its rack.
fn complete(
    watch: &CauseWatch,
    name: &HostName,
    host: &HostRef,
    placement: &mut Placement,
) -> Option<Domain> {
    let topologies = &watch.topologies;
    let found = topologies.get(&host.rack, &host.host);
    let conflict = found.as_ref().and_then(|found| found.complete(placement));
    topologies.set_conflict(name, conflict);
    found.and_then(|found| found.location(&host.rack))
}

/// The time since which a Node is not Ready; `None` if it is Ready, or if that is not known.
pub(crate) fn not_ready_since(node: &Node, now: Timestamp) -> Option<Timestamp> {
    let is_failed = ready(node).is_some_and(|status| status != "True");
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let condition = conditions.and_then(|all| all.iter().find(|c| c.type_ == "Ready"));
    let since = condition.and_then(|c| c.last_transition_time.as_ref());
    is_failed.then(|| since.map_or(now, |time| time.0))
}

/// The kernel version of a Node.
pub(crate) fn kernel_version(node: &Node) -> Option<String> {
    let info = node.status.as_ref()?.node_info.as_ref()?;
    let kernel = &info.kernel_version;
    (!kernel.is_empty()).then(|| kernel.clone())
}

/// The host that a Node runs on, and its BareMetalHost.
pub(super) fn resolve(
    watch: &CauseWatch,
    cluster: &Key,
    node: &Node,
) -> Option<(HostRef, Option<Key>)> {
    let (index, name) = (&watch.index, node.name_any());
    let mut target = Target {
        machine: None,
        cluster: Some(cluster.clone()),
        node: Some(name.clone()),
        by_node: *cluster == Key::local(),
        openshift: None,
    };
    if target.by_node {
        find_machine(index, &mut target);
    } else {
        let machines = index.machines_of_node(cluster, &name);
        target.machine = machines.first().and_then(|key| index.machine(key));
    }
    let facts = node_facts(node, None);
    let racks = watch.agents.racks();
    let found = host(index, &racks, &target, Some(&facts), None);
    match found.view {
        HostView::Found(host) => Some((host, found.bmh)),
        HostView::NotFound(_) => None,
    }
}
