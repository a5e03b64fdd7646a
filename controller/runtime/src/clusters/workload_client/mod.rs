//! The client of a workload cluster, with a limit of concurrent calls.
//!
//! Each call is a connection of its own, and the API server rejects too many of them; a slow
//! cluster delays only its own callers. Results are never cached: a call does not serve requests
//! that were made after it began.

mod joined_list;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
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
    watches::shared_list::{GAP_OF_ALL, PAGE, PodList, PodLists},
};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::joined_list::{JoinedList, List};
use super::{
    node_conversion::{kubelet_life, node_lease},
    pods::{self, NodePods},
};
use crate::store::{
    api::{ApiError, call, optional},
    clock,
};

/// Maximum number of concurrent observations of one cluster, of up to two calls each.
const MAX_CALLS: usize = 24;

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
    calls: Semaphore,
    /// Consecutive calls without a response.
    unanswered: AtomicUsize,
    /// Nodes of the cluster when they were listed last.
    nodes: AtomicUsize,
    /// What decides which list of pods answers.
    pod_lists: Arc<Mutex<PodLists>>,
    pods: JoinedList<NodePods>,
    volumes: JoinedList<Vec<AttachedVolume>>,
    /// How quickly its API answers.
    load: Mutex<ApiLoad>,
}

impl WorkloadClient {
    pub(super) fn new(client: Client) -> Self {
        let pod_lists: Arc<Mutex<PodLists>> = Arc::default();
        let pods = JoinedList::new(pods_of_all(&client, &pod_lists), GAP_OF_ALL);
        let volumes = JoinedList::new(volumes_of_all(&client), Duration::ZERO);
        Self {
            client,
            calls: Semaphore::new(MAX_CALLS),
            unanswered: AtomicUsize::new(0),
            nodes: AtomicUsize::new(0),
            pod_lists,
            pods,
            volumes,
            load: Mutex::default(),
        }
    }

    /// How quickly its API answers, and what has begun lately.
    pub(crate) fn load(&self) -> &Mutex<ApiLoad> {
        &self.load
    }

    /// Records how many Nodes the cluster has.
    pub(super) fn counted(&self, nodes: usize) {
        self.nodes.store(nodes, Ordering::Relaxed);
    }

    /// Waits for a permit, which is returned when the result is dropped.
    ///
    /// # Errors
    /// The API did not answer the previous calls; waiting would take as long as all of them
    /// together.
    pub(crate) async fn acquire(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        if let Ok(permit) = self.calls.try_acquire() {
            return Ok(permit);
        }
        let permit = self.calls.acquire().await;
        let permit = permit.map_err(|e| ApiError::other("turn", e))?;
        match self.unanswered.load(Ordering::Relaxed) {
            0..MAX_CALLS => Ok(permit),
            calls => Err(ApiError::other(
                "its API",
                format!("the last {calls} calls were not answered"),
            )),
        }
    }

    fn record_answer<T>(&self, result: &Result<T, ApiError>) {
        match result {
            Err(error) if !error.is_answer() => {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.unanswered.store(0, Ordering::Relaxed),
        }
    }

    /// Records how long a reading of a Node took, the call that every remediation makes.
    fn record_load<T>(&self, result: &Result<T, ApiError>, took: Duration) {
        let (mut load, now) = (self.load.lock(), clock::monotonic_now());
        match result {
            Err(error) if error.put_off().is_some() => load.refused(now),
            _ => load.answered(took, now),
        }
    }

    /// Reads the Node and its kubelet's Lease.
    pub(crate) async fn node(
        &self,
        what: String,
        name: &str,
        memory: &Mutex<LeaseMemory>,
    ) -> Result<Option<(Node, Option<LeaseFacts>)>, ApiError> {
        let _permit = self.acquire().await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let asked = tokio::time::Instant::now();
        let read = async {
            let node = call(what, nodes.get(name)).await;
            self.record_load(&node, asked.elapsed());
            node
        };
        let (node, lease) = tokio::join!(
            read,
            node_lease(&self.client, name, memory, clock::monotonic_now),
        );
        self.record_answer(&node);
        let Some(node) = optional(node)? else {
            return Ok(None);
        };
        Ok(Some((node, lease?)))
    }

    /// Whether the kubelet of a Node that is not Ready runs, by its Lease.
    pub(crate) async fn kubelet_life(
        &self,
        node: &str,
        renewals: &Mutex<LeaseRenewals>,
    ) -> Result<NodeLife, ApiError> {
        let _permit = self.acquire().await?;
        let life = kubelet_life(&self.client, node, renewals, clock::monotonic_now).await;
        self.record_answer(&life);
        life
    }

    /// Lists live what keeps the Node from being drained (F4).
    pub(crate) async fn drain(&self, node: &str) -> Result<Drain, ApiError> {
        let volumes = self.volumes.of("VolumeAttachments", node);
        let (pods, attached) = tokio::join!(self.pods(node), volumes);
        let attached = attached?;
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
        let way = (self.pod_lists.lock()).choose(node, nodes, clock::monotonic_now());
        let listed = match way {
            PodList::OfAll => self.pods.of("pods of all nodes", node).await?,
            PodList::OfNode => self.pods_of_node(node).await?,
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
            let Ok(_permit) = self.acquire().await else {
                return;
            };
            let read = call(format!("PersistentVolume {name}"), volumes.get(name)).await;
            self.record_answer(&read);
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
        let _permit = self.acquire().await?;
        let listed = pods::of_node(&self.client, node).await;
        self.record_answer(&listed);
        if let Ok(listed) = &listed {
            self.pod_lists.lock().listed_node(listed.pods.len());
        }
        listed
    }
}

/// Lists the pods of all Nodes, and keeps those of the Nodes that are asked about.
fn pods_of_all(client: &Client, lists: &Arc<Mutex<PodLists>>) -> List<NodePods> {
    let (client, lists) = (client.clone(), lists.clone());
    Arc::new(move |nodes| {
        let (client, lists) = (client.clone(), lists.clone());
        async move {
            let listed = pods::of_nodes(&client, nodes).await;
            let mut lists = lists.lock();
            match listed {
                Ok((found, pods)) => {
                    lists.listed_all(pods);
                    Ok(found)
                }
                Err(error) => {
                    lists.failed(clock::monotonic_now());
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
        let listed = attached_to(client, nodes);
        pods::in_time("VolumeAttachments", pods::LIST_TIMEOUT, listed).boxed()
    })
}

async fn attached_to(
    client: Client,
    nodes: BTreeSet<String>,
) -> Result<BTreeMap<String, Vec<AttachedVolume>>, ApiError> {
    let volumes: Api<VolumeAttachment> = Api::all(client);
    let mut found: BTreeMap<String, Vec<AttachedVolume>> =
        nodes.into_iter().map(|node| (node, Vec::new())).collect();
    let mut page = ListParams::default().limit(PAGE.into());
    loop {
        let list = call("list", volumes.list(&page)).await?;
        for volume in list.items {
            if let Some(of) = found.get_mut(&volume.spec.node_name) {
                of.push(AttachedVolume {
                    name: volume.name_any(),
                    volume: volume.spec.source.persistent_volume_name,
                });
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests;
