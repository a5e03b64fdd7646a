//! The agent switches the power without baremetal-operator.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use rackhand_tests::stage::NAMESPACE;

use super::world::{AGENT, DETACHED, GRACE, HOLD, IRONIC, OFF, ON, World};

pub async fn detached(w: &World) -> Result<()> {
    w.annotate("det-1", DETACHED, Some("")).await?;
    w.operational("det-1", "detached").await?;
    w.hang("det-1")?;
    w.back_by("det-1", &[(AGENT, OFF), (AGENT, ON)]).await?;
    // After the host is attached again, Ironic adopts its power state.
    w.annotate("det-1", DETACHED, None).await?;
    w.operational("det-1", "OK").await?;
    w.synced(&w.well, "det-1", 2).await?;
    w.stage.one_cycle("det-1")
}

/// Removing the hold key does not switch on a host that is no longer in Ironic.
pub async fn let_go(w: &World) -> Result<()> {
    w.draining("det-2").await?;
    w.annotate("det-2", DETACHED, Some("")).await?;
    w.operational("det-2", "detached").await?;
    w.stage.let_pod_go("det-2").await?;
    w.back_by("det-2", &[(IRONIC, OFF), (AGENT, OFF), (AGENT, ON)])
        .await
}

/// F2: without its webhook no hold can be set, and nothing is begun.
pub async fn unheld(w: &World) -> Result<()> {
    w.down.stop_operator();
    w.hang("down-1")?;
    let seen = w.stage.wait_blocked("down-1", "ActionFailed").await?;
    for part in ["failed calling webhook", "start baremetal-operator"] {
        ensure!(seen.message.contains(part), "{}", seen.message);
    }
    w.stage.untouched("down-1")?;
    w.down.start_operator();
    w.back_by("down-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await?;
    w.stays_on(&w.down, "down-1").await
}

pub async fn alone(w: &World) -> Result<()> {
    w.held_and_left(&w.held, "held-1").await?;
    let (came, _) = w.recorder.holds("held-1", HOLD)[0];
    let off = w.stage.commanded("held-1", OFF)?;
    let grace = off.saturating_duration_since(came);
    let least = GRACE - Duration::from_secs(1);
    ensure!(grace >= least, "the operator had only {grace:?}");
    ensure!(w.stage.tainted("held-1").await?, "the Node stays tainted");
    // It asks for off first, which Ironic only records.
    w.held.start_operator();
    w.held.start_ironic();
    w.back_by("held-1", &[(AGENT, OFF), (IRONIC, ON)]).await?;
    w.stays_on(&w.held, "held-1").await
}

/// Nobody will repair baremetal-operator: a person takes the power from it. Its webhook refuses that our key goes.
pub async fn overruled(w: &World) -> Result<()> {
    let host = "again-1";
    let seen = w.held_and_left(&w.alone, host).await?;
    for part in ["failed calling webhook", "rackhand.dev/override-owner"] {
        ensure!(seen.message.contains(part), "{}", seen.message);
    }
    let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
    let word = format!("rackhand.dev/override-owner={uid}");
    w.stage
        .kubectl(&["-n", NAMESPACE, "annotate", "m3r", host, &word])
        .await?;
    w.untainted(host).await?;
    let seen = w.stage.wait_blocked(host, "ActionFailed").await?;
    let way_out = "ValidatingWebhookConfiguration";
    ensure!(seen.message.contains(way_out), "{}", seen.message);
    ensure!(w.is_held(host).await?, "our key stays");
    w.alone.webhook().context("a webhook")?.unregister().await?;
    w.back_by(host, &[(AGENT, OFF), (AGENT, ON)]).await?;
    ensure!(!w.is_held(host).await?, "our key is gone");
    Ok(())
}
