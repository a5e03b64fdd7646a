//! Hosts whose BMCs are dead, and that two PDUs feed: the second way to cut the power.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    pdu::PduPair,
    rack::PowerState,
    stage::{HostLink, LONG, RackSpec, Recorder, Stage, StageConfig, wait_until},
};

const HOSTS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn f1_host_with_a_dead_bmc_recovers_by_its_outlets_if_all_pdus_answer() {
    let dir = tempfile::tempdir().unwrap();
    let pdus = PduPair::start(HOSTS).await.unwrap();
    let racks = vec![RackSpec::new("fed", HOSTS, HostLink::Inventory)];
    let config = StageConfig {
        pdus: Some(pdus.clone()),
        ..StageConfig::steady(racks, &["--power-timeout=6s"])
    };
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = run(&stage, &recorder, &pdus).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage, recorder: &Recorder, pdus: &PduPair) -> Result<()> {
    for (outlet, name) in (1..).zip(["fed-1", "fed-2"]) {
        pdus.connect(outlet, stage.host(name)?, true);
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;

    let pod = lose(stage, "fed-1").await?;
    stage.wait_warning("fed-1", "OutletsOffRunning").await?;
    is_back(stage, recorder, "fed-1", pdus, 1).await?;
    ensure!(
        stage
            .bound_pod("fed-1")
            .await?
            .and_then(|pod| pod.metadata.uid)
            != Some(pod),
        "the pod was not moved"
    );

    // One PDU has failed as well: nothing is switched, and nothing is moved.
    pdus.set_dead(1, true);
    let pod = lose(stage, "fed-2").await?;
    let seen = stage.wait_step("fed-2", "AwaitingConfirmation").await?;
    ensure!(seen.reason == "FenceUnconfirmed", "{}", seen.reason);
    ensure!(seen.message.contains("a/2, b/2"), "{}", seen.message);
    ensure!(pdus.are_on(2) == [true, true], "an outlet was switched");
    let host = stage.host("fed-2")?;
    ensure!(host.real_power() == PowerState::On, "the host lost power");
    stage.never_tainted(recorder, "fed-2").await?;
    let bound = stage.bound_pod("fed-2").await?.context("the pod is gone")?;
    ensure!(bound.metadata.uid == Some(pod), "the pod was touched");
    pdus.set_dead(1, false);
    is_back(stage, recorder, "fed-2", pdus, 2).await
}

/// The BMC of a host dies, and the host hangs with a pod on it, whose UID is returned.
async fn lose(stage: &Stage, name: &str) -> Result<String> {
    let pod = stage.bind_pod(name, false).await?;
    let host = stage.host(name)?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    host.bmc_dead().await?;
    ensure!(host.hang(), "{name} was not up");
    Ok(pod.metadata.uid.unwrap_or_default())
}

/// Waits until a host has recovered, and checks: one power cycle, tainted only while off, both outlets on.
async fn is_back(
    stage: &Stage,
    recorder: &Recorder,
    name: &str,
    pdus: &PduPair,
    outlet: u32,
) -> Result<()> {
    wait_until(&format!("{name} has lost its taint"), LONG, || async {
        let taints = recorder.taints(name);
        let seen = stage.remediation(name).await?;
        let seen = seen.map(|s| (s.step, s.reason, s.message));
        Ok(if taints.len() == 2 {
            Ok(())
        } else {
            Err(format!("{taints:?} {seen:?}"))
        })
    })
    .await?;
    stage.wait_back(name).await?;
    stage.one_cycle(name)?;
    stage.tainted_only_while_off(recorder, name).await?;
    ensure!(
        pdus.are_on(outlet) == [true, true],
        "{name}: an outlet is off"
    );
    Ok(())
}
