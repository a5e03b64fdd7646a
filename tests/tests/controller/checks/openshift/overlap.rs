//! Two checks that select one Machine, and their explanation.

use anyhow::{Result, ensure};
use rackhand_tests::stage::NAMESPACE;
use serde_json::{Value, json};

use super::world::{PAUSED, POOL, World, condition};

/// Of checks that were created within one second, the first by name counts as older.
const OLDER: &str = "shared";
const YOUNGER: &str = "shared-younger";

pub async fn overlap(w: &World) -> Result<()> {
    let failed = json!({ "phase": "Failed", "errorMessage": "no such image" });
    w.replaceable("shared-1", OLDER, failed).await?;
    w.check(OLDER, json!({}), json!({ "maxUnhealthy": 0 }))
        .await?;
    let same = json!({ "selector": { "matchLabels": { POOL: OLDER } } });
    w.check(YOUNGER, json!({}), same).await?;
    let object = w
        .wait_check(YOUNGER, "another one acts", |o| {
            !condition(o, "Overlapping").is_null()
        })
        .await?;
    let said = condition(&object, "Overlapping");
    ensure!(
        said["reason"] == "OtherCheckActs"
            && said["message"]
                .as_str()
                .is_some_and(|m| m.starts_with("MachineHealthCheck shared acts for shared-1,")),
        "{said}"
    );
    w.wait_event(YOUNGER, "OtherCheckActs").await?;
    // The younger check could act and does not; the older check is the acting one, and its limit forbids
    // remediation.
    let there = w.stage.openshift_machines().get("shared-1").await?;
    ensure!(there.metadata.deletion_timestamp.is_none(), "{there:?}");
    let text = explain(w, YOUNGER, "table").await?;
    for part in [
        "MachineHealthCheck.machine.openshift.io metal3/shared-younger",
        "nothing: MachineHealthCheck shared acts for it",
        "1 is not more than 1: remediation is allowed",
        // Rackhand has not installed the CRD, so only the flag of the controller selects these checks.
        "settings   those of the controller controller-0_",
    ] {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    ensure!(!text.contains("NOT ACTING"), "{text}");
    let older: Value = serde_json::from_str(&explain(w, OLDER, "json").await?)?;
    ensure!(
        older["limit"]["allowed"] == false
            && older["targets"][0]["does"] == "nothing: the limit forbids it",
        "{older}"
    );
    let pause = json!({ "metadata": { "annotations": { PAUSED: "" } } });
    w.change(OLDER, pause).await?;
    w.wait_machine("shared-1", "the younger check deletes the Machine", |m| {
        m.is_none()
    })
    .await?;
    w.wait_check(YOUNGER, "nobody else acts", |o| {
        o["status"]["expectedMachines"] == 0 && condition(o, "Overlapping").is_null()
    })
    .await
    .map(drop)
}

async fn explain(w: &World, check: &str, output: &str) -> Result<String> {
    let args = ["mhc", check, "-n", NAMESPACE, "-o", output];
    w.stage.explain(&args, "").await
}
