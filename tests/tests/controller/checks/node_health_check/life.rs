//! Creation and deletion of remediations by a check.

use anyhow::{Result, ensure};
use k8s_openapi::{api::coordination::v1::Lease, api::core::v1::Node};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    stage::{LONG, wait_until},
};
use serde_json::json;

use super::world::{World, template, unhealthy};

const CONFIRMED: &str = "remediation.medik8s.io/manually-confirmed-healthy";

/// The example of medik8s' documentation.
const PRINTED: &str = r#"
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: nodehealthcheck-sample
spec:
# mandatory
  remediationTemplate:
    kind: ProviderXRemediationTemplate
    apiVersion: medik8s.io/v1alpha1
    name: group-x
    namespace: default
#  # optional
#  selector:
#    matchLabels:
#      kubernetes.io/os: linux
"#;

pub(crate) async fn printed(w: &World) -> Result<()> {
    w.make_node("printed-1", "printed").await?;
    apply_yaml(&w.stage.client, PRINTED).await?;
    let name = "nodehealthcheck-sample";
    w.wait_check(name, "enabled", |s| s["phase"] == "Enabled")
        .await?;
    w.set_ready("printed-1", "False").await?;
    let made = w.wait_remediations("printed-1", 1).await?;
    let check = w.checks().get(name).await?;
    let object = &made[0];
    ensure!(object.name_any() == "printed-1", "{object:?}");
    ensure!(
        object.data["spec"] == json!({ "how": "gently" }),
        "{object:?}"
    );
    let owner = &object.owner_references()[0];
    ensure!(Some(owner.uid.clone()) == check.uid(), "{owner:?}");
    ensure!(
        owner.kind == "NodeHealthCheck" && owner.controller != Some(true),
        "{owner:?}"
    );
    let labels = object.labels();
    ensure!(
        labels["app.kubernetes.io/part-of"] == "node-healthcheck-controller",
        "{labels:?}"
    );
    let annotations = object.annotations();
    ensure!(
        annotations["remediation.medik8s.io/template-name"] == "group-x",
        "{annotations:?}"
    );
    let status = w
        .wait_check(name, "remediating", |s| s["phase"] == "Remediating")
        .await?;
    ensure!(unhealthy(&status) == ["printed-1"], "{status}");
    let resource = &status["unhealthyNodes"][0]["remediations"][0]["resource"];
    ensure!(
        resource["uid"].as_str() == object.uid().as_deref(),
        "{status}"
    );
    let leases: Api<Lease> = Api::namespaced(w.stage.client.clone(), "medik8s-leases");
    let lease = leases.get("node-printed-1").await?.spec.unwrap_or_default();
    ensure!(
        lease.holder_identity.as_deref() == Some("NodeHealthCheck-nodehealthcheck-sample")
            && lease.lease_duration_seconds == Some(660),
        "{lease:?}"
    );
    let columns = w.stage.kubectl(&["get", "nhc", name]).await?;
    ensure!(
        columns.contains("PHASE") && columns.contains("Remediating"),
        "{columns}"
    );
    ensure!(columns.contains("printed-1"), "{columns}");
    for reason in ["DetectedUnhealthy", "RemediationCreated"] {
        w.wait_event(name, reason).await?;
    }

    w.set_ready("printed-1", "True").await?;
    w.wait_remediations("printed-1", 0).await?;
    let status = w
        .wait_check(name, "enabled again", |s| {
            s["phase"] == "Enabled" && unhealthy(s).is_empty()
        })
        .await?;
    ensure!(status["conditions"][0]["type"] == "Disabled", "{status}");
    w.wait_event(name, "RemediationRemoved").await?;
    wait_until("the Lease is given back", LONG, || async {
        let found = leases.get_opt("node-printed-1").await?;
        Ok(found.map_or(Ok(()), |lease| Err(format!("{lease:?}"))))
    })
    .await?;
    let labels = r#"{name="printed-1",namespace="default",remediation="ProviderXRemediation"}"#;
    let line = format!("nodehealthcheck_ongoing_remediation{labels} 0");
    wait_until(&line, LONG, || async {
        let (_, metrics) = w.stage.admin("controller-0", "/metrics").await?;
        let is_there = metrics.contains(&line);
        Ok(if is_there { Ok(()) } else { Err(metrics) })
    })
    .await
}

pub(crate) async fn confirmation(w: &World) -> Result<()> {
    for node in ["confirm-1", "confirm-2"] {
        w.make_node(node, "confirm").await?;
    }
    let rules = json!({
        "minHealthy": 1, "remediationTemplate": template("group-x"), "healthyDelay": "-1s",
    });
    w.make_check("confirm", rules).await?;
    w.sick("confirm-1", true).await?;
    w.wait_remediations("confirm-1", 1).await?;
    w.sick("confirm-1", false).await?;
    w.wait_check("confirm", "waits for a person", |s| {
        s["unhealthyNodes"][0]["healthyDelayed"] == true
    })
    .await?;
    ensure!(
        w.of_node("confirm-1").await?.len() == 1,
        "the Node is not confirmed healthy"
    );
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    let word = Patch::Merge(json!({ "metadata": { "annotations": { CONFIRMED: "me" } } }));
    nodes
        .patch("confirm-1", &PatchParams::default(), &word)
        .await?;
    w.wait_remediations("confirm-1", 0).await?;
    wait_until("the confirmation annotation is removed", LONG, || async {
        let node = nodes.get("confirm-1").await?;
        let there = node.annotations().contains_key(CONFIRMED);
        Ok(if there {
            Err("there".to_owned())
        } else {
            Ok(())
        })
    })
    .await
}

pub(crate) async fn disabled(w: &World) -> Result<()> {
    for node in ["disabled-1", "disabled-2"] {
        w.make_node(node, "disabled").await?;
    }
    let rules = json!({ "minHealthy": 1, "remediationTemplate": template("late") });
    w.make_check("disabled", rules).await?;
    let status = w
        .wait_check("disabled", "says so", |s| s["phase"] == "Disabled")
        .await?;
    let condition = &status["conditions"][0];
    ensure!(
        condition["reason"] == "RemediationTemplateNotFound",
        "{status}"
    );
    ensure!(
        condition["message"]
            .as_str()
            .is_some_and(|m| m.contains("default/late")),
        "{status}"
    );
    w.sick("disabled-1", true).await?;
    let late = json!({
        "apiVersion": "medik8s.io/v1alpha1", "kind": "ProviderXRemediationTemplate",
        "metadata": { "name": "late", "namespace": "default" },
        "spec": { "template": { "spec": {} } },
    });
    apply(&w.stage.client, late).await?;
    w.wait_remediations("disabled-1", 1).await?;
    w.wait_check("disabled", "is enabled", |s| {
        s["conditions"][0]["reason"] == "NodeHealthCheckEnabled" && s["phase"] == "Remediating"
    })
    .await
    .map(drop)
}
