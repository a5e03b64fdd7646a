//! Cases in which the host must not be switched, or must be seen to be off by itself.

use anyhow::{Result, ensure};
use rackhand_tests::{
    real_host::{BmcKind, RealSite, RealSpec},
    stage::{LONG, wait_until},
};

use crate::scene::{play, watch_over};

async fn wrong_bmc(site: &RealSite) -> Result<()> {
    watch_over(site, 2).await?;
    let victim = site.last_report("db-0")?.host;

    site.host(&victim)?.hang()?;

    site.stage.wait_blocked(&victim, "IdentityMismatch").await?;
    for host in site.hosts() {
        site.never_switched(host.name())?;
        let taints = site.tainted_only_while_off(host.name()).await?;
        ensure!(taints == 0, "{} was tainted", host.name());
    }
    site.host(&victim)?.resume()?;
    site.wait_ready(&victim).await.map(drop)
}

/// The host stands still until its remediation begins, and then goes on.
async fn flap(site: &RealSite) -> Result<()> {
    watch_over(site, 1).await?;
    let host = site.host("real-1")?;

    host.hang()?;
    site.recorder.wait_created(host.name()).await?;
    host.resume().ok();

    wait_until("nothing is left", 4 * LONG, || async {
        let seen = site.stage.remediation(host.name()).await?;
        Ok(match seen {
            Some(seen) => Err(format!("{}, {}: {}", seen.step, seen.reason, seen.message)),
            None => Ok(()),
        })
    })
    .await?;
    site.wait_ready(host.name()).await?;
    ensure!(!site.stage.tainted(host.name()).await?, "the taint is left");
    site.never_switched(host.name())
        .or_else(|_| site.one_cycle(host.name()))?;
    site.wait_report("db-0", "it runs", |_| true)
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn host_with_the_bmc_of_another_is_not_switched() {
    play(RealSpec::new(2, BmcKind::IpmiSim).swapped(), wrong_bmc).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_recovers_as_its_remediation_begins_is_cycled_once_or_not_at_all() {
    play(RealSpec::new(1, BmcKind::IpmiSim), flap).await;
}
