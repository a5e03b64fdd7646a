//! Actions of a check: deletion of the Machine, a remediation from a template, or none.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{cluster::apply_yaml, stage::NAMESPACE};
use serde_json::json;

use super::world::{TEMPLATE, World, condition, machine_of, status_of, wait};

pub async fn owner(w: &World) -> Result<()> {
    let failed = json!({ "phase": "Failed", "errorMessage": "no such image" });
    w.replaceable("owner-1", "owner", failed.clone()).await?;
    w.machine("owner-2", "owner", json!({}), failed).await?;
    w.check("owner", json!({}), json!({})).await?;
    w.wait_machine("owner-1", "it is deleted", |m| m.is_none())
        .await?;
    for (machine, reason) in [
        ("owner-1", "DetectedUnhealthy"),
        ("owner-1", "MachineDeleted"),
        ("owner-2", "SkippedNoController"),
    ] {
        w.wait_event(machine, reason).await?;
    }
    w.wait_metric(
        "mapi_machinehealthcheck_remediation_success_total",
        "owner",
        1,
    )
    .await?;
    let left = w.stage.openshift_machines().get("owner-2").await?;
    ensure!(left.metadata.deletion_timestamp.is_none(), "{left:?}");
    Ok(())
}

pub async fn template(w: &World) -> Result<()> {
    let host = "template-1";
    let machine = machine_of(host);
    let named =
        json!({ "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{host}") } });
    w.machine(&machine, "template", named, status_of(host))
        .await?;
    let reference = json!({ "remediationTemplate": {
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
        "name": "reboot", "namespace": "ignored",
    }});
    w.check("template", json!({}), reference).await?;
    w.wait_check("template", "it is well", |o| {
        o["status"]["currentHealthy"] == 1
    })
    .await?;
    w.hang(host)?;
    let missing = "ExternalRemediationTemplateAvailable";
    let object = w
        .wait_check("template", "its template is missing", |o| {
            !condition(o, missing).is_null()
        })
        .await?;
    let said = condition(&object, missing);
    ensure!(
        said["status"] == "False" && said["reason"] == "ExternalRemediationTemplateNotFound",
        "{said}"
    );
    apply_yaml(&w.stage.client, TEMPLATE).await?;
    let remediation = w.requested(&machine).await?;
    let metadata = &remediation["metadata"];
    ensure!(
        metadata["annotations"]["machine.openshift.io/cloned-from-name"] == "reboot"
            && metadata["annotations"]["machine.openshift.io/cloned-from-groupkind"]
                == "PowerRemediationTemplate.rackhand.dev",
        "{metadata}"
    );
    let owners = metadata["ownerReferences"].as_array().context("no owner")?;
    ensure!(
        owners.len() == 1 && owners[0]["name"] == *machine && owners[0]["controller"].is_null(),
        "{metadata}"
    );
    w.wait_check("template", "it is said no more", |o| {
        condition(o, missing).is_null()
    })
    .await?;
    wait(&w.remediations(), &machine, "it is withdrawn", |o| {
        o.is_none()
    })
    .await?;
    w.wait_ready(host).await?;
    w.wait_check("template", "it is well again", |o| {
        o["status"]["currentHealthy"] == 1
    })
    .await?;
    w.stage.one_cycle(host)
}

pub async fn closed(w: &World) -> Result<()> {
    w.replaceable("closed-1", "closed", json!({ "phase": "Failed" }))
        .await?;
    w.check("closed", json!({}), json!({ "maxUnhealthy": 0 }))
        .await?;
    w.wait_event("closed", "RemediationRestricted").await?;
    let there = w.stage.openshift_machines().get("closed-1").await?;
    ensure!(there.metadata.deletion_timestamp.is_none(), "{there:?}");
    w.change("closed", json!({ "spec": { "maxUnhealthy": 1 } }))
        .await?;
    w.wait_machine("closed-1", "it is deleted", |m| m.is_none())
        .await
        .map(drop)
}
