//! The agent switches the power without baremetal-operator.

use std::time::Duration;

use anyhow::{Result, ensure};

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

pub async fn alone(w: &World) -> Result<()> {
    w.down.stop_operator();
    w.down.stop_ironic();
    w.hang("down-1")?;
    w.stage
        .wait_blocked("down-1", "OwnerDoesNotReportOff")
        .await?;
    let (came, _) = w.recorder.holds("down-1", HOLD)[0];
    let off = w.stage.commanded("down-1", OFF)?;
    let grace = off.saturating_duration_since(came);
    let least = GRACE - Duration::from_secs(1);
    ensure!(grace >= least, "the operator had only {grace:?}");
    ensure!(w.stage.tainted("down-1").await?, "the Node stays tainted");
    // It asks for off first, which Ironic only records.
    w.down.start_operator();
    w.down.start_ironic();
    w.back_by("down-1", &[(AGENT, OFF), (IRONIC, ON)]).await?;
    w.stays_on(&w.down, "down-1").await
}

/// Nobody will repair baremetal-operator: a person takes the power from it.
pub async fn overruled(w: &World) -> Result<()> {
    w.alone.stop_operator();
    w.alone.stop_ironic();
    w.hang("again-1")?;
    let seen = w
        .stage
        .wait_blocked("again-1", "OwnerDoesNotReportOff")
        .await?;
    ensure!(
        seen.message.contains("rackhand.dev/override-owner"),
        "{}",
        seen.message
    );
    let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
    let word = format!("rackhand.dev/override-owner={uid}");
    w.stage
        .kubectl(&["-n", NAMESPACE, "annotate", "m3r", "again-1", &word])
        .await?;
    w.back_by("again-1", &[(AGENT, OFF), (AGENT, ON)]).await
}
