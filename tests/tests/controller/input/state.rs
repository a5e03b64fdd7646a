//! Stored states of remediations that were removed or damaged.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply,
    stage::{CLUSTER, LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::World;

const STATE: &str = "rackhand.dev/state";
const BLOCKED: &str = "rackhand.dev/blocked";
const FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";

impl World {
    /// Creates a remediation with the finalizer of an earlier controller.
    async fn begun_before(&self, machine: &str, annotations: Value) -> Result<()> {
        let owner = self.stage.machines().get(machine).await?;
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3Remediation",
            "metadata": {
                "name": machine,
                "namespace": NAMESPACE,
                "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
                "annotations": annotations,
                "finalizers": [FINALIZER],
                "ownerReferences": [{
                    "apiVersion": "cluster.x-k8s.io/v1beta1",
                    "kind": "Machine",
                    "name": machine,
                    "uid": owner.uid(),
                }],
            },
            "spec": { "strategy": { "type": "Reboot", "retryLimit": 1, "timeout": "100s" } },
        });
        apply(&self.stage.client, object).await.map(drop)
    }

    async fn failed(&self, machine: &str) -> Result<()> {
        wait_until(&format!("{machine}: phase Failed"), LONG, || async {
            let seen = self.stage.remediation(machine).await?;
            let phase = seen.map(|s| s.phase).unwrap_or_default();
            Ok(if phase == "Failed" {
                Ok(())
            } else {
                Err(phase)
            })
        })
        .await?;
        self.stage.untouched(machine)
    }

    async fn succeeds(&self, machine: &str) -> Result<()> {
        self.stage.wait_step(machine, "Succeeded").await?;
        self.stage.withdraw(machine).await?;
        self.stage.wait_back(machine).await?;
        self.stage.one_cycle(machine)
    }
}

/// The running controller restores the state that it has written.
pub async fn removed(w: &World) -> Result<()> {
    w.stage.bind_pod("cut-1", true).await?;
    let host = w.stage.host("cut-1")?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "cut-1 was not up");
    w.stage.remediate("cut-1").await?;
    w.stage.wait_step("cut-1", "Draining").await?;
    let objects = w.stage.remediations();
    w.stage.annotate(&objects, "cut-1", STATE, None).await?;
    w.stage.wait_warning("cut-1", "StateRestored").await?;
    w.stage.wait_step("cut-1", "Draining").await?;
    w.stage.let_pod_go("cut-1").await?;
    w.succeeds("cut-1").await?;
    let taints = w.recorder.taints("cut-1");
    ensure!(
        taints.len() == 2,
        "the taint was set and removed: {taints:?}"
    );
    Ok(())
}

/// A new controller cannot know who has set the taint.
pub async fn lost(w: &World) -> Result<()> {
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    let taint = |taints: Value| Patch::Merge(json!({ "spec": { "taints": taints } }));
    let ours = json!([{
        "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute",
    }]);
    let params = PatchParams::default();
    nodes.patch("cut-2", &params, &taint(ours)).await?;
    w.begun_before("cut-2", json!({})).await?;
    w.stage.wait_blocked("cut-2", "StateLost").await?;
    w.failed("cut-2").await?;
    ensure!(w.stage.tainted("cut-2").await?, "it may be a person's");
    nodes.patch("cut-2", &params, &taint(json!(null))).await?;
    w.succeeds("cut-2").await
}

pub async fn damaged(w: &World) -> Result<()> {
    let cut = r#"{"state":{"step":"Draining","since":"2026"#;
    w.begun_before("cut-3", json!({ STATE: cut })).await?;
    w.failed("cut-3").await?;
    let objects = w.stage.remediations();
    let object = objects.get("cut-3").await?;
    let why = object.annotations().get(BLOCKED).cloned();
    let why = why.unwrap_or_default();
    ensure!(why.starts_with("StateUnreadable: "), "{why:?}");
    ensure!(
        object.annotations().get(STATE).map(String::as_str) == Some(cut),
        "the only trace of what was done is not written over"
    );
    w.stage.annotate(&objects, "cut-3", STATE, None).await?;
    w.stage.wait_step("cut-3", "Succeeded").await?;
    let object = objects.get("cut-3").await?;
    ensure!(
        !object.annotations().contains_key(BLOCKED),
        "the remediation continues"
    );
    w.succeeds("cut-3").await
}
