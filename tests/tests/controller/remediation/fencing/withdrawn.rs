//! Remediations that are withdrawn, at each step (F9).

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use rackhand_proto::v1::OutcomeCode;
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::LONG,
};
use serde_json::json;

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
    // The pod keeps it off at least until the withdrawal.
    w.lose("del-2", true).await?;
    w.stage.remediate("del-2").await?;
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    w.stage.withdraw("del-2").await?;
    w.stage.let_pod_go("del-2").await?;
    w.stage.wait_back("del-2").await?;
    w.stage.one_cycle("del-2")
}

pub async fn withdrawn_draining(w: &World) -> Result<()> {
    let host = w.host("del-3")?;
    w.lose("del-3", true).await?;
    w.stage.remediate("del-3").await?;
    w.stage.wait_step("del-3", "Draining").await?;
    w.stage.withdraw("del-3").await?;
    // While the taint is set, only the drain ends the wait.
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

/// A person sets the host to be off while the agent still tries to switch it on. The remediation ends
/// only once the agent has ended that power-on, because somebody may work on the host then.
pub async fn offline_powering_on(w: &World) -> Result<()> {
    let host = w.host("del-6")?;
    w.lose("del-6", true).await?;
    w.stage.remediate("del-6").await?;
    w.stage.wait_step("del-6", "Draining").await?;
    host.ignore_commands();
    w.stage.let_pod_go("del-6").await?;
    host.wait_for(LONG, "was to be switched on", |view| {
        view.counters.commands.contains_key(&ResetType::On)
    })
    .await?;
    let offline = Patch::Merge(json!({ "spec": { "online": false } }));
    let hosts = w.stage.bare_metal_hosts();
    hosts
        .patch("del-6", &PatchParams::default(), &offline)
        .await?;
    w.stage
        .wait_remediation("del-6", "is finished", |now| {
            now.reason == "HostOffline" && now.object["metadata"]["finalizers"].is_null()
        })
        .await?;
    host.clear_faults();
    let operations = w.stage.operations("del").await?;
    let on = operations
        .into_iter()
        .find(|o| o.host.contains("del-6") && o.action == "on")
        .context("the agent began a power-on")?;
    let outcome = on.outcome.context("the power-on has ended")?;
    ensure!(outcome.code() == OutcomeCode::Cancelled, "{outcome:?}");
    ensure!(host.real_power() == PowerState::Off, "left off");
    let left = w.stage.left_on("del-6").await?;
    ensure!(left == ["power Off"], "{left:?}");
    Ok(())
}
