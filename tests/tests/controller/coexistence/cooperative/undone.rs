//! Actions that Ironic or an old baremetal-operator undoes.

use anyhow::{Result, ensure};
use rackhand_tests::{
    rack::PowerState,
    stage::{LONG, wait_until},
};

use super::world::{AGENT, HOLD, IRONIC, OFF, ON, World};

/// Ironic is not told that the host is to be off, so its power sync switches it on. This is the only case in
/// which the hold alone does not keep a host off.
pub async fn forced(w: &World) -> Result<()> {
    let host = w.host("late-1")?;
    w.late.stop_reconciling();
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
    w.stays_on(&w.late, "late-1").await
}

/// Releases before v0.14 delete the hold key during provisioning.
pub async fn deleted(w: &World) -> Result<()> {
    let host = w.host("old-1")?;
    host.never_boots(true);
    w.draining("old-1").await?;
    w.provisioning("old-1", "provisioning").await?;
    w.stage.wait_blocked("old-1", "HostNotProvisioned").await?;
    w.provisioning("old-1", "provisioned").await?;
    wait_until("the hold key is deleted and restored", LONG, || async {
        let holds = w.recorder.holds("old-1", HOLD);
        Ok(if holds.len() >= 3 {
            Ok(())
        } else {
            Err(format!("{holds:?}"))
        })
    })
    .await?;
    w.stage.wait_warning("old-1", "HoldLost").await?;
    wait_until("off is confirmed again", LONG, || async {
        let steps = w.recorder.steps("old-1");
        let confirmed = steps.iter().filter(|(_, step)| step == "Draining");
        Ok(match confirmed.count() {
            2.. => Ok(()),
            _ => Err(format!("{steps:?}")),
        })
    })
    .await?;
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

/// Without baremetal-operator Ironic has the host as off and would undo a power-on of the agent, which sends none. Our
/// key stays, because its webhook is away too. After its restart, baremetal-operator switches the host on.
pub async fn undone(w: &World) -> Result<()> {
    w.draining("away-1").await?;
    w.reports_off("away-1").await?;
    w.away.stop_operator();
    w.stage.let_pod_go("away-1").await?;
    let seen = w
        .stage
        .wait_blocked("away-1", "OwnerDoesNotSwitchOn")
        .await?;
    for part in ["start baremetal-operator", "failed calling webhook"] {
        ensure!(seen.message.contains(part), "{}", seen.message);
    }
    ensure!(w.is_held("away-1").await?, "our key stays");
    let host = w.host("away-1")?;
    ensure!(host.real_power() == PowerState::Off, "off");
    w.away.start_operator();
    w.back_by("away-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await?;
    w.stays_on(&w.away, "away-1").await
}
