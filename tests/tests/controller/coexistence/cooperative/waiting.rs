//! Hosts whose power baremetal-operator or a person keeps unchanged.

use anyhow::{Context, Result, ensure};
use rackhand_tests::rack::PowerState;
use serde_json::json;

use super::world::{AGENT, IRONIC, OFF, ON, PAUSED, World};

pub async fn offline(w: &World) -> Result<()> {
    w.draining("offline-1").await?;
    w.patch("offline-1", json!({ "online": false })).await?;
    w.stage.wait_looks("offline-1", 4).await?;
    ensure!(w.stage.tainted("offline-1").await?, "until it is drained");
    w.stage.let_pod_go("offline-1").await?;
    let seen = w.stage.wait_blocked("offline-1", "HostOffline").await?;
    let seen = w
        .stage
        .wait_remediation("offline-1", "is finished", |now| {
            now.step == "Blocked" && now.object["metadata"]["finalizers"].is_null()
        })
        .await
        .with_context(|| seen.message.clone())?;
    ensure!(seen.phase == "Failed", "CAPM3's phase: {}", seen.phase);
    let left = w.stage.left_on("offline-1").await?;
    ensure!(left == ["power Off"], "{left:?}");
    w.synced(&w.well, "offline-1", 3).await?;
    let host = w.host("offline-1")?;
    ensure!(host.real_power() == PowerState::Off, "left off");
    w.patch("offline-1", json!({ "online": true })).await?;
    w.back_by("offline-1", &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await
}

pub async fn paused(w: &World) -> Result<()> {
    w.annotate("paused-1", PAUSED, Some("metal3.io/capm3"))
        .await?;
    let cleared = w.annotate("paused-1", PAUSED, None);
    w.blocked_until("paused-1", "HostPaused", cleared).await
}

pub async fn servicing(w: &World) -> Result<()> {
    w.well.servicing("serv-1", true)?;
    w.operational("serv-1", "servicing").await?;
    let cleared = async { w.well.servicing("serv-1", false) };
    w.blocked_until("serv-1", "HostServicing", cleared).await
}

pub async fn unprovisioned(w: &World) -> Result<()> {
    w.provisioning("new-1", "deprovisioning").await?;
    let cleared = w.provisioning("new-1", "externally provisioned");
    w.blocked_until("new-1", "HostNotProvisioned", cleared)
        .await
}

/// baremetal-operator would reboot the host repeatedly during a hold.
pub async fn unswitchable(w: &World) -> Result<()> {
    w.patch("keep-1", json!({ "disablePowerOff": true }))
        .await?;
    let cleared = w.patch("keep-1", json!({ "disablePowerOff": false }));
    w.blocked_until("keep-1", "UnsupportedHost", cleared).await
}
