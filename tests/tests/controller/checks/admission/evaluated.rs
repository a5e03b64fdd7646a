//! The status of an evaluated check with minimal spec, and its explanation by `explain mhc`.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use rackhand_tests::{
    admission::AdmissionServer,
    cluster::apply,
    stage::{LONG, binaries, wait_until},
};
use serde_json::{Value, json};

use super::cases::flat;

/// Label, owner, counts, and conditions in both lists. The controller reads and writes v1beta2, which
/// the API server prefers, so they lie where that has them. The check has neither the label nor a
/// startup timeout: the controller sets the one and assumes the other.
pub async fn evaluated(w: &AdmissionServer) -> Result<()> {
    let meta = |name: &str| json!({ "name": name, "namespace": "default" });
    let cluster = |paused: bool| {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
            "metadata": meta("demo"), "spec": { "paused": paused },
        })
    };
    let owner = apply(&w.client, cluster(false)).await?;
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": meta("ill"), "spec": { "clusterName": "demo" },
    });
    machine["metadata"]["labels"] =
        json!({ "pool": "evaluated", "cluster.x-k8s.io/cluster-name": "demo" });
    machine["metadata"]["annotations"] = json!({ "cluster.x-k8s.io/remediate-machine": "" });
    apply(&w.client, machine).await?;
    let template = |name: &str| {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3RemediationTemplate", "name": name,
        })
    };
    let mut spec = flat("remediationTemplate", template("late"));
    spec["selector"] = json!({ "matchLabels": { "pool": "evaluated" } });
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": meta("evaluated"), "spec": spec,
    });
    apply(&w.client, check).await?;
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck");
    let checks: Api<DynamicObject> =
        Api::namespaced_with(w.client.clone(), "default", &ApiResource::from_gvk(&gvk));
    let until = |what: &'static str, holds: fn(&Value) -> bool| {
        let checks = checks.clone();
        async move {
            wait_until(what, LONG, || async {
                let object = serde_json::to_value(checks.get("evaluated").await?)?;
                Ok(match holds(&object) {
                    true => Ok(object),
                    false => Err(object.to_string()),
                })
            })
            .await
        }
    };
    let seen = until("a missing template is said", |check| {
        let old = condition(
            &check["status"]["deprecated"]["v1beta1"]["conditions"],
            TEMPLATE,
        );
        old["reason"] == "ExternalRemediationTemplateNotFound" && old["severity"] == "Error"
    })
    .await?;
    let status = &seen["status"];
    for (field, value) in [("expectedMachines", 1), ("observedGeneration", 1)] {
        ensure!(status[field] == value, "{field}: {status}");
    }
    ensure!(status["targets"] == json!(["ill"]), "{status}");
    let labels = &seen["metadata"]["labels"];
    ensure!(
        labels["cluster.x-k8s.io/cluster-name"] == "demo",
        "{labels}"
    );
    let owned = &seen["metadata"]["ownerReferences"][0];
    ensure!(
        owned["uid"].as_str() == owner.metadata.uid.as_deref() && owned.get("controller").is_none(),
        "{owned}"
    );
    let printed = explain(w, &["evaluated", "-n", "default"])?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    ensure!(printed.contains("no Node within 10m0s"), "{printed}");
    let unlabelled = json!({ "metadata": { "labels": null } });
    let params = PatchParams::default();
    checks
        .patch("evaluated", &params, &Patch::Merge(unlabelled))
        .await?;
    until("the label is set again", |check| {
        check["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "demo"
    })
    .await?;
    let new = &status["conditions"];
    let allowed = condition(new, "RemediationAllowed");
    ensure!(allowed["reason"] == "RemediationAllowed", "{new}");
    ensure!(condition(new, "Paused")["reason"] == "NotPaused", "{new}");

    apply(
        &w.client,
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3RemediationTemplate",
            "metadata": meta("late"),
            "spec": { "template": { "spec": { "strategy": { "type": "Reboot" } } } },
        }),
    )
    .await?;
    until("it is taken back when it is there", |check| {
        condition(
            &check["status"]["deprecated"]["v1beta1"]["conditions"],
            TEMPLATE,
        )
        .is_null()
    })
    .await?;
    apply(&w.client, cluster(true)).await?;
    until("the pause is named", |check| {
        let paused = condition(&check["status"]["conditions"], "Paused");
        paused["status"] == "True" && paused["message"] == "Cluster spec.paused is true"
    })
    .await?;
    Ok(())
}

const TEMPLATE: &str = "ExternalRemediationTemplateAvailable";

fn condition(list: &Value, type_: &str) -> Value {
    let mut all = list.as_array().into_iter().flatten();
    all.find(|c| c["type"] == type_)
        .cloned()
        .unwrap_or_default()
}

fn explain(w: &AdmissionServer, args: &[&str]) -> Result<Output> {
    Ok(Command::new(binaries()?.join("rackhand-controller"))
        .args(["explain", "mhc"])
        .args(args)
        .arg("--kubeconfig")
        .arg(w.plane.kubeconfig())
        .env("NO_COLOR", "1")
        .output()?)
}

/// `explain mhc` on the cluster, for an existing check and for an unknown name.
pub fn explained(w: &AdmissionServer) -> Result<()> {
    let found = explain(w, &["kept", "-n", "default"])?;
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    ensure!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    for part in [
        "MachineHealthCheck default/kept of Cluster default/demo",
        "NOT ACTING Cluster default/demo does not exist",
        "no machines: the selector fits none",
        "Secret default/demo-kubeconfig",
    ] {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let missing = explain(w, &["keptt", "-n", "elsewhere"])?;
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    ensure!(missing.status.code() == Some(1), "{said}");
    ensure!(
        said.contains("there is no MachineHealthCheck keptt in namespace elsewhere")
            && said.contains("default/kept"),
        "{said}"
    );
    Ok(())
}
