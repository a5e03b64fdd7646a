//! Carries out the commands that change the Node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_core::remediation::{NodeFacts, Observation, Shell, WorkloadView};
use serde_json::{Value, json};

use crate::{
    clusters::{cordon_patch, node_facts, taints},
    remediation::{act::Scope, engine::ReconcileError, scope::Memory},
    store::{api::ApiError, clock, object::Key},
};

/// A Node of a workload cluster and the API to reach it.
pub(super) struct TargetNode<'a> {
    pub(super) facts: &'a NodeFacts,
    pub(super) cluster: Key,
    pub(super) nodes: Api<Node>,
    /// Name of the Node and its cluster, for messages.
    pub(super) what: String,
    /// The Node as observed, without its status.
    pub(super) node: Node,
}

/// The observed Node and the API to reach it.
pub(super) fn target_node<'a>(
    scope: &Scope,
    memory: &Memory,
    o: &'a Observation,
) -> Result<TargetNode<'a>, ReconcileError> {
    let WorkloadView::Present(facts) = &o.workload else {
        return Err(ApiError::other("node", "it is not there").into());
    };
    let cluster = scope
        .interest
        .lock()
        .cluster
        .clone()
        .ok_or_else(|| ApiError::other("node", "its cluster is not known"))?;
    let workload =
        scope.context.workloads.get(&cluster).ok_or_else(|| {
            ApiError::other("node", format!("cluster {cluster} is not connected"))
        })?;
    let what = format!("node {} of cluster {cluster}", facts.name);
    let node = memory.snapshot.node(&facts.uid).cloned();
    let node = node.ok_or_else(|| ApiError::other(&what, "it was not observed"))?;
    Ok(TargetNode {
        facts,
        cluster,
        nodes: Api::all(workload.client.clone()),
        what,
        node,
    })
}

/// Returns a check of the age of the latest reading (F1), evaluated when it is called.
pub(super) fn check_latest_reading(
    shell: &Shell,
) -> impl FnOnce() -> Result<(), kube::Error> + Send + use<> {
    let shell = shell.clone();
    move || {
        let stands = shell.reading_stands(clock::monotonic_now());
        stands.map_err(|why| kube::Error::Service(why.into()))
    }
}

/// Patches the observed Node, if `check` allows it immediately before, and keeps the answer.
async fn patch_node(
    scope: &Scope,
    memory: &mut Memory,
    target: TargetNode<'_>,
    operation: &'static str,
    body: Value,
    check: impl FnOnce() -> Result<(), kube::Error> + Send + 'static,
) -> Result<(), ReconcileError> {
    let TargetNode {
        facts,
        cluster,
        nodes,
        what,
        ..
    } = target;
    let name = facts.name.clone();
    let patch = move || async move {
        check()?;
        let params = PatchParams::default();
        nodes.patch(&name, &params, &Patch::Merge(body)).await
    };
    let writer = &scope.context.writer;
    let patched = writer.write(operation, what, patch).await?;
    memory.snapshot.keep_node(&patched);
    memory.shell.node.changed(node_facts(&patched, None));
    scope.context.index.apply_node(&cluster, patched);
    Ok(())
}

pub(super) async fn set_taint(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    on: bool,
) -> Result<(), ReconcileError> {
    let target = target_node(scope, memory, o)?;
    let name = target.facts.name.clone();
    let now = scope.context.taint_time_added.then(Timestamp::now);
    let node = &target.node;
    let old = node.spec.as_ref().and_then(|s| s.taints.clone());
    let body = json!({
        "metadata": { "resourceVersion": node.resource_version() },
        "spec": { "taints": taints(&old.unwrap_or_default(), on, now) },
    });
    if on {
        let check = check_latest_reading(&memory.shell);
        patch_node(scope, memory, target, "taint", body, check).await?;
        let message = format!("out-of-service taint set on node {name}");
        scope.emit_event(false, "Tainted", &message);
    } else {
        patch_node(scope, memory, target, "untaint", body, || Ok(())).await?;
        // How the remediation ends is reported next.
        let message = format!("out-of-service taint removed from node {name}");
        scope.log_progress("Untainted", &message);
    }
    Ok(())
}

/// Cordons the Node with this UID for this remediation, or removes that cordon.
pub(super) async fn set_cordon(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
    uid: &str,
    on: bool,
) -> Result<(), ReconcileError> {
    let target = target_node(scope, memory, o)?;
    if target.facts.uid != uid {
        return Err(ApiError::other(&target.what, "it was replaced").into());
    }
    let name = target.facts.name.clone();
    let body = cordon_patch(&target.node, on.then_some(&*scope.uid));
    let operation = if on { "cordon" } else { "uncordon" };
    let removed = memory.shell.cordon_removed(uid);
    let again = on && removed > 0;
    patch_node(scope, memory, target, operation, body, || Ok(())).await?;
    let (reason, message) = match (on, again) {
        (true, false) => ("Cordoned", format!("cordoned node {name}")),
        (true, true) => (
            "CordonedAgain",
            format!(
                "somebody has uncordoned node {name}, which is kept without pods: cordoned it again ({}); each further time \
                 that is done later. To let pods be bound to it, end the maintenance, or delete this object",
                match removed {
                    1 => "once".to_owned(),
                    times => format!("{times} times"),
                }
            ),
        ),
        (false, _) => ("Uncordoned", format!("uncordoned node {name}")),
    };
    scope.emit_event(again, reason, &message);
    Ok(())
}
