//! Hosts of one cluster that fail at once share the lists on which their remediations decide.

use anyhow::{Result, ensure};
use rackhand_tests::stage::{Crowd, Stage, StageConfig};

const HOSTS: usize = 40;
const RACKS: usize = 4;
/// Reads of a Node, and as many of its Lease, that each remediation needs at least: taken, held, confirmed off, tainted,
/// untainted, ended.
const NEEDED: u64 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn f12_evidence_of_many_hosts_comes_from_shared_lists() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::crowd(HOSTS, RACKS, &["--power-timeout=30s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = shared(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn shared(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    let crowd = Crowd::start(stage, "controller").await?;
    stage.start_controller("controller").await?;
    let round = crowd.fail(0).await?;
    println!("    {round}");
    println!("    {:?}", round.calls.by_kind);
    // Each host was switched off once, under its taint, and is back.
    crowd.recover().await?;
    crowd.cycled(1).await?;
    let calls = |kind: &str| round.calls.by_kind.get(kind).copied().unwrap_or(0);
    let hosts = u64::try_from(HOSTS)?;
    let reads = |kind: &str| calls(&format!("GET {kind}")) + calls(&format!("LIST {kind}"));
    // Without shared lists there is at least one GET for each.
    for kind in ["nodes", "leases"] {
        let most = hosts * NEEDED / 2;
        let reads = reads(kind);
        ensure!(
            reads < most,
            "{reads} reads of {kind}, and at most {most} wanted"
        );
        ensure!(calls(&format!("LIST {kind}")) > 0, "no list of {kind}");
    }
    Ok(())
}
