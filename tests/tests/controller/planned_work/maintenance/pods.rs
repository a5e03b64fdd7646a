//! Pods and their PodDisruptionBudgets in a maintenance.

use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::DeleteParams};
use rackhand_tests::{
    rack::PowerState,
    stage::{LONG, wait_until},
};
use serde_json::{Value, json};

use super::world::World;

fn message(object: &Value) -> String {
    object["status"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// With `powerOff: false`, the Node is emptied and nothing is switched.
pub async fn stays_on(w: &World) -> Result<()> {
    w.stage.run_pod("on-1").await?;
    w.start("on-1", json!({ "machine": "on-1", "powerOff": false }))
        .await?;
    let object = w.wait_phase("on-1", "Parked").await?;
    let said = message(&object);
    ensure!(said.contains("the host is left on"), "{said}");
    ensure!(
        w.stage.bound_pod("on-1").await?.is_none(),
        "its pod is there"
    );
    ensure!(w.stage.is_cordoned("on-1").await?, "not cordoned");
    ensure!(object["status"]["evictedPods"] == 1, "{}", object["status"]);
    let power = w.stage.host("on-1")?.real_power();
    ensure!(power == PowerState::On, "{power}");
    w.end("on-1").await?;
    w.wait_gone("on-1").await?;
    w.wait_back("on-1").await?;
    w.stage.untouched("on-1")
}

/// With `powerOff: false`, nothing switches a host that nobody hears, with a pod on it, before a person says so.
pub async fn left_on(w: &World) -> Result<()> {
    let host = w.stage.host("mute-1")?;
    w.stage.run_pod("mute-1").await?;
    w.stage.forbid_eviction("mute-1").await?;
    let eviction = json!({ "seconds": 2, "whenNotFinished": "Proceed" });
    w.start(
        "mute-1",
        json!({ "machine": "mute-1", "powerOff": false, "eviction": eviction }),
    )
    .await?;
    w.wait_phase("mute-1", "Parked").await?;
    // As if somebody had unplugged its network.
    host.hang();
    let is_said = |object: &Value| message(object).contains("SilentHostLeftOn");
    let object = w.wait("mute-1", "its silence is said", is_said).await?;
    let said = message(&object);
    ensure!(said.contains("default/on-mute-1"), "{said}");
    ensure!(
        object["status"]["phase"] == "Parked",
        "{}",
        object["status"]
    );
    let remediation = w.remediation_of("mute-1").await?;
    let remediation = remediation.context("no remediation")?;
    let name = remediation.name_any();
    w.stage.wait_warning(&name, "SilentHostLeftOn").await?;
    w.stage
        .wait_warning("mute-1", "MaintenanceSilentHostLeftOn")
        .await?;
    let conditions = remediation.data["status"]["conditions"].to_string();
    ensure!(conditions.contains("\"Blocked\""), "{conditions}");
    w.stage.untouched("mute-1")?;
    // The person decides, and cannot take that back.
    w.change("mute-1", json!({ "powerOff": true })).await?;
    let back = w.change("mute-1", json!({ "powerOff": false })).await;
    let refused = back.err().map_or_else(String::new, |e| format!("{e:#}"));
    ensure!(refused.contains("can only be changed to true"), "{refused}");
    let is_off = |object: &Value| message(object).contains("is confirmed off, and is kept off");
    w.wait("mute-1", "parked and off", is_off).await?;
    ensure!(host.real_power() == PowerState::Off, "it is off");
    ensure!(
        w.stage.bound_pod("mute-1").await?.is_none(),
        "its pod has not moved"
    );
    w.stage
        .tainted_only_while_off(&w.recorder, "mute-1")
        .await?;
    w.end("mute-1").await?;
    w.wait_gone("mute-1").await?;
    w.wait_back("mute-1").await?;
    w.stage.one_cycle("mute-1")
}

/// `Abort`: the pod that its budget protects stays, and the Node is uncordoned.
pub async fn aborts(w: &World) -> Result<()> {
    w.stage.run_pod("abort-1").await?;
    w.stage.forbid_eviction("abort-1").await?;
    let eviction = json!({ "seconds": 20, "whenNotFinished": "Abort" });
    w.start(
        "abort-1",
        json!({ "machine": "abort-1", "eviction": eviction }),
    )
    .await?;
    let object = w.wait_phase("abort-1", "Failed").await?;
    let status = &object["status"];
    ensure!(status["reason"] == "RemediationFailed", "{status}");
    ensure!(message(&object).contains("keep-abort-1"), "{status}");
    let pod = w.stage.bound_pod("abort-1").await?;
    ensure!(
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()),
        "the pod is not there any more"
    );
    w.wait_back("abort-1").await?;
    w.stage.untouched("abort-1")?;
    w.end("abort-1").await?;
    w.wait_gone("abort-1").await
}

/// `Wait`: nothing is switched for as long as a budget forbids it.
pub async fn waits(w: &World) -> Result<()> {
    w.stage.run_pod("wait-1").await?;
    let budgets = w.stage.forbid_eviction("wait-1").await?;
    w.start(
        "wait-1",
        json!({ "machine": "wait-1", "eviction": { "seconds": 2 } }),
    )
    .await?;
    let named = |object: &Value| {
        let said = message(object);
        said.contains("keep-wait-1") && said.contains("EvictionWaits")
    };
    let object = w.wait("wait-1", "its budget is named", named).await?;
    ensure!(
        object["status"]["phase"] == "Evicting",
        "{}",
        object["status"]
    );
    w.stage.untouched("wait-1")?;
    budgets
        .delete("keep-wait-1", &DeleteParams::default())
        .await?;
    w.wait_phase("wait-1", "Parked").await?;
    w.end("wait-1").await?;
    w.wait_gone("wait-1").await?;
    w.wait_back("wait-1").await?;
    w.stage.one_cycle("wait-1")
}

/// What a person changes while it runs takes effect, and what cannot be changed is refused.
pub async fn edited(w: &World) -> Result<()> {
    w.stage.run_pod("edit-1").await?;
    w.stage.forbid_eviction("edit-1").await?;
    w.start(
        "edit-1",
        json!({ "machine": "edit-1", "eviction": { "seconds": 2 } }),
    )
    .await?;
    let waits = |object: &Value| message(object).contains("EvictionWaits");
    w.wait("edit-1", "waits for its pod", waits).await?;
    let later = w
        .change("edit-1", json!({ "eviction": { "seconds": 900 } }))
        .await;
    let refused = format!(
        "{:#}",
        later.err().map_or_else(String::new, |e| e.to_string())
    );
    ensure!(
        refused.contains("eviction.seconds cannot be changed"),
        "{refused}"
    );
    w.change(
        "edit-1",
        json!({ "eviction": { "whenNotFinished": "Proceed" } }),
    )
    .await?;
    w.wait_phase("edit-1", "Parked").await?;
    for lit in [true, false] {
        w.change("edit-1", json!({ "locatorLED": lit })).await?;
        wait_until(&format!("edit-1: the LED is {lit}"), LONG, || async {
            Ok(match w.led("edit-1")? == lit {
                true => Ok(()),
                false => Err("it is not".to_owned()),
            })
        })
        .await?;
    }
    w.end("edit-1").await?;
    w.wait_gone("edit-1").await?;
    w.wait_back("edit-1").await?;
    w.stage.one_cycle("edit-1")
}
