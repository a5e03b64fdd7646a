//! PowerPolicies on a real API server: approval, a budget, a freeze, and a policy that is wrong.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::ResetType,
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::World;

const FREEZE: &str = "example.com/payroll";

/// Selects by a label that only these scenarios set, so that they leave all other hosts alone.
const POLICIES: &str = r"
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: one-at-a-time
spec:
  selector:
    nodes:
      matchLabels: { policy-test: budget }
  budgets:
    - per: Policy
      maxConcurrent: 1
  requireApproval: true
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: payroll
spec:
  selector:
    nodes:
      matchLabels: { policy-test: freeze }
  freezeAnnotations: [example.com/payroll]
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: wrong
spec:
  selector:
    nodes:
      matchLabels: { policy-test: wrong }
  windows:
    - schedule: 0 25 * * *
      durationSeconds: 3600
";

/// Of three approved remediations one is under way at a time, and of two that wait the one goes first on whose
/// host a pod runs.
pub async fn approval_and_budget(w: &World) -> Result<()> {
    apply_yaml(&w.stage.client, POLICIES).await?;
    let hosts = ["pol-1", "pol-2", "pol-5"];
    w.stage.bind_pod("pol-5", false).await?;
    // This pod keeps the first remediation under way until the others are seen to wait for it.
    w.stage.bind_pod("pol-1", true).await?;
    for host in hosts {
        patch_node(w, host, json!({ "labels": { "policy-test": "budget" } })).await?;
    }
    for host in hosts {
        ensure!(w.stage.host(host)?.hang(), "{host} was not up");
        w.strategy(host, json!({})).await?;
    }
    for host in hosts {
        w.wait(host, "held", held("requires the approval")).await?;
    }
    wait_until("three are held", LONG, || async {
        let row = w
            .stage
            .kubectl(&["get", "powerpolicies", "--no-headers"])
            .await?;
        let row = row.lines().find(|line| line.starts_with("one-at-a-time"));
        let cells: Vec<&str> = row.unwrap_or_default().split_whitespace().take(4).collect();
        Ok(match cells.as_slice() {
            [_, "True", "0", "3"] => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    for host in hosts {
        w.stage.untouched(host)?;
        let approve = ["approve", host, "--namespace", NAMESPACE];
        let shown = w.stage.controller_command(&approve, "").await?;
        ensure!(shown.contains("is approved"), "{shown}");
        let again = format!(
            "{:#}",
            w.stage.controller_command(&approve, "").await.unwrap_err()
        );
        ensure!(again.contains("approved already"), "{again}");
        if host == "pol-1" {
            w.wait(host, "begun", |o| super::world::step(o) != "Pending")
                .await?;
        }
    }
    w.wait(
        "pol-2",
        "waits for the budget and for the other one",
        held("1 of at most 1 remediations of its hosts are under way, and 1 go"),
    )
    .await?;
    w.stage.let_pod_go("pol-1").await?;
    for host in ["pol-1", "pol-5", "pol-2"] {
        w.wait_step(host, "Succeeded").await?;
        w.wait_back(host).await?;
        w.stage.one_cycle(host)?;
        w.withdraw(host).await.ok();
        w.wait_gone(host).await?;
    }
    for [first, second] in [["pol-1", "pol-5"], ["pol-5", "pol-2"]] {
        let on = w.stage.commanded(first, ResetType::On)?;
        let off = w.stage.commanded(second, ResetType::ForceOff)?;
        ensure!(off > on, "{second} was switched off before {first} was on");
    }
    Ok(())
}

/// A frozen host is not switched until the annotation is removed; one that a wrong policy selects not
/// until the policy is corrected.
pub async fn freeze_and_mistake(w: &World) -> Result<()> {
    let frozen = json!({ "labels": { "policy-test": "freeze" }, "annotations": { FREEZE: "" } });
    patch_node(w, "pol-3", frozen).await?;
    patch_node(w, "pol-4", json!({ "labels": { "policy-test": "wrong" } })).await?;
    mistake_is_reported(w).await?;
    for host in ["pol-3", "pol-4"] {
        ensure!(w.stage.host(host)?.hang(), "{host} was not up");
        w.strategy(host, json!({})).await?;
    }
    w.wait("pol-3", "frozen", held(FREEZE)).await?;
    w.wait("pol-4", "held", held("spec.windows[0]")).await?;
    let approve = ["approve", "pol-4", "--namespace", NAMESPACE];
    w.stage.controller_command(&approve, "").await?;
    for host in ["pol-3", "pol-4"] {
        w.stage.untouched(host)?;
    }
    let corrected = json!({ "spec": { "windows": null } });
    w.stage
        .kubectl(&[
            "patch",
            "powerpolicy",
            "wrong",
            "--type=merge",
            "-p",
            &corrected.to_string(),
        ])
        .await?;
    patch_node(w, "pol-3", json!({ "annotations": { FREEZE: null } })).await?;
    for host in ["pol-3", "pol-4"] {
        w.wait_step(host, "Succeeded").await?;
        w.wait_back(host).await?;
        w.stage.one_cycle(host)?;
    }
    Ok(())
}

/// The status of a policy with a mistake names the mistake.
pub async fn mistake_is_reported(w: &World) -> Result<()> {
    apply_yaml(&w.stage.client, POLICIES).await?;
    wait_until("the mistake is reported", LONG, || async {
        let shown = w
            .stage
            .kubectl(&["get", "powerpolicy", "wrong", "-o", "yaml"])
            .await?;
        Ok(if shown.contains("InvalidPolicy") {
            Ok(())
        } else {
            Err(shown)
        })
    })
    .await
}

fn held(part: &str) -> impl Fn(&Value) -> bool + '_ {
    move |object| {
        let status = &object["status"];
        let message = status["message"].as_str().unwrap_or_default();
        status["reason"] == "HeldByPolicy" && message.contains(part)
    }
}

async fn patch_node(w: &World, name: &str, metadata: Value) -> Result<()> {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(w.stage.client.clone());
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let patched = nodes.patch(name, &PatchParams::default(), &patch).await;
    patched.map(drop).with_context(|| format!("node {name}"))
}
