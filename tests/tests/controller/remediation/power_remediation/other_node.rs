//! F14: hosts that run under another Node name, and Machines without a nodeRef whose Node runs.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use rackhand_tests::{
    rack::ResetType,
    stage::{LONG, is_ready, wait_until},
};
use serde_json::{Value, json};

use super::world::{HOLD, NODE_NAME, World};

impl World {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.stage.client.clone())
    }

    async fn wait_ready(&self, node: &str) -> Result<()> {
        wait_until(&format!("{node}: Ready"), LONG, || async {
            let found = self.nodes().get_opt(node).await?;
            Ok(match found.is_some_and(|node| is_ready(&node)) {
                true => Ok(()),
                false => Err("it is not".into()),
            })
        })
        .await
    }

    async fn set_node_ref(&self, machine: &str, node: Value) -> Result<()> {
        let status = json!({ "status": { "nodeRef": node } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(status));
        let machines = self.stage.machines();
        machines.patch_status(machine, &params, &patch).await?;
        Ok(())
    }

    /// Waits until the remediation is stopped by another Node, and checks that the message has these parts.
    async fn wait_stopped(&self, name: &str, parts: &[&str]) -> Result<()> {
        let stopped = |o: &Value| o["status"]["reason"] == "OtherNodeOnHost";
        let object = self.wait(name, "OtherNodeOnHost", stopped).await?;
        let text = object["status"]["message"].to_string();
        for part in parts {
            ensure!(text.contains(part), "{part} is missing: {text}");
        }
        Ok(())
    }

    fn never_off(&self, host: &str) -> Result<()> {
        let counters = self.stage.host(host)?.counters();
        ensure!(counters.offs == 0, "{host} was switched off: {counters:?}");
        Ok(())
    }
}

/// The kubelet registers under another name in the boot after our own power cycle.
pub async fn renamed_by_own_cycle(w: &World) -> Result<()> {
    let host = w.stage.host("ren-1")?;
    host.rename_node("ren-1.example.org");
    ensure!(host.hang(), "the host was not up");
    let strategy = json!({ "retryLimit": 2, "timeouts": { "bootSeconds": 60 } });
    let named = json!({ NODE_NAME: "ren-1" });
    w.create_remediation("ren-1", false, named, strategy)
        .await?;
    w.wait_stopped("ren-1", &["ren-1.example.org", "Delete node ren-1"])
        .await?;
    let over = |o: &Value| o["status"]["step"] == "Retrying";
    w.wait("ren-1", "the attempt has ended", over).await?;
    w.stage.one_cycle("ren-1")?;
    let left = w.stage.left_on("ren-1").await?;
    ensure!(left.is_empty(), "left: {left:?}");
    w.nodes().delete("ren-1", &DeleteParams::default()).await?;
    w.wait_step("ren-1", "Succeeded").await?;
    w.stage.one_cycle("ren-1")?;
    w.withdraw("ren-1").await
}

/// The kubelet has registered under another name before the remediations, by Node and by Machine.
pub async fn renamed_before(w: &World) -> Result<()> {
    let host = w.stage.host("ren-2")?;
    host.rename_node("ren-2.example.org");
    host.switch(ResetType::ForceRestart, "a person");
    w.wait_ready("ren-2.example.org").await?;
    let named = json!({ NODE_NAME: "ren-2" });
    w.create_remediation("ren-2-by-node", false, named, json!({}))
        .await?;
    w.strategy("ren-2", json!({})).await?;
    for name in ["ren-2-by-node", "ren-2"] {
        w.wait_stopped(name, &["ren-2.example.org", "Delete node ren-2"])
            .await?;
    }
    w.never_off("ren-2")?;
    // Each ends by itself once the stale Node is gone.
    w.nodes().delete("ren-2", &DeleteParams::default()).await?;
    let object = w.wait_step("ren-2-by-node", "Blocked").await?;
    ensure!(object["status"]["reason"] == "NodeNotFound", "{object}");
    w.wait_stopped("ren-2", &["ren-2.example.org"]).await?;
    w.never_off("ren-2")?;
    w.withdraw("ren-2").await?;
    w.wait_gone("ren-2").await
}

/// The kubelet has registered with another providerID than that of its Machine.
pub async fn machine_without_node_ref(w: &World) -> Result<()> {
    let spec = json!({ "spec": { "providerID": "metal3://metal3/unl-1/unl-1" } });
    let machines = w.stage.machines();
    machines
        .patch("unl-1", &PatchParams::default(), &Patch::Merge(spec))
        .await?;
    w.set_node_ref("unl-1", Value::Null).await?;
    w.strategy("unl-1", json!({})).await?;
    let parts = [
        "node unl-1",
        "rackhand://managed/unl-1",
        "metal3://metal3/unl-1/unl-1",
        "no nodeRef",
    ];
    w.wait_stopped("unl-1", &parts).await?;
    w.never_off("unl-1")?;
    let hosts = w.stage.bare_metal_hosts();
    let bmh = serde_json::to_string(&hosts.get("unl-1").await?)?;
    ensure!(!bmh.contains(HOLD), "held: {bmh}");
    w.withdraw("unl-1").await?;
    w.wait_gone("unl-1").await?;
    w.never_off("unl-1")
}
