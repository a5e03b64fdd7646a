//! Leftovers on Nodes of the management cluster and of the workload clusters after the last remediation:
//! out-of-service taints, and the conditions of Nodes.
//!
//! Must never: remove a taint that somebody else may have set. `metadata.managedFields` names who last
//! changed the taints of a Node. Rackhand changes them only to set or to remove its own taint, so a Node
//! that carries it, and whose taints Rackhand changed last, has it from Rackhand.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use rackhand_api::names::{
    OUT_OF_SERVICE_TAINT_EFFECT, OUT_OF_SERVICE_TAINT_KEY, OUT_OF_SERVICE_TAINT_VALUE,
    conditions::FENCING_UNAVAILABLE,
};
use rackhand_runtime::{Signal, is_tainted_by_rackhand, workload_cluster_client};
use serde_json::json;
use tokio::time::timeout;

use super::super::objects;
use crate::error_text::one_line;

/// Time for all calls to one cluster.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(60);
/// Nodes in one response.
const PAGE: u32 = 500;

/// Which workload clusters are searched.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Clusters {
    /// Do not search this workload cluster (NAMESPACE/NAME of its Cluster) for taints, because it is permanently
    /// out of reach; may be repeated.
    #[arg(long = "skip-cluster", value_name = "NAMESPACE/NAME")]
    skipped: Vec<String>,
}

/// Origin of an out-of-service taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Rackhand.
    Ours,
    /// Unknown: others have changed the taints of the Node since.
    Unproven,
}

/// Removes the taints and conditions of Rackhand from all clusters, and reports other out-of-service taints.
///
/// # Errors
/// A cluster cannot be searched. All others were.
pub(super) async fn remove(client: &Client, clusters: &Clusters) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    in_time(remove_from(client, "", &mut seen)).await?;
    let mut failed = Vec::new();
    let mut unknown: BTreeSet<&String> = clusters.skipped.iter().collect();
    for cluster in objects::list(client, objects::CLUSTER).await? {
        let namespace = cluster.namespace().unwrap_or_default();
        let name = cluster.name_any();
        let path = format!("{namespace}/{name}");
        if unknown.remove(&path) {
            outln!("skipped: cluster {path}; its Nodes may carry {OUT_OF_SERVICE_TAINT_KEY}");
            continue;
        }
        let searched = in_time(async {
            let workload = workload_cluster_client(client, &namespace, &name).await;
            let workload = workload.map_err(anyhow::Error::msg)?;
            remove_from(&workload, &path, &mut seen).await
        });
        if let Err(error) = searched.await {
            failed.push(format!("  cluster {path}: {}", one_line(&error)));
        }
    }
    if let Some(path) = unknown.first() {
        bail!("--skip-cluster {path}: there is no Cluster of this name");
    }
    if !failed.is_empty() {
        bail!(
            "these workload clusters cannot be searched for taints of Rackhand, so its CRDs and Leases were \
             kept:\n{}\nMake their APIs answer to the kubeconfig in the Secret <cluster>-kubeconfig and run \
             this again. If a cluster is gone for good, delete its Cluster object, or leave it out with \
             --skip-cluster NAMESPACE/NAME",
            failed.join("\n")
        );
    }
    Ok(())
}

async fn in_time(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    match timeout(CLUSTER_TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => bail!("its API has not answered within {CLUSTER_TIMEOUT:?}"),
    }
}

/// Searches one cluster. `seen` has the UIDs of Nodes of clusters before, because the management cluster may
/// have a Cluster object of its own.
async fn remove_from(
    client: &Client,
    cluster: &str,
    seen: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = nodes.list(&page).await.context("listing its Nodes")?;
        for node in &listed.items {
            let (Some(origin), Some(uid)) = (origin(node), node.uid()) else {
                continue;
            };
            if !seen.insert(uid) {
                continue;
            }
            let name = node.name_any();
            let shown = shown(&name, cluster);
            match origin {
                Origin::Ours => {
                    let body = Patch::Merge(json!({
                        "metadata": { "resourceVersion": node.resource_version() },
                        "spec": { "taints": without_ours(node) },
                    }));
                    let patched = nodes.patch(&name, &PatchParams::default(), &body).await;
                    patched.with_context(|| format!("removing the taint of node {name}"))?;
                    outln!("removed: the taint {OUT_OF_SERVICE_TAINT_KEY} of {shown}");
                }
                Origin::Unproven => outln!(
                    "kept: the taint {OUT_OF_SERVICE_TAINT_KEY} of {shown}: nothing shows that Rackhand has \
                     set it, and no remediation needs it. Once the host is on: kubectl taint node {name} \
                     {OUT_OF_SERVICE_TAINT_KEY}-"
                ),
            }
        }
        for node in &listed.items {
            remove_conditions(&nodes, node, cluster).await?;
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Only Rackhand sets conditions of these types.
async fn remove_conditions(nodes: &Api<Node>, node: &Node, cluster: &str) -> anyhow::Result<()> {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let signals = Signal::ALL.map(Signal::condition_type);
    for condition in conditions.into_iter().flatten() {
        let condition_type = condition.type_.as_str();
        if condition_type != FENCING_UNAVAILABLE && !signals.contains(&condition_type) {
            continue;
        }
        let name = node.name_any();
        let body = json!({ "status": { "conditions": [
            { "$patch": "delete", "type": condition_type },
        ]}});
        let patched = nodes
            .patch_status(&name, &PatchParams::default(), &Patch::Strategic(body))
            .await;
        patched.with_context(|| format!("removing condition {condition_type} of node {name}"))?;
        outln!(
            "removed: condition {condition_type} of {}",
            shown(&name, cluster)
        );
    }
    Ok(())
}

/// A Node, for people.
fn shown(node: &str, cluster: &str) -> String {
    match cluster {
        "" => format!("node {node}"),
        cluster => format!("node {node} of cluster {cluster}"),
    }
}

fn taints(node: &Node) -> &[Taint] {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints.unwrap_or_default()
}

fn is_ours(taint: &Taint) -> bool {
    taint.key == OUT_OF_SERVICE_TAINT_KEY
        && taint.effect == OUT_OF_SERVICE_TAINT_EFFECT
        && taint.value.as_deref() == Some(OUT_OF_SERVICE_TAINT_VALUE)
}

fn without_ours(node: &Node) -> Vec<&Taint> {
    let taints = taints(node).iter();
    taints.filter(|taint| !is_ours(taint)).collect()
}

/// Who has set the out-of-service taint of a Node, if it has one.
fn origin(node: &Node) -> Option<Origin> {
    let mut found = taints(node)
        .iter()
        .filter(|taint| taint.key == OUT_OF_SERVICE_TAINT_KEY);
    let first = found.next()?;
    let only_ours = is_ours(first) && found.next().is_none();
    Some(match is_tainted_by_rackhand(node) && only_ours {
        true => Origin::Ours,
        false => Origin::Unproven,
    })
}

#[cfg(test)]
mod tests {
    use rackhand_runtime::FIELD_MANAGER;
    use serde_json::Value;

    use super::*;

    fn node(taints: &Value, manager: &str, fields: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "n", "managedFields": [
                { "manager": "kubelet", "fieldsV1": { "f:status": {} } },
                { "manager": manager, "fieldsV1": fields },
            ]},
            "spec": { "taints": taints },
        }))
        .unwrap()
    }

    #[test]
    fn f9_taint_is_ours_only_if_rackhand_changed_the_taints_last() {
        let ours = json!([
            { "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" },
            { "key": OUT_OF_SERVICE_TAINT_KEY, "value": "nodeshutdown", "effect": "NoExecute" },
        ]);
        let by_hand = json!([{ "key": OUT_OF_SERVICE_TAINT_KEY, "effect": "NoExecute" }]);
        let twice = json!([
            { "key": OUT_OF_SERVICE_TAINT_KEY, "value": "nodeshutdown", "effect": "NoExecute" },
            { "key": OUT_OF_SERVICE_TAINT_KEY, "value": "nodeshutdown", "effect": "NoSchedule" },
        ]);
        let changed = json!({ "f:spec": { "f:taints": {} } });
        let other = json!({ "f:metadata": { "f:labels": {} } });
        for (taints, manager, fields, expected) in [
            (&ours, FIELD_MANAGER, &changed, Some(Origin::Ours)),
            (&ours, FIELD_MANAGER, &other, Some(Origin::Unproven)),
            (&ours, "kubectl", &changed, Some(Origin::Unproven)),
            (&by_hand, FIELD_MANAGER, &changed, Some(Origin::Unproven)),
            (&twice, FIELD_MANAGER, &changed, Some(Origin::Unproven)),
            (&json!([]), FIELD_MANAGER, &changed, None),
        ] {
            let node = node(taints, manager, fields);
            assert_eq!(origin(&node), expected, "{taints} {manager} {fields}");
        }
        let kept = node(&ours, FIELD_MANAGER, &changed);
        let kept: Vec<&str> = without_ours(&kept).iter().map(|t| t.key.as_str()).collect();
        assert_eq!(kept, ["node.kubernetes.io/unreachable"]);
        assert_eq!(origin(&Node::default()), None);
    }
}
