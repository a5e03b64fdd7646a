//! Rows of the failure table about Nodes, their workload and their cluster.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    rack::PowerState,
    stage::LONG,
};
use serde_json::{Value, json};

use super::world::{HOLD, World};

/// Without the workload API a host is switched off and held; taint, drain and power-on need the API.
pub async fn workload_down(w: &World) -> Result<()> {
    w.lose("far-2", true).await?;
    w.stage.remediate("far-2").await?;
    w.stage.wait_step("far-2", "Draining").await?;
    w.lose("far-1", false).await?;
    w.wire.cut();
    w.stage.remediate("far-1").await?;
    for host in ["far-1", "far-2"] {
        let seen = w.stage.wait_blocked(host, "WorkloadUnreachable").await?;
        ensure!(seen.message.contains("far"), "which one: {}", seen.message);
    }
    // The pod is deleted, which the controller cannot observe.
    w.stage.let_pod_go("far-2").await?;
    w.host("far-1")?
        .wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    tokio::try_join!(w.stays_off("far-1"), w.stays_off("far-2"))?;
    for host in ["far-1", "far-2"] {
        let holds = w.recorder.holds(host, HOLD);
        ensure!(holds.len() == 1, "{host}: the hold is kept: {holds:?}");
    }
    w.stage.never_tainted(&w.recorder, "far-1").await?;
    ensure!(w.stage.tainted("far-2").await?, "the taint stays");
    w.wire.mend();
    for host in ["far-1", "far-2"] {
        w.untainted(host).await?;
        w.succeeded(host).await?;
        w.stage.one_cycle(host)?;
        w.stage.tainted_only_while_off(&w.recorder, host).await?;
    }
    Ok(())
}

/// A Machine without a Node needs no taint and no drain.
pub async fn never_joined(w: &World) -> Result<()> {
    let joined = async |node: Value| {
        let body = json!({ "status": { "nodeRef": node } });
        let machines = w.stage.machines();
        machines
            .patch_status("new-1", &PatchParams::default(), &Patch::Merge(body))
            .await
    };
    joined(Value::Null).await?;
    w.hang("new-1")?;
    // F14: only the cluster tells that there never was a Node.
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.delete("new-1", &DeleteParams::default()).await?;
    w.stage.remediate("new-1").await?;
    w.stage.wait_step("new-1", "Booting").await?;
    let steps = w.steps("new-1");
    let plain = !steps.iter().any(|s| s == "Tainting" || s == "Draining");
    ensure!(plain, "{steps:?}");
    // The Node joins.
    joined(json!({ "apiVersion": "v1", "kind": "Node", "name": "new-1" })).await?;
    w.succeeded("new-1").await?;
    w.stage.one_cycle("new-1")?;
    w.stage.never_tainted(&w.recorder, "new-1").await
}

/// Without a Node there is no taint, but a pod in the API keeps the host off.
pub async fn node_deleted(w: &World) -> Result<()> {
    w.lose("gone-1", true).await?;
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.delete("gone-1", &DeleteParams::default()).await?;
    w.stage.remediate("gone-1").await?;
    let pod = "default/on-gone-1";
    w.stage
        .wait_remediation("gone-1", "waits for the pod", |seen| {
            seen.step == "Draining" && seen.message.contains(pod)
        })
        .await?;
    w.stays_off("gone-1").await?;
    let pods: Api<Pod> = Api::namespaced(w.stage.client.clone(), "default");
    let now = DeleteParams::default().grace_period(0);
    pods.delete("on-gone-1", &now).await?;
    w.stage.let_pod_go("gone-1").await?;
    w.succeeded("gone-1").await?;
    w.stage.one_cycle("gone-1")?;
    w.stage.never_tainted(&w.recorder, "gone-1").await
}

async fn attach(w: &World, name: &str, node: &str, volume: &str) -> Result<Api<VolumeAttachment>> {
    let attached: Api<VolumeAttachment> = Api::all(w.stage.client.clone());
    let object: VolumeAttachment = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "attacher": "csi.invalid",
            "nodeName": node,
            "source": { "persistentVolumeName": volume },
        },
    }))?;
    attached.create(&PostParams::default(), &object).await?;
    Ok(attached)
}

/// A pod with a finalizer and a volume without a driver block the drain.
pub async fn drain_blocked(w: &World) -> Result<()> {
    let volumes = attach(w, "volume-on-block-1", "block-1", "lost").await?;
    w.lose("block-1", true).await?;
    let seen = w.stage.wait_blocked("block-1", "DrainBlocked").await?;
    for name in ["default/on-block-1", "volume-on-block-1"] {
        ensure!(seen.message.contains(name), "{name}: {}", seen.message);
    }
    w.stays_off("block-1").await?;
    w.stage.let_pod_go("block-1").await?;
    w.stage
        .wait_remediation("block-1", "only the volume is left", |seen| {
            seen.message.contains("1 volume") && !seen.message.contains("pod")
        })
        .await?;
    w.stays_off("block-1").await?;
    volumes
        .delete("volume-on-block-1", &DeleteParams::default())
        .await?;
    w.comes_back("block-1").await
}

/// The volume of a pod that tolerates the taint, and so stays bound to the Node, remains attached.
pub async fn used_by_pod_that_stays(w: &World) -> Result<()> {
    // Of a kind that Kubernetes does not attach itself, so that it leaves the VolumeAttachment alone.
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": "of-stays" },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": { "namespace": "default", "name": "of-stays" },
            "hostPath": { "path": "/nowhere" },
        },
    });
    apply(&w.stage.client, volume).await?;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "stays" },
        "spec": {
            "nodeName": "stays-1",
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "c", "image": "c.invalid/c:1" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "of-stays" } }],
        },
    }))?;
    let pods: Api<Pod> = Api::namespaced(w.stage.client.clone(), "default");
    pods.create(&PostParams::default(), &pod).await?;
    let volumes = attach(w, "volume-on-stays-1", "stays-1", "of-stays").await?;
    w.hang("stays-1")?;
    w.comes_back("stays-1").await?;
    volumes.get("volume-on-stays-1").await?;
    pods.get("stays").await?;
    Ok(())
}

pub async fn two_checks(w: &World) -> Result<()> {
    for name in ["two-a", "two-b"] {
        let check = w.stage.health_check_of(name, "two", "100%");
        apply_yaml(&w.stage.client, &check).await?;
    }
    w.lose("two-1", false).await?;
    w.comes_back("two-1").await?;
    let seen = w.recorder.of("Metal3Remediation", "two-1");
    let first = seen
        .first()
        .context("a remediation was made")?
        .uid()
        .to_owned();
    ensure!(seen.iter().all(|r| r.uid() == first), "more than one");
    Ok(())
}
