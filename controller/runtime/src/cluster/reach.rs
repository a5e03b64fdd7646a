//! What is asked of a workload cluster, a few at a time.
//!
//! Owns how many calls are on their way to one cluster: each is a connection of its own, and the API
//! server refuses whom it has too many of. A cluster that is slow makes only its own wait. Must
//! never answer from memory: what was asked for later than a call began is not in its answer.

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
    core::v1::{Node, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use parking_lot::Mutex;
use rackhand_core::remediation::{Drain, LeaseFacts};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{LeaseMemory, facts::node_lease, pods::left_on};
use crate::{
    api::{ApiError, CALL_TIMEOUT, call, optional},
    steady,
};

/// Looks at one cluster at one time; each is up to two calls.
const LOOKS: usize = 24;
/// How many VolumeAttachments one answer carries at most.
const PAGE: u32 = 500;
/// How long all pages of a list may take together.
const LIST_TIMEOUT: Duration = CALL_TIMEOUT.saturating_mul(4);

/// Where a volume is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) name: String,
    pub(crate) node: String,
}

impl From<&VolumeAttachment> for Attached {
    fn from(volume: &VolumeAttachment) -> Self {
        Self {
            name: volume.name_any(),
            node: volume.spec.node_name.clone(),
        }
    }
}

type Listed = Result<Arc<Vec<Attached>>, String>;

/// A workload cluster that is connected.
pub(crate) struct Reach {
    pub(crate) client: Client,
    looks: Semaphore,
    /// Looks in a row that were not answered.
    unanswered: AtomicUsize,
    /// One list of volumes at a time.
    listing: Arc<Semaphore>,
    /// The list that has not begun yet: whoever asks now is in time for it.
    next: Arc<Mutex<Option<Shared<BoxFuture<'static, Listed>>>>>,
}

impl Reach {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            looks: Semaphore::new(LOOKS),
            unanswered: AtomicUsize::new(0),
            listing: Arc::new(Semaphore::new(1)),
            next: Arc::default(),
        }
    }

    /// Waits for its turn, which ends with the guard.
    ///
    /// # Errors
    /// The API has left all who were before unanswered: who waited for it would wait as long as all of
    /// them together.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        if let Ok(turn) = self.looks.try_acquire() {
            return Ok(turn);
        }
        let turn = self.looks.acquire().await;
        let turn = turn.map_err(|e| ApiError::other("turn", e))?;
        match self.unanswered.load(Ordering::Relaxed) {
            0..LOOKS => Ok(turn),
            calls => Err(ApiError::other(
                "its API",
                format!("the last {calls} calls were not answered"),
            )),
        }
    }

    fn heard<T>(&self, result: &Result<T, ApiError>) {
        match result {
            Err(error) if !error.is_answer() => {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.unanswered.store(0, Ordering::Relaxed),
        }
    }

    /// The Node and its kubelet's Lease, read now. A Node that is not there has none.
    pub(crate) async fn node(
        &self,
        what: String,
        name: &str,
        memory: &LeaseMemory,
    ) -> Result<Option<(Node, Option<LeaseFacts>)>, ApiError> {
        let _turn = self.turn().await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (node, lease) = tokio::join!(
            call(what, nodes.get(name)),
            node_lease(&self.client, name, memory, steady::now),
        );
        self.heard(&node);
        let Some(node) = optional(node)? else {
            return Ok(None);
        };
        Ok(Some((node, lease?)))
    }

    /// Lists, from the API server and from no cache, what keeps the Node from being drained (F4).
    pub(crate) async fn drain(&self, node: &str) -> Result<Drain, ApiError> {
        let pods = async {
            let _turn = self.turn().await?;
            let pods: Api<Pod> = Api::all(self.client.clone());
            let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
            let listed = call(format!("pods of node {node}"), pods.list(&on_node)).await;
            self.heard(&listed);
            listed
        };
        let (pods, volumes) = tokio::join!(pods, self.volumes());
        let volumes = volumes.map_err(|why| ApiError::other("VolumeAttachments", why))?;
        Ok(left_on(node, &pods?.items, volumes.iter()))
    }

    /// All VolumeAttachments: the API server cannot pick those of one Node. A list that begins after
    /// this was called serves everybody who called until then, so that a thousand drains cost no
    /// more lists than one.
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
            // From here on it is too late to join.
            next.lock().take();
            let all = every_volume(client);
            match tokio::time::timeout(LIST_TIMEOUT, all).await {
                Ok(listed) => listed.map_err(|e| e.to_string()),
                Err(_) => Err(format!("no full list within {LIST_TIMEOUT:?}")),
            }
        }
    }
}

async fn every_volume(client: Client) -> Result<Arc<Vec<Attached>>, ApiError> {
    let volumes: Api<VolumeAttachment> = Api::all(client);
    let mut all = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = call("list", volumes.list(&page)).await?;
        all.extend(list.items.iter().map(Attached::from));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(Arc::new(all)),
        }
    }
}

#[cfg(test)]
mod tests;
