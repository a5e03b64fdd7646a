//! What the owner of the power does, or fails to do, while a host is held.

use anyhow::{Result, ensure};
use rackhand_tests::rack::PowerState;

use super::world::{AGENT, IRONIC, OFF, ON, PAUSED, World};

/// baremetal-operator services the host while it is held off: no command of the agent, no hold, and the taint
/// stays; after that the remediation goes on.
pub async fn serviced(w: &World) -> Result<()> {
    w.draining("serv-2").await?;
    w.reports_off("serv-2").await?;
    w.well.servicing("serv-2", true)?;
    w.stage.wait_blocked("serv-2", "HostServicing").await?;
    let host = w.host("serv-2")?;
    // The host boots a ramdisk.
    host.never_boots(true);
    host.switch(ON, IRONIC);
    let agent = || -> Result<usize> {
        let commands = w.commands("serv-2")?;
        Ok(commands.iter().filter(|(by, _)| by == AGENT).count())
    };
    let before = agent()?;
    w.synced(&w.well, "serv-2", 3).await?;
    ensure!(agent()? == before, "{:?}", w.commands("serv-2")?);
    ensure!(!w.is_held("serv-2").await?, "the hold is gone");
    ensure!(w.stage.tainted("serv-2").await?, "the Node stays tainted");
    w.well.servicing("serv-2", false)?;
    w.stage.wait_step("serv-2", "Draining").await?;
    host.never_boots(false);
    w.stage.let_pod_go("serv-2").await?;
    w.untainted("serv-2").await?;
    w.stage.wait_back("serv-2").await?;
    w.stays_on(&w.well, "serv-2").await
}

/// Somebody deprovisions the host while it is held off: no command of the agent, no hold, and the taint stays. Once
/// it is provisioned again, the remediation goes on.
pub async fn deprovisioned(w: &World) -> Result<()> {
    let host = "gone-1";
    w.draining(host).await?;
    w.reports_off(host).await?;
    let before = w.commands(host)?;
    w.provisioning(host, "deprovisioning").await?;
    w.stage.wait_blocked(host, "HostNotProvisioned").await?;
    w.synced(&w.well, host, 3).await?;
    ensure!(w.commands(host)? == before, "{:?}", w.commands(host)?);
    ensure!(!w.is_held(host).await?, "the hold is gone");
    ensure!(w.stage.tainted(host).await?, "the Node stays tainted");
    w.provisioning(host, "externally provisioned").await?;
    w.stage.let_pod_go(host).await?;
    w.untainted(host).await?;
    w.stage.wait_back(host).await?;
    w.stays_on(&w.well, host).await
}

/// Somebody pauses the host while it is held off: nobody switches it on before it is resumed.
pub async fn paused_midway(w: &World) -> Result<()> {
    let host = "paused-2";
    w.draining(host).await?;
    w.reports_off(host).await?;
    w.annotate(host, PAUSED, Some("somebody")).await?;
    w.stage.let_pod_go(host).await?;
    w.stage.wait_blocked(host, "OwnerDoesNotSwitchOn").await?;
    w.synced(&w.well, host, 3).await?;
    ensure!(w.host(host)?.real_power() == PowerState::Off, "off");
    w.annotate(host, PAUSED, None).await?;
    w.back_by(host, &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
        .await?;
    w.stays_on(&w.well, host).await
}

/// Ironic fails at every command, also when the host is drained: it stays off until Ironic works.
pub async fn failing(w: &World) -> Result<()> {
    let host = "ill-2";
    w.ill.refusing(host, true)?;
    w.draining(host).await?;
    w.stage.let_pod_go(host).await?;
    w.stage.wait_blocked(host, "OwnerDoesNotSwitchOn").await?;
    w.synced(&w.ill, host, 3).await?;
    ensure!(w.host(host)?.real_power() == PowerState::Off, "off");
    w.ill.refusing(host, false)?;
    w.back_by(host, &[(AGENT, OFF), (IRONIC, ON)]).await?;
    w.stays_on(&w.ill, host).await
}
