//! etcd is restored from a backup while hosts have gone on.

use anyhow::{Context, Result, ensure};
use rackhand_tests::stage::{HostLink, LONG, RackSpec, Stage, StageConfig, wait_until};

const HOST: &str = "b-1";

#[tokio::test(flavor = "multi_thread")]
async fn f12_no_host_is_switched_on_the_word_of_a_restored_etcd() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("b", 1, HostLink::Inventory).in_pool("by-hand")];
    let config = StageConfig::steady(racks, &[]);
    let mut stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run(&mut stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &mut Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("first").await?;
    let host = stage.host(HOST)?;
    // Until the backup was made.
    host.stuck_powering_off(true);
    ensure!(host.hang(), "up");
    let uid = stage.remediate(HOST).await?;
    stage.wait_step(HOST, "PoweringOff").await?;
    let backup = stage.plane().back_up()?;
    let (_, at_backup) = stage.leader().await?;
    host.stuck_powering_off(false);

    stage.wait_step(HOST, "Succeeded").await?;
    stage.withdraw(HOST).await?;
    stage.wait_back(HOST).await?;
    stage.one_cycle(HOST)?;
    // Another term, which the backup does not have.
    ensure!(stage.stop_controller("first")?.success(), "ends well");
    stage.start_controller("second").await?;
    let term = wait_until("second leads", LONG, || async {
        let (holder, term) = stage.leader().await?;
        let leads = holder.starts_with("second") && term > at_backup;
        Ok(if leads { Ok(term) } else { Err(holder) })
    })
    .await?;
    stage.wait_connected("b", "Connected").await?;
    ensure!(stage.stop_controller("second")?.success(), "ends well");

    stage.restore(&backup).await?;
    let (_, restored) = stage.leader().await?;
    ensure!(restored == at_backup, "term {restored}, not {at_backup}");
    let seen = stage.remediation(HOST).await?.context("it is back")?;
    ensure!(seen.step == "PoweringOff", "{}", seen.step);
    ensure!(seen.object["metadata"]["uid"] == uid, "the same");
    stage.start_controller("third").await?;
    let seen = stage.wait_step(HOST, "Blocked").await?;
    ensure!(
        seen.reason == "StateOutdated",
        "{}: {}",
        seen.reason,
        seen.message
    );
    stage.wait_warning(HOST, "StateOutdated").await?;
    stage.one_cycle(HOST)?;
    ensure!(!stage.tainted(HOST).await?, "no taint");
    let (holder, raised) = stage.leader().await?;
    ensure!(holder.starts_with("third"), "{holder} leads");
    ensure!(raised > term, "term {raised}, and the agent knows {term}");
    stage.withdraw(HOST).await?;
    stage.wait_back(HOST).await?;

    // A failure after the restore is one like any other.
    ensure!(stage.host(HOST)?.hang(), "up");
    stage.remediate(HOST).await?;
    stage.wait_step(HOST, "Succeeded").await?;
    stage.withdraw(HOST).await?;
    stage.wait_back(HOST).await?;
    let counters = stage.host(HOST)?.counters();
    ensure!((counters.offs, counters.ons) == (2, 2), "{counters:?}");
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}
