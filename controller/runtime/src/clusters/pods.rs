//! Pods as lists show them: only the fields that decide, because a list of a cluster has many pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Toleration;
use kube::{Client, api::ListParams};
use rackhand_core::{
    fleet::placement::HostWorkload,
    remediation::BoundPod,
    watches::{list_choice::Size, shared_list::Answers},
};
use serde::Deserialize;

use super::{
    drain::bound_pod,
    host_workload::waiting_pod,
    pages::{self, PagedList},
};
use crate::store::api::{ApiError, CALL_TIMEOUT};

const PODS: &str = "/api/v1/pods";
/// Pods in one response of a list of one Node.
const PAGE_OF_NODE: u32 = 500;

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

/// The pods of one Node.
pub(super) async fn of_node(client: &Client, node: &str) -> Result<(NodePods, Size), ApiError> {
    let selected = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = PagedList {
        what: &format!("pods of node {node}"),
        path: PODS,
        params: selected.limit(PAGE_OF_NODE),
        most: MOST_OF_NODE,
        limit: LIST_TIMEOUT,
    };
    let (mut found, size) = pages::list(
        client,
        list,
        [node.to_owned()].into(),
        |pod: SeenPod, nodes| keep(&pod, nodes),
    )
    .await?;
    Ok((found.remove(node).unwrap_or_default(), size))
}

/// The pods of these Nodes by one list of all pods. Each of the Nodes is in the result. `page`: pods in one response;
/// `most`: at how many the list is given up.
pub(super) async fn of_nodes(
    client: &Client,
    nodes: BTreeSet<String>,
    page: u32,
    most: usize,
) -> Result<(BTreeMap<String, NodePods>, Size), ApiError> {
    let list = PagedList {
        what: "pods of all nodes",
        path: PODS,
        params: ListParams::default().limit(page),
        most,
        limit: SHARED_TIMEOUT,
    };
    pages::list(client, list, nodes, |pod: SeenPod, nodes| keep(&pod, nodes)).await
}

fn keep(pod: &SeenPod, nodes: &mut Answers<NodePods>) {
    if let Some(of) = pod.node().and_then(|node| nodes.of(node)) {
        of.add(pod);
    }
}
