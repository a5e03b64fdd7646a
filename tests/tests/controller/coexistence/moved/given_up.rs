//! A move that waits in vain, because CAPM3 pauses the hosts of a paused Cluster, and what a person does about it.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use rackhand_tests::{
    rack::PowerState,
    stage::{CLUSTER, LONG, Stage, wait_until},
};

use super::{
    AGE, BLOCK, PAUSED, annotations, draining, pause, start,
    target::{self, HOST, Target, names, objects, wait_blocked, wait_ended},
};

#[tokio::test(flavor = "multi_thread")]
async fn f16_move_that_gave_up_is_run_again_once_the_pause_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (stage, _owner) = start(dir.path(), &["m-1"], AGE).await.unwrap();
    if let Err(error) = again(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn again(stage: &Stage) -> Result<()> {
    let target = Target::start(stage).await?;
    target::owned_by_cluster(stage, CLUSTER).await?;
    draining(stage, "m-1").await?;
    let hosts = stage.bare_metal_hosts();
    wait_until("baremetal-operator reports it off", LONG, || async {
        let on = hosts.get("m-1").await?.data["status"]["poweredOn"].take();
        Ok(if on == false {
            Ok(())
        } else {
            Err(on.to_string())
        })
    })
    .await?;

    let mut moving = target.start_move(stage, "first")?;
    wait_blocked(&mut moving).await?;
    // CAPM3 does this where the Cluster is paused; baremetal-operator then leaves the power as it is.
    stage
        .annotate(&hosts, "m-1", PAUSED, Some("metal3.io/capm3"))
        .await?;
    stage.let_pod_go("m-1").await?;
    let reason = "OwnerDoesNotSwitchOn";
    let seen = stage
        .wait_remediation("m-1", reason, |seen| seen.reason == reason)
        .await?;
    ensure!(seen.message.contains("and is paused"), "{}", seen.message);
    ensure!(
        stage.host("m-1")?.real_power() == PowerState::Off,
        "it stays off"
    );
    let keys = annotations(&hosts, "m-1").await?;
    ensure!(
        keys.iter().any(|key| key == BLOCK),
        "it stays here: {keys:?}"
    );
    ensure!(moving.ended().is_none(), "{}", moving.log_tail());
    // clusterctl itself would give up after more than six minutes.
    moving.kill()?;

    let (status, log) = wait_ended(target.start_move(stage, "second")?).await?;
    let refused = "Clusters are paused: metal3/demo";
    ensure!(
        status.code() == Some(1) && log.contains(refused),
        "{status}: {log}"
    );
    pause(stage, false).await?;
    stage.annotate(&hosts, "m-1", PAUSED, None).await?;
    stage.wait_step("m-1", "Succeeded").await?;
    let (status, log) = wait_ended(target.start_move(stage, "third")?).await?;
    ensure!(status.success(), "{status}: {log}");

    let hosts = objects(&target.client, HOST);
    let host = hosts.get("m-1").await.context("it was moved")?;
    let keys = host.annotations();
    ensure!(!keys.contains_key(BLOCK), "{keys:?}");
    ensure!(
        names(&stage.client, HOST).await?.is_empty(),
        "nothing is left"
    );
    stage.one_cycle("m-1")
}
