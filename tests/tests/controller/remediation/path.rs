//! The main path on a real control plane: a hung node is fenced, its pod moves, and the node recovers.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rackhand_tests::{
    rack::{LogEvent, PowerState, ResetType},
    stage::{HostLink, RackSpec, Recorder, Stage, StageConfig, wait_until},
};

const LONG: Duration = Duration::from_secs(120);

fn running_elsewhere(pods: &[Pod], name: &str, not_on: &str) -> Option<String> {
    let pod = pods.iter().find(|p| p.name_any() == name)?;
    let node = pod.spec.as_ref()?.node_name.clone()?;
    let phase = pod.status.as_ref()?.phase.clone()?;
    (node != not_on && phase == "Running" && pod.metadata.deletion_timestamp.is_none())
        .then_some(node)
}

/// Waits until all replicas run and returns a pod and its node.
async fn settled(stage: &Stage, replicas: usize) -> Result<(String, String)> {
    wait_until("the workload runs", LONG, || async {
        let pods = stage.pods().await?;
        let running: Vec<&Pod> = pods
            .iter()
            .filter(|p| p.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running"))
            .collect();
        if running.len() < replicas {
            return Ok(Err(format!("{} of {replicas} run", running.len())));
        }
        let pod = running[0];
        let node = pod
            .spec
            .as_ref()
            .and_then(|s| s.node_name.clone())
            .unwrap_or_default();
        Ok(Ok((pod.name_any(), node)))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_node_is_fenced_its_pod_moves_and_node_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("rack-a", 2, HostLink::Inventory),
        RackSpec::new("rack-b", 2, HostLink::Detached),
    ];
    let config = StageConfig::steady(racks, &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.delete_pods_at_once().await?;
    let recorder = Recorder::start(&stage.client);
    stage.start_controller("controller-0").await?;
    stage.apply_workload(4).await?;
    let (pod, victim) = settled(stage, 4).await?;
    stage.apply_health_check().await?;

    stage.host(&victim)?.hang();

    wait_until("the pod runs elsewhere", LONG, || async {
        let pods = stage.pods().await?;
        let seen = stage.remediation(&victim).await?;
        Ok(running_elsewhere(&pods, &pod, &victim).ok_or(format!("{seen:?}")))
    })
    .await?;
    wait_until(
        "the node is back and everything is cleaned up",
        LONG,
        || async {
            let node = stage.node(&victim).await?;
            let gone = stage.remediation(&victim).await?;
            let taints = node.spec.and_then(|s| s.taints).unwrap_or_default();
            Ok(if gone.is_none() && taints.is_empty() {
                Ok(())
            } else {
                Err(format!("{taints:?} {gone:?}"))
            })
        },
    )
    .await?;

    deleted_at_once(stage, &recorder, &victim, &pod).await?;
    let host = stage.host(&victim)?;
    let counters = host.counters();
    anyhow::ensure!(
        counters.offs == 1 && counters.ons == 1,
        "one cycle: {counters:?}"
    );
    anyhow::ensure!(counters.received(ResetType::ForceOff) == 1, "{counters:?}");
    for rack in stage.racks() {
        anyhow::ensure!(rack.overlaps().is_empty(), "{:?}", rack.overlaps());
        for (name, other) in rack.hosts() {
            anyhow::ensure!(
                name == &victim || other.counters().offs == 0,
                "{name} was switched"
            );
        }
    }
    let all: Vec<_> = stage.racks().iter().flat_map(|r| r.processes()).collect();
    let twice = rackhand_tests::rack::overlaps(all);
    anyhow::ensure!(twice.is_empty(), "ran twice: {twice:?}");
    let off = host
        .log()
        .iter()
        .find(|e| matches!(e.event, LogEvent::Power(PowerState::Off)))
        .map(|e| e.stamp.wall);
    anyhow::ensure!(off.is_some(), "never off");

    let status = stage.stop_controller("controller-0")?;
    anyhow::ensure!(
        status.success(),
        "the controller exits successfully after SIGTERM: {status}"
    );
    Ok(())
}

/// Checks that Rackhand deleted the pod while the host was off, and prints how long the pod was away.
async fn deleted_at_once(
    stage: &Stage,
    recorder: &Recorder,
    victim: &str,
    pod: &str,
) -> Result<()> {
    stage.tainted_only_while_off(recorder, victim).await?;
    let events = stage.events(victim).await?;
    let told = events
        .iter()
        .find(|e| e.reason.as_deref() == Some("PodsDeleted"));
    let note = told.and_then(|e| e.note.clone()).unwrap_or_default();
    anyhow::ensure!(note.contains(&format!("default/{pod}")), "{note:?}");

    let tainted = recorder.taints(victim).into_iter().find(|(_, on)| *on);
    let tainted = tainted.context("the node was never tainted")?.0;
    let processes = stage.racks().iter().flat_map(|r| r.processes());
    let started = processes
        .filter(|p| p.process.pod.name == *pod && p.host != *victim)
        .map(|p| p.process.started_at.at)
        .find(|at| *at > tainted);
    let took = started
        .context("the pod was not started")?
        .duration_since(tainted);
    println!("from the taint to {pod} starting elsewhere: {took:.2?}");
    Ok(())
}
