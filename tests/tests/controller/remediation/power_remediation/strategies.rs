//! The strategies of a PowerRemediation.

use anyhow::{Context, Result, ensure};
use kube::{Api, ResourceExt, api::DynamicObject};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::{LONG, NAMESPACE},
};
use serde_json::{Value, json};

use super::world::{FOREIGN, HOLD, World, condition};

pub async fn power_off(w: &World) -> Result<()> {
    let host = w.stage.host("off-1")?;
    w.stage.bind_pod("off-1", false).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "the host was not up");
    w.strategy("off-1", json!({ "type": "PowerOff" })).await?;
    let object = w.wait_step("off-1", "Fenced").await?;
    let status = &object["status"];
    ensure!(status["phase"] == "Succeeded", "{status}");
    for (name, is) in [
        ("Processing", "False"),
        ("Succeeded", "True"),
        ("Fenced", "True"),
    ] {
        ensure!(condition(&object, name) == is, "{name}: {status}");
    }
    let readings = status["powerOff"]["readings"].as_array();
    ensure!(readings.is_some_and(|r| r.len() >= 2), "{status}");
    ensure!(
        readings.is_some_and(|r| r.iter().all(|r| r["state"] == "Off")),
        "{status}"
    );
    ensure!(status["attempts"][0]["drainedAt"].is_string(), "{status}");
    // The pod was Terminating. Rackhand deleted it, or the garbage collector of pods did; none is not shown.
    let deleted = status["attempts"][0]["podsDeleted"].as_u64();
    ensure!(deleted.unwrap_or_default() <= 1, "{status}");
    // The Node is cordoned where it was still shown as Ready.
    let in_place = status["inPlace"].as_array().into_iter().flatten();
    let in_place: Vec<&Value> = in_place.filter(|what| **what != "Cordon").collect();
    ensure!(in_place == ["PowerOff", "Taint"], "{status}");
    ensure!(
        w.stage.bound_pod("off-1").await?.is_none(),
        "the pod has moved"
    );
    ensure!(w.stage.tainted("off-1").await?, "the taint stays");
    ensure!(host.real_power() == PowerState::Off, "it is off");
    said(w, "off-1").await?;

    // A person switches the host on.
    host.never_boots(true);
    host.switch(ResetType::On, "somebody");
    w.stage.wait_warning("off-1", "FenceViolated").await?;
    host.wait_for(LONG, "off again", |view| view.power == PowerState::Off)
        .await?;
    w.wait_step("off-1", "Fenced").await?;
    ensure!(host.real_power() == PowerState::Off, "off again");
    ensure!(w.stage.tainted("off-1").await?, "the taint stays");
    host.never_boots(false);

    w.withdraw("off-1").await?;
    w.wait_gone("off-1").await?;
    w.wait_back("off-1").await
}

/// The output of `kubectl get` and `explain` for a host that is kept off.
async fn said(w: &World, name: &str) -> Result<()> {
    let table = w
        .stage
        .kubectl(&["get", "prem", name, "-n", NAMESPACE])
        .await?;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let header = ["NAME", "NODE", "STRATEGY", "PHASE", "STEP", "REASON", "AGE"];
    ensure!(lines[0] == header, "{table}");
    let row = [name, name, "PowerOff", "Succeeded", "Fenced", "Fenced"];
    ensure!(lines[1].starts_with(&row), "{table}");

    let text = w
        .stage
        .explain_remediation(&[name, "-n", NAMESPACE])
        .await?;
    for part in [
        "PowerRemediation metal3/off-1: Fenced, attempt 1 of 2",
        "stays off until this object is deleted",
        "off-1 of rack known",
        "out of service",
        "by the BMC, which answered 204 to ForceOff: Redfish",
    ] {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let json = w
        .stage
        .explain_remediation(&[name, "-n", NAMESPACE, "-o", "json"])
        .await?;
    let json: Value = serde_json::from_str(&json)?;
    ensure!(
        json["step"] == "Fenced" && json["blocked"] == false,
        "{json}"
    );
    Ok(())
}

pub async fn held_by_another(w: &World) -> Result<()> {
    let host = w.stage.host("kept-1")?;
    ensure!(host.hang(), "the host was not up");
    w.strategy("kept-1", json!({ "type": "PowerOff" })).await?;
    w.wait_step("kept-1", "Fenced").await?;
    let hosts = w.stage.bare_metal_hosts();
    let held = hosts.get("kept-1").await?;
    ensure!(
        held.annotations().keys().any(|k| k.starts_with(HOLD)),
        "held while it is kept off: {:?}",
        held.annotations()
    );
    w.stage
        .annotate(&hosts, "kept-1", FOREIGN, Some(""))
        .await?;
    w.withdraw("kept-1").await?;
    w.wait_gone("kept-1").await?;
    let left = w.stage.left_on("kept-1").await?;
    ensure!(
        left == ["power Off"],
        "only the other's hold is left: {left:?}"
    );
    ensure!(
        host.counters().ons == 0,
        "Rackhand never switched the host on"
    );
    Ok(())
}

pub async fn power_cycle(w: &World) -> Result<()> {
    let host = w.stage.host("cycle-1")?;
    let pod = w.stage.bind_pod("cycle-1", false).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "the host was not up");
    w.strategy("cycle-1", json!({ "type": "PowerCycleFirst" }))
        .await?;
    let object = w.wait_step("cycle-1", "Succeeded").await?;
    ensure!(condition(&object, "Succeeded") == "True", "{object}");
    let attempt = &object["status"]["attempts"][0];
    ensure!(
        attempt["poweredOffAt"].is_string() && attempt["drainedAt"].is_null(),
        "{attempt}"
    );
    w.stage.one_cycle("cycle-1")?;
    w.stage.never_tainted(&w.recorder, "cycle-1").await?;
    let there = w
        .stage
        .bound_pod("cycle-1")
        .await?
        .context("the pod is gone")?;
    ensure!(
        there.uid() == pod.uid() && there.metadata.deletion_timestamp.is_none(),
        "the pod was touched"
    );
    w.withdraw("cycle-1").await?;
    w.wait_gone("cycle-1").await
}

pub async fn delete_node(w: &World) -> Result<()> {
    let nodes = Api::<DynamicObject>::all_with(
        w.stage.client.clone(),
        &kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "Node")),
    );
    w.stage
        .annotate(&nodes, "old-1", "example.org/kept", Some("yes"))
        .await?;
    let before = w.stage.node("old-1").await?;
    ensure!(w.stage.host("old-1")?.hang(), "the host was not up");
    let asked = json!({ "rackhand.dev/node-action": "delete-node" });
    w.create_remediation("old-1", true, asked, json!({}))
        .await?;
    let object = w.wait_step("old-1", "Succeeded").await?;
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let recorded = w.stage.remediation_states().get(uid).await?;
    ensure!(recorded.data["spec"]["nodeBackup"].is_null(), "it is left");
    let after = w.stage.node("old-1").await?;
    ensure!(after.uid() != before.uid(), "the Node was deleted");
    ensure!(
        after
            .annotations()
            .get("example.org/kept")
            .map(String::as_str)
            == Some("yes"),
        "{:?}",
        after.annotations()
    );
    w.stage.one_cycle("old-1")?;
    w.stage.never_tainted(&w.recorder, "old-1").await?;
    let records = w.recorder.of("Node", "old-1");
    ensure!(records.iter().any(|r| r.gone), "it was gone for a while");
    w.withdraw("old-1").await?;
    w.wait_gone("old-1").await
}
