//! The client of a workload cluster, with a limit of concurrent calls.
//!
//! Each call is a connection of its own, and the API server rejects too many of them; a slow
//! cluster delays only its own callers. Results are never cached: a call does not serve requests
//! that were made after it began.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use parking_lot::Mutex;
use rackhand_core::{
    fleet::placement::HostWorkload,
    remediation::{BoundPod, Drain, LeaseFacts, LeaseMemory, LeaseRenewals, NodeLife},
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    drain::bound_to,
    host_workload::host_workload,
    node_conversion::{kubelet_life, node_lease},
};
use crate::store::{
    api::{ApiError, CALL_TIMEOUT, call, optional},
    clock,
};

/// Maximum number of concurrent observations of one cluster, of up to two calls each.
const MAX_CALLS: usize = 24;
/// Maximum number of VolumeAttachments in one response.
const PAGE: u32 = 500;
/// Timeout of all pages of a list together.
const LIST_TIMEOUT: Duration = CALL_TIMEOUT.saturating_mul(4);

/// A VolumeAttachment and its Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachedVolume {
    pub(crate) name: String,
    pub(crate) node: String,
    /// The PersistentVolume that is attached.
    pub(crate) volume: Option<String>,
}

impl From<&VolumeAttachment> for AttachedVolume {
    fn from(volume: &VolumeAttachment) -> Self {
        Self {
            name: volume.name_any(),
            node: volume.spec.node_name.clone(),
            volume: volume.spec.source.persistent_volume_name.clone(),
        }
    }
}

type Listed = Result<Arc<Vec<AttachedVolume>>, String>;

/// A workload cluster that is connected.
pub(crate) struct WorkloadClient {
    pub(crate) client: Client,
    calls: Semaphore,
    /// Consecutive calls without a response.
    unanswered: AtomicUsize,
    /// Permits one list of volumes at a time.
    listing: Arc<Semaphore>,
    /// The list that has not begun yet, which callers may still join.
    next: Arc<Mutex<Option<Shared<BoxFuture<'static, Listed>>>>>,
}

impl WorkloadClient {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            calls: Semaphore::new(MAX_CALLS),
            unanswered: AtomicUsize::new(0),
            listing: Arc::new(Semaphore::new(1)),
            next: Arc::default(),
        }
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

    /// Reads the Node and its kubelet's Lease.
    pub(crate) async fn node(
        &self,
        what: String,
        name: &str,
        memory: &Mutex<LeaseMemory>,
    ) -> Result<Option<(Node, Option<LeaseFacts>)>, ApiError> {
        let _permit = self.acquire().await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (node, lease) = tokio::join!(
            call(what, nodes.get(name)),
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
        let (pods, volumes) = tokio::join!(self.pods(node), self.volumes());
        let volumes = volumes.map_err(|why| ApiError::other("VolumeAttachments", why))?;
        let mut drain = bound_to(node, &pods?, volumes.iter());
        self.name_claims(&mut drain, &volumes).await;
        Ok(drain)
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
        Ok(host_workload(&self.pods(node).await?))
    }

    async fn pods(&self, node: &str) -> Result<Vec<Pod>, ApiError> {
        let _permit = self.acquire().await?;
        let pods: Api<Pod> = Api::all(self.client.clone());
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let listed = call(format!("pods of node {node}"), pods.list(&on_node)).await;
        self.record_answer(&listed);
        Ok(listed?.items)
    }

    /// Lists all VolumeAttachments, because the API server cannot select the attachments of one Node. A list
    /// serves every caller that called before it began, so that a thousand drains do not need a thousand lists.
    async fn volumes(&self) -> Listed {
        let list = {
            let mut next = self.next.lock();
            next.get_or_insert_with(|| self.list_volumes().boxed().shared())
                .clone()
        };
        list.await
    }

    fn list_volumes(&self) -> impl Future<Output = Listed> + Send + 'static + use<> {
        let (client, listing, next) =
            (self.client.clone(), self.listing.clone(), self.next.clone());
        async move {
            let _one = listing.acquire().await.map_err(|e| e.to_string())?;
            // From here on callers cannot join.
            next.lock().take();
            let all = every_volume(client);
            match tokio::time::timeout(LIST_TIMEOUT, all).await {
                Ok(listed) => listed.map_err(|e| e.to_string()),
                Err(_) => Err(format!("no full list within {LIST_TIMEOUT:?}")),
            }
        }
    }
}

async fn every_volume(client: Client) -> Result<Arc<Vec<AttachedVolume>>, ApiError> {
    let volumes: Api<VolumeAttachment> = Api::all(client);
    let mut all = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = call("list", volumes.list(&page)).await?;
        all.extend(list.items.iter().map(AttachedVolume::from));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(Arc::new(all)),
        }
    }
}

#[cfg(test)]
mod tests;
