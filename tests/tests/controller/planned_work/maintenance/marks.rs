//! Marks that the API server refuses.

use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::{api::events::v1::Event, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply,
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::{MARK, SKIP, World};

/// That somebody's policy forbids marks on the Machine `refused-1`.
const MARKED: &str = "object.metadata.name != 'refused-1' || !has(object.metadata.annotations) || \
                      !('rackhand.dev/maintenance' in object.metadata.annotations)";

/// That it forbids their removal.
const FREED: &str = "object.metadata.name != 'refused-1' || !has(oldObject.metadata.annotations) || \
                     !('rackhand.dev/maintenance' in oldObject.metadata.annotations) || \
                     (has(object.metadata.annotations) && 'rackhand.dev/maintenance' in object.metadata.annotations)";

/// Somebody's policy for changes of Machines.
async fn forbid(w: &World, name: &str, allowed: &str, message: &str) -> Result<()> {
    let group = "admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"], "resources": ["machines"],
                "operations": ["UPDATE"],
            }]},
            "validations": [{ "expression": allowed, "message": message }],
        },
    });
    let binding = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    apply(&w.stage.client, policy).await?;
    apply(&w.stage.client, binding).await.map(drop)
}

/// Waits until the Machine cannot be given this value of the mark.
async fn wait_forbidden(w: &World, host: &str, mark: Option<&str>) -> Result<()> {
    let machines = w.stage.machines();
    wait_until("the policy is in force", LONG, || async {
        let body = json!({ "metadata": { "annotations": { MARK: mark } } });
        let params = PatchParams::default().dry_run();
        let marked = machines.patch(host, &params, &Patch::Merge(body)).await;
        Ok(match marked {
            Ok(_) => Err("the mark can be changed".to_owned()),
            Err(_) => Ok(()),
        })
    })
    .await
}

/// A Machine that cannot be marked would be replaced by its check while somebody works on its host.
pub async fn refused(w: &World) -> Result<()> {
    let host = "refused-1";
    w.stage.run_pod(host).await?;
    forbid(w, "no-marks", MARKED, "nobody marks this Machine").await?;
    wait_forbidden(w, host, Some("try")).await?;
    w.start(host, json!({ "machine": host })).await?;
    let object = w
        .wait(host, "says that it cannot be marked", |object| {
            object["status"]["reason"] == "MarkRefused"
        })
        .await?;
    let status = &object["status"];
    ensure!(status["phase"] == "Pending", "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.contains("nobody marks this Machine"), "{message}");
    let blocked = status["conditions"].as_array().into_iter().flatten();
    let mut blocked = blocked.filter(|c| c["type"] == "Blocked" && c["status"] == "True");
    ensure!(blocked.next().is_some(), "{status}");
    wait_until("its remediation says so", LONG, || async {
        let made = w.remediation_of(host).await?;
        let reason = made.map(|made| made.data["status"]["reason"].clone());
        Ok(match reason == Some(json!("WaitingForMarks")) {
            true => Ok(()),
            false => Err(format!("{reason:?}")),
        })
    })
    .await?;
    // Nothing has happened to the Node.
    ensure!(!w.stage.is_cordoned(host).await?, "it is cordoned");
    ensure!(w.stage.bound_pod(host).await?.is_some(), "its pod has left");
    w.stage.untouched(host)?;
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        w.stage.kubectl(&["delete", kind, "no-marks"]).await?;
    }
    w.wait_phase(host, "Parked").await?;
    left(w, host).await?;
    w.wait_gone(host).await?;
    w.wait_back(host).await?;
    w.stage.one_cycle(host)
}

/// Another holder takes medik8s' Lease after the maintenance has looked at it last, and before the host is told to go off.
pub async fn taken_last(w: &World) -> Result<()> {
    let host = "lease-1";
    let bmc = w.stage.host(host)?;
    w.stage.run_pod(host).await?;
    let budgets = w.stage.forbid_eviction(host).await?;
    w.start(host, json!({ "machine": host })).await?;
    let is_kept = |object: &Value| {
        object["status"]["message"]
            .to_string()
            .contains("keep-lease-1")
    };
    w.wait(host, "its budget is named", is_kept).await?;
    // The evidence takes the time in which the Lease is taken.
    let silent = bmc.silent();
    budgets
        .delete("keep-lease-1", &DeleteParams::default())
        .await?;
    w.wait_phase(host, "PoweringOff").await?;
    let leases = w.stage.work_leases();
    let taken = json!({ "spec": {
        "holderIdentity": "somebody-else",
        "renewTime": MicroTime(Timestamp::now()),
        "leaseDurationSeconds": 600,
    }});
    let name = format!("node-{host}");
    let params = PatchParams::default();
    leases.patch(&name, &params, &Patch::Merge(taken)).await?;
    bmc.clear_fault(silent);
    wait_until("lease-1: its remediation waits", LONG, || async {
        let made = w.remediation_of(host).await?;
        let reason = made.map(|made| made.data["status"]["reason"].clone());
        Ok(match reason == Some(json!("WaitingForMarks")) {
            true => Ok(()),
            false => Err(format!("{reason:?}")),
        })
    })
    .await?;
    let is_said = |object: &Value| {
        let status = &object["status"];
        status["reason"] == "MarkRefused" && status["message"].to_string().contains("somebody-else")
    };
    w.wait(host, "it is said who has the Lease", is_said)
        .await?;
    w.stage.untouched(host)?;
    leases.delete(&name, &DeleteParams::default()).await?;
    w.wait_phase(host, "Parked").await?;
    w.end(host).await?;
    w.wait_gone(host).await?;
    w.wait_back(host).await?;
    w.stage.one_cycle(host)
}

/// Nor may a mark be taken back: the maintenance is not over, and says what is left.
async fn left(w: &World, host: &str) -> Result<()> {
    forbid(w, "no-removal", FREED, "nobody frees this Machine").await?;
    wait_forbidden(w, host, None).await?;
    w.end(host).await?;
    let said = |object: &Value| object["status"]["reason"] == "MarkLeft";
    let object = w.wait(host, "says that a mark is left", said).await?;
    let status = &object["status"];
    ensure!(status["phase"] == "Ending", "{status}");
    ensure!(status["inPlace"] == json!(["SkipRemediation"]), "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    for part in ["nobody frees this Machine", "remove the annotation"] {
        ensure!(message.contains(part), "{part} is missing in {message}");
    }
    let machine = w.stage.machines().get(host).await?;
    ensure!(machine.annotations().contains_key(SKIP), "it is not marked");
    wait_until("a warning", LONG, || async {
        let events = w.stage.events(host).await?;
        let is_warning = |event: &Event| {
            event.reason.as_deref() == Some("MaintenanceMarkLeft")
                && event.type_.as_deref() == Some("Warning")
        };
        let found = events.iter().any(is_warning);
        Ok(found.then_some(()).ok_or("there is none".to_owned()))
    })
    .await?;
    let explain = ["explain", "maintenance", host, "--namespace", NAMESPACE];
    let explained = w.plugin(&explain).await?;
    ensure!(
        explained.contains("leave the host alone still"),
        "{explained}"
    );
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        w.stage.kubectl(&["delete", kind, "no-removal"]).await?;
    }
    Ok(())
}
