//! Many remediations at once: all are carried out, and none waits for a dead BMC.
//!
//! `RACKHAND_CROWD` sets the number of hosts; `hack/bench remediation` measures 1,000 hosts with release
//! builds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use anyhow::{Result, ensure};
use rackhand_tests::stage::{Crowd, Stage, StageConfig};

/// Number of hosts without `RACKHAND_CROWD`.
const HOSTS: usize = 200;
/// One in this many hosts has a dead BMC.
const DEAD: usize = 20;
const RACKS: usize = 5;
/// Limit of the peak memory of the controller in KiB, with the code of a build that is not optimised for size.
const MEMORY_KIB: u64 = 128 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn thousand_hosts_recover_in_parallel_despite_dead_bmcs() {
    let hosts = std::env::var("RACKHAND_CROWD").map_or(HOSTS, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--power-timeout=30s"];
    let config = StageConfig::crowd(hosts, RACKS, &arguments);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = all(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn all(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    let crowd = Crowd::start(stage, "controller").await?;
    stage.start_controller("controller").await?;
    let round = crowd.fail(DEAD).await?;
    println!("    {round}");
    // The hosts with working BMCs have recovered while the other BMCs are still dead.
    crowd.untouched(&round.dead)?;
    ensure!(round.live.len() + round.dead.len() == crowd.len(), "all");
    ensure!(!round.dead.is_empty(), "some are dead");
    crowd.recover().await?;
    crowd.cycled(1).await?;
    let peak = stage.usage_of_controller("controller")?.peak_kib;
    println!("    controller at its peak: {} MiB", peak / 1024);
    ensure!(peak < MEMORY_KIB, "the controller took {peak} KiB");
    Ok(())
}
