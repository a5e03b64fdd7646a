//! Actions that Ironic or an old baremetal-operator undoes.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    rack::PowerState,
    stage::{LONG, wait_until},
};

use super::world::{AGENT, HOLD, IRONIC, ON, World};

/// Ironic is not told that the host is to be off, so its power sync switches it on. This is the only case in
/// which the hold alone does not keep a host off.
pub async fn forced(w: &World) -> Result<()> {
    let host = w.host("late-1")?;
    w.late.stop_operator();
    host.never_boots(true);
    w.stage.bind_pod("late-1", true).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    w.hang("late-1")?;
    wait_until("Ironic forces it on", LONG, || async {
        let sent = w.late.sent("late-1")?;
        Ok(if sent.forced_ons > 0 {
            Ok(())
        } else {
            Err(format!("{sent:?}"))
        })
    })
    .await?;
    // The host is switched off again at any step.
    let before = host.counters().offs;
    host.wait_for(LONG, "off again", |view| {
        view.counters.offs > before && view.power == PowerState::Off
    })
    .await?;
    w.late.start_operator();
    wait_until("Ironic's database has the host off", LONG, || async {
        let node = w.late.node("late-1")?;
        Ok(
            if node.power == Some(rackhand_tests::bmo::ironic::Power::Off) {
                Ok(())
            } else {
                Err(format!("{node:?}"))
            },
        )
    })
    .await?;
    let forced = w.late.sent("late-1")?.forced_ons;
    w.stage.wait_step("late-1", "Draining").await?;
    w.synced(&w.late, "late-1", 2).await?;
    let sent = w.late.sent("late-1")?;
    ensure!(
        sent.forced_ons == forced,
        "no forced power-on once Ironic has the host off: {sent:?}"
    );
    ensure!(host.real_power() == PowerState::Off, "off");
    host.never_boots(false);
    w.stage.let_pod_go("late-1").await?;
    w.untainted("late-1").await?;
    w.stage.wait_back("late-1").await?;
    let counters = host.counters();
    ensure!(
        counters.ons >= 1 && counters.offs >= counters.ons,
        "{counters:?}"
    );
    let on = w.commands("late-1")?;
    ensure!(
        on.last() == Some(&(IRONIC.to_owned(), ON)),
        "the operator switches on: {on:?}"
    );
    Ok(())
}

/// Releases before v0.14 delete the hold key during provisioning.
pub async fn deleted(w: &World) -> Result<()> {
    let host = w.host("old-1")?;
    host.never_boots(true);
    w.draining("old-1").await?;
    w.provisioning("old-1", "provisioning").await?;
    wait_until("the hold key is deleted and restored", LONG, || async {
        let holds = w.recorder.holds("old-1", HOLD);
        Ok(if holds.len() >= 3 {
            Ok(())
        } else {
            Err(format!("{holds:?}"))
        })
    })
    .await?;
    w.provisioning("old-1", "provisioned").await?;
    w.stage.wait_warning("old-1", "HoldLost").await?;
    w.stage.wait_step("old-1", "Draining").await?;
    let steps = w.recorder.steps("old-1");
    let confirmed = steps.iter().filter(|(_, step)| step == "ConfirmingOff");
    ensure!(confirmed.count() >= 2, "off confirmed again: {steps:?}");
    let bmh = w.stage.bare_metal_hosts().get("old-1").await?;
    let held = bmh.metadata.annotations.unwrap_or_default();
    ensure!(held.keys().any(|key| key.starts_with(HOLD)), "{held:?}");
    host.never_boots(false);
    w.stage.let_pod_go("old-1").await?;
    w.untainted("old-1").await?;
    w.stage.wait_back("old-1").await?;
    // An interrupted power-on is not counted.
    let counters = host.counters();
    ensure!(
        counters.ons >= 1 && counters.offs >= counters.ons,
        "{counters:?}"
    );
    Ok(())
}

/// Without baremetal-operator Ironic does not know that the host is to be on, and undoes the power-on of the
/// agent. After its restart, baremetal-operator switches the host on.
pub async fn undone(w: &World) -> Result<()> {
    w.draining("away-1").await?;
    w.away.stop_operator();
    w.stage.let_pod_go("away-1").await?;
    wait_until("Ironic forces it off", LONG, || async {
        let sent = w.away.sent("away-1")?;
        Ok(if sent.forced_offs > 0 {
            Ok(())
        } else {
            Err(format!("{sent:?}"))
        })
    })
    .await?;
    w.away.start_operator();
    w.untainted("away-1").await?;
    w.stage.wait_back("away-1").await?;
    let commands = w.commands("away-1")?;
    ensure!(
        commands.contains(&(IRONIC.to_owned(), ON)),
        "the operator switches on: {commands:?}"
    );
    let steps = w.recorder.steps("away-1");
    let again = steps.iter().any(|(_, step)| step == "Retrying");
    ensure!(!again, "an attempt was lost: {steps:?}");
    let counters = w.host("away-1")?.counters();
    ensure!(
        counters.ons >= 1 && counters.offs >= counters.ons,
        "{counters:?}"
    );
    w.stage.tainted_only_while_off(&w.recorder, "away-1").await
}

/// Without baremetal-operator and Ironic, the agent switches on the host that Ironic has forced off, in the
/// same attempt: the controller sees it off while it boots, or the power-on has not ended and sends its command
/// again.
pub async fn off_again(w: &World) -> Result<()> {
    let host = w.host("again-1")?;
    w.draining("again-1").await?;
    w.alone.stop_operator();
    host.never_boots(true);
    w.stage.let_pod_go("again-1").await?;
    wait_until("Ironic forces it off", LONG, || async {
        let sent = w.alone.sent("again-1")?;
        Ok(if sent.forced_offs > 0 {
            Ok(())
        } else {
            Err(format!("{sent:?}"))
        })
    })
    .await?;
    w.alone.stop_ironic();
    host.never_boots(false);
    w.untainted("again-1").await?;
    w.stage.wait_back("again-1").await?;
    let commands = w.commands("again-1")?;
    let last = commands.last().context("commands")?;
    ensure!(*last == (AGENT.to_owned(), ON), "{commands:?}");
    let steps = w.recorder.steps("again-1");
    let again = steps.iter().any(|(_, step)| step == "Retrying");
    ensure!(!again, "an attempt was lost: {steps:?}");
    w.stage.tainted_only_while_off(&w.recorder, "again-1").await
}
