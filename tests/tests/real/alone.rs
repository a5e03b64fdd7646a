//! One host, whose Pod waits for it.

use std::time::Duration;

use anyhow::{Result, ensure};
use rackhand_tests::{
    real_host::{BmcKind, RealHost, RealSite, RealSpec, Report},
    stage::{LONG, wait_until},
};

use crate::scene::{play, watch_over};

const HOST: &str = "real-1";
/// How long the firmware of a slow host takes.
const FIRMWARE: Duration = Duration::from_secs(40);

/// Fails the host, and checks that one power cycle brings it and its Pod back.
async fn brought_back(
    site: &RealSite,
    fail: impl AsyncFnOnce(&RealHost) -> Result<()>,
) -> Result<()> {
    watch_over(site, 1).await?;
    let boot = site.boot_id(HOST).await?;

    fail(site.host(HOST)?).await?;

    site.wait_back(HOST, &boot).await?;
    site.one_cycle(HOST)?;
    let taints = site.tainted_only_while_off(HOST).await?;
    ensure!(taints == 1, "tainted {taints} times");
    let again = |report: &Report| report.boot != boot;
    site.wait_report("db-0", "it runs again", again)
        .await
        .map(drop)
}

/// Makes the host boot without its BMC, and checks that nothing switches it.
async fn left_alone(site: &RealSite, fail: fn(&RealHost) -> Result<()>) -> Result<()> {
    watch_over(site, 1).await?;
    let boot = site.boot_id(HOST).await?;

    fail(site.host(HOST)?)?;

    let again = |report: &Report| report.boot != boot;
    site.wait_report("db-0", "it runs again", again).await?;
    site.wait_ready(HOST).await?;
    site.never_switched(HOST)?;
    ensure!(
        site.boot_id(HOST).await? != boot,
        "the Node has its old boot ID"
    );
    let asked = site.recorder.of("Metal3Remediation", HOST);
    ensure!(asked.is_empty(), "it was remediated: {asked:?}");
    Ok(())
}

fn one() -> RealSpec {
    RealSpec::new(1, BmcKind::IpmiSim)
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_panics_and_halts_is_brought_back() {
    play(one(), async |site| {
        brought_back(site, async |host| host.panic()).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_panics_and_reboots_is_left_alone() {
    play(one().patient(), async |site| {
        left_alone(site, |host| {
            host.shell("echo 1 >/proc/sys/kernel/panic; echo c >/proc/sysrq-trigger")
        })
        .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_a_person_reboots_is_left_alone() {
    play(one().patient(), async |site| {
        left_alone(site, |host| host.shell("reboot")).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_whose_container_runtime_hangs_is_brought_back() {
    play(one(), async |site| {
        brought_back(site, async |host| {
            host.shell("systemctl kill -s STOP containerd")
        })
        .await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_stands_still_while_it_boots_is_not_switched_again() {
    play(one(), async |site| {
        brought_back(site, async |host| {
            host.hang()?;
            let on = wait_until("the host is on again", 2 * LONG, || async {
                let changes = host.power_changes();
                let last = changes.get(2).map(|change| change.at);
                Ok(last.ok_or_else(|| format!("{changes:?}")))
            })
            .await?;
            host.hang()?;
            site.recorder.wait_passed(HOST, "Booting").await?;
            wait_until("its firmware has taken its time", LONG, || async {
                let elapsed = on.elapsed();
                Ok((elapsed > FIRMWARE)
                    .then_some(())
                    .ok_or_else(|| format!("{elapsed:?}")))
            })
            .await?;
            host.resume()
        })
        .await
    })
    .await;
}
