//! The status of a check.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::world::{PAUSED, POOL, World, condition, status_of};

pub async fn shown(w: &World) -> Result<()> {
    w.machine("shown-1", "shown", json!({}), status_of("plain-1"))
        .await?;
    let now = jiff::Timestamp::now()
        .round(jiff::Unit::Second)?
        .to_string();
    let starting = json!({ "phase": "Provisioned", "lastUpdated": now });
    w.machine("shown-2", "shown", json!({}), starting).await?;
    let bad = json!({ "phase": "Running", "lastUpdated": "yesterday" });
    w.machine("shown-bad", "shown", json!({}), bad).await?;
    w.check("shown", json!({}), json!({ "maxUnhealthy": "40%" }))
        .await?;
    let object = w
        .wait_check("shown", "the starting one counts", |o| {
            o["status"]["expectedMachines"] == 2 && o["status"]["currentHealthy"] == 1
        })
        .await?;
    ensure!(object["status"]["remediationsAllowed"] == 0, "{object}");
    let allowed = condition(&object, "RemediationAllowed");
    ensure!(
        allowed["status"] == "False"
            && allowed["severity"] == "Warning"
            && allowed["reason"] == "TooManyUnhealthy",
        "{allowed}"
    );
    w.wait_event("shown", "RemediationRestricted").await?;
    w.wait_metric("mapi_machinehealthcheck_short_circuit", "shown", 1)
        .await?;
    w.wait_metric("mapi_machinehealthcheck_nodes_covered", "shown", 2)
        .await?;
    let joined = json!({ "status": status_of("plain-2") });
    w.stage
        .openshift_machines()
        .patch_status("shown-2", &PatchParams::default(), &Patch::Merge(joined))
        .await?;
    let object = w
        .wait_check("shown", "both are healthy", |o| {
            o["status"]["currentHealthy"] == 2
        })
        .await?;
    let allowed = condition(&object, "RemediationAllowed");
    ensure!(
        allowed["status"] == "True" && allowed["severity"].is_null(),
        "{allowed}"
    );
    w.wait_metric("mapi_machinehealthcheck_short_circuit", "shown", 0)
        .await
}

pub async fn paused(w: &World) -> Result<()> {
    let failed = json!({ "phase": "Failed" });
    w.replaceable("paused-1", "paused", failed.clone()).await?;
    w.replaceable("paused-2", "running", failed).await?;
    w.check("paused", json!({ PAUSED: "" }), json!({})).await?;
    w.check("running", json!({}), json!({})).await?;
    // Both Machines are evaluated together, so the first was evaluated too.
    w.wait_machine("paused-2", "it is deleted", |m| m.is_none())
        .await?;
    w.wait_check("running", "none is left", |o| {
        o["status"]["expectedMachines"] == 0
    })
    .await?;
    let there = w.stage.openshift_machines().get("paused-1").await?;
    ensure!(there.metadata.deletion_timestamp.is_none(), "{there:?}");
    let check = w.stage.openshift_checks().get("paused").await?;
    ensure!(check.data["status"].is_null(), "{:?}", check.data);
    w.change(
        "paused",
        json!({ "metadata": { "annotations": { PAUSED: null } } }),
    )
    .await?;
    w.wait_machine("paused-1", "it is deleted", |m| m.is_none())
        .await
        .map(drop)
}

pub async fn invalid(w: &World) -> Result<()> {
    let near = json!({ "matchExpressions": [{ "key": POOL, "operator": "Near" }] });
    w.check("invalid", json!({}), json!({ "selector": near }))
        .await?;
    let object = w
        .wait_check("invalid", "it says so", |o| {
            !condition(o, "RemediationAllowed").is_null()
        })
        .await?;
    let said = condition(&object, "RemediationAllowed");
    ensure!(
        said["status"] == "False"
            && said["reason"] == "InvalidSpec"
            && said["message"].as_str().is_some_and(|m| m.contains("Near")),
        "{said}"
    );
    Ok(())
}
