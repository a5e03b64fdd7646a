//! The stage of these tests and its Nodes.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::{apply, shipped},
    stage::{Stage, StageConfig, wait_until},
};
use serde_json::json;

use super::mode::Mode;

pub(crate) const CONTROLLER: &str = "controller-0";
/// Timeout of all Machines together on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
pub(crate) const AT_ONCE: usize = 32;

pub(crate) fn number(variable: &str, default: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.and_then(|n| n.parse().ok()).unwrap_or(default)
}

pub(crate) async fn begin(dir: &std::path::Path) -> Result<Stage> {
    let arguments = ["--health-checks=all"];
    let stage = Stage::start(dir, StageConfig::crowd(0, 0, &arguments)).await?;
    stage.install_openshift().await?;
    for object in shipped("kustomize/node-health-checks")? {
        apply(&stage.client, object).await?;
    }
    Ok(stage)
}

/// Whether an object has a condition with this status in its main list.
pub(crate) fn is(object: &DynamicObject, type_: &str, status: &str) -> bool {
    let list = object.data["status"]["conditions"].as_array();
    let mut list = list.into_iter().flatten();
    list.any(|c| c["type"] == type_ && c["status"] == status)
}

pub(crate) fn node_name(i: usize) -> String {
    format!("node-{i:03}")
}

pub(crate) async fn set_node(stage: &Stage, name: &str, ready: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let status = json!({ "status": { "conditions": [{
        "type": "Ready",
        "status": if ready { "True" } else { "False" },
        "reason": "Test",
        "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

pub(crate) async fn make_node(stage: &Stage, name: &str, pool: Mode) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let labels = json!({ "pool": pool.prefix() });
    let node = serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } }))?;
    nodes.create(&PostParams::default(), &node).await?;
    set_node(stage, name, true).await
}

/// Makes ready Nodes, each with a Machine of every mode.
pub(crate) async fn make_fleet(stage: &Stage, count: usize) -> Result<()> {
    each(count, |i| async move {
        let node = node_name(i);
        make_node(stage, &node, Mode::Nodes).await?;
        for mode in Mode::ALL {
            let machine = mode.fresh(i);
            mode.make_machine(stage, &machine).await?;
            mode.join(stage, &machine, &node).await?;
        }
        Ok(())
    })
    .await
}

pub(crate) async fn each<F, Fut>(count: usize, act: F) -> Result<()>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    stream::iter((0..count).map(act))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await
        .map(drop)
}

/// Waits until the status of a check has these counts.
pub(crate) async fn judged(
    stage: &Stage,
    mode: Mode,
    expected: usize,
    healthy: usize,
) -> Result<()> {
    let what = format!("{mode:?}: {healthy} of {expected} healthy");
    wait_until(&what, PATIENCE, || async {
        let check = mode.checks(stage).get(mode.prefix()).await?;
        let status = &check.data["status"];
        let [all, well] = mode.counts();
        let shown = status[all] == expected && status[well].as_u64().unwrap_or(0) == healthy as u64;
        Ok(if shown {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}
