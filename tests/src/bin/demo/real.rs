//! The demonstration with real hosts: a kernel stands still, and its host and Pod come back.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rackhand_tests::{
    real_host::{BmcKind, Prepared, RealSite, RealSpec},
    stage::{LONG, is_ready, ready},
};

use crate::screen::Screen;

const POLL: Duration = Duration::from_millis(100);

/// # Errors
/// Nothing is prepared, a part does not start, or a check fails.
pub(crate) async fn show(dir: &Path) -> Result<()> {
    let out = Screen::new();
    let prepared = Prepared::find()?.context("hack/demo --real prepares the hosts; start it so")?;
    out.title(&format!(
        "Rackhand: two hosts in QEMU with Debian's kernel, containerd and the kubelet, their power behind\nipmi_sim, one agent, one controller, a real Kubernetes control plane; everything in {}",
        dir.display()
    ));
    out.step(
        "starting the control plane, the BMCs, the agent and the hosts, which boot for a minute",
    );
    for number in 1..=2 {
        let console = dir.join(format!("real-{number}/console.log"));
        out.print(&format!(
            "  console of real-{number}: tail -F {}",
            console.display()
        ));
    }
    let site = RealSite::start(&prepared, dir, &RealSpec::new(2, BmcKind::IpmiSim)).await?;
    out.step("both Nodes are Ready; StatefulSet db runs 2 pods; applying the MachineHealthCheck");
    site.run_workload(2).await?;
    site.stage.delete_pods_at_once().await?;
    site.stage.apply_health_check().await?;
    let outcome = remediate(out, &site)
        .await
        .and_then(|()| site.nothing_ran_twice());
    if outcome.is_err() {
        out.title(&site.report());
    }
    outcome?;
    out.title("No line of a pod came from two hosts at once, and none from a host that was off.");
    Ok(())
}

/// Hangs the host of a Pod, and prints what is seen until it is back.
async fn remediate(out: Screen, site: &RealSite) -> Result<()> {
    let before = site.last_report("db-0")?;
    let victim = before.host.as_str();
    out.header();
    site.host(victim)?.hang()?;
    let begun = Instant::now();
    out.line(
        0.0,
        "demo",
        &format!("the kernel of {victim} stands still; it has power, and db-0 is on it"),
    );
    let mut printed = BTreeSet::new();
    loop {
        for (who, what) in facts(site, victim, &before.boot).await? {
            if printed.insert(what.clone()) {
                out.line(begun.elapsed().as_secs_f64(), who, &what);
            }
        }
        if is_back(site, victim, &before.boot).await? {
            let at = begun.elapsed().as_secs_f64();
            out.line(
                at,
                "Kubernetes",
                &format!("{victim} is Ready, with another boot ID"),
            );
            return site.one_cycle(victim);
        }
        if begun.elapsed() > 6 * LONG {
            bail!("{victim} is not back");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What is to be seen now, and who caused it.
async fn facts(site: &RealSite, victim: &str, boot: &str) -> Result<Vec<(&'static str, String)>> {
    let mut facts = Vec::new();
    let node = site.stage.node(victim).await?;
    if ready(&node) == "Unknown" {
        facts.push(("Kubernetes", format!("the Node {victim} is Unknown")));
    }
    for (_, step) in site.recorder.steps(victim) {
        facts.push(("Rackhand", step));
    }
    for change in site.host(victim)?.power_changes().iter().skip(1) {
        let power = if change.on { "on" } else { "off" };
        facts.push((
            "BMC",
            format!("{victim} is {power}, as the process of QEMU shows"),
        ));
    }
    if site.stage.tainted(victim).await? {
        facts.push(("Rackhand", format!("{victim} has the out-of-service taint")));
    }
    if let Some(report) = site
        .reports
        .last("db-0")
        .filter(|report| report.boot != boot)
    {
        facts.push((
            "host",
            format!("db-0 runs on {}, as it reports itself", report.host),
        ));
    }
    Ok(facts)
}

async fn is_back(site: &RealSite, victim: &str, boot: &str) -> Result<bool> {
    let node = site.stage.node(victim).await?;
    let open = site.stage.remediation(victim).await?.is_some();
    let again = site.boot_id(victim).await? != boot && is_ready(&node);
    Ok(again && !open && !site.stage.tainted(victim).await?)
}
