//! Other Nodes that may run on the host of a remediation, read from its workload cluster (F14).

mod named_hosts;

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::views::MachineView;
use rackhand_core::{
    hosts::Racks,
    remediation::{
        HostIdentity, HostRef, HostView, NamedHost, NodeComparison, NodeIdentity, NodeLife,
        OffEvidence, OperationView, OtherNode, OtherNodes, PowerView, State, WorkloadView,
        node_comparison,
    },
};

pub(crate) use self::named_hosts::NamedHosts;
use crate::{
    clusters::ReadClient,
    hosts::{Target, find_machine, host},
    remediation::observe::Scope,
    store::{api::ApiError, index::Index, object::Key, time_slice::TimeSlice},
};

/// What Nodes are compared with: host and Node of a remediation.
pub(crate) struct Subject<'a> {
    pub(crate) target: &'a Target,
    pub(crate) host: Option<&'a HostRef>,
    pub(crate) bmh: Option<&'a Key>,
    pub(crate) workload: &'a WorkloadView,
    pub(crate) state: Option<&'a State>,
    /// The latest reading of the BMC.
    pub(crate) power: Option<&'a PowerView>,
}

/// A Node that may run on the host.
struct Candidate {
    identity: NodeIdentity,
    is_ready: bool,
    named: NamedHost,
}

/// Compares the Nodes of the cluster with the host, as the next decision needs it. `operation`: with whether the BMC was
/// read since its end.
pub(super) async fn compare(
    scope: &Scope,
    subject: &Subject<'_>,
    operation: (Option<&OperationView>, bool),
    now: Timestamp,
) -> OtherNodes {
    let comparison = node_comparison(subject.state, operation, subject.workload, now);
    let Some(cluster) = compared_cluster(subject, comparison) else {
        return OtherNodes::NotCompared;
    };
    let is_live = comparison == NodeComparison::Live;
    if is_live && let Err(error) = scope.context.comparisons.reach(cluster).await {
        let why = format!("the Nodes of cluster {cluster} cannot be compared: {error}");
        return OtherNodes::Failed { why };
    }
    let lookup = NodeLookup {
        index: &scope.context.index,
        racks: || scope.context.agents.racks(),
        named: &scope.context.named_hosts,
    };
    let (identity, found) = candidates(&lookup, cluster, subject).await;
    let client = scope.context.workloads.get(cluster).filter(|_| is_live);
    let lives = match client {
        // One that is Ready stops the remediation, whatever the Leases of others are.
        Some(client) if !found.iter().any(|node| node.is_ready) => {
            kubelet_lives(scope, &client, cluster, &found).await
        }
        _ => Ok(found.iter().map(indexed_life).collect()),
    };
    match lives {
        Ok(lives) => compared(&identity, &found, lives),
        Err(error) => OtherNodes::Failed {
            why: format!("cluster {cluster}: {error}"),
        },
    }
}

async fn kubelet_lives(
    scope: &Scope,
    client: &ReadClient,
    cluster: &Key,
    found: &[Candidate],
) -> Result<Vec<NodeLife>, ApiError> {
    let renewals = scope.context.leases.renewals(cluster);
    let lives = found
        .iter()
        .map(|node| client.kubelet_life(&node.identity.name, &renewals));
    try_join_all(lives).await
}

/// The Node that an inventory names as that of this host although its Machine has no nodeRef, so that it is tainted
/// and drained like any other. Not one that is Ready, whose host nobody switches.
pub(crate) async fn node_named_by_inventory<R: Deref<Target = Racks>>(
    lookup: &NodeLookup<'_, impl Fn() -> R>,
    subject: &Subject<'_>,
) -> Option<String> {
    let cluster = subject.target.cluster.as_ref()?;
    if *subject.workload != WorkloadView::NotJoined {
        return None;
    }
    let (_, found) = candidates(lookup, cluster, subject).await;
    match found.as_slice() {
        [node] if node.named == NamedHost::This && !node.is_ready => {
            Some(node.identity.name.clone())
        }
        _ => None,
    }
}

fn compared_cluster<'a>(subject: &Subject<'a>, comparison: NodeComparison) -> Option<&'a Key> {
    let answers = matches!(
        subject.workload,
        WorkloadView::Present(_) | WorkloadView::Missing { .. } | WorkloadView::NotJoined
    );
    let cluster = subject.target.cluster.as_ref();
    cluster.filter(|_| answers && comparison != NodeComparison::None)
}

fn indexed_life(node: &Candidate) -> NodeLife {
    match node.is_ready {
        true => NodeLife::Ready,
        false => NodeLife::NotReady,
    }
}

fn compared(host: &HostIdentity, found: &[Candidate], lives: Vec<NodeLife>) -> OtherNodes {
    let nodes = found.iter().zip(lives);
    let others =
        nodes.filter_map(|(node, life)| OtherNode::of(host, &node.identity, node.named, life));
    OtherNodes::Compared(others.collect())
}

/// The Nodes of the cluster that have something in common with the host, except Nodes that a naming reference gives
/// to another BMC. Thousands of boards may report one system UUID, so their Nodes are looked at in short slices.
async fn candidates<R: Deref<Target = Racks>>(
    lookup: &NodeLookup<'_, impl Fn() -> R>,
    cluster: &Key,
    subject: &Subject<'_>,
) -> (HostIdentity, Vec<Candidate>) {
    let index = lookup.index;
    let identity = host_identity(index, &(lookup.racks)(), cluster, subject);
    let is_shared = index.count_on_host(cluster, &identity) > named_hosts::FEW;
    let _turn = match is_shared {
        true => Some(lookup.named.turn().await),
        false => None,
    };
    let names = index.names_on_host(cluster, &identity);
    let mut slice = TimeSlice::begin();
    let (mut elsewhere, mut found) = (Vec::new(), Vec::new());
    for name in names {
        slice.pause_if_over().await;
        let named = match subject.host {
            Some(this) => lookup.named_host(cluster, &name, is_shared, this),
            None => NamedHost::None,
        };
        if named == NamedHost::Other {
            elsewhere.push(name);
            continue;
        }
        let node = index.node_on_host(cluster, &name, &identity);
        found.extend(node.map(|(node, is_ready)| Candidate {
            identity: node,
            is_ready,
            named,
        }));
    }
    // Most often there is none, and the others need not be read.
    if found.is_empty() {
        return (identity, found);
    }
    let mut others = Vec::with_capacity(elsewhere.len());
    for name in elsewhere {
        slice.pause_if_over().await;
        others.extend(index.node_on_host(cluster, &name, &identity));
    }
    let mut left = Vec::with_capacity(found.len());
    for node in found {
        slice.pause_if_over().await;
        let others = others.iter().map(|(other, _)| other);
        if !identity.is_renamed_elsewhere(&node.identity, others) {
            left.push(node);
        }
    }
    (identity, left)
}

fn host_identity(
    index: &Index,
    racks: &Racks,
    cluster: &Key,
    subject: &Subject<'_>,
) -> HostIdentity {
    let target = subject.target;
    let machine = target.machine();
    let name = target.node.as_ref();
    let seen = name.and_then(|name| index.node(cluster, name));
    let mut provider_ids: BTreeSet<String> = seen
        .as_deref()
        .and_then(provider_id)
        .into_iter()
        .chain(machine.and_then(|m| m.provider_id.clone()))
        .collect();
    provider_ids.remove("");
    let bare_metal_host = subject.bmh.map(|key| {
        let uid = index
            .host(key)
            .and_then(|entry| entry.object.metadata.uid.clone());
        (key.to_string(), uid.unwrap_or_default())
    });
    let mut names: BTreeSet<String> = subject
        .bmh
        .map(|key| key.name.clone())
        .into_iter()
        .collect();
    if name.is_none() {
        names.extend(machine.into_iter().flat_map(names_of_machine));
    }
    let entry = subject.host.and_then(|host| {
        let mut hosts = racks.get(&host.rack)?.hosts.iter();
        hosts.find(|entry| entry.name == host.host)
    });
    let mut system_uuids = reported_identities(subject);
    if let Some(entry) = entry {
        names.extend([entry.name.clone(), entry.node_name.clone()]);
        system_uuids.insert(entry.system_uuid.clone());
    }
    HostIdentity {
        node: name.cloned(),
        node_uuid: node_uuid(subject, seen.as_deref()),
        names: names.into_iter().filter(|name| !name.is_empty()).collect(),
        system_uuids,
        provider_ids,
        bare_metal_host,
    }
}

/// CAPM3 names a Node like its Metal3Machine, which is named like its Machine.
fn names_of_machine(machine: &MachineView) -> impl Iterator<Item = String> + use<> {
    let reference = machine.infrastructure_ref.as_ref();
    let infrastructure = reference.and_then(|r| r.name.clone());
    infrastructure
        .into_iter()
        .chain([machine.meta.name.clone()])
}

fn node_uuid(subject: &Subject<'_>, seen: Option<&Node>) -> String {
    let of_seen = || {
        let info = seen?.status.as_ref()?.node_info.as_ref()?;
        Some(info.system_uuid.clone())
    };
    let of_state = || Some(subject.state?.attempt.node.as_ref()?.system_uuid.clone());
    match subject.workload {
        WorkloadView::Present(node) => node.system_uuid.clone(),
        _ => of_state().or_else(of_seen).unwrap_or_default(),
    }
}

fn provider_id(node: &Node) -> Option<String> {
    node.spec.as_ref()?.provider_id.clone()
}

/// What the BMC reported as its system.
fn reported_identities(subject: &Subject<'_>) -> BTreeSet<String> {
    let proof = subject.state.and_then(|s| s.attempt.off.as_ref());
    let readings = match proof {
        Some(OffEvidence::Bmc { readings, .. }) => readings.as_slice(),
        _ => &[],
    };
    let latest = subject.power.and_then(|view| view.result.as_ref().ok());
    let reported = readings.iter().chain(latest);
    reported.map(|reading| reading.identity.clone()).collect()
}

/// What is known of Nodes and their hosts. The racks are locked for one Node at a time.
pub(crate) struct NodeLookup<'a, R> {
    pub(crate) index: &'a Index,
    pub(crate) racks: R,
    pub(crate) named: &'a NamedHosts,
}

impl<R: Deref<Target = Racks>, F: Fn() -> R> NodeLookup<'_, F> {
    /// The host to which naming references give a Node, compared with this one. `is_shared`: as it was for another
    /// remediation a moment ago.
    fn named_host(
        &self,
        cluster: &Key,
        node: &Arc<str>,
        is_shared: bool,
        this: &HostRef,
    ) -> NamedHost {
        let resolve = || named_host(self.index, &(self.racks)(), cluster, node);
        match is_shared {
            true => NamedHost::of(self.named.get(cluster, node, resolve).as_deref(), this),
            false => NamedHost::of(resolve().as_ref(), this),
        }
    }
}

/// The host to which naming references give a Node.
fn named_host(index: &Index, racks: &Racks, cluster: &Key, node: &str) -> Option<HostRef> {
    let target = target_of_node(index, cluster, node);
    let named = host(index, racks, &target, None, None);
    match named.view {
        HostView::Found(found) => Some(found),
        // A BareMetalHost names a BMC also where no rack serves it.
        HostView::NotFound(_) => unserved(index, named.bmh),
    }
}

/// The host of a BareMetalHost that no rack serves.
fn unserved(index: &Index, bmh: Option<Key>) -> Option<HostRef> {
    let key = bmh?;
    let view = index.host(&key)?.view.ok()?;
    // Without a consumer nothing refers back.
    view.consumer.as_ref()?;
    Some(HostRef {
        rack: String::new(),
        host: key.to_string(),
        bmh: Some(key.to_string()),
        bmc: view.bmc.as_ref()?.address.clone()?,
    })
}

/// A Node with the Machine whose nodeRef names it. A management cluster with a Cluster object is known by both names,
/// and its Nodes may be linked by either.
fn target_of_node(index: &Index, cluster: &Key, node: &str) -> Target {
    let is_local = *cluster == Key::local();
    let machines = index.machines_of_node(cluster, node);
    if !is_local && machines.is_empty() && is_also_local(index, cluster, node) {
        return target_of_node(index, &Key::local(), node);
    }
    let mut target = Target {
        machine: None,
        cluster: Some(cluster.clone()),
        node: Some(node.to_owned()),
        by_node: is_local,
        openshift: None,
    };
    if !is_local {
        if let [machine] = machines.as_slice() {
            target.machine = index.machine(machine);
        }
        return target;
    }
    find_machine(index, &mut target);
    if target.machine.is_none()
        && let [machine] = index.openshift_machines_of_node(node).as_slice()
    {
        target.machine = index.openshift_machine(machine);
        target.openshift = Some(machine.clone());
    }
    target
}

/// Whether a Node of a cluster is one of the management cluster too.
fn is_also_local(index: &Index, cluster: &Key, node: &str) -> bool {
    let uid = index.node(cluster, node).and_then(|node| node.uid());
    uid.is_some_and(|uid| index.clusters_of_node(node, &uid).contains(&Key::local()))
}

#[cfg(test)]
mod stalls;
#[cfg(test)]
mod tests;
