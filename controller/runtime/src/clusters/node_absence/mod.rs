//! Confirmation by a live read that a Node is gone (F12).
//!
//! The watches of Machines and Nodes are not synchronized: a Machine may name a Node that the watch
//! of Nodes has not shown yet. Such a Node counts as unconfirmed until a quorum read of the
//! workload cluster answers 404. A Node that is found is left to the watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::Workloads;
use crate::store::{
    api::{ApiError, call, optional},
    index::{Change, ChangeQueue, Index},
    object::{Key, Kind},
    time_slice::{TimeSlice, beside_all},
};

/// Maximum number of concurrent reads.
const AT_ONCE: usize = 16;
/// Pause before a Node is read again, because its cluster did not answer or the watch does not show
/// it yet.
const AGAIN: Duration = Duration::from_secs(1);

/// A Node, by its cluster and name.
type NodeId = (Key, String);

/// Whether a change may lead to a Machine with a Node that no watch shows.
pub(crate) fn concerns(change: &Change) -> bool {
    match change {
        Change::Object(kind, _) => matches!(kind, Kind::Machine | Kind::OpenShiftMachine),
        Change::Node(..) | Change::Workload(_) => true,
        Change::Agent(_) => false,
    }
}

/// The result of a read.
enum Found {
    Present,
    Absent,
    NoAnswer(ApiError),
}

/// Reads unconfirmed Nodes until `cancel`.
pub(crate) async fn run(
    workloads: Arc<Workloads>,
    index: Arc<Index>,
    inbox: Arc<ChangeQueue>,
    cancel: CancellationToken,
) {
    let mut waiting: BTreeSet<NodeId> = BTreeSet::new();
    let mut later: BTreeSet<(Instant, NodeId)> = BTreeSet::new();
    // The value is set if the Node changed during the read, which makes the result void.
    let mut reading: BTreeMap<NodeId, bool> = BTreeMap::new();
    let mut reads: JoinSet<(NodeId, Found)> = JoinSet::new();
    let mut slice = TimeSlice::begin();
    loop {
        while reading.len() < AT_ONCE
            && let Some(node) = waiting.pop_first()
        {
            slice.pause_if_over().await;
            let (cluster, name) = &node;
            if !index.is_unconfirmed(cluster, name) {
                continue;
            }
            let Some(client) = workloads.client(cluster) else {
                later.insert((Instant::now() + AGAIN, node));
                continue;
            };
            reading.insert(node.clone(), false);
            reads.spawn(async move {
                let found = read(&client, &node.1).await;
                (node, found)
            });
        }
        let next = later.first().map(|(at, _)| *at);
        tokio::select! {
            () = cancel.cancelled() => break,
            changes = inbox.take() => for node in beside_all(|| touched(&index, changes)) {
                match reading.get_mut(&node) {
                    Some(void) => *void = true,
                    None => { waiting.insert(node); }
                }
            },
            () = due(next) => while let Some((at, _)) = later.first()
                && *at <= Instant::now()
            {
                waiting.extend(later.pop_first().map(|(_, node)| node));
            },
            Some(done) = reads.join_next() => match done {
                Ok((node, found)) => {
                    let void = reading.remove(&node).unwrap_or_default();
                    if void {
                        waiting.insert(node);
                    } else if !take(&index, &node, found) {
                        later.insert((Instant::now() + AGAIN, node));
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "a read of a Node ended unexpectedly; reading all again");
                    waiting.extend(std::mem::take(&mut reading).into_keys());
                    reads.abort_all();
                }
            },
        }
    }
    reads.shutdown().await;
}

/// Applies a result. Returns whether no further read is needed.
fn take(index: &Index, (cluster, name): &NodeId, found: Found) -> bool {
    match found {
        Found::Absent => {
            index.confirm_absent(cluster, name);
            true
        }
        Found::Present => false,
        Found::NoAnswer(error) => {
            tracing::debug!(%cluster, node = name, %error, "cannot confirm that a Node is gone; trying again");
            false
        }
    }
}

/// Reads a Node with a quorum read, because it sends no resourceVersion.
async fn read(client: &Client, name: &str) -> Found {
    let nodes: Api<Node> = Api::all(client.clone());
    let asked = call(format!("Node {name}"), nodes.get_metadata(name)).await;
    match optional(asked) {
        Ok(Some(_)) => Found::Present,
        Ok(None) => Found::Absent,
        Err(error) => Found::NoAnswer(error),
    }
}

/// The Nodes named by Machines that a change may concern.
fn touched(index: &Index, changes: BTreeSet<Change>) -> BTreeSet<NodeId> {
    let mut nodes = BTreeSet::new();
    for change in changes {
        match change {
            Change::Object(Kind::Machine, key) => {
                let view = index.machine(&key).and_then(|entry| entry.view.ok());
                if let Some(view) = view
                    && let (Some(cluster), Some(node)) = (&view.cluster_name, &view.node_name)
                {
                    nodes.insert((Key::new(&key.namespace, cluster), node.clone()));
                }
            }
            Change::Object(Kind::OpenShiftMachine, key) => {
                let view = index.openshift_machine(&key).and_then(|e| e.view.ok());
                let node = view.and_then(|view| view.node_name.clone());
                nodes.extend(node.map(|node| (Key::local(), node)));
            }
            Change::Node(cluster, node) if index.is_named(&cluster, &node) => {
                nodes.insert((cluster, node));
            }
            Change::Workload(cluster) => {
                let named = index.named_nodes(&cluster);
                nodes.extend(named.into_iter().map(|node| (cluster.clone(), node)));
            }
            Change::Object(..) | Change::Node(..) | Change::Agent(_) => {}
        }
    }
    nodes
}

async fn due(at: Option<Instant>) {
    match at {
        None => std::future::pending().await,
        Some(at) => sleep_until(at).await,
    }
}

#[cfg(test)]
mod stalls;
#[cfg(test)]
mod tests;
