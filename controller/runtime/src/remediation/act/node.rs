//! Carries out the commands that change the Node.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_api::names::{
    OUT_OF_SERVICE_TAINT_EFFECT, OUT_OF_SERVICE_TAINT_KEY, OUT_OF_SERVICE_TAINT_VALUE,
};
use rackhand_core::remediation::{NodeFacts, Observation, WorkloadView};
use serde_json::json;

use crate::{
    remediation::{
        engine::ReconcileError,
        scope::{Memory, Scope},
    },
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
    memory: &Memory,
) -> impl FnOnce() -> Result<(), kube::Error> + Send + use<> {
    let shell = memory.shell.clone();
    move || {
        let stands = shell.reading_stands(clock::monotonic_now());
        stands.map_err(|why| kube::Error::Service(why.into()))
    }
}

pub(super) async fn set_taint(
    scope: &Scope,
    memory: &Memory,
    o: &Observation,
    on: bool,
) -> Result<(), ReconcileError> {
    let TargetNode {
        facts,
        cluster,
        nodes,
        what,
        node,
    } = target_node(scope, memory, o)?;
    let name = facts.name.clone();
    let now = scope.context.config.taint_time_added.then(Timestamp::now);
    let old = node
        .spec
        .as_ref()
        .and_then(|s| s.taints.clone())
        .unwrap_or_default();
    let body = json!({
        "metadata": { "resourceVersion": node.resource_version() },
        "spec": { "taints": taints(&old, on, now) },
    });
    let check_latest_reading = check_latest_reading(memory);
    let patched = scope
        .context
        .writer
        .write(
            if on { "taint" } else { "untaint" },
            what,
            move || async move {
                if on {
                    check_latest_reading()?;
                }
                nodes
                    .patch(&name, &PatchParams::default(), &Patch::Merge(body))
                    .await
            },
        )
        .await?;
    scope.context.index.apply_node(&cluster, patched);
    let (reason, message) = if on {
        (
            "Tainted",
            format!("out-of-service taint set on node {}", facts.name),
        )
    } else {
        (
            "Untainted",
            format!("out-of-service taint removed from node {}", facts.name),
        )
    };
    scope.emit_event(false, reason, &message);
    Ok(())
}

/// The Node's taints with the out-of-service taint, or without it.
pub(in crate::remediation) fn taints(
    taints: &[Taint],
    on: bool,
    time_added: Option<Timestamp>,
) -> Vec<Taint> {
    let mut list: Vec<Taint> = taints
        .iter()
        .filter(|t| !(t.key == OUT_OF_SERVICE_TAINT_KEY && t.effect == OUT_OF_SERVICE_TAINT_EFFECT))
        .cloned()
        .collect();
    if on {
        list.push(Taint {
            key: OUT_OF_SERVICE_TAINT_KEY.into(),
            value: Some(OUT_OF_SERVICE_TAINT_VALUE.into()),
            effect: OUT_OF_SERVICE_TAINT_EFFECT.into(),
            time_added: time_added.map(Time),
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_adding_and_removing_taint_keeps_other_taints() {
        let other = Taint {
            key: "a".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        let on = taints(std::slice::from_ref(&other), true, None);
        assert_eq!(on.len(), 2);
        assert_eq!(
            taints(&on, true, None),
            on,
            "adding the taint twice adds it once"
        );
        assert_eq!(taints(&on, false, None), vec![other]);
    }
}
