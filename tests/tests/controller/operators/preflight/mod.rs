//! `preflight` on a system in order, and on one in which several things are broken.

mod holds;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rackhand_core::preflight::RIGHTS;
use rackhand_tests::{
    cluster::{Right, apply, shipped_rights},
    pki::CertSpec,
    stage::{
        CONTROLLER_ACCOUNT, HostLink, LONG, NAMESPACE, RackSpec, Stage, StageConfig, wait_until,
    },
};
use serde_json::{Value, json};

/// What may be granted in the management cluster.
const FOLDERS: [&str; 4] = ["base", "nodes", "node-health-checks", "openshift"];

#[test]
fn the_rights_that_are_checked_are_those_of_the_manifests() {
    let by_hand = [("rackhand-secrets", CONTROLLER_ACCOUNT)];
    let shipped = shipped_rights(&FOLDERS, &by_hand).unwrap();
    let mut checked = BTreeSet::new();
    for right in RIGHTS {
        let mut names: Vec<Option<&str>> = right.names.iter().copied().map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        for verb in right.verbs {
            checked.extend(names.iter().map(|name| Right {
                account: CONTROLLER_ACCOUNT.to_owned(),
                group: right.group.to_owned(),
                resource: right.resource.to_owned(),
                verb: (*verb).to_owned(),
                name: name.map(str::to_owned),
                namespace: right.namespace.map(str::to_owned),
            }));
        }
    }
    let names = |of: &BTreeSet<Right>, without: &BTreeSet<Right>| -> Vec<String> {
        of.difference(without).map(ToString::to_string).collect()
    };
    let (missing, surplus) = (names(&shipped, &checked), names(&checked, &shipped));
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "granted and not checked: {missing:#?}\nchecked and not granted: {surplus:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_in_order_passes_and_each_broken_part_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("a", 2, HostLink::Inventory),
        RackSpec::new("b", 2, HostLink::Detached),
    ];
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    let spec = CertSpec::peer("person", "spiffe://rackhand/controller");
    let tls = stage.issue(&spec)?;

    // Installed, and nothing runs yet.
    let (code, report) = run(stage, &tls)?;
    ensure!(code == Some(1), "{report:#?}");
    failed(&report, "leader", "rackhand-system", "no controller leads")?;
    failed(&report, "agents", "all", "there is no RackAgent")?;

    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    for rack in ["a", "b"] {
        stage.wait_connected(rack, "Connected").await?;
    }
    let in_order = [
        ("leader", "ok", "controller-0"),
        ("cluster", "ok", "Kubernetes 1."),
        ("node-leases", "ok", "4 Nodes"),
        ("watches", "ok", "kinds can be listed and watched"),
        ("rights", "ok", "are granted"),
        ("words-of-persons", "ok", "only accounts with the verbs"),
        ("health-checks", "ok", "Rackhand evaluates it"),
        ("agents", "ok", "answers; 2 hosts"),
        ("certificates", "warning", "expires in 29 days"),
        ("hosts", "ok", "4 nodes resolve to one host each"),
        ("bindings", "warning", "2 nodes are bound to no rack"),
        ("bmcs", "ok", "2 BMCs accept the credentials"),
        ("bmcs", "warning", "tls: the certificate is not verified"),
        ("clocks", "ok", "agrees with this machine"),
    ];
    // The controller evaluates the check and reads the BMCs in its own time.
    wait_until("a system in order passes", LONG, || async {
        let (code, report) = run(stage, &tls)?;
        let rows = rows(&report)?;
        let is_missing = |(check, status, message): &&(&str, &str, &str)| {
            !rows.iter().any(|row| {
                row["check"] == *check
                    && row["status"] == *status
                    && row["message"].as_str().is_some_and(|m| m.contains(message))
            })
        };
        Ok(match (code, in_order.iter().find(is_missing)) {
            (Some(0), None) => Ok(()),
            (code, missing) => Err(format!("{code:?}, {missing:?}: {report:#?}")),
        })
    })
    .await?;
    let table = stage.controller_command(&["preflight"], "").await?;
    ensure!(table.contains(" 0 failed, "), "{table}");

    break_it(stage).await?;
    let report = wait_until("each broken part is named", LONG, || async {
        let (code, report) = run(stage, &tls)?;
        ensure!(code == Some(1), "{report:#?}");
        Ok(broken_parts_are_named(&report)
            .map(|()| report)
            .map_err(|error| format!("{error:#}")))
    })
    .await?;
    // Everything that failed says what to do.
    for row in rows(&report)? {
        ensure!(
            row["status"] != "failed" || row["remedy"].is_string(),
            "{row}"
        );
    }
    Ok(())
}

fn broken_parts_are_named(report: &Value) -> Result<()> {
    failed(report, "agents", "a (", "the leader is not connected")?;
    failed(report, "agents", "a (", "cannot reach the agent")?;
    let rights = failed(
        report,
        "rights",
        CONTROLLER_ACCOUNT,
        "get of secrets in namespace metal3",
    )?;
    ensure!(
        rights.contains("create rolebinding rackhand-secrets"),
        "{rights}"
    );
    let evaluated = failed(
        report,
        "health-checks",
        "metal3/worker-healthcheck",
        "Rackhand and Cluster API's manager both evaluate it",
    )?;
    ensure!(
        evaluated.contains("cluster.x-k8s.io/paused="),
        "{evaluated}"
    );
    failed(
        report,
        "remediators",
        "metal3/worker-healthcheck",
        "CAPM3's manager",
    )?;
    failed(report, "bmcs", "b/metal3/b-1", "credentials")?;
    failed(report, "cluster", "metal3/demo", "cannot be reached")?;
    let words = "the binding is not installed";
    let policy = found(report, "warning", "words-of-persons", "remediations", words)?;
    ensure!(policy.contains("--words-of-persons=ignored"), "{policy}");
    Ok(())
}

/// An agent ends, a right is taken away, other projects' controllers come, a password is changed, and a
/// kubeconfig is broken.
async fn break_it(stage: &Stage) -> Result<()> {
    stage.kill_agent("a")?;
    stage
        .kubectl(&["delete", "rolebinding", "rackhand-secrets", "-n", NAMESPACE])
        .await?;
    for (name, provider) in [
        ("capi-controller-manager", "cluster-api"),
        ("capm3-controller-manager", "infrastructure-metal3"),
    ] {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "labels": { "cluster.x-k8s.io/provider": provider },
            },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "manager", "image": "manager.invalid/m:v1.13.6" }] },
                },
            },
        });
        apply(&stage.client, deployment).await?;
    }
    let host = stage.bare_metal_hosts().get("b-1").await?;
    let secret = host.data.pointer("/spec/bmc/credentialsName");
    let secret = secret.and_then(Value::as_str).context("no credentials")?;
    let patch = r#"{"stringData":{"password":"wrong"}}"#;
    stage
        .kubectl(&["patch", "secret", secret, "-n", NAMESPACE, "-p", patch])
        .await?;
    let binding = "validatingadmissionpolicybinding/remediations.rackhand.dev";
    stage.kubectl(&["delete", binding]).await?;
    let broken = r#"{"stringData":{"value":"broken"}}"#;
    stage
        .kubectl(&[
            "patch",
            "secret",
            "demo-kubeconfig",
            "-n",
            NAMESPACE,
            "-p",
            broken,
        ])
        .await?;
    Ok(())
}

/// The exit code and what is printed as JSON.
pub fn run(stage: &Stage, tls: &Path) -> Result<(Option<i32>, Value)> {
    let binary: PathBuf = stage.binary("rackhand-controller");
    let output = Command::new(binary)
        .args(["preflight", "-o", "json", "--agent-tls-dir"])
        .arg(tls)
        .arg("--kubeconfig")
        .arg(stage.plane().kubeconfig())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let report = serde_json::from_str(&text)
        .with_context(|| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok((output.status.code(), report))
}

pub fn rows(report: &Value) -> Result<&Vec<Value>> {
    report["rows"].as_array().context("no rows")
}

/// What to do about the failed row of this check whose target and message contain these.
fn failed(report: &Value, check: &str, target: &str, message: &str) -> Result<String> {
    found(report, "failed", check, target, message)
}

/// What to do about the row of this check with this status.
fn found(report: &Value, status: &str, check: &str, target: &str, message: &str) -> Result<String> {
    let contains = |value: &Value, part: &str| value.as_str().is_some_and(|v| v.contains(part));
    let row = rows(report)?.iter().find(|row| {
        row["check"] == check
            && row["status"] == status
            && contains(&row["target"], target)
            && contains(&row["message"], message)
    });
    let row = row.with_context(|| format!("{check} {target} {message}: {report:#?}"))?;
    let remedy = row["remedy"].as_str().unwrap_or_default();
    ensure!(!remedy.is_empty(), "{row}");
    Ok(remedy.to_owned())
}
