//! A remediation that is withdrawn, at each step.

use anyhow::{Result, ensure};
use rackhand_tests::{rack::PowerState, stage::LONG};

use super::world::World;

pub async fn withdrawn_powering_off(w: &World) -> Result<()> {
    let host = w.host("del-1")?;
    host.stuck_powering_off(true);
    host.hang();
    w.stage.remediate("del-1").await?;
    host.wait_for(LONG, "going off", |view| {
        view.power == PowerState::PoweringOff
    })
    .await?;
    w.stage.withdraw("del-1").await?;
    w.stage.wait_looks("del-1", 6).await?;
    w.stage.never_tainted(&w.recorder, "del-1").await?;
    host.stuck_powering_off(false);
    w.stage.wait_back("del-1").await?;
    w.stage.one_cycle("del-1")?;
    w.stage.never_tainted(&w.recorder, "del-1").await
}

pub async fn withdrawn_off(w: &World) -> Result<()> {
    let host = w.host("del-2")?;
    host.hang();
    w.stage.remediate("del-2").await?;
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    w.stage.withdraw("del-2").await?;
    w.stage.wait_back("del-2").await?;
    w.stage.one_cycle("del-2")
}

pub async fn withdrawn_draining(w: &World) -> Result<()> {
    let host = w.host("del-3")?;
    w.lose("del-3", true).await?;
    w.stage.remediate("del-3").await?;
    w.stage.wait_step("del-3", "Draining").await?;
    w.stage.withdraw("del-3").await?;
    // With the taint on, drained is the only way out.
    w.stage.wait_looks("del-3", 6).await?;
    ensure!(host.real_power() == PowerState::Off, "off until drained");
    w.stage.let_pod_go("del-3").await?;
    w.comes_back("del-3").await
}

pub async fn withdrawn_powering_on(w: &World) -> Result<()> {
    let host = w.host("del-4")?;
    host.set_timings(rackhand_tests::rack::PowerTimings {
        on_takes: std::time::Duration::from_secs(3),
        ..w.stage.config().timings
    });
    host.hang();
    w.stage.remediate("del-4").await?;
    host.wait_for(LONG, "going on", |view| {
        view.power == PowerState::PoweringOn
    })
    .await?;
    w.stage.withdraw("del-4").await?;
    w.comes_back("del-4").await
}

pub async fn withdrawn_booting(w: &World) -> Result<()> {
    let host = w.host("del-5")?;
    host.never_boots(true);
    host.hang();
    w.stage.remediate("del-5").await?;
    w.stage.wait_step("del-5", "Booting").await?;
    w.stage.withdraw("del-5").await?;
    host.never_boots(false);
    w.comes_back("del-5").await
}
