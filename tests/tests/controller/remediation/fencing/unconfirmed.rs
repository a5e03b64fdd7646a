//! Unconfirmed power-offs (F1, F8).

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType, SimHost},
    stage::{LONG, NAMESPACE},
};

use super::world::{CONFIRM, World};

pub async fn stuck(w: &World) -> Result<()> {
    w.hang_another()?;
    let host = w.host("bmc-1")?;
    host.stuck_powering_off(true);
    let pod = w.lose("bmc-1", false).await?;
    w.stage.wait_blocked("bmc-1", "FenceUnconfirmed").await?;
    w.others_go_on().await?;
    w.stage.one_cycle("fine-1")?;
    w.workload_untouched("bmc-1", &pod).await?;
    ensure!(
        host.real_power() == PowerState::PoweringOff,
        "the simulated fault is active"
    );
    host.stuck_powering_off(false);
    w.comes_back("bmc-1").await
}

pub async fn silent(w: &World) -> Result<()> {
    w.host("bmc-2")?.silent();
    w.blocked_then_back("bmc-2", "FenceUnconfirmed", SimHost::clear_faults)
        .await
}

/// A rejected password is tried again only after a minute, to avoid a lockout of the account.
pub async fn refused(w: &World) -> Result<()> {
    let host = w.host("bmc-3")?;
    host.refuse_auth();
    let pod = w.lose("bmc-3", false).await?;
    w.stage.wait_blocked("bmc-3", "FenceUnconfirmed").await?;
    w.workload_untouched("bmc-3", &pod).await?;
    w.stage.untouched("bmc-3")?;
    host.clear_faults();
    w.comes_back("bmc-3").await
}

pub async fn ignoring(w: &World) -> Result<()> {
    w.host("bmc-5")?.ignore_commands();
    w.blocked_then_back("bmc-5", "FenceUnconfirmed", SimHost::clear_faults)
        .await
}

/// Like OpenBMC after its own reset with a hung host.
pub async fn lost_state(w: &World) -> Result<()> {
    let host = w.host("bmc-6")?;
    host.off_until_commanded();
    w.lose("bmc-6", false).await?;
    w.comes_back("bmc-6").await?;
    ensure!(host.counters().offs == 1, "switched off once");
    Ok(())
}

pub async fn agentless(w: &World) -> Result<()> {
    let pod = w.lose("gone-1", false).await?;
    w.stage.wait_blocked("gone-1", "AgentUnreachable").await?;
    w.others_go_on().await?;
    w.workload_untouched("gone-1", &pod).await?;
    w.stage.untouched("gone-1")?;
    w.stage.start_agent("gone")?;
    w.comes_back("gone-1").await
}

pub async fn persons_word(w: &World) -> Result<()> {
    let (host, objects) = (w.host("word-1")?, w.stage.remediations());
    host.bmc_dead().await?;
    let pod = w.lose("word-1", false).await?;
    w.stage.wait_blocked("word-1", "FenceUnconfirmed").await?;
    let wrong = "00000000-0000-4000-8000-000000000000";
    w.stage
        .annotate(&objects, "word-1", CONFIRM, Some(wrong))
        .await?;
    // The wrong annotation has no effect, and the tries continue.
    let seen = w.stage.wait_step("word-1", "AwaitingConfirmation").await?;
    let tries = seen.object["metadata"]["annotations"]["rackhand.dev/state"]
        .as_str()
        .and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok())
        .and_then(|state| state["state"]["tries"].as_u64());
    ensure!(tries >= Some(3), "tried {tries:?} times");
    w.workload_untouched("word-1", &pod).await?;

    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    let confirm = ["confirm-fenced", "word-1", "--namespace", NAMESPACE];
    let refused = w.stage.controller_command(&confirm, "word-2\n").await;
    let refused = format!("{:#}", refused.unwrap_err());
    ensure!(refused.contains("nothing was confirmed"), "{refused}");
    let shown = w.stage.controller_command(&confirm, "word-1\n").await?;
    ensure!(shown.contains("Every power cord is pulled"), "{shown}");
    let status = w.stage.controller_command(&["status"], "").await?;
    ensure!(status.contains("metal3/word-1"), "{status}");
    w.stage
        .wait_remediation("word-1", "drained", |seen| seen.step == "PoweringOn")
        .await?;
    ensure!(host.real_power() == PowerState::Off, "its BMC is dead");
    host.bmc_alive().await?;
    w.tainted_once("word-1").await?;
    w.stage.one_cycle("word-1")
}
