//! The shipped CRD of MachineHealthChecks, and the shipped policy on a CRD without rules.

use anyhow::{Context as _, Result, ensure};
use rackhand_tests::{
    admission::{AdmissionServer, apply_policies},
    stage::{LONG, wait_until},
};
use serde_json::{Value, json};

use super::{
    cases::{all_cases, flat, only_webhooks, selector},
    evaluated::{evaluated, explained},
    random,
    verdicts::{agrees, document, keeps_its_cluster, kubectl, wait_for},
};

const CRD: &str = "machinehealthchecks.cluster.x-k8s.io";

#[tokio::test(flavor = "multi_thread")]
async fn own_crd_and_policy_refuse_what_cluster_api_webhook_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let server = AdmissionServer::start(dir.path()).await.unwrap();
    if let Err(error) = scenario(&server).await {
        panic!("{error:#}");
    }
}

async fn scenario(server: &AdmissionServer) -> Result<()> {
    let kubeconfig = server.plane.kubeconfig();
    let all = all_cases();
    agrees("our CRD", &kubeconfig, &all, true)?;
    keeps_its_cluster("our CRD", &kubeconfig)?;
    // The storage of a CRD is still being set up for a moment after it is served.
    wait_until("a check is explained", LONG, || async {
        Ok(explained(server).map_err(|error| format!("{error:#}")))
    })
    .await?;

    server.remove_rules("kustomize/standalone", CRD).await?;
    wait_for("the CRD refuses nothing", &kubeconfig, &all, false).await?;
    let stored = flat("nodeStartupTimeout", json!("1s"));
    run(server, &["apply", "-f", "-"], &stored_check(&stored, &[]))?;
    apply_policies(&server.client).await?;
    wait_for("our policy refuses", &kubeconfig, &only_webhooks(), true).await?;
    agrees("our policy", &kubeconfig, &all, true)?;
    keeps_its_cluster("our policy", &kubeconfig)?;
    all_problems_at_once(server)?;
    stored_specs_are_not_judged_again(server, &stored)?;
    warnings(server)?;
    within_the_cost_budget(server)?;
    random::machine_health_checks(&server.client).await?;

    let controller = server.controller().await?;
    let result = evaluated(server).await;
    result.with_context(|| controller.log_tail())
}

fn stored_check(spec: &Value, finalizers: &[&str]) -> String {
    let mut check = document("stored", "v1beta1", spec);
    check["metadata"]["finalizers"] = json!(finalizers);
    check.to_string()
}

/// The output of a kubectl command that must succeed.
fn run(server: &AdmissionServer, args: &[&str], input: &str) -> Result<String> {
    let output = kubectl(&server.plane.kubeconfig(), args, input)?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{args:?}: {printed}");
    Ok(printed)
}

/// The output of a kubectl command that must be refused.
fn refused(server: &AdmissionServer, args: &[&str], input: &str) -> Result<String> {
    let output = kubectl(&server.plane.kubeconfig(), args, input)?;
    ensure!(!output.status.success(), "{args:?} is accepted");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn all_problems_at_once(server: &AdmissionServer) -> Result<()> {
    let spec = json!({
        "clusterName": "demo", "selector": {}, "maxUnhealthy": "x", "nodeStartupTimeout": "1s",
    });
    let document = document("wrong", "v1beta1", &spec).to_string();
    let message = refused(server, &["apply", "-f", "-"], &document)?;
    ensure!(
        message.starts_with("The machinehealthchecks \"wrong\" is invalid"),
        "{message}"
    );
    for part in [
        "spec.selector: must not be empty",
        "spec.maxUnhealthy: Invalid value: \"x\": must be a number without quotes, or a percentage",
        "spec.nodeStartupTimeout: Invalid value: \"1s\": must be 0, or 30s or more",
    ] {
        ensure!(message.matches(part).count() == 1, "{part:?}: {message}");
    }
    Ok(())
}

/// A check that was stored before the policy can be labelled, corrected and deleted.
fn stored_specs_are_not_judged_again(server: &AdmissionServer, stored: &Value) -> Result<()> {
    run(server, &["label", "mhc", "stored", "a=b"], "")?;
    let worse = stored_check(&flat("nodeStartupTimeout", json!("2s")), &[]);
    let message = refused(server, &["apply", "-f", "-"], &worse)?;
    ensure!(message.contains("spec.nodeStartupTimeout"), "{message}");
    let held = stored_check(stored, &["test.rackhand.dev/held"]);
    run(server, &["apply", "-f", "-"], &held)?;
    run(server, &["delete", "mhc", "stored", "--wait=false"], "")?;
    // An invalid spec can still change together with the removal of the last finalizer.
    let merge = r#"{"metadata":{"finalizers":null},"spec":{"nodeStartupTimeout":"3s"}}"#;
    let patch = ["patch", "mhc", "stored", "--type=merge", "-p", merge];
    run(server, &patch, "")?;
    let message = refused(server, &["get", "mhc", "stored"], "")?;
    ensure!(message.contains("not found"), "{message}");
    Ok(())
}

/// Specs that are accepted with a warning.
fn warnings(server: &AdmissionServer) -> Result<()> {
    let warned = |version: &str, spec: &Value| {
        let document = document("warned", version, spec).to_string();
        run(server, &["apply", "--dry-run=server", "-f", "-"], &document)
    };
    let limit = |trigger: Value| {
        let mut spec = json!({ "clusterName": "demo", "selector": selector() });
        spec["remediation"] = json!({ "triggerIf": trigger });
        spec
    };
    let quiet = warned("v1beta1", &flat("maxUnhealthy", json!("40%")))?;
    ensure!(!quiet.contains("Warning"), "{quiet}");
    for (version, spec, part) in [
        (
            "v1beta1",
            flat("unhealthyRange", json!("[5-3]")),
            "the range [5-3] ends before it begins",
        ),
        (
            "v1beta2",
            limit(json!({ "unhealthyInRange": "[5-3]" })),
            "the range [5-3] ends before it begins",
        ),
        ("v1beta1", flat("maxUnhealthy", json!(0)), "only observes"),
        (
            "v1beta2",
            limit(json!({ "unhealthyLessThanOrEqualTo": "-40%" })),
            "with a limit of -40% this check only observes",
        ),
        (
            "v1beta1",
            flat("nodeStartupTimeout", json!("0s")),
            "only a deleted Node",
        ),
        (
            "v1beta2",
            flat("checks", json!({ "nodeStartupTimeoutSeconds": 0 })),
            "only a deleted Node",
        ),
    ] {
        let printed = warned(version, &spec)?;
        ensure!(
            printed.matches("Warning: ").count() == 1 && printed.contains(part),
            "{part:?}: {printed}"
        );
    }
    Ok(())
}

/// A large check stays within the cost budget of the API server for a policy.
fn within_the_cost_budget(server: &AdmissionServer) -> Result<()> {
    let long = |index: usize| format!("{:a>50}/{index:b>60}", "");
    let labels: serde_json::Map<String, Value> =
        (0..100).map(|index| (long(index), json!("v"))).collect();
    let values: Vec<String> = (0..100).map(|index| format!("{index:v>60}")).collect();
    let expressions: Vec<Value> = (0..50)
        .map(|index| json!({ "key": long(index), "operator": "In", "values": values }))
        .collect();
    let conditions: Vec<Value> = (0..100)
        .map(|index| json!({ "type": format!("T{index}"), "status": "False", "timeout": "1h30m" }))
        .collect();
    let spec = json!({
        "clusterName": "demo",
        "selector": { "matchLabels": labels, "matchExpressions": expressions },
        "unhealthyConditions": conditions,
        "unhealthyMachineConditions": conditions,
    });
    let document = document("large", "v1beta1", &spec).to_string();
    run(
        server,
        &["create", "--dry-run=server", "-f", "-"],
        &document,
    )
    .map(drop)
}
