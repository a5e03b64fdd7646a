//! Limits that the fleet exceeds (F13).

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use kube::api::DeleteParams;
use rackhand_tests::stage::{Stage, wait_until};

use super::{fleet::*, mode::Mode};

const FLEET: usize = 200;
const FAILED: usize = 81;
/// The limit: 40 % of the fleet.
const MOST: usize = 80;
/// If the machine takes longer than this to write a burst, it counts as several bursts.
const BURST: Duration = Duration::from_secs(1);

/// The order of check, fleet and failures.
#[derive(Debug, Clone, Copy)]
enum Order {
    ObjectsFirst,
    CheckFirst,
    /// The controller is killed and started again while the check is being evaluated.
    Restarted,
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_81_failures_of_200_over_40_percent_limit_create_no_remediation() {
    let dir = tempfile::tempdir().unwrap();
    let stage = begin(dir.path()).await.unwrap();
    // On an overloaded machine the leader loses its Lease, ends, and is started again.
    let outcome = tokio::select! {
        outcome = limits(&stage) => outcome,
        ended = stage.supervise(CONTROLLER) => ended,
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn limits(stage: &Stage) -> Result<()> {
    stage.start_controller(CONTROLLER).await?;
    // The template of all checks.
    Mode::Template.make_check(stage, "0").await?;
    remove_check(stage, Mode::Template).await?;
    make_fleet(stage, FLEET).await?;
    let orders = [Order::ObjectsFirst, Order::CheckFirst, Order::Restarted];
    for run in 0..number("RACKHAND_LIMIT_RUNS", 1) {
        for mode in Mode::ALL {
            for order in orders {
                let began = Instant::now();
                if let Err(error) = round(stage, mode, order).await {
                    bail!("run {run}, {mode:?}, {order:?}: {error:#}");
                }
                println!("    run {run}, {mode:?}, {order:?}: {:?}", began.elapsed());
            }
        }
    }
    Ok(())
}

async fn fail(stage: &Stage) -> Result<Duration> {
    let began = Instant::now();
    each(FAILED, |i| async move {
        set_node(stage, &node_name(i), false).await
    })
    .await?;
    Ok(began.elapsed())
}

async fn recover(stage: &Stage) -> Result<()> {
    each(FAILED, |i| async move {
        set_node(stage, &node_name(i), true).await
    })
    .await
}

async fn remove_check(stage: &Stage, mode: Mode) -> Result<()> {
    let checks = mode.checks(stage);
    checks
        .delete(mode.prefix(), &DeleteParams::default())
        .await?;
    wait_until("the check is gone", PATIENCE, || async {
        let found = checks.get_opt(mode.prefix()).await?;
        Ok(found.map_or(Ok(()), |_| Err("it still exists".to_owned())))
    })
    .await
}

/// 81 of 200 fail, and none may be remediated. After one has recovered, the other 80 are.
async fn round(stage: &Stage, mode: Mode, order: Order) -> Result<()> {
    match order {
        Order::ObjectsFirst => {
            fail(stage).await?;
            mode.make_check(stage, "40%").await?;
        }
        Order::CheckFirst => {
            mode.make_check(stage, "40%").await?;
            judged(stage, mode, FLEET, FLEET).await?;
            let took = fail(stage).await?;
            if took > BURST {
                println!("    the burst took {took:?} to write: not looked at");
                recover(stage).await?;
                settled(stage, mode).await?;
                return remove_check(stage, mode).await;
            }
        }
        Order::Restarted => {
            fail(stage).await?;
            mode.make_check(stage, "40%").await?;
            stage.kill_controller(CONTROLLER)?;
            stage.start_controller(CONTROLLER).await?;
        }
    }
    judged(stage, mode, FLEET, FLEET - FAILED).await?;
    let handed = mode.handed_over(stage).await?;
    ensure!(
        handed.is_empty(),
        "{} over the limit: {handed:?}",
        handed.len()
    );
    // A violation would occur within the settling time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let handed = mode.handed_over(stage).await?;
    ensure!(
        handed.is_empty(),
        "{} over the limit: {handed:?}",
        handed.len()
    );

    set_node(stage, &node_name(0), true).await?;
    wait_until("as many as the limit permits", PATIENCE, || async {
        let handed = mode.handed_over(stage).await?.len();
        Ok(if handed == MOST {
            Ok(())
        } else {
            Err(format!("{handed}"))
        })
    })
    .await?;
    let handed = mode.handed_over(stage).await?;
    ensure!(
        handed.len() == MOST && !handed.contains(&mode.target(0)),
        "{handed:?}"
    );
    recover(stage).await?;
    settled(stage, mode).await?;
    remove_check(stage, mode).await
}

/// Waits until the check has withdrawn all remediations.
async fn settled(stage: &Stage, mode: Mode) -> Result<()> {
    wait_until("all remediations are withdrawn", PATIENCE, || async {
        let handed = mode.handed_over(stage).await?;
        Ok(match handed.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} are left, {first}", handed.len())),
        })
    })
    .await
}
