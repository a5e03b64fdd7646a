//! What a Machine says about its remediation: the annotation that requests one, and an update in place.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use rackhand_tests::{
    rack::ResetType,
    stage::{HostLink, LONG, RackSpec, Stage, StageConfig, is_ready, wait_until},
};

const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";
const UPDATE: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

#[tokio::test(flavor = "multi_thread")]
async fn one_annotation_requests_one_cycle_and_an_update_in_place_holds_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("m", 2, HostLink::Inventory);
    let config = StageConfig::steady(vec![rack], &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    requested(stage).await?;
    updating(stage).await
}

async fn requested(stage: &Stage) -> Result<()> {
    let machines = stage.machines();
    stage
        .annotate(&machines, "m-1", REMEDIATE, Some(""))
        .await?;
    wait_until("the host is cycled", LONG, || async {
        let counters = stage.host("m-1")?.counters();
        Ok(match counters.ons {
            1.. => Ok(()),
            0 => Err(format!("{counters:?}")),
        })
    })
    .await?;
    stage.wait_back("m-1").await?;
    let machine = machines.get("m-1").await?;
    ensure!(
        !machine.annotations().contains_key(REMEDIATE),
        "{machine:?}"
    );
    // Longer than a boot timeout of the stage is not needed: nothing may ask again.
    stage.wait_looks("m-1", 0).await?;
    ensure!(stage.asked_for("m-1").await?.is_empty(), "asked again");
    stage.one_cycle("m-1")
}

async fn updating(stage: &Stage) -> Result<()> {
    let machines = stage.machines();
    stage.annotate(&machines, "m-2", UPDATE, Some("")).await?;
    ensure!(stage.host("m-2")?.hang(), "up");
    let seen = stage.wait_blocked("m-2", "MachineUpdating").await?;
    ensure!(seen.message.contains("until"), "{}", seen.message);
    stage.untouched("m-2")?;
    stage.annotate(&machines, "m-2", UPDATE, None).await?;
    wait_until("the host is cycled", LONG, || async {
        let counters = stage.host("m-2")?.counters();
        Ok(match counters.ons {
            1.. => Ok(()),
            0 => Err(format!("{counters:?}")),
        })
    })
    .await?;
    stage.wait_back("m-2").await?;
    stage.one_cycle("m-2")
}

/// A remediation of a check may be older than the recovery of its Node, if no controller ran meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn f11_remediation_of_a_check_that_is_older_than_the_recovery_is_not_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("o", 2, HostLink::Inventory).in_pool("by-hand");
    let config = StageConfig::steady(vec![rack], &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = recovered_before_the_start(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn recovered_before_the_start(stage: &Stage) -> Result<()> {
    const BY_CHECK: &str = "o-1";
    const BY_PERSON: &str = "o-2";
    stage.apply_rack_agents().await?;
    for host in [BY_CHECK, BY_PERSON] {
        ensure!(stage.host(host)?.hang(), "{host} was up");
        ready(stage, host, false).await?;
        stage.remediate(host).await?;
    }
    let remediations = stage.remediations();
    let template = "cluster.x-k8s.io/cloned-from-name";
    stage
        .annotate(&remediations, BY_CHECK, template, Some("reboot"))
        .await?;
    for host in [BY_CHECK, BY_PERSON] {
        stage.host(host)?.switch(ResetType::PowerCycle, "a person");
        ready(stage, host, true).await?;
    }
    let before = stage.host(BY_CHECK)?.counters();
    let offs = stage.host(BY_PERSON)?.counters().offs;

    stage.start_controller("controller-0").await?;
    // The other one is carried out, by the same controller.
    stage.wait_step(BY_PERSON, "Succeeded").await?;
    let after = stage.host(BY_PERSON)?.counters();
    ensure!(after.offs == offs + 1, "{BY_PERSON}: {after:?}");
    let seen = stage.wait_step(BY_CHECK, "Succeeded").await?;
    ensure!(seen.reason == "Recovered", "{seen:?}");
    let after = stage.host(BY_CHECK)?.counters();
    ensure!(
        (after.offs, &after.commands) == (before.offs, &before.commands),
        "{BY_CHECK} was switched: {before:?}, {after:?}"
    );
    Ok(())
}

async fn ready(stage: &Stage, host: &str, wanted: bool) -> Result<()> {
    wait_until(&format!("{host}: Ready is {wanted}"), LONG, || async {
        let node = stage.node(host).await?;
        Ok(match is_ready(&node) == wanted {
            true => Ok(()),
            false => Err(format!("{:?}", node.status)),
        })
    })
    .await
}
