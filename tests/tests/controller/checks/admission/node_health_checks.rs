//! The shipped CRD of NodeHealthChecks, and the shipped policies on a CRD without rules: they must decide
//! like the schema, and also cases that no schema can express.

use anyhow::{Context as _, Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use rackhand_tests::{
    admission::{AdmissionServer, apply_policies},
    cluster::apply,
    stage::{LONG, wait_until},
};
use serde_json::{Value, json};

use super::{node_cases as cases, random, verdicts::kubectl};
use cases::{all_cases, spec, step};

const CRD: &str = "nodehealthchecks.remediation.medik8s.io";

pub fn checks(client: &kube::Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk))
}

pub fn check(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
        "metadata": { "name": name }, "spec": spec,
    })
}

/// The error of creating an object, if it is refused.
async fn refusal(server: &AdmissionServer, object: Value) -> Option<String> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let created = checks(&server.client).create(&params, &object).await;
    created.err().map(|error| error.to_string())
}

async fn agrees(server: &AdmissionServer, who: &str) -> Result<()> {
    let mut wrong = Vec::new();
    for (name, spec, expected) in all_cases() {
        match (refusal(server, check(name, &spec)).await, expected) {
            (None, None) => {}
            (Some(message), Some(word)) if message.contains(word) => {}
            (message, expected) => {
                wrong.push(format!("{name}: expected {expected:?}, got {message:?}"));
            }
        }
    }
    ensure!(wrong.is_empty(), "{who}:\n{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn own_crd_and_policies_refuse_same_node_health_checks_as_medik8s() {
    let dir = tempfile::tempdir().unwrap();
    let server = AdmissionServer::start(dir.path()).await.unwrap();
    if let Err(error) = scenario(&server).await {
        panic!("{error:#}");
    }
}

async fn scenario(server: &AdmissionServer) -> Result<()> {
    wait_until("the kind is served", LONG, || async {
        let today = check("today", &spec(json!({})));
        Ok(refusal(server, today).await.map_or(Ok(()), Err))
    })
    .await?;
    agrees(server, "our CRD").await?;

    server.remove_rules("crds/nodes", CRD).await?;
    wait_until("the CRD refuses nothing", LONG, || async {
        for (name, spec, _) in all_cases() {
            if let Some(message) = refusal(server, check(name, &spec)).await {
                return Ok(Err(message));
            }
        }
        Ok(Ok(()))
    })
    .await?;
    let stored = spec(json!({ "selector": {} }));
    apply(&server.client, check("stored", &stored)).await?;
    apply_policies(&server.client).await?;
    wait_until("our policy refuses", LONG, || async {
        Ok(refusal(server, check("empty", &stored))
            .await
            .ok_or("accepted".to_owned())
            .map(drop))
    })
    .await?;
    agrees(server, "our policy").await?;
    startup_timeout(server).await?;
    stored_specs_are_not_judged_again(server).await?;
    warnings(server)?;
    random::node_health_checks(&server.client).await?;
    in_use(server).await
}

/// Rackhand's annotation, which a schema does not validate.
async fn startup_timeout(server: &AdmissionServer) -> Result<()> {
    let annotated = |value: &str| {
        let mut object = check("annotated", &spec(json!({})));
        object["metadata"]["annotations"] = json!({ "rackhand.dev/node-startup-timeout": value });
        refusal(server, object)
    };
    ensure!(annotated("20m").await.is_none());
    let message = annotated("soon").await.context("accepted")?;
    ensure!(
        message.contains("metadata.annotations[rackhand.dev/node-startup-timeout]"),
        "{message}"
    );
    Ok(())
}

async fn stored_specs_are_not_judged_again(server: &AdmissionServer) -> Result<()> {
    let checks = checks(&server.client);
    let patch = async |body: Value| {
        let params = PatchParams::default();
        let patched = checks.patch("stored", &params, &Patch::Merge(body)).await;
        patched.map(drop).map_err(|error| error.to_string())
    };
    patch(json!({ "metadata": { "labels": { "a": "b" } } }))
        .await
        .map_err(anyhow::Error::msg)?;
    let other = patch(json!({ "spec": { "minHealthy": 1 } })).await;
    let message = other.err().context("accepted")?;
    ensure!(
        message.contains("spec.selector: must not be empty"),
        "{message}"
    );
    let right = json!({ "spec": { "selector": { "matchLabels": { "a": "b" } } } });
    patch(right).await.map_err(anyhow::Error::msg)
}

fn warnings(server: &AdmissionServer) -> Result<()> {
    let warned = |spec: &Value| -> Result<String> {
        let document = check("warned", spec).to_string();
        let args = ["apply", "--dry-run=server", "-f", "-"];
        let output = kubectl(&server.plane.kubeconfig(), &args, &document)?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{printed}");
        Ok(printed)
    };
    let steps = |group: &str| {
        let mut steps = json!([step(1, "60s"), step(2, "5m")]);
        for step in steps.as_array_mut().unwrap() {
            step["remediationTemplate"]["apiVersion"] = format!("{group}/v1").into();
        }
        cases::escalating(&steps)
    };
    let none = Value::Null;
    for quiet in [spec(json!({})), steps("rackhand.dev")] {
        let printed = warned(&quiet)?;
        ensure!(!printed.contains("Warning"), "{printed}");
    }
    for (spec, part) in [
        (
            spec(json!({ "minHealthy": "100%" })),
            "spec.minHealthy: with 100% this check only observes",
        ),
        (
            spec(json!({ "minHealthy": none, "maxUnhealthy": "0%" })),
            "spec.maxUnhealthy: with 0% this check only observes",
        ),
        (
            spec(json!({ "minHealthy": none, "maxUnhealthy": 0 })),
            "spec.maxUnhealthy: with 0 this check only observes",
        ),
        (
            steps("x.y"),
            "spec.escalatingRemediations: XTemplate is in several steps: each of these templates must \
             carry the annotation remediation.medik8s.io/multiple-templates-support",
        ),
        (
            spec(json!({ "stormCooldownDuration": "0s" })),
            "spec.stormCooldownDuration: 0 is no cooldown at all",
        ),
    ] {
        let printed = warned(&spec)?;
        ensure!(
            printed.matches("Warning: ").count() == 1 && printed.contains(part),
            "{part:?}: {printed}"
        );
    }
    Ok(())
}

/// Sets the Nodes that the check remediates in its status, with one more that is only unhealthy.
async fn remediate(server: &AdmissionServer, nodes: &[&str]) -> Result<()> {
    let remediation = json!({
        "resource": { "kind": "X", "name": "r" }, "started": "2026-08-01T02:00:00Z",
    });
    let mut entries = vec![
        json!({ "name": "watched" }),
        json!({ "name": "empty", "remediations": [] }),
    ];
    for node in nodes {
        entries.push(json!({ "name": node, "remediations": [remediation] }));
    }
    let body = Patch::Merge(json!({ "status": { "unhealthyNodes": entries } }));
    let params = PatchParams::default();
    checks(&server.client)
        .patch_status("kept", &params, &body)
        .await?;
    Ok(())
}

/// While a check remediates, its selector and templates cannot change, and it cannot be deleted.
async fn in_use(server: &AdmissionServer) -> Result<()> {
    apply(&server.client, check("kept", &spec(json!({})))).await?;
    remediate(server, &["n1", "n2"]).await?;
    let checks = checks(&server.client);
    let params = PatchParams::default();
    for (field, locked) in [
        (
            "spec.selector",
            json!({ "selector": { "matchLabels": { "pool": "b" } } }),
        ),
        (
            "spec.remediationTemplate",
            json!({ "remediationTemplate": { "name": "u" } }),
        ),
        (
            "spec.remediationTemplate, spec.escalatingRemediations",
            json!({ "remediationTemplate": null, "escalatingRemediations": [step(1, "60s")] }),
        ),
    ] {
        let body = Patch::Merge(json!({ "spec": locked }));
        let refused = checks.patch("kept", &params, &body).await.err();
        let message = refused.with_context(|| format!("accepted: {locked}"))?;
        let message = message.to_string();
        let part = format!(
            "{field}: Forbidden: cannot be changed while the check remediates Node n1, n2; the limit"
        );
        ensure!(message.contains(&part), "{part:?}: {message}");
    }
    for free in [
        json!({ "spec": { "minHealthy": 1 } }),
        json!({ "spec": { "minHealthy": null, "maxUnhealthy": 1 } }),
        json!({ "spec": { "pauseRequests": ["stop"], "healthyDelay": "1m" } }),
        json!({ "spec": { "unhealthyConditions": [
            { "type": "Ready", "status": "False", "duration": "1s" },
        ]}}),
        json!({ "metadata": { "labels": { "a": "b" } } }),
    ] {
        let body = Patch::Merge(free);
        checks.patch("kept", &params, &body).await?;
    }
    remediate(server, &["a", "b", "c", "d", "e", "f"]).await?;
    let delete = DeleteParams::default();
    let refused = checks.delete("kept", &delete).await.err();
    let message = refused.context("it was deleted")?.to_string();
    let part = "cannot be deleted while it remediates Node a, b, c, d, e and 1 more: ";
    ensure!(message.contains(part), "{message}");
    let every = checks.delete_collection(&delete, &Default::default()).await;
    ensure!(every.is_err(), "they were deleted together");
    // An unhealthy Node without a remediation prevents no change.
    remediate(server, &[]).await?;
    let moved = json!({ "spec": { "selector": { "matchLabels": { "pool": "b" } } } });
    checks.patch("kept", &params, &Patch::Merge(moved)).await?;
    checks.delete("kept", &delete).await?;
    Ok(())
}
