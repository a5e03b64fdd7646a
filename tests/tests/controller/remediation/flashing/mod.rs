//! Hosts whose firmware is being written when they have to be switched off.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::ResetType,
    stage::{HostLink, LONG, NAMESPACE, RackSpec, Stage, StageConfig, wait_until},
};

#[tokio::test(flavor = "multi_thread")]
async fn no_host_is_cut_while_its_firmware_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("w", 2, HostLink::Inventory).reporting_updates();
    let config = StageConfig::steady(vec![rack], &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    update_that_ends(stage).await?;
    update_that_hangs(stage).await
}

/// The remediation waits for the end of the update, and goes on by itself.
async fn update_that_ends(stage: &Stage) -> Result<()> {
    let host = stage.host("w-1")?;
    host.flash(None);
    ensure!(host.hang(), "up");
    let seen = stage.wait_blocked("w-1", "FirmwareUpdateRunning").await?;
    ensure!(seen.message.contains("task 1"), "{}", seen.message);
    ensure!(seen.message.contains("40 %"), "{}", seen.message);
    stage.untouched("w-1")?;
    host.end_flash();
    cycled(stage, "w-1").await?;
    stage.one_cycle("w-1")?;
    unharmed(stage, "w-1")
}

/// One that hangs is cut only once a person says so.
async fn update_that_hangs(stage: &Stage) -> Result<()> {
    let host = stage.host("w-2")?;
    host.flash(None);
    ensure!(host.hang(), "up");
    stage.wait_blocked("w-2", "FirmwareUpdateRunning").await?;
    stage.wait_looks("w-2", 0).await?;
    stage.untouched("w-2")?;
    let approve = ["approve", "w-2", "--namespace", NAMESPACE];
    stage.controller_command(&approve, "").await?;
    wait_until("the approval reaches the agent", LONG, || async {
        let counters = stage.host("w-2")?.counters();
        Ok(match counters.received(ResetType::ForceOff) {
            0 => Err(format!("{counters:?}")),
            _ => Ok(()),
        })
    })
    .await
}

async fn cycled(stage: &Stage, name: &str) -> Result<()> {
    wait_until("the host is cycled", LONG, || async {
        let counters = stage.host(name)?.counters();
        Ok(match counters.ons {
            1.. => Ok(()),
            0 => Err(format!("{counters:?}")),
        })
    })
    .await?;
    stage.wait_back(name).await
}

fn unharmed(stage: &Stage, name: &str) -> Result<()> {
    let counters = stage.host(name)?.counters();
    ensure!(counters.bricked == 0, "{name}: {counters:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn update_that_begins_after_the_power_off_was_taken_is_waited_for_with_the_hold_kept() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("w", 1, HostLink::Inventory).reporting_updates();
    let config = StageConfig::steady(vec![rack], &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = later(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn later(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    let host = stage.host("w-1")?;
    // The BMC takes the power-off, the host stays on, and an update begins.
    host.stuck_powering_off(true);
    host.flash_at_power_off(None);
    ensure!(host.hang(), "up");
    let seen = stage.wait_blocked("w-1", "UpdateDuringPowerOff").await?;
    ensure!(seen.message.contains("task 1"), "{}", seen.message);
    stage.wait_looks("w-1", 6).await?;
    let sent = host.counters().received(ResetType::ForceOff);
    ensure!(sent == 1, "{sent} power-offs");
    unharmed(stage, "w-1")?;
    host.end_flash();
    host.stuck_powering_off(false);
    cycled(stage, "w-1").await?;
    unharmed(stage, "w-1")
}
