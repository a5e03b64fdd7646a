//! A freeze in the middle of an eviction.

use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::DeleteParams};
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{LONG, wait_until},
};
use serde_json::{Value, json};

use super::world::{MARK, SKIP, World};

const FREEZE: &str = "example.com/month-end";

const POLICY: &str = r"
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata: {name: month-end}
spec:
  selector:
    nodes:
      matchLabels: {kubernetes.io/hostname: freeze-1}
  freezeAnnotations: [example.com/month-end]
";

/// The maintenance waits again, without a mark, and begins anew once the freeze is over. Setting marks is no warning.
pub async fn in_the_middle(w: &World) -> Result<()> {
    let host = "freeze-1";
    let label = [
        "label",
        "node",
        host,
        "--overwrite",
        "kubernetes.io/hostname=freeze-1",
    ];
    w.stage.kubectl(&label).await?;
    apply_yaml(&w.stage.client, POLICY).await?;
    w.stage.run_pod(host).await?;
    let budgets = w.stage.forbid_eviction(host).await?;
    w.start(host, json!({ "machine": host })).await?;
    let message = |object: &Value| object["status"]["message"].to_string();
    let is_kept = |object: &Value| message(object).contains("keep-freeze-1");
    w.wait(host, "its budget is named", is_kept).await?;
    annotate(w, host, &format!("{FREEZE}=true")).await?;
    let waits = |object: &Value| object["status"]["reason"] == "RemediationWaits";
    let object = w.wait(host, "waits again", waits).await?;
    let status = &object["status"];
    ensure!(status["phase"] == "Pending", "{status}");
    ensure!(message(&object).contains("HeldByPolicy"), "{status}");
    wait_until("freeze-1: no mark and no cordon", LONG, || async {
        let machine = w.stage.machines().get(host).await?;
        let is_marked = [SKIP, MARK].map(|key| machine.annotations().contains_key(key));
        let lease = w.stage.work_lease(host).await?.is_some();
        let cordon = w.stage.is_cordoned(host).await?;
        Ok(match is_marked == [false; 2] && !lease && !cordon {
            true => Ok(()),
            false => Err(format!("{is_marked:?}, Lease: {lease}, cordon: {cordon}")),
        })
    })
    .await?;
    ensure!(w.stage.bound_pod(host).await?.is_some(), "its pod has left");
    annotate(w, host, &format!("{FREEZE}-")).await?;
    let object = w.wait_phase(host, "Evicting").await?;
    ensure!(object["status"]["begun"] == true, "{}", object["status"]);
    let made = w.remediation_of(host).await?.context("no remediation")?;
    for name in [host, &made.name_any()] {
        for event in w.stage.events(name).await? {
            let reason = event.reason.unwrap_or_default();
            ensure!(!reason.contains("WaitingForMarks"), "{name}: {reason}");
        }
    }
    budgets
        .delete("keep-freeze-1", &DeleteParams::default())
        .await?;
    w.wait_phase(host, "Parked").await?;
    w.end(host).await?;
    w.wait_gone(host).await?;
    w.wait_back(host).await?;
    w.stage.one_cycle(host)
}

async fn annotate(w: &World, node: &str, change: &str) -> Result<()> {
    let annotate = ["annotate", "node", node, "--overwrite", change];
    w.stage.kubectl(&annotate).await.map(drop)
}
