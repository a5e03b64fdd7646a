//! Escalation steps, and a host that recovers.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply,
    stage::{LONG, SYSTEM, wait_until},
};
use serde_json::json;

use super::world::{World, template};

pub(crate) async fn escalation(w: &World) -> Result<()> {
    for node in ["escalation-1", "escalation-2"] {
        w.make_node(node, "escalation").await?;
    }
    let step = |name: &str, order: i64| {
        json!({
            "remediationTemplate": template(name), "order": order, "timeout": "10m",
        })
    };
    let steps = json!([step("second", 2), step("first", 1)]);
    let rules = json!({ "minHealthy": "50%", "escalatingRemediations": steps });
    w.make_check("escalation", rules).await?;
    w.sick("escalation-1", true).await?;
    let first = w.wait_remediations("escalation-1", 1).await?;
    ensure!(first[0].data["spec"]["how"] == "first", "{first:?}");
    // The remediation reports its failure, so its timeout is not awaited.
    let failed =
        json!({ "status": { "conditions": [{ "type": "Succeeded", "status": "False" }] } });
    w.remediations()
        .patch_status(
            &first[0].name_any(),
            &PatchParams::default(),
            &Patch::Merge(failed),
        )
        .await?;
    let told = |r: &DynamicObject| {
        r.annotations()
            .contains_key("remediation.medik8s.io/nhc-timed-out")
    };
    let both = wait_until("the second is made, the first is told", LONG, || async {
        let both = w.of_node("escalation-1").await?;
        Ok(if both.len() == 2 && both.iter().any(told) {
            Ok(both)
        } else {
            Err(format!("{both:?}"))
        })
    })
    .await?;
    let how = |how: &str| both.iter().find(|r| r.data["spec"]["how"] == how);
    ensure!(how("first").is_some_and(told), "{both:?}");
    ensure!(how("second").is_some_and(|r| !told(r)), "{both:?}");
    let status = w
        .wait_check("escalation", "both are shown", |s| {
            s["unhealthyNodes"][0]["remediations"]
                .as_array()
                .is_some_and(|r| r.len() == 2)
        })
        .await?;
    let entries = &status["unhealthyNodes"][0]["remediations"];
    ensure!(
        entries[0]["templateName"] == "first" && entries[0]["timedOut"].is_string(),
        "{status}"
    );
    ensure!(
        entries[1]["templateName"] == "second" && entries[1]["timedOut"].is_null(),
        "{status}"
    );
    w.sick("escalation-1", false).await?;
    w.wait_remediations("escalation-1", 0).await.map(drop)
}

pub(crate) async fn power(w: &World) -> Result<()> {
    let node = "bare-1";
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    let label = Patch::Merge(json!({ "metadata": { "labels": { "pool": "power" } } }));
    nodes.patch(node, &PatchParams::default(), &label).await?;
    let reboot = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
        "metadata": { "name": "reboot", "namespace": SYSTEM },
        "spec": { "template": { "spec": { "strategy": {
            "type": "Reboot", "timeouts": { "bootSeconds": 120 },
        } } } },
    });
    apply(&w.stage.client, reboot).await?;
    let rules = json!({
        "maxUnhealthy": "100%",
        "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "duration": "1s" }],
        "remediationTemplate": {
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
            "namespace": SYSTEM, "name": "reboot",
        },
    });
    w.make_check("power", rules).await?;
    w.wait_check("power", "sees its Node", |s| s["healthyNodes"] == 1)
        .await?;
    ensure!(w.stage.host(node)?.hang(), "the host was not up");
    let remediations = w.stage.power_remediations();
    let what = "a remediation is made";
    w.recorder
        .wait_version("PowerRemediation", node, what, |_| true)
        .await?;
    wait_until("the remediation is finished", LONG, || async {
        let found = remediations.get_opt(node).await?;
        Ok(found.map_or(Ok(()), |r| Err(r.data["status"].to_string())))
    })
    .await?;
    w.wait_check("power", "is enabled again", |s| {
        s["phase"] == "Enabled" && s["healthyNodes"] == 1
    })
    .await?;
    w.stage.one_cycle(node)?;
    let left = w.stage.left_on(node).await?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
