//! The client of a workload cluster, with a limit of concurrent calls.
//!
//! Each call is a connection of its own, and the API server rejects too many of them; a slow
//! cluster delays only its own callers. Results are never cached: a call does not serve requests
//! that were made after it began.

mod calls;
mod node_reads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume},
    storage::v1::VolumeAttachment,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use parking_lot::Mutex;
use rackhand_core::{
    fleet::placement::HostWorkload,
    limits::beginnings::ApiLoad,
    remediation::{BoundPod, BoundVolume, Drain, LeaseFacts, LeaseMemory, LeaseRenewals, NodeLife},
    watches::{
        list_choice::{ListChoice, PAGE, Source, Subject},
        named_list::ConsistentLists,
        shared_list::{Answers, Gap},
    },
};

use self::{
    calls::Calls,
    node_reads::{NodeReads, Renewal},
};
use super::{
    node_conversion::kubelet_life,
    pages::{self, PagedList},
    pods::{self, NodePods},
};
use crate::store::{
    api::{ApiError, call},
    clock,
    shared_reads::{JoinedList, List},
};

/// Most VolumeAttachments in a list.
const MOST_VOLUMES: usize = 500_000;

/// The result of a live read of a Node.
pub(crate) struct NodeRead {
    /// The time before the Node and its Lease were read.
    pub(crate) asked: Timestamp,
    /// The Node without images, addresses and capacities, and its kubelet's Lease. `None`: there is no Node.
    pub(crate) found: Option<(Node, Option<LeaseFacts>)>,
}

/// A VolumeAttachment of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AttachedVolume {
    name: String,
    /// The PersistentVolume that is attached.
    volume: Option<String>,
}

/// A workload cluster that is connected.
pub(crate) struct WorkloadClient {
    pub(crate) client: Client,
    calls: Arc<Calls>,
    /// Nodes of the cluster, as its watch shows them.
    nodes: Arc<AtomicUsize>,
    node_reads: NodeReads<Node>,
    leases: NodeReads<Renewal>,
    /// What decides which list of pods answers.
    pod_lists: Arc<Mutex<ListChoice>>,
    pods: JoinedList<NodePods>,
    volumes: JoinedList<Vec<AttachedVolume>>,
}

impl WorkloadClient {
    pub(super) fn new(client: Client) -> Self {
        let (calls, nodes): (Arc<Calls>, Arc<AtomicUsize>) = Default::default();
        let pod_lists = Arc::new(Mutex::new(ListChoice::new(Subject::Pods)));
        let pods = JoinedList::new(pods_of_all(&client, &pod_lists), Subject::Pods.gap());
        let volumes = JoinedList::new(volumes_of_all(&client), Gap::OF_SLOW);
        Self {
            node_reads: NodeReads::new(&client, &calls, &nodes),
            leases: NodeReads::new(&client, &calls, &nodes),
            nodes,
            client,
            calls,
            pod_lists,
            pods,
            volumes,
        }
    }

    /// How quickly its API answers, and what has begun lately.
    pub(crate) fn load(&self) -> &Mutex<ApiLoad> {
        &self.calls.load
    }

    /// Records how many Nodes the cluster has.
    pub(super) fn counted(&self, nodes: usize) {
        self.nodes.store(nodes, Ordering::Relaxed);
    }

    /// Records the version of its API server.
    pub(super) fn served_by(&self, major: &str, minor: &str) {
        self.node_reads
            .served(ConsistentLists::of_version(major, minor));
    }

    /// Reads the Node and its kubelet's Lease. Both are at least as young as this call, and those who ask at the same
    /// time share lists.
    pub(crate) async fn node(
        &self,
        name: &str,
        memory: &Mutex<LeaseMemory>,
    ) -> Result<NodeRead, ApiError> {
        let (node, lease) = tokio::join!(self.node_reads.of(name), self.leases.of(name));
        let node = node?;
        let Some(found) = node.found else {
            return Ok(NodeRead {
                asked: node.begun,
                found: None,
            });
        };
        let lease = lease?;
        let renewal = lease.found.and_then(|Renewal(renewal)| renewal);
        let facts = renewal.map(|(renewed, duration)| {
            let now = clock::monotonic_now();
            memory.lock().observe(name, renewed, duration, now)
        });
        Ok(NodeRead {
            asked: node.begun.min(lease.begun),
            found: Some((found, facts)),
        })
    }

    /// Whether the kubelet of a Node that is not Ready runs, by its Lease.
    pub(crate) async fn kubelet_life(
        &self,
        node: &str,
        renewals: &Mutex<LeaseRenewals>,
    ) -> Result<NodeLife, ApiError> {
        let _permit = self.calls.acquire().await?;
        let life = kubelet_life(&self.client, node, renewals, clock::monotonic_now).await;
        self.calls.record_answer(&life);
        life
    }

    /// Lists live what keeps the Node from being drained (F4).
    pub(crate) async fn drain(&self, node: &str) -> Result<Drain, ApiError> {
        let (pods, attached) = tokio::join!(self.pods(node), self.volumes.of(node));
        let (attached, _) = attached.map_err(|error| ApiError::other(node, error))?;
        let volume = |volume: &AttachedVolume| BoundVolume {
            name: volume.name.clone(),
            claim: None,
        };
        let mut drain = Drain {
            pods: pods?,
            volumes: attached.iter().map(volume).collect(),
        };
        self.name_claims(&mut drain, &attached).await;
        Ok(drain)
    }

    /// Lists live the pods of the Node. A list of all serves every caller that called before it began, so that a
    /// thousand drains do not need a thousand lists.
    ///
    /// # Errors
    /// The API server was not read.
    pub(crate) async fn pods(&self, node: &str) -> Result<Vec<BoundPod>, ApiError> {
        let nodes = self.nodes.load(Ordering::Relaxed);
        let source = (self.pod_lists.lock()).choose(node, nodes, clock::monotonic_now());
        let listed = match source {
            Source::Shared => {
                let listed = self.pods.of(node).await;
                listed.map_err(|error| ApiError::other(node, error))?.0
            }
            Source::OfNode => self.pods_of_node(node).await?,
        };
        Ok(listed.pods)
    }

    /// Reads the claims of the attached volumes, if a pod that stays on the Node may use them. A volume that
    /// cannot be read keeps the Node from being drained.
    async fn name_claims(&self, drain: &mut Drain, attached: &[AttachedVolume]) {
        let stays = |pod: &BoundPod| !pod.keeps_from_drain() && !pod.claims.is_empty();
        if !drain.pods.iter().any(stays) {
            return;
        }
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        for bound in &mut drain.volumes {
            let of = attached.iter().find(|volume| volume.name == bound.name);
            let Some(name) = of.and_then(|volume| volume.volume.as_deref()) else {
                continue;
            };
            let Ok(_permit) = self.calls.acquire().await else {
                return;
            };
            let read = call(format!("PersistentVolume {name}"), volumes.get(name)).await;
            self.calls.record_answer(&read);
            match read {
                Ok(volume) => {
                    let claim = volume.spec.and_then(|spec| spec.claim_ref);
                    bound.claim = claim
                        .and_then(|claim| Some(format!("{}/{}", claim.namespace?, claim.name?)));
                }
                Err(error) => {
                    tracing::warn!(%error, "it is not known which pods use a volume, so it is waited for");
                }
            }
        }
    }

    /// Lists live the workload that waits for the host of the Node.
    pub(crate) async fn host_workload(&self, node: &str) -> Result<HostWorkload, ApiError> {
        Ok(self.pods_of_node(node).await?.workload())
    }

    async fn pods_of_node(&self, node: &str) -> Result<NodePods, ApiError> {
        let _permit = self.calls.acquire().await?;
        let listed = pods::of_node(&self.client, node).await;
        self.calls.record_answer(&listed);
        let (pods, size) = listed?;
        self.pod_lists.lock().read_node(size);
        Ok(pods)
    }
}

/// Lists the pods of all Nodes, and keeps those of the Nodes that are asked about.
fn pods_of_all(client: &Client, lists: &Arc<Mutex<ListChoice>>) -> List<NodePods> {
    let (client, lists) = (client.clone(), lists.clone());
    Arc::new(move |nodes| {
        let (client, lists) = (client.clone(), lists.clone());
        async move {
            let (page, most) = {
                let lists = lists.lock();
                (lists.page(), lists.most())
            };
            let page = u32::try_from(page).unwrap_or(u32::MAX);
            let asked = clock::monotonic_now();
            let listed = pods::of_nodes(&client, nodes, page, most).await;
            let now = clock::monotonic_now();
            let mut lists = lists.lock();
            match listed {
                Ok((found, size)) => {
                    let took = Duration::try_from(now.duration_since(asked)).unwrap_or_default();
                    lists.listed_all(size, took);
                    Ok(found)
                }
                Err(error) => {
                    lists.failed(now);
                    Err(error)
                }
            }
        }
        .boxed()
    })
}

/// Lists all VolumeAttachments, because the API server cannot select those of one Node.
fn volumes_of_all(client: &Client) -> List<Vec<AttachedVolume>> {
    let client = client.clone();
    Arc::new(move |nodes| {
        let client = client.clone();
        async move { attached_to(&client, nodes).await }.boxed()
    })
}

async fn attached_to(
    client: &Client,
    nodes: BTreeSet<String>,
) -> Result<BTreeMap<String, Vec<AttachedVolume>>, ApiError> {
    let list = PagedList {
        what: "VolumeAttachments",
        path: "/apis/storage.k8s.io/v1/volumeattachments",
        params: ListParams::default().limit(u32::try_from(PAGE).unwrap_or(u32::MAX)),
        most: MOST_VOLUMES,
        limit: pods::LIST_TIMEOUT,
    };
    let keep = |volume: VolumeAttachment, nodes: &mut Answers<Vec<AttachedVolume>>| {
        if let Some(of) = nodes.of(&volume.spec.node_name) {
            of.push(AttachedVolume {
                name: volume.name_any(),
                volume: volume.spec.source.persistent_volume_name,
            });
        }
    };
    let (found, _) = pages::list(client, list, nodes, keep).await?;
    Ok(found)
}

#[cfg(test)]
mod tests;
