//! Health checks and their remediations.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{Timestamp, Unit};
use kube::{ResourceExt, api::ListParams};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    stage::{CLUSTER, LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::{SECRET, World, says};

/// Objects from the documentation of CAPM3 and Cluster API.
pub const PRINTED: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: as-printed
  namespace: metal3
spec:
  # clusterName is required to associate this MachineHealthCheck with a particular cluster
  clusterName: demo
  # (Optional) maxUnhealthy prevents further remediation if the cluster is already partially unhealthy
  maxUnhealthy: 100%
  # (Optional) nodeStartupTimeout determines how long a MachineHealthCheck should wait for
  # a Node to join the cluster, before considering a Machine unhealthy.
  nodeStartupTimeout: 0m
  selector:
    matchLabels:
      nodepool: printed
  unhealthyConditions:
    - type: Ready
      status: Unknown
      timeout: 300s
    - type: Ready
      status: "False"
      timeout: 300s
  remediationTemplate:
    kind: Metal3RemediationTemplate
    apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
    name: as-printed
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3RemediationTemplate
metadata:
  name: as-printed
  namespace: metal3
spec:
  template:
    spec:
      strategy:
        type: "Reboot"
        retryLimit: 1
        timeout: 300s
"#;

pub async fn remediation(w: &World) -> Result<()> {
    let host = w.stage.host("good-1")?;
    host.never_boots(true);
    ensure!(host.hang(), "up");
    // CAPM3's phase is in the status, which is written after the step.
    let seen = w
        .stage
        .wait_remediation("good-1", "phase Waiting", |seen| {
            seen.step == "Booting" && seen.phase == "Waiting"
        })
        .await?;
    let machine = w.stage.machines().get("good-1").await?;
    let meta = &seen.object["metadata"];
    ensure!(
        meta["name"] == "good-1" && meta["namespace"] == NAMESPACE,
        "{meta}"
    );
    let owners = meta["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let uid = machine.uid().unwrap_or_default();
    let owned = owners.len() == 1
        && owners[0]["kind"] == "Machine"
        && owners[0]["name"] == "good-1"
        && owners[0]["uid"] == uid
        && owners[0]["apiVersion"]
            .as_str()
            .is_some_and(|v| v.starts_with("cluster.x-k8s.io/"));
    ensure!(owned, "{owners:?}");
    ensure!(
        meta["labels"]["cluster.x-k8s.io/cluster-name"] == CLUSTER,
        "{meta}"
    );
    let from = &meta["annotations"]["cluster.x-k8s.io/cloned-from-name"];
    ensure!(from == "worker-remediation-request", "{meta}");

    let columns = w.columns(&["m3r", "good-1"]).await?;
    let wanted = [
        "NAME",
        "RETRY LIMIT",
        "RETRY COUNT",
        "LAST REMEDIATED",
        "STRATEGY",
        "PHASE",
    ];
    ensure!(columns == wanted, "{columns:?}");
    let output = w
        .kubectl(&["get", "m3r", "good-1", "--no-headers"], "")
        .await?;
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        line.contains("Reboot") && line.contains("Waiting"),
        "{line}"
    );
    host.never_boots(false);
    w.back("good-1").await
}

pub async fn printed(w: &World) -> Result<()> {
    let output = w.kubectl(&["apply", "-f", "-"], PRINTED).await?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    ensure!(output.status.success(), "{out}{err}");
    ensure!(!err.contains("Warning: unknown field"), "{err}");
    let again = w.kubectl(&["apply", "-f", "-"], PRINTED).await?;
    let again = String::from_utf8_lossy(&again.stdout).into_owned();
    ensure!(
        again.matches("unchanged").count() == 2,
        "as it is stored: {again}"
    );
    let columns = w
        .columns(&["machinehealthchecks.v1beta1.cluster.x-k8s.io"])
        .await?;
    let wanted = [
        "NAME",
        "CLUSTER",
        "EXPECTEDMACHINES",
        "MAXUNHEALTHY",
        "CURRENTHEALTHY",
        "AGE",
    ];
    ensure!(columns == wanted, "{columns:?}");
    let columns = w.columns(&["mhc"]).await?;
    ensure!(
        columns == ["NAME", "CLUSTER", "REPLICAS", "HEALTHY", "AGE"],
        "{columns:?}"
    );
    w.condition(&w.stage.checks(), "as-printed", "RemediationAllowed", |c| {
        c["status"] == "True"
    })
    .await
}

pub async fn missing_template(w: &World) -> Result<()> {
    let name = "name: worker-remediation-request";
    let check = w
        .stage
        .health_check_of("lost", "lost", "100%")
        .replace(name, "name: lost");
    let (template, check) = check.split_once("---").context("two documents")?;
    apply_yaml(&w.stage.client, check).await?;
    ensure!(w.stage.host("lost-1")?.hang(), "up");
    let said = |c: &Value| says(c, "RemediationTemplateNotFound", &["lost"]);
    w.condition(&w.stage.machines(), "lost-1", "ExternallyRemediated", said)
        .await?;
    w.stage
        .wait_warning("lost-1", "RemediationTemplateNotFound")
        .await?;
    w.stage.untouched("lost-1")?;
    apply_yaml(&w.stage.client, template).await?;
    w.back("lost-1").await
}

pub async fn missing_cluster(w: &World) -> Result<()> {
    let check = w.stage.health_check_of("stray", "stray", "100%");
    let check = check.replace("clusterName: demo", "clusterName: atlantis");
    apply_yaml(&w.stage.client, &check).await?;
    let said = |c: &Value| says(c, "ClusterNotFound", &["atlantis"]);
    w.condition(&w.stage.checks(), "stray", "RemediationAllowed", said)
        .await?;
    w.stage.wait_warning("stray", "ClusterNotFound").await
}

pub async fn impossible_range(w: &World) -> Result<()> {
    let check = w.stage.health_check_of("backwards", "backwards", "100%");
    let check = check.replace("maxUnhealthy: 100%", "unhealthyRange: \"[5-3]\"");
    ensure!(check.contains("[5-3]"), "{check}");
    apply_yaml(&w.stage.client, &check).await?;
    let said = |c: &Value| says(c, "InvalidSpec", &["unhealthyRange", "[5-3]"]);
    w.condition(&w.stage.checks(), "backwards", "RemediationAllowed", said)
        .await?;
    w.stage.wait_warning("backwards", "InvalidSpec").await
}

/// A Node has a condition from the future: the check reports the clock skew until it is corrected.
pub async fn future_condition(w: &World) -> Result<()> {
    let now = Timestamp::now().round(Unit::Second)?;
    let since = now.checked_add(Duration::from_secs(7200))?;
    let check = w.stage.health_check_of("ahead", "ahead", "100%");
    let check = check.replace("type: Ready", "type: DiskHealthy");
    apply(&w.stage.client, disk("False", since)).await?;
    apply(&w.stage.client, machine("ahead-1", CLUSTER, "ahead")).await?;
    apply_yaml(&w.stage.client, &check).await?;
    let checks = w.stage.checks();
    let words = format!("ahead-1 (DiskHealthy=False on Node since {since})");
    let said = |c: &Value| {
        let message = c["message"].as_str().unwrap_or_default();
        c["status"] == "True" && c["reason"] == "ConditionInFuture" && message.contains(&words)
    };
    w.condition(&checks, "ahead", "ClockSkew", said).await?;
    w.stage.wait_warning("ahead", "ConditionInFuture").await?;
    let text = w
        .stage
        .explain(&["mhc", "ahead", "--namespace", NAMESPACE], "")
        .await?;
    ensure!(text.contains(&words), "{text}");

    ensure!(w.stage.host("good-4")?.hang(), "up");
    w.back("good-4").await?;
    let asked = w.stage.remediation("ahead-1").await?;
    ensure!(asked.is_none(), "the timeout has not begun: {asked:?}");
    for object in checks.list(&ListParams::default()).await? {
        let told = object.data["status"].to_string().contains("ClockSkew");
        let name = object.name_any();
        ensure!(
            told == (name == "ahead"),
            "{name}: {}",
            object.data["status"]
        );
    }

    apply(&w.stage.client, disk("True", now)).await?;
    wait_until("the condition is removed", LONG, || async {
        let status = checks.get("ahead").await?.data["status"].clone();
        let mended = status["currentHealthy"] == 1 && !status.to_string().contains("ClockSkew");
        Ok(if mended {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}

/// A Machine without a host, whose Node has its name.
fn machine(name: &str, cluster: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": { "cluster.x-k8s.io/cluster-name": cluster, "nodepool": pool },
        },
        "spec": {
            "clusterName": cluster,
            "bootstrap": { "dataSecretName": "none" },
            "infrastructureRef": {
                "apiVersion": "infrastructure.example/v1",
                "kind": "PlainMachine",
                "name": name,
            },
        },
        "status": { "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": name } },
    })
}

/// A Node with this status of a disk condition since this time.
fn disk(healthy: &str, since: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "ahead-1" },
        "status": { "conditions": [{
            "type": "DiskHealthy",
            "status": healthy,
            "reason": "Tested",
            "message": "",
            "lastTransitionTime": since.to_string(),
        }]},
    })
}

/// Machines of an unreachable cluster are not unhealthy, and their conditions report the cause.
pub async fn broken_kubeconfig(w: &World) -> Result<()> {
    let now = Timestamp::now().round(Unit::Second)?.to_string();
    let ready = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": "Ready", "message": "" });
    for object in [
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "second-kubeconfig", "namespace": NAMESPACE },
            "stringData": { "value": format!("users: [{{user: {{token: {SECRET}") },
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "metadata": { "name": "second", "namespace": NAMESPACE },
            "spec": {},
            "status": {
                "phase": "Provisioned",
                "infrastructureReady": true,
                "controlPlaneReady": true,
                "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")],
            },
        }),
        machine("second-1", "second", "second"),
    ] {
        apply(&w.stage.client, object).await?;
    }
    let check = w.stage.health_check_of("second", "second", "100%");
    let check = check.replace("clusterName: demo", "clusterName: second");
    apply_yaml(&w.stage.client, &check).await?;
    wait_until("the log names the Secret", LONG, || async {
        let log = w.stage.log_of("controller-0")?;
        let said = log
            .lines()
            .find(|line| line.contains("metal3/second") && line.contains("second-kubeconfig"));
        Ok(said.map(|_| ()).ok_or("nothing".to_owned()))
    })
    .await?;
    wait_until("the check counts the Machine", LONG, || async {
        let status = w.stage.checks().get("second").await?.data["status"].clone();
        Ok(if status["expectedMachines"] == 1 {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await?;
    // A remediation that is created anyway reports what it waits for.
    w.stage.remediate("second-1").await?;
    w.stage
        .wait_remediation("second-1", "reports a reason", |seen| {
            !seen.message.is_empty()
        })
        .await?;
    let logs = w.stage.log_of("controller-0")? + &w.stage.log_of("agent-good")?;
    ensure!(!logs.contains(SECRET), "the log quotes the kubeconfig");
    let told = format!("{:?}", w.stage.events("second-1").await?);
    let shown = format!("{:?} {told}", w.stage.remediation("second-1").await?);
    ensure!(!shown.contains(SECRET), "the kubeconfig is quoted: {shown}");
    w.stage.withdraw("second-1").await?;
    // Meanwhile the first cluster is processed.
    ensure!(w.stage.host("good-3")?.hang(), "up");
    w.back("good-3").await
}
