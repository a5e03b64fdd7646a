//! What a maintenance has set is taken back on every way to its end (F9).

use anyhow::{Context, Result, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use rackhand_tests::stage::{LONG, wait_until};
use serde_json::{Value, json};

use super::world::{SKIP, World};

/// A person deletes the remediation: the maintenance ends, and is not begun again.
pub async fn early(w: &World) -> Result<()> {
    // Somebody has set the annotation before, so it stays.
    let machines = w.stage.machines();
    w.stage
        .annotate(&machines, "early-1", SKIP, Some("mine"))
        .await?;
    w.start(
        "early-1",
        json!({ "machine": "early-1", "locatorLED": true }),
    )
    .await?;
    w.wait_phase("early-1", "Parked").await?;
    let made = w
        .remediation_of("early-1")
        .await?
        .context("no remediation")?;
    w.remediations()
        .delete(&made.name_any(), &DeleteParams::default())
        .await?;
    let object = w.wait_phase("early-1", "Ended").await?;
    ensure!(
        object["status"]["reason"] == "RemediationDeleted",
        "{}",
        object["status"]
    );
    let machine = machines.get("early-1").await?;
    ensure!(
        machine.annotations().get(SKIP).map(String::as_str) == Some("mine"),
        "{:?}",
        machine.annotations()
    );
    w.stage.annotate(&machines, "early-1", SKIP, None).await?;
    w.wait_back("early-1").await?;
    w.stage.one_cycle("early-1")?;
    w.end("early-1").await?;
    w.wait_gone("early-1").await
}

/// The object is deleted without its finalizer.
pub async fn gone(w: &World) -> Result<()> {
    w.start("gone-1", json!({ "node": "gone-1", "locatorLED": true }))
        .await?;
    w.wait_phase("gone-1", "Parked").await?;
    wait_until("gone-1: the LED is lit", LONG, || async {
        Ok(w.led("gone-1")?.then_some(()).ok_or("dark".to_owned()))
    })
    .await?;
    ensure!(
        w.stage.work_lease("gone-1").await?.is_some(),
        "the Lease is held"
    );
    w.end("gone-1").await?;
    let bare = json!({ "metadata": { "finalizers": Value::Null } });
    let params = PatchParams::default();
    // The controller may have ended it just now.
    w.maintenances()
        .patch("gone-1", &params, &Patch::Merge(&bare))
        .await
        .ok();
    w.wait_gone("gone-1").await?;
    w.wait_back("gone-1").await
}

/// The controller is killed in each phase; another goes on.
pub async fn crash(w: &World) -> Result<()> {
    w.start(
        "crash-1",
        json!({ "machine": "crash-1", "locatorLED": true }),
    )
    .await?;
    w.stage.kill_controller("controller-0")?;
    w.stage.start_controller("controller-1").await?;
    let phases = ["PoweringOff", "Parked"];
    let begun = |object: &Value| {
        phases
            .iter()
            .any(|phase| object["status"]["phase"] == *phase)
    };
    w.wait("crash-1", "has begun", begun).await?;
    w.stage.kill_controller("controller-1")?;
    w.stage.start_controller("controller-2").await?;
    w.wait_phase("crash-1", "Parked").await?;
    w.end("crash-1").await?;
    w.stage.kill_controller("controller-2")?;
    w.stage.start_controller("controller-3").await?;
    w.wait_gone("crash-1").await?;
    w.wait_back("crash-1").await?;
    w.stage.one_cycle("crash-1")
}
