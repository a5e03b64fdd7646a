//! Rows of the failure table about objects that are deleted or replaced while a host is off.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::json;

use super::world::World;

const CONFIRM: &str = "rackhand.dev/confirm-fenced";

/// The credentials of the BMC are deleted: the remediation waits for a confirmation by a person, accepts it,
/// and reports the missing Secret.
pub async fn secret_deleted(w: &World) -> Result<()> {
    w.lose("lost-1", true).await?;
    w.stage.remediate("lost-1").await?;
    w.stage.wait_step("lost-1", "Draining").await?;
    let secrets: Api<Secret> = Api::namespaced(w.stage.client.clone(), NAMESPACE);
    let mut secret = secrets.get("lost-1-bmc").await?;
    secrets
        .delete("lost-1-bmc", &DeleteParams::default())
        .await?;
    let seen = w.stage.wait_blocked("lost-1", "FenceUnconfirmed").await?;
    ensure!(seen.message.contains("lost-1-bmc"), "{}", seen.message);
    let objects = w.stage.remediations();
    let uid = seen.object["metadata"]["uid"].as_str().context("a UID")?;
    w.stage
        .annotate(&objects, "lost-1", CONFIRM, Some(uid))
        .await?;
    w.stage.wait_step("lost-1", "Draining").await?;
    w.stage.let_pod_go("lost-1").await?;
    let seen = w.stage.wait_blocked("lost-1", "BmcAccessMissing").await?;
    ensure!(seen.message.contains("lost-1-bmc"), "{}", seen.message);
    ensure!(
        w.host("lost-1")?.real_power() == PowerState::Off,
        "no agent can switch the host on"
    );
    secret.metadata.resource_version = None;
    secret.metadata.uid = None;
    secrets.create(&PostParams::default(), &secret).await?;
    w.untainted("lost-1").await?;
    w.succeeded("lost-1").await?;
    w.stage.tainted_only_while_off(&w.recorder, "lost-1").await
}

/// The BareMetalHost is deleted, and the remediation after it: nothing of Rackhand is left.
pub async fn host_deleted(w: &World) -> Result<()> {
    w.lose("lost-2", true).await?;
    w.stage.remediate("lost-2").await?;
    w.stage.wait_step("lost-2", "Draining").await?;
    w.stage
        .bare_metal_hosts()
        .delete("lost-2", &DeleteParams::default())
        .await?;
    w.stage.withdraw("lost-2").await?;
    wait_until("the withdrawn remediation is deleted", LONG, || async {
        let seen = w.stage.remediation("lost-2").await?;
        Ok(seen.map_or(Ok(()), |seen| Err(format!("{seen:?}"))))
    })
    .await?;
    ensure!(!w.stage.tainted("lost-2").await?, "the taint was ours");
    // The owner of the host switches it on.
    w.host("lost-2")?.switch(ResetType::On, "its owner");
    w.stage.let_pod_go("lost-2").await
}

/// The Cluster object is deleted while its workload runs on: the host stays held and off until it is drained,
/// and recovers as usual.
pub async fn cluster_removed(w: &World) -> Result<()> {
    w.lose("left-1", true).await?;
    w.stage.remediate("left-1").await?;
    w.stage.wait_step("left-1", "Draining").await?;
    let clusters = w.stage.api("cluster.x-k8s.io", "v1beta1", "Cluster");
    clusters.delete("left", &DeleteParams::default()).await?;
    w.stage.wait_looks("left-1", 3).await?;
    w.stays_off("left-1").await?;
    let held = w.stage.left_on("left-1").await?;
    ensure!(
        held.iter().any(|left| left.contains("rackhand")),
        "our hold is there: {held:?}"
    );
    w.stage.let_pod_go("left-1").await?;
    w.untainted("left-1").await?;
    w.succeeded("left-1").await?;
    w.stage.one_cycle("left-1")?;
    w.stage.tainted_only_while_off(&w.recorder, "left-1").await
}

/// While its host is off, another machine registers under the name of the Node.
pub async fn node_replaced(w: &World) -> Result<()> {
    w.lose("name-1", true).await?;
    w.stage.remediate("name-1").await?;
    w.stage.wait_step("name-1", "Draining").await?;
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.delete("name-1", &DeleteParams::default()).await?;
    let other: Node = serde_json::from_value(json!({ "metadata": { "name": "name-1" } }))?;
    let other = nodes.create(&PostParams::default(), &other).await?;
    let uuid = "5c4c4544-0042-3510-8054-c2c04f4e4e33";
    let now = jiff::Timestamp::now()
        .round(jiff::Unit::Second)?
        .to_string();
    let status = json!({ "status": {
        "nodeInfo": {
            "machineID": "m", "systemUUID": uuid, "bootID": "another", "kernelVersion": "k",
            "osImage": "o", "containerRuntimeVersion": "c", "kubeletVersion": "v1.34.0",
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        },
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
    }});
    let params = PatchParams::default();
    nodes
        .patch_status("name-1", &params, &Patch::Merge(status))
        .await?;
    let seen = w.stage.wait_blocked("name-1", "NodeMismatch").await?;
    ensure!(seen.message.contains(uuid), "{}", seen.message);
    w.stays_off("name-1").await?;
    let there = nodes.get("name-1").await?;
    ensure!(
        there.metadata.uid == other.metadata.uid,
        "the replacement Node is unchanged"
    );
    ensure!(
        !w.stage.tainted("name-1").await?,
        "the replacement Node is not tainted"
    );
    // The other machine registers under another name.
    nodes.delete("name-1", &DeleteParams::default()).await?;
    w.stage.let_pod_go("name-1").await?;
    w.succeeded("name-1").await?;
    w.stage.one_cycle("name-1")
}
