//! Hosts whose BMCs are dead, and that two PDUs or an enclosure feed: the second way to cut the power.

mod restored;
mod unproven;

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    enclosure::Enclosure,
    pdu::PduPair,
    rack::{PowerState, ResetType},
    stage::{HostLink, LONG, RackSpec, Recorder, Stage, StageConfig, wait_until},
};

const HOSTS: usize = 2;

/// Runs a test with two hosts, `fed-1` and `fed-2`, that two PDUs feed, and a health check.
async fn with_pdus(test: impl AsyncFnOnce(&Stage, &Recorder, &PduPair) -> Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    let pdus = PduPair::start(HOSTS).await.unwrap();
    let racks = vec![RackSpec::new("fed", HOSTS, HostLink::Inventory)];
    let config = StageConfig {
        pdus: Some(pdus.clone()),
        ..StageConfig::steady(racks, &["--power-timeout=6s"])
    };
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    let outcome = async {
        for (outlet, name) in (1..).zip(["fed-1", "fed-2"]) {
            pdus.connect(outlet, stage.host(name)?, true);
        }
        stage.apply_rack_agents().await?;
        stage.start_controller("controller-0").await?;
        stage.apply_health_check().await?;
        test(&stage, &recorder, &pdus).await
    };
    if let Err(error) = outcome.await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_host_with_a_dead_bmc_recovers_by_its_outlets_if_all_pdus_answer() {
    with_pdus(run).await;
}

async fn run(stage: &Stage, recorder: &Recorder, pdus: &PduPair) -> Result<()> {
    let pod = lose(stage, "fed-1", false).await?;
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
    let pod = lose(stage, "fed-2", false).await?;
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

#[tokio::test(flavor = "multi_thread")]
async fn f8_sled_with_a_dead_bmc_recovers_once_the_other_sled_is_off() {
    let dir = tempfile::tempdir().unwrap();
    let enclosure = Enclosure::start(HOSTS).await.unwrap();
    let racks = vec![RackSpec::new("sled", HOSTS, HostLink::Inventory)];
    let config = StageConfig {
        enclosure: Some(enclosure.clone()),
        ..StageConfig::steady(racks, &["--power-timeout=6s"])
    };
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = run_sleds(&stage, &recorder, &enclosure).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run_sleds(stage: &Stage, recorder: &Recorder, enclosure: &Enclosure) -> Result<()> {
    enclosure.connect(1, stage.host("sled-1")?, true);
    enclosure.connect(2, stage.host("sled-2")?, false);
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;

    // The other sled runs: nothing is switched, and the reason names it and what can be done.
    let pod = lose(stage, "sled-1", false).await?;
    stage.remediate("sled-1").await?;
    let seen = wait_until("the other sled is named", LONG, || async {
        let seen = stage.remediation("sled-1").await?;
        let message = seen.map(|s| s.message).unwrap_or_default();
        Ok(match message.contains("also feed host sled-2 (on)") {
            true => Ok(message),
            false => Err(message),
        })
    })
    .await?;
    ensure!(seen.contains("--with-siblings sled-2"), "{seen}");
    let held = stage.held_by("sled").await?;
    ensure!(held["sled-2"].is_empty(), "{held:?}");
    stage.never_tainted(recorder, "sled-1").await?;
    let bound = stage
        .bound_pod("sled-1")
        .await?
        .context("the pod is gone")?;
    ensure!(bound.metadata.uid == Some(pod), "the pod was touched");
    let other = stage.host("sled-2")?;
    ensure!(
        enclosure.is_on() && enclosure.lost_power(2) == 0 && other.real_power() == PowerState::On
    );

    // Its owner switches it off.
    other.switch(ResetType::ForceOff, "its owner");
    wait_until("sled-1 has lost its taint", LONG, || async {
        let taints = recorder.taints("sled-1");
        let seen = stage.remediation("sled-1").await?;
        let seen = seen.map(|s| (s.step, s.reason, s.message));
        Ok(match taints.len() == 2 {
            true => Ok(()),
            false => Err(format!("{taints:?} {seen:?}")),
        })
    })
    .await?;
    // As its health check would, once the Node is Ready.
    stage.withdraw("sled-1").await?;
    stage.wait_back("sled-1").await?;
    stage.one_cycle("sled-1")?;
    stage.tainted_only_while_off(recorder, "sled-1").await?;
    ensure!(enclosure.is_on(), "the enclosure is off");
    ensure!(
        enclosure.lost_power(2) == 0,
        "the other sled lost its power"
    );
    ensure!(
        other.real_power() == PowerState::Off,
        "the other sled was switched on"
    );
    Ok(())
}

/// The BMC of a host dies, and the host hangs with a pod on it, whose UID is returned. `kept`: whether the pod stays
/// until the test lets it go.
async fn lose(stage: &Stage, name: &str, kept: bool) -> Result<String> {
    let pod = stage.bind_pod(name, kept).await?;
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
