//! Failures in which the old workload may run on, or could again: a kernel that stands still, a dead kubelet, and
//! a network that is cut.

use anyhow::{Result, ensure};
use rackhand_tests::real_host::{BmcKind, RealHost, RealSite, RealSpec, Report};

use crate::scene::{play, watch_over};

/// Fails a host with a Pod of two, and checks that the Pod moves and the host comes back.
async fn brought_back(site: &RealSite, fail: fn(&RealHost) -> Result<()>) -> Result<()> {
    watch_over(site, 2).await?;
    let before = site.last_report("db-0")?;
    let victim = before.host.as_str();
    let boot = site.boot_id(victim).await?;
    ensure!(boot == before.boot, "the Node has another boot ID: {boot}");

    fail(site.host(victim)?)?;

    let elsewhere = |report: &Report| report.boot != boot;
    site.wait_report("db-0", "it runs elsewhere", elsewhere)
        .await?;
    site.wait_back(victim, &boot).await?;
    site.one_cycle(victim)?;
    let taints = site.tainted_only_while_off(victim).await?;
    ensure!(taints == 1, "{victim} was tainted {taints} times");
    for host in site.hosts().filter(|host| host.name() != victim) {
        site.never_switched(host.name())?;
    }
    Ok(())
}

async fn kernel(site: &RealSite) -> Result<()> {
    brought_back(site, RealHost::hang).await
}

async fn kubelet(site: &RealSite) -> Result<()> {
    // Its containers run on.
    brought_back(site, |host| host.shell("systemctl stop kubelet")).await
}

async fn network(site: &RealSite) -> Result<()> {
    brought_back(site, |host| host.plug_network(false)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_behind_ipmi_is_brought_back() {
    play(RealSpec::new(2, BmcKind::IpmiSim), kernel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_behind_redfish_is_brought_back() {
    play(RealSpec::new(2, BmcKind::Sushy), kernel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_without_kubelet_is_off_before_its_pod_moves() {
    play(RealSpec::new(2, BmcKind::IpmiSim), kubelet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_without_network_is_off_before_its_pod_moves() {
    play(RealSpec::new(2, BmcKind::Sushy), network).await;
}
