//! Pods as lists show them: only the fields that decide, because a list of a cluster has many pods.

use std::{collections::BTreeMap, future::Future, time::Duration};

use k8s_openapi::api::core::v1::Toleration;
use kube::{Client, api::ListParams, core::Request};
use rackhand_core::{
    fleet::placement::HostWorkload,
    remediation::BoundPod,
    watches::shared_list::{MOST_SHARED, PAGE},
};
use serde::Deserialize;

use super::{drain::bound_pod, host_workload::waiting_pod};
use crate::store::api::{ApiError, CALL_TIMEOUT, call};

/// Timeout of all pages of a list together.
pub(super) const LIST_TIMEOUT: Duration = CALL_TIMEOUT.saturating_mul(4);
/// The same of a list that many hosts wait for, whose power is not read meanwhile (F3).
const SHARED_TIMEOUT: Duration = CALL_TIMEOUT.saturating_mul(2);
/// Most pods of one Node that are kept, more than any Node has.
const MOST_OF_NODE: usize = 50_000;

/// A pod. All other fields are skipped, above all `managedFields` and the containers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SeenPod {
    pub(super) metadata: SeenMeta,
    pub(super) spec: Option<SeenSpec>,
    status: Option<SeenStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeenMeta {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) finalizers: Option<Vec<String>>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<SeenOwner>>,
}

#[derive(Debug, Deserialize)]
struct SeenOwner {
    kind: String,
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeenSpec {
    node_name: Option<String>,
    pub(super) tolerations: Option<Vec<Toleration>>,
    volumes: Option<Vec<SeenVolume>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeenVolume {
    pub(super) name: String,
    pub(super) persistent_volume_claim: Option<SeenClaim>,
    pub(super) ephemeral: Option<SeenEphemeral>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeenClaim {
    pub(super) claim_name: String,
}

/// A claim that belongs to the pod. Its template does not matter.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SeenEphemeral {}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SeenStatus {
    phase: Option<String>,
}

// === impl SeenPod ===

impl SeenPod {
    fn node(&self) -> Option<&str> {
        let spec = self.spec.as_ref()?;
        spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether an object of this kind controls the pod.
    pub(super) fn is_controlled_by(&self, kind: &str) -> bool {
        let owners = self.metadata.owner_references.iter().flatten();
        let mut controllers = owners.filter(|owner| owner.controller == Some(true));
        controllers.any(|owner| owner.kind == kind)
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &SeenVolume> {
        let spec = self.spec.iter();
        spec.flat_map(|spec| spec.volumes.iter().flatten())
    }

    /// Whether all its containers have ended.
    pub(super) fn has_ended(&self) -> bool {
        let phase = self.status.as_ref().and_then(|s| s.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }
}

/// What is kept of the pods of one Node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodePods {
    pub(super) pods: Vec<BoundPod>,
    /// What waits for its host; `None`: no pod is there.
    workload: Option<HostWorkload>,
}

impl NodePods {
    fn add(&mut self, pod: &SeenPod) {
        self.pods.push(bound_pod(pod));
        let waits = HostWorkload::of([waiting_pod(pod)]);
        self.workload = Some(self.workload.map_or(waits, |of| of.min(waits)));
    }

    /// The workload that can run elsewhere only once the host of these pods is off.
    pub(super) fn workload(&self) -> HostWorkload {
        self.workload.unwrap_or(HostWorkload::None)
    }
}

// The fields of a list that are read.

#[derive(Deserialize)]
struct WireList {
    metadata: WireListMeta,
    items: Option<Vec<SeenPod>>,
}

#[derive(Deserialize)]
struct WireListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Passes every pod of a live list to `each`: a quorum read, page by page, all of them as they were when the first one
/// began. Only one page is in memory at a time.
async fn list(
    client: &Client,
    what: &str,
    params: ListParams,
    mut each: impl FnMut(SeenPod) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let request = Request::new("/api/v1/pods");
    let mut params = params.limit(PAGE.into());
    loop {
        let asked = request.list(&params);
        let asked = asked.map_err(|error| ApiError::other(what, error))?;
        let page: WireList = call(what, client.request(asked)).await?;
        for pod in page.items.into_iter().flatten() {
            each(pod)?;
        }
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// The pods of one Node.
pub(super) async fn of_node(client: &Client, node: &str) -> Result<NodePods, ApiError> {
    let what = format!("pods of node {node}");
    let selected = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut found = NodePods::default();
    let keep = |pod: SeenPod| {
        if found.pods.len() >= MOST_OF_NODE {
            return Err(ApiError::other(&what, format!("more than {MOST_OF_NODE}")));
        }
        if pod.node() == Some(node) {
            found.add(&pod);
        }
        Ok(())
    };
    in_time(&what, LIST_TIMEOUT, list(client, &what, selected, keep)).await?;
    Ok(found)
}

/// The pods of these Nodes by one list of all pods, and how many pods that list has. Each of the Nodes is in the result.
pub(super) async fn of_nodes(
    client: &Client,
    nodes: impl IntoIterator<Item = String>,
) -> Result<(BTreeMap<String, NodePods>, usize), ApiError> {
    let what = "pods of all nodes";
    let nodes = nodes.into_iter().map(|node| (node, NodePods::default()));
    let mut found: BTreeMap<String, NodePods> = nodes.collect();
    let mut pods: usize = 0;
    let keep = |pod: SeenPod| {
        pods = pods.saturating_add(1);
        if pods > MOST_SHARED.saturating_mul(2) {
            return Err(ApiError::other(what, "they are too many for one list"));
        }
        if let Some(of) = pod.node().and_then(|node| found.get_mut(node)) {
            of.add(&pod);
        }
        Ok(())
    };
    let all = list(client, what, ListParams::default(), keep);
    in_time(what, SHARED_TIMEOUT, all).await?;
    Ok((found, pods))
}

/// Runs a list of several pages under a timeout of its own.
pub(super) async fn in_time<T>(
    what: &str,
    limit: Duration,
    list: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let listed = tokio::time::timeout(limit, list).await;
    let late = |_| ApiError::other(what, format!("no full list within {limit:?}"));
    listed.map_err(late)?
}
