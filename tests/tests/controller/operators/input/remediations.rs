//! Remediations that are blocked or not needed.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    cluster::apply,
    stage::{CLUSTER, LONG, NAMESPACE, wait_until},
};
use serde_json::json;

use super::{
    checks::PRINTED,
    world::{REMEDIATE, World},
};

pub async fn recovered_early(w: &World) -> Result<()> {
    let (host, machines) = (w.stage.host("good-2")?, w.stage.machines());
    host.silent();
    w.stage
        .annotate(&machines, "good-2", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_step("good-2", "PoweringOff").await?;
    w.stage.wait_looks("good-2", 1).await?;
    w.stage
        .annotate(&machines, "good-2", REMEDIATE, None)
        .await?;
    w.stage.wait_back("good-2").await?;
    w.stage.untouched("good-2")?;
    w.stage.never_tainted(&w.recorder, "good-2").await?;
    host.clear_faults();
    wait_until("its hold is released", LONG, || async {
        let held = w.stage.held_by("good").await?;
        let is_free = held["good-2"].is_empty();
        Ok(is_free.then_some(()).ok_or_else(|| format!("{held:?}")))
    })
    .await
}

pub async fn unknown_strategy(w: &World) -> Result<()> {
    let odd = PRINTED
        .replace("as-printed", "odd")
        .replace("\"Reboot\"", "\"Replace\"");
    let (_, template) = odd.split_once("---").context("two documents")?;
    let output = w.kubectl(&["apply", "-f", "-"], template).await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "the object was accepted");
    let clear = ["spec.template.spec.strategy.type", "Replace", "Reboot"];
    ensure!(clear.iter().all(|word| said.contains(word)), "{said}");
    Ok(())
}

pub async fn no_host(w: &World) -> Result<()> {
    apply(
        &w.stage.client,
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": {
                "name": "nowhere",
                "namespace": NAMESPACE,
                "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
            },
            "spec": {
                "clusterName": CLUSTER,
                "bootstrap": { "dataSecretName": "none" },
                "infrastructureRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine",
                    "name": "nowhere",
                },
            },
        }),
    )
    .await?;
    w.stage.remediate("nowhere").await?;
    // While an agent is silent, the host may belong to it.
    let seen = w
        .stage
        .wait_remediation("nowhere", "said", |seen| {
            ["HostNotFound", "AgentUnreachable"].contains(&seen.reason.as_str())
        })
        .await?;
    ensure!(seen.message.contains("nowhere"), "{}", seen.message);
    w.stage.wait_warning("nowhere", &seen.reason).await?;
    w.stage.wait_blocked("nowhere", "HostNotFound").await?;
    w.stage.withdraw("nowhere").await?;
    wait_until("the withdrawn remediation is deleted", LONG, || async {
        let seen = w.stage.remediation("nowhere").await?;
        Ok(seen.map_or(Ok(()), |seen| Err(format!("{seen:?}"))))
    })
    .await
}
