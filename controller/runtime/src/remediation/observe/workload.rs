//! Observes the Node of a remediation in its workload cluster.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use rackhand_api::names::{CLUSTER_NAME_LABEL, kubeconfig_secret};
use rackhand_core::remediation::{Drain, NodeFacts, Progress, State, WorkloadList, WorkloadView};

use super::Observer;
use crate::{
    clusters::{NodeRead, ReadClient, RetainedConnection, node_facts},
    hosts::Target,
    remediation::{observe::Scope, scope::Memory},
    store::{
        api::ApiError,
        index::Connection,
        object::{Key, Kind},
    },
};

impl Observer {
    /// Keeps the workload cluster connected for a remediation that has begun, whether or not its
    /// Cluster object still exists.
    pub(super) fn keep_connected(&mut self, scope: &Scope, target: &Target, state: Option<&State>) {
        let begun = Progress::of(state) == Progress::Begun;
        let cluster = target.cluster.clone().filter(|_| begun);
        if self.connection.as_ref().map(RetainedConnection::cluster) != cluster.as_ref() {
            self.connection = cluster.map(|cluster| scope.context.workloads.keep_for(cluster));
        }
    }
}

/// Whether the Cluster object of this remediation is gone, by a live read (F12).
pub(super) async fn removed_cluster(scope: &Scope, target: &Target) -> Result<bool, ApiError> {
    match &target.cluster {
        Some(cluster)
            if *cluster != Key::local() && scope.context.index.cluster(cluster).is_none() =>
        {
            scope.context.reader.is_absent(Kind::Cluster, cluster).await
        }
        _ => Ok(false),
    }
}

/// The Node as it was read last, if an observation may use that, or by a live reading. `removed` tells that the Cluster
/// object is gone.
pub(super) async fn read(
    scope: &Scope,
    memory: &mut Memory,
    target: &Target,
    removed: bool,
    now: Timestamp,
) -> WorkloadView {
    if let Some(node) = kept(scope, memory, target, now) {
        return WorkloadView::Present(node);
    }
    memory.snapshot.node = None;
    let (view, asked) = read_live(scope, memory, target, removed).await;
    // What found no Node is not kept.
    memory.shell.node_read(&view, asked.unwrap_or(now));
    view
}

/// The last live reading, while the watch of the cluster is up and shows the same Node.
fn kept(scope: &Scope, memory: &mut Memory, target: &Target, now: Timestamp) -> Option<NodeFacts> {
    let (cluster, name) = target.cluster.as_ref().zip(target.node.as_ref())?;
    let index = &scope.context.index;
    let is_up = matches!(index.connection(cluster), Connection::Up);
    let seen = index.seen_node(cluster, name).filter(|_| is_up);
    let seen = seen.map(|seen| node_facts(&Node::from(&*seen), None));
    let state = memory.shell.state.as_ref();
    memory.shell.node.standing(seen.as_ref(), state, now)
}

/// The Node by a live read, and the time before that.
async fn read_live(
    scope: &Scope,
    memory: &mut Memory,
    target: &Target,
    removed: bool,
) -> (WorkloadView, Option<Timestamp>) {
    let (cluster, name, client) = match reachable(scope, target, removed).await {
        Ok(found) => found,
        Err(view) => return (*view, None),
    };
    let leases = scope.context.leases.memory(cluster);
    match client.node(name, &leases).await {
        Ok(NodeRead { asked, found: None }) => {
            let name = name.to_owned();
            (WorkloadView::Missing { name }, Some(asked))
        }
        Ok(NodeRead {
            asked,
            found: Some((node, lease)),
        }) => {
            let facts = node_facts(&node, lease);
            memory.snapshot.keep_node(&node);
            scope.context.index.apply_node(cluster, node);
            (WorkloadView::Present(facts), Some(asked))
        }
        Err(error) => {
            let why = format!("cluster {cluster}: {error}");
            (WorkloadView::Unreachable { why }, None)
        }
    }
}

/// The cluster and the name of the Node, if its cluster is connected.
async fn reachable<'a>(
    scope: &Scope,
    target: &'a Target,
    removed: bool,
) -> Result<(&'a Key, &'a str, ReadClient), Box<WorkloadView>> {
    let unreachable = |why: String| Err(Box::new(WorkloadView::Unreachable { why }));
    let Some(cluster) = &target.cluster else {
        return unreachable(format!(
            "neither the Machine nor this object names a Cluster; label this object with \
             {CLUSTER_NAME_LABEL}=<name of the Cluster>"
        ));
    };
    if let Connection::Down(why) = scope.context.index.connection(cluster) {
        if removed {
            let view = removed_workload(scope, target, cluster, &why).await;
            return Err(Box::new(view));
        }
        return unreachable(format!("cluster {cluster}: {why}"));
    }
    let Some(name) = &target.node else {
        return Err(Box::new(WorkloadView::NotJoined));
    };
    match scope.context.workloads.get(cluster) {
        Some(client) => Ok((cluster, name.as_str(), client)),
        None => unreachable(format!("cluster {cluster}: not connected")),
    }
}

/// Lists live what is left of the workload on the Node, if the step of the state rests on it. A cluster that cannot be
/// listed cannot be reached.
pub(super) async fn left(
    scope: &Scope,
    target: &Target,
    state: Option<&State>,
    workload: WorkloadView,
) -> (WorkloadView, Option<Drain>) {
    let list = WorkloadList::of(state.map(|s| s.step), &workload);
    let (Some(cluster), Some(node)) = (&target.cluster, &target.node) else {
        return (workload, None);
    };
    let client = scope.context.workloads.get(cluster);
    let Some(client) = client.filter(|_| list != WorkloadList::Nothing) else {
        return (workload, None);
    };
    let listed = match list {
        WorkloadList::PodsAndVolumes => client.drain(node).await,
        WorkloadList::Pods | WorkloadList::Nothing => {
            let pods = client.pods(node).await;
            pods.map(|pods| Drain {
                pods,
                ..Drain::default()
            })
        }
    };
    match listed {
        Ok(drain) => (workload, Some(drain)),
        Err(error) => {
            let why = format!("cluster {cluster}: {error}");
            (WorkloadView::Unreachable { why }, None)
        }
    }
}

/// The workload of a Cluster whose object is gone and whose API cannot be reached. It may still
/// run while the kubeconfig Secret or the Machine exists (F3, F4).
async fn removed_workload(
    scope: &Scope,
    target: &Target,
    cluster: &Key,
    why: &str,
) -> WorkloadView {
    let remains = match remains(scope, target, cluster).await {
        Ok(None) => {
            let name = cluster.to_string();
            return WorkloadView::ClusterGone { name };
        }
        Ok(Some(what)) => format!("{what} still exists"),
        Err(error) => format!("it is not known what is left of it ({error})"),
    };
    WorkloadView::Unreachable {
        why: format!(
            "Cluster {cluster} was removed, but {remains}, so its workload may still run: {why}. \
             Create the Cluster again; or, if its workload is gone for good, delete its Machines and \
             its kubeconfig Secret"
        ),
    }
}

/// What is left of a removed Cluster by live reads: its kubeconfig Secret, or the Machine.
async fn remains(
    scope: &Scope,
    target: &Target,
    cluster: &Key,
) -> Result<Option<String>, ApiError> {
    let name = kubeconfig_secret(&cluster.name);
    let secret = Key::new(&cluster.namespace, name);
    if scope.context.reader.has_secret(&secret).await? {
        return Ok(Some(format!("Secret {secret}")));
    }
    match target.machine_key() {
        Some(machine)
            if !scope
                .context
                .reader
                .is_absent(Kind::Machine, &machine)
                .await? =>
        {
            Ok(Some(format!("Machine {machine}")))
        }
        _ => Ok(None),
    }
}
