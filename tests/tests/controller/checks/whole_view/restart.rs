//! A controller that starts beside a fleet on which everything is shown already.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use rackhand_tests::stage::{Stage, wait_until};

use super::{
    fleet::{CONTROLLER, PATIENCE, begin, is, judged, make_fleet},
    mode::Mode,
};

const FLEET: usize = 200;
/// How long after the start no write may come.
const QUIET: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn restart_writes_no_condition_that_says_the_same_already() {
    let dir = tempfile::tempdir().unwrap();
    let stage = begin(dir.path()).await.unwrap();
    if let Err(error) = restart(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn restart(stage: &Stage) -> Result<()> {
    make_fleet(stage, FLEET).await?;
    for mode in Mode::ALL {
        mode.make_check(stage, "40%").await?;
    }
    stage.start_controller(CONTROLLER).await?;
    for mode in Mode::ALL {
        judged(stage, mode, FLEET, FLEET).await?;
    }
    wait_until(
        "every Machine of Cluster API shows it",
        PATIENCE,
        || async {
            let machines = stage.machines().list(&ListParams::default()).await?;
            let shown = machines.iter();
            let shown = shown.filter(|machine| is(machine, "HealthCheckSucceeded", "True"));
            let shown = shown.count();
            Ok(match shown == 2 * FLEET {
                true => Ok(()),
                false => Err(format!("{shown} do")),
            })
        },
    )
    .await?;
    let first = of_machines(stage).await?;
    println!("    the first start wrote {first} Machines");
    ensure!(first >= 2 * FLEET, "{first} of {}", 2 * FLEET);
    tokio::time::sleep(QUIET).await;

    stage.kill_controller(CONTROLLER)?;
    stage.start_controller(CONTROLLER).await?;
    wait_until("all checks are evaluated again", PATIENCE, || async {
        let targets = counted(stage, "rackhand_check_targets{").await?;
        Ok(match targets == Mode::ALL.len() * FLEET {
            true => Ok(()),
            false => Err(format!("{targets} targets")),
        })
    })
    .await?;
    tokio::time::sleep(QUIET).await;
    let (of_checks, of_machines) = (of_checks(stage).await?, of_machines(stage).await?);
    println!("    the restart wrote {of_checks} statuses of checks");
    ensure!(of_machines == 0, "{of_machines} Machines were written");
    // A check that is evaluated before its Nodes are listed says so for a moment.
    let most = 2 * Mode::ALL.len();
    ensure!(
        of_checks <= most,
        "{of_checks} statuses of checks were written"
    );
    Ok(())
}

async fn of_checks(stage: &Stage) -> Result<usize> {
    counted(stage, "rackhand_writes_total{operation=\"check_status\"").await
}

async fn of_machines(stage: &Stage) -> Result<usize> {
    counted(stage, "rackhand_writes_total{operation=\"machine_status\"").await
}

/// The sum of the series of a metric that begin like this.
async fn counted(stage: &Stage, series: &str) -> Result<usize> {
    let (_, text) = stage.admin(CONTROLLER, "/metrics").await?;
    let of_series = text.lines().filter(|line| line.starts_with(series));
    of_series.map(value).sum()
}

fn value(line: &str) -> Result<usize> {
    let value = line.rsplit(' ').next().context("no value")?;
    value.parse().with_context(|| line.to_owned())
}
