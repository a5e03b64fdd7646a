//! etcd is restored from a backup of before outlets of hosts, or an enclosure, were switched off.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use rackhand_tests::{
    enclosure::Enclosure,
    pdu::PduPair,
    rack::{OsState, PowerState, ResetType},
    stage::{HostLink, LONG, RackSpec, Stage, StageConfig, wait_until},
};

/// Its remediation is in the backup.
const KNOWN: &str = "fed-1";
/// Its remediation began after the backup.
const FORGOTTEN: &str = "fed-2";

#[tokio::test(flavor = "multi_thread")]
async fn f9_outlets_that_a_restored_etcd_does_not_know_are_switched_on_again() {
    let dir = tempfile::tempdir().unwrap();
    let pdus = PduPair::start(2).await.unwrap();
    let racks = vec![RackSpec::new("fed", 2, HostLink::Inventory).in_pool("by-hand")];
    // The backup is made before the outlets are used.
    let config = StageConfig {
        pdus: Some(pdus.clone()),
        ..StageConfig::steady(racks, &["--power-timeout=25s"])
    };
    let mut stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run(&mut stage, &pdus).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &mut Stage, pdus: &PduPair) -> Result<()> {
    for (outlet, name) in (1..).zip([KNOWN, FORGOTTEN]) {
        pdus.connect(outlet, stage.host(name)?, true);
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("before").await?;
    for name in [KNOWN, FORGOTTEN] {
        // The pods keep the hosts off.
        stage.bind_pod(name, true).await?;
        let host = stage.host(name)?;
        host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        host.bmc_dead().await?;
        ensure!(host.hang(), "{name} was not up");
    }
    stage.remediate(KNOWN).await?;
    stage.wait_step(KNOWN, "PoweringOff").await?;
    ensure!(
        pdus.are_on(1) == [true, true],
        "the outlets were used already"
    );
    let backup = stage.plane().back_up()?;
    let forgotten = stage.remediate(FORGOTTEN).await?;
    for name in [KNOWN, FORGOTTEN] {
        stage.wait_step(name, "Draining").await?;
    }
    ensure!(pdus.are_on(1) == [false, false] && pdus.are_on(2) == [false, false]);

    ensure!(stage.stop_controller("before")?.success(), "ends well");
    stage.restore(&backup).await?;
    ensure!(stage.remediation(FORGOTTEN).await?.is_none(), "it is gone");
    // Somebody gives the host power again, so that nothing needs its outlets any more.
    pdus.switch_on(0, 1);
    stage.let_pod_go(KNOWN).await?;
    stage
        .host(KNOWN)?
        .wait_for(LONG, "back by one outlet", |view| {
            view.os == OsState::Running
        })
        .await?;
    stage.start_controller("after").await?;

    stage.wait_warning(KNOWN, "OutletsFound").await?;
    stage.wait_step(KNOWN, "Succeeded").await?;
    ensure!(pdus.are_on(1) == [true, true], "an outlet was left off");

    // No remediation knows of the other one; its hold at the agent is what is left.
    released(stage, "fed", FORGOTTEN).await?;
    ensure!(pdus.are_on(2) == [true, true], "an outlet was left off");
    let host = stage.host(FORGOTTEN)?;
    host.wait_for(LONG, "on", |view| view.power == PowerState::On)
        .await?;
    let told = wait_until("it is told of the agent", LONG, || async {
        let events: Api<Event> = Api::all(stage.client.clone());
        let events = events.list(&ListParams::default()).await?;
        let of_it = events.into_iter().filter(|event| {
            event
                .note
                .as_deref()
                .is_some_and(|note| note.contains(&forgotten))
        });
        let mut reasons: Vec<_> = of_it.filter_map(|event| event.reason).collect();
        reasons.sort();
        Ok(match reasons.len() {
            2.. => Ok(reasons),
            _ => Err(format!("{reasons:?}")),
        })
    })
    .await?;
    ensure!(told == ["HoldReleased", "OutletsOnRunning"], "{told:?}");
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f9_enclosure_that_a_restored_etcd_does_not_know_is_switched_on_again() {
    let dir = tempfile::tempdir().unwrap();
    let enclosure = Enclosure::start(2).await.unwrap();
    let racks = vec![RackSpec::new("sled", 2, HostLink::Inventory).in_pool("by-hand")];
    let config = StageConfig {
        enclosure: Some(enclosure.clone()),
        ..StageConfig::steady(racks, &["--power-timeout=6s"])
    };
    let mut stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run_sleds(&mut stage, &enclosure).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run_sleds(stage: &mut Stage, enclosure: &Enclosure) -> Result<()> {
    enclosure.connect(1, stage.host("sled-1")?, true);
    enclosure.connect(2, stage.host("sled-2")?, false);
    stage.apply_rack_agents().await?;
    stage.start_controller("before").await?;
    stage
        .host("sled-2")?
        .switch(ResetType::ForceOff, "its owner");
    // The pod keeps the host off.
    stage.bind_pod("sled-1", true).await?;
    let host = stage.host("sled-1")?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    host.bmc_dead().await?;
    ensure!(host.hang(), "sled-1 was not up");
    let backup = stage.plane().back_up()?;
    stage.remediate("sled-1").await?;
    stage.wait_step("sled-1", "Draining").await?;
    ensure!(!enclosure.is_on(), "the enclosure was not switched off");
    let held = stage.held_by("sled").await?;
    ensure!(
        held.values().all(|owner| !owner.is_empty()),
        "a sled without power is not held: {held:?}"
    );

    ensure!(stage.stop_controller("before")?.success(), "ends well");
    stage.restore(&backup).await?;
    ensure!(stage.remediation("sled-1").await?.is_none(), "it is gone");
    stage.start_controller("after").await?;
    for name in ["sled-1", "sled-2"] {
        released(stage, "sled", name).await?;
    }
    ensure!(enclosure.is_on(), "the enclosure was left off");
    ensure!(
        stage.host("sled-2")?.real_power() == PowerState::Off,
        "the other sled was switched on"
    );
    Ok(())
}

/// Waits until nobody holds a host at the agent of its rack.
async fn released(stage: &Stage, rack: &str, host: &str) -> Result<()> {
    wait_until("the hold is released", LONG, || async {
        let held = stage.held_by(rack).await?;
        let owner = held.get(host).context("the host")?.clone();
        Ok(match owner.is_empty() {
            true => Ok(()),
            false => Err(owner),
        })
    })
    .await
}
