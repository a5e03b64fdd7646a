//! OpenShift's upgrades and MachineHealthChecks.

use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::DeleteParams};
use rackhand_tests::{cluster::apply, stage::NAMESPACE};
use serde_json::{Value, json};

use super::world::World;

pub(super) async fn openshift(w: &World) -> Result<()> {
    let version = |progressing: &str| {
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": { "name": "version" },
            "status": { "conditions": [{ "type": "Progressing", "status": progressing }] },
        })
    };
    let machine = json!({ "metadata": { "name": "m-1" }, "spec": {} });
    let machine = w.stage.apply_openshift("Machine", machine).await?;
    let node = "ocp-1";
    let of_machine = json!({ "machine.openshift.io/machine": format!("{NAMESPACE}/m-1") });
    w.make_node(node, "ocp", of_machine).await?;
    apply(&w.stage.client, version("True")).await?;
    let template = w.idle_template("only").await?;
    w.our_check("ocp", json!({ "remediationTemplate": template }))
        .await?;
    w.sick(node, true).await?;
    w.wait_note(
        "ocp",
        "the cluster is being upgraded: ClusterVersion version is Progressing",
    )
    .await?;
    ensure!(w.idle_of(node).await?.is_empty(), "it is being upgraded");
    apply(&w.stage.client, version("False")).await?;
    let made = w.wait_idle(node, 1).await?;
    let owners = made[0].owner_references();
    ensure!(
        owners.len() == 2
            && owners[1].kind == "Machine"
            && Some(&owners[1].uid) == machine.uid().as_ref(),
        "{owners:?}"
    );

    let check = json!({
        "metadata": { "name": "machines" },
        "spec": {
            "selector": { "matchLabels": { "nobody": "" } },
            "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "300s" }],
        },
    });
    w.stage.apply_openshift("MachineHealthCheck", check).await?;
    let disabled = |s: &Value| s["phase"] == "Disabled";
    let status = w.wait_check("ocp", "gives way", disabled).await?;
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|c| c["type"] == "Disabled");
    let condition = conditions.next().context("no condition")?;
    ensure!(
        condition["reason"] == "ConflictingMachineHealthCheckDetected"
            && condition["status"] == "True",
        "{status}"
    );
    ensure!(
        w.idle_of(node).await?.len() == 1,
        "the existing remediation is kept"
    );
    let told = w.explain(&["ocp"]).await?;
    ensure!(told["phase"] == "Disabled", "{told}");
    let checks = w.stage.openshift_checks();
    checks.delete("machines", &DeleteParams::default()).await?;
    w.wait_check("ocp", "goes on", |s| s["phase"] == "Remediating")
        .await?;
    w.sick(node, false).await?;
    w.wait_idle(node, 0).await.map(drop)
}
