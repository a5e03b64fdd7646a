//! The life of a maintenance, by what it names and by what happens to its host.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use rackhand_api::kinds::host_history::HostHistory;
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::{MARK, SKIP, World};

pub async fn machine(w: &World) -> Result<()> {
    let host = w.stage.host("park-1")?;
    w.stage.bind_pod("park-1", false).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    w.start(
        "park-1",
        json!({ "machine": "park-1", "locatorLED": true, "requestedBy": "eva" }),
    )
    .await?;
    let object = w.wait_phase("park-1", "Parked").await?;
    let status = &object["status"];
    ensure!(host.real_power() == PowerState::Off, "it is off");
    ensure!(w.stage.tainted("park-1").await?, "the taint is on");
    ensure!(
        w.stage.bound_pod("park-1").await?.is_none(),
        "the pod has moved"
    );
    ensure!(status["nodeName"] == "park-1", "{status}");
    ensure!(status["host"] == "known/park-1", "{status}");
    let parked = status["conditions"].as_array().into_iter().flatten();
    let mut parked = parked.filter(|c| c["type"] == "Parked" && c["status"] == "True");
    ensure!(parked.next().is_some(), "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.contains("work on it"), "{status}");
    wait_until("park-1: the LED is lit", LONG, || async {
        Ok(w.led("park-1")?.then_some(()).ok_or("dark".to_owned()))
    })
    .await?;
    // Cluster API leaves the Machine alone, and only because of this maintenance.
    let machine = w.stage.machines().get("park-1").await?;
    let annotations = machine.annotations();
    ensure!(annotations.contains_key(SKIP), "{annotations:?}");
    let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
    ensure!(annotations.get(MARK).cloned() == uid, "{annotations:?}");
    let columns = w
        .stage
        .kubectl(&["get", "hmaint", "park-1", "-n", NAMESPACE])
        .await?;
    for part in ["PHASE", "Parked", "known/park-1", "eva"] {
        ensure!(columns.contains(part), "{part} is missing in\n{columns}");
    }
    let wide = ["get", "hmaint", "park-1", "-n", NAMESPACE, "-o", "wide"];
    let wide = w.stage.kubectl(&wide).await?;
    ensure!(wide.contains("a DIMM is changed"), "{wide}");

    w.end("park-1").await?;
    w.wait_gone("park-1").await?;
    w.wait_back("park-1").await?;
    w.stage.one_cycle("park-1")?;
    w.stage
        .tainted_only_while_off(&w.recorder, "park-1")
        .await?;
    // The history of the host says who asked for it.
    let histories: Api<HostHistory> = Api::all(w.stage.client.clone());
    wait_until("park-1: its history", LONG, || async {
        let found = histories.get_opt("known.park-1").await?;
        let text = serde_json::to_string(&found)?;
        let parts = [
            "HostMaintenance park-1",
            "planned work, by eva",
            "KeptOffUntilDeleted",
        ];
        let said = parts.iter().all(|part| text.contains(part));
        Ok(if said { Ok(()) } else { Err(text) })
    })
    .await
}

pub async fn node(w: &World) -> Result<()> {
    let spec = json!({ "node": "node-1", "durationSeconds": 5 });
    w.start("by-node", spec).await?;
    let object = w.wait_phase("by-node", "Parked").await?;
    ensure!(
        object["status"]["endsAt"].is_string(),
        "{}",
        object["status"]
    );
    // medik8s' operators leave the Node alone.
    let lease = w.stage.work_lease("node-1").await?.context("no Lease")?;
    let holder = lease
        .spec
        .and_then(|spec| spec.holder_identity)
        .unwrap_or_default();
    ensure!(holder.starts_with("HostMaintenance-by-node-"), "{holder}");
    let object = w.wait_phase("by-node", "Ended").await?;
    ensure!(
        object["status"]["reason"] == "TimeOver",
        "{}",
        object["status"]
    );
    w.wait_back("node-1").await?;
    w.stage.one_cycle("node-1")?;
    let finalizers = &object["metadata"]["finalizers"];
    wait_until("by-node: no finalizer", LONG, || async {
        let object = w.maintenances().get("by-node").await?;
        Ok(match object.finalizers().is_empty() {
            true => Ok(()),
            false => Err(finalizers.to_string()),
        })
    })
    .await?;
    // It is a record now, and may be deleted at any time.
    w.end("by-node").await?;
    w.wait_gone("by-node").await?;
    w.stage.one_cycle("node-1")
}

pub async fn host(w: &World) -> Result<()> {
    w.start("no-such", json!({ "host": "known/no-such" }))
        .await?;
    let lost = w.wait_phase("no-such", "Pending").await?;
    let told = |object: &Value| object["status"]["reason"] == "TargetNotFound";
    let lost = match told(&lost) {
        true => lost,
        false => w.wait("no-such", "TargetNotFound", told).await?,
    };
    let message = lost["status"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains("known/no-such"), "{message}");
    w.end("no-such").await?;
    w.wait_gone("no-such").await?;

    w.start("by-host", json!({ "host": "known/host-1" }))
        .await?;
    let object = w.wait_phase("by-host", "Parked").await?;
    ensure!(
        object["status"]["nodeName"] == "host-1",
        "{}",
        object["status"]
    );
    w.end("by-host").await?;
    w.wait_gone("by-host").await?;
    w.wait_back("host-1").await
}

/// The host hangs as its maintenance begins: its pods move only after it is confirmed off.
pub async fn dies(w: &World) -> Result<()> {
    let host = w.stage.host("dies-1")?;
    w.stage.bind_pod("dies-1", false).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    w.start("dies-1", json!({ "machine": "dies-1" })).await?;
    w.wait("dies-1", "begun", |object| {
        object["status"]["phase"] != Value::Null
    })
    .await?;
    host.hang();
    let object = w.wait_phase("dies-1", "Parked").await?;
    ensure!(w.stage.bound_pod("dies-1").await?.is_none(), "{object}");
    w.stage
        .tainted_only_while_off(&w.recorder, "dies-1")
        .await?;
    w.end("dies-1").await?;
    w.wait_gone("dies-1").await?;
    w.wait_back("dies-1").await
}

/// baremetal-operator owns the power.
pub async fn managed(w: &World) -> Result<()> {
    w.start("bmo-1", json!({ "machine": "bmo-1" })).await?;
    w.wait_phase("bmo-1", "Parked").await?;
    let hosts = w.stage.bare_metal_hosts();
    let held = hosts.get("bmo-1").await?;
    let hold = "reboot.metal3.io/rackhand-";
    ensure!(
        held.annotations().keys().any(|key| key.starts_with(hold)),
        "held: {:?}",
        held.annotations()
    );
    w.end("bmo-1").await?;
    w.wait_gone("bmo-1").await?;
    w.wait_back("bmo-1").await
}

/// A second maintenance of the same host waits, and says for what.
pub async fn twice(w: &World) -> Result<()> {
    w.start("first", json!({ "machine": "twice-1" })).await?;
    w.wait_phase("first", "Parked").await?;
    let first = w.maintenances().get("first").await?.metadata.uid;
    // They name the host in other ways.
    w.start("second", json!({ "node": "twice-1" })).await?;
    w.start("third", json!({ "host": "known/twice-1" })).await?;
    let waits = |object: &Value| object["status"]["reason"] == "Queued";
    for name in ["second", "third"] {
        let object = w.wait(name, "waits", waits).await?;
        let status = &object["status"];
        let message = status["message"].as_str().unwrap_or_default();
        let named = format!("HostMaintenance {NAMESPACE}/first");
        ensure!(
            status["phase"] == "Pending" && message.contains(&named),
            "{status}"
        );
        ensure!(status["inPlace"].is_null(), "{status}");
        ensure!(w.remediation_of(name).await?.is_none(), "{name} has one");
    }
    w.end("third").await?;
    w.wait_gone("third").await?;
    let machine = w.stage.machines().get("twice-1").await?;
    ensure!(
        machine.annotations().get(MARK) == first.as_ref(),
        "the mark of the first: {:?}",
        machine.annotations()
    );
    w.end("first").await?;
    w.wait_gone("first").await?;
    let object = w.wait_phase("second", "Parked").await?;
    let machine = w.stage.machines().get("twice-1").await?;
    let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
    wait_until("twice-1: marked by the second", LONG, || async {
        let machine = w.stage.machines().get("twice-1").await?;
        let by = machine.annotations().get(MARK).cloned();
        Ok(if by == uid && by.is_some() {
            Ok(())
        } else {
            Err(format!("{by:?}"))
        })
    })
    .await
    .with_context(|| format!("{:?}", machine.annotations()))?;
    w.end("second").await?;
    w.wait_gone("second").await?;
    w.wait_back("twice-1").await
}

/// A person switches a parked host on.
pub async fn by_hand(w: &World) -> Result<()> {
    let host = w.stage.host("hand-1")?;
    w.start("hand-1", json!({ "machine": "hand-1" })).await?;
    w.wait_phase("hand-1", "Parked").await?;
    host.never_boots(true);
    host.switch(ResetType::On, "somebody");
    host.wait_for(LONG, "off again", |view| view.power == PowerState::Off)
        .await?;
    w.wait_phase("hand-1", "Parked").await?;
    ensure!(w.stage.tainted("hand-1").await?, "the taint stays");
    // Nobody lets pods be bound to a Node whose host is off, and it is said who tries.
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.uncordon("hand-1").await?;
    let remediation = w.remediation_of("hand-1").await?;
    let remediation = remediation.context("no remediation")?.name_any();
    w.stage.wait_warning(&remediation, "CordonedAgain").await?;
    ensure!(w.stage.is_cordoned("hand-1").await?, "it is uncordoned");
    host.never_boots(false);
    w.end("hand-1").await?;
    w.wait_gone("hand-1").await?;
    w.wait_back("hand-1").await
}
