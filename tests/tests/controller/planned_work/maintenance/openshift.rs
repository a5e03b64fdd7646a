//! A Machine of OpenShift, whose own controller knows no mark for one Machine.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use rackhand_tests::stage::{LONG, NAMESPACE, wait_until};
use serde_json::{Value, json};

use super::world::{MARK, World};

pub const MACHINE: &str = "ocp-machine";

/// A check that deletes the Machine a second after its Node has failed: it has an owner that would replace it.
async fn apply_machine_and_check(w: &World) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(w.stage.client.clone(), NAMESPACE);
    let owner = wait_until("an owner", LONG, || async {
        let found = maps.get_opt("kube-root-ca.crt").await?;
        Ok(found.and_then(|map| map.uid()).ok_or("none".to_owned()))
    })
    .await?;
    let machine = json!({
        "metadata": {
            "name": MACHINE,
            "labels": { "pool": "planned" },
            "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/ocp-1") },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt",
                "uid": owner, "controller": true,
            }],
        },
        "spec": {},
        "status": { "phase": "Running", "nodeRef": { "kind": "Node", "name": "ocp-1" } },
    });
    w.stage.apply_openshift("Machine", machine).await?;
    let check = json!({
        "metadata": { "name": "planned" },
        "spec": {
            "selector": { "matchLabels": { "pool": "planned" } },
            "nodeStartupTimeout": "1h",
            "unhealthyConditions": [
                { "type": "Ready", "status": "Unknown", "timeout": "1s" },
                { "type": "Ready", "status": "False", "timeout": "1s" },
            ],
        },
    });
    w.stage
        .apply_openshift("MachineHealthCheck", check)
        .await
        .map(drop)
}

pub async fn machine(w: &World) -> Result<()> {
    apply_machine_and_check(w).await?;
    w.start("ocp-1", json!({ "machine": MACHINE })).await?;
    let refused = |object: &Value| object["status"]["reason"] == "CheckWouldAct";
    let object = w.wait("ocp-1", "waits for the check", refused).await?;
    let message = object["status"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains("planned"), "{message}");
    ensure!(w.remediation_of("ocp-1").await?.is_none(), "it is made");
    // A pause of Rackhand keeps OpenShift's controller from nothing.
    let checks = w.stage.openshift_checks();
    let paused = "rackhand.dev/paused";
    w.stage
        .annotate(&checks, "planned", paused, Some(""))
        .await?;
    let object = w.wait("ocp-1", "still waits", refused).await?;
    ensure!(object["status"]["phase"] == "Pending", "{object}");
    w.stage.annotate(&checks, "planned", paused, None).await?;
    // From now on Rackhand evaluates it, which heeds the mark, and the pause keeps OpenShift's controller off.
    for (key, value) in [
        ("rackhand.dev/evaluate", "true"),
        ("cluster.x-k8s.io/paused", ""),
    ] {
        w.stage
            .annotate(&checks, "planned", key, Some(value))
            .await?;
    }
    let object = w.wait_phase("ocp-1", "Parked").await?;
    let uid = object["metadata"]["uid"].as_str().context("no UID")?;
    let machine = w.stage.openshift_machines().get(MACHINE).await?;
    let mark = machine.annotations().get(MARK).map(String::as_str);
    ensure!(mark == Some(uid), "{mark:?}");
    let evaluated = |check: &Value| check["status"]["expectedMachines"] == 1;
    wait_until("the check is evaluated", LONG, || async {
        let check = serde_json::to_value(checks.get("planned").await?)?;
        Ok(match evaluated(&check) {
            true => Ok(()),
            false => Err(check["status"].to_string()),
        })
    })
    .await?;
    w.end("ocp-1").await?;
    w.wait_gone("ocp-1").await?;
    w.wait_back("ocp-1").await?;
    let machine = w.stage.openshift_machines().get(MACHINE).await?;
    ensure!(!machine.annotations().contains_key(MARK), "it is marked");
    let deleted = &machine.metadata.deletion_timestamp;
    ensure!(deleted.is_none(), "its check has deleted it");
    w.stage.one_cycle("ocp-1")
}
