//! Remediations whose health check is deleted before they have begun (F11).

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, PostParams},
};
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{LONG, NAMESPACE, Stage, idle_remediator, wait_until},
};
use serde_json::{Value, json};

use super::{requesters::CHECK, world::World};

/// Makes the hosts of baremetal-operator wait, and every remediation with them.
const HOST_PAUSED: &str = "baremetalhost.metal3.io/paused";

/// A check is deleted while its remediation waits in Pending: the remediation is deleted, and its paused host
/// is never switched off, also not after the pause.
pub async fn check_deleted(w: &World) -> Result<()> {
    let hosts = w.stage.bare_metal_hosts();
    w.stage
        .annotate(&hosts, "lone-1", HOST_PAUSED, Some(""))
        .await?;
    let check = CHECK
        .replace("  name: power\n", "  name: lone\n")
        .replace("nodepool: power", "nodepool: lone");
    apply_yaml(&w.stage.client, &check).await?;
    ensure!(w.stage.host("lone-1")?.hang(), "the host was not up");
    let waits = |o: &Value| o["status"]["reason"] == "HostPaused";
    let object = w.wait("lone-1", "waits for its host", waits).await?;
    ensure!(object["status"]["step"] == "Pending", "{object}");

    let checks = w.stage.checks();
    checks.delete("lone", &DeleteParams::default()).await?;
    w.wait_gone("lone-1").await?;
    w.stage
        .annotate(&hosts, "lone-1", HOST_PAUSED, None)
        .await?;
    wait_until("an Event reports the cause", LONG, || async {
        let events = w.stage.events("lone-1").await?;
        let notes: Vec<String> = events.into_iter().filter_map(|e| e.note).collect();
        let said = notes
            .iter()
            .any(|n| n.contains("MachineHealthCheck metal3/lone, which made it, is deleted"));
        Ok(if said {
            Ok(())
        } else {
            Err(format!("{notes:?}"))
        })
    })
    .await?;
    w.stage.untouched("lone-1")?;
    w.stage.never_tainted(&w.recorder, "lone-1").await
}

fn foreign(stage: &Stage) -> Api<DynamicObject> {
    stage.api("example.org", "v1", "IdleRemediation")
}

/// Creates remediations of an earlier controller, of a kind that no template of a check names any more.
pub async fn leave_behind(stage: &Stage) -> Result<()> {
    apply_yaml(&stage.client, &idle_remediator()).await?;
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    wait_until("the right to the foreign kind", LONG, || async {
        let role = roles.get("rackhand-remediators").await?;
        let text = serde_json::to_string(&role.rules)?;
        Ok(if text.contains("idleremediations") {
            Ok(())
        } else {
            Err(text)
        })
    })
    .await?;
    for (machine, check) in [("off-1", Some("gone")), ("cycle-1", None)] {
        let uid = stage.machines().get(machine).await?.uid();
        let annotations = match check {
            Some(check) => {
                json!({ "rackhand.dev/made-by": format!("MachineHealthCheck/{check}/1") })
            }
            None => json!({}),
        };
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "example.org/v1", "kind": "IdleRemediation",
            "metadata": {
                "name": machine, "namespace": NAMESPACE, "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                    "name": machine, "uid": uid,
                }],
            },
        }))?;
        let by_hand = PostParams::default();
        wait_until("the kind is served", LONG, || async {
            let made = foreign(stage).create(&by_hand, &object).await;
            Ok(made.map(drop).map_err(|error| error.to_string()))
        })
        .await
        .context(machine)?;
    }
    Ok(())
}

/// The next leader withdraws exactly the remediations that checks have created.
pub async fn left_behind(w: &World) -> Result<()> {
    wait_until("the orphaned remediation is withdrawn", LONG, || async {
        let found = foreign(&w.stage).get_opt("off-1").await?;
        Ok(match found {
            None => Ok(()),
            Some(object) => Err(format!("{:?}", object.metadata)),
        })
    })
    .await?;
    let by_hand = foreign(&w.stage).get("cycle-1").await?;
    ensure!(
        by_hand.metadata.deletion_timestamp.is_none(),
        "a remediation that no check made is withdrawn: {by_hand:?}"
    );
    Ok(())
}
