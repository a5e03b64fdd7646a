//! Order of hold, power-off, drain and power-on (F2, F3, F4).

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::{LONG, wait_until},
};

use super::world::{HOLD, REMEDIATE, World};

pub async fn switched_on(w: &World) -> Result<()> {
    let host = w.host("drain-1")?;
    w.lose("drain-1", true).await?;
    w.stage.wait_step("drain-1", "Draining").await?;
    // A person switches the host on, the BMC ignores commands, and the pod is gone.
    host.never_boots(true);
    host.ignore_commands();
    host.switch(ResetType::On, "somebody");
    host.wait_for(LONG, "on", |view| view.power == PowerState::On)
        .await?;
    w.stage.wait_warning("drain-1", "FenceViolated").await?;
    w.stage.let_pod_go("drain-1").await?;
    wait_until("the pod is gone", LONG, || async {
        let pod = w.stage.bound_pod("drain-1").await?;
        Ok(if pod.is_none() {
            Ok(())
        } else {
            Err("it still exists".to_owned())
        })
    })
    .await?;
    w.stage.wait_looks("drain-1", 6).await?;
    let seen = w
        .stage
        .remediation("drain-1")
        .await?
        .context("the remediation exists")?;
    let waits = ["PoweringOff", "AwaitingConfirmation"].contains(&seen.step.as_str());
    ensure!(waits, "a drain counted while the host was on: {seen:?}");
    ensure!(w.stage.tainted("drain-1").await?, "the taint stays");
    host.never_boots(false);
    host.clear_faults();
    w.stage.wait_back("drain-1").await?;
    let counters = host.counters();
    ensure!(
        (counters.offs, counters.ons) == (2, 2),
        "off again, then on: {counters:?}"
    );
    let steps: Vec<String> = w
        .recorder
        .steps("drain-1")
        .into_iter()
        .map(|s| s.1)
        .collect();
    let fenced = steps.iter().filter(|step| *step == "Draining").count();
    ensure!(
        fenced == 2,
        "confirmed again before the drain counted: {steps:?}"
    );
    Ok(())
}

pub async fn drained_first(w: &World) -> Result<()> {
    let host = w.host("drain-2")?;
    w.lose("drain-2", true).await?;
    let seen = w.stage.wait_step("drain-2", "Draining").await?;
    w.stage
        .wait_remediation("drain-2", "reports what it waits for", |seen| {
            seen.reason == "Draining" && seen.message.contains("default/on-drain-2")
        })
        .await?;
    w.stage.wait_looks("drain-2", 6).await?;
    ensure!(
        host.real_power() == PowerState::Off,
        "off until the pod is gone: {seen:?}"
    );
    let released = std::time::Instant::now();
    w.stage.let_pod_go("drain-2").await?;
    w.comes_back("drain-2").await?;
    ensure!(
        w.stage.commanded("drain-2", ResetType::On)? > released,
        "the power-on is sent only after that"
    );
    Ok(())
}

pub async fn recovered_agentless(w: &World) -> Result<()> {
    let machines = w.stage.machines();
    w.stage
        .annotate(&machines, "away-1", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_blocked("away-1", "AgentUnreachable").await?;
    w.stage
        .annotate(&machines, "away-1", REMEDIATE, None)
        .await?;
    w.stage.wait_back("away-1").await?;
    w.stage.start_agent("away")?;
    w.stage.untouched("away-1")
}

/// Without baremetal-operator the agent acts after the grace period.
pub async fn held_first(w: &World) -> Result<()> {
    w.lose("held-1", false).await?;
    w.comes_back("held-1").await?;
    let holds = w.recorder.holds("held-1", HOLD);
    ensure!(
        holds.len() == 2,
        "the hold was set and removed once: {holds:?}"
    );
    let [(came, _), (went, _)] = [holds[0], holds[1]];
    let (off, on) = (
        w.stage.commanded("held-1", ResetType::ForceOff)?,
        w.stage.commanded("held-1", ResetType::On)?,
    );
    ensure!(
        came < off,
        "the hold came {:?} after the power-off",
        came - off
    );
    // The recorder receives the hold after baremetal-operator could.
    let grace = off.saturating_duration_since(came);
    ensure!(
        grace.as_millis() >= 1000,
        "baremetal-operator had only {grace:?}"
    );
    ensure!(
        off < went && went < on,
        "the hold goes at the power-on, before our command"
    );
    let uid = w.recorder.of("Metal3Remediation", "held-1")[0]
        .uid()
        .to_owned();
    let key = format!("{HOLD}{uid}");
    let seen = w.recorder.of("BareMetalHost", "held-1");
    let value = seen.iter().find_map(|record| record.annotation(&key));
    ensure!(value == Some(r#"{"mode":"hard"}"#), "{key} is {value:?}");
    Ok(())
}
