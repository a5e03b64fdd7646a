//! CAPM3's own controller on the same Metal3Remediation, whose hold key comes and goes while Rackhand has the host off.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use rackhand_tests::{
    bmo::{Metal3, Settings},
    stage::{HostLink, LONG, RackSpec, Stage, StageConfig, wait_until},
};

const FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";
const CAPM3_HOLD: &str = "reboot.metal3.io/metal3-remediation-";
const HOSTS: [&str; 2] = ["v-1", "v-2"];

#[tokio::test(flavor = "multi_thread")]
async fn f9_capm3_controller_that_came_and_went_while_draining_ends_the_remediation() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("v", HOSTS.len(), HostLink::Managed).in_pool("by-hand");
    let mut config = StageConfig::steady(vec![rack], &["--cooperative-grace=2s"]);
    config.brief_boots = true;
    config.health.boot = "20s".into();
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let _owner: Metal3 = stage
        .start_metal3(&HOSTS, Settings::default())
        .await
        .unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("first").await?;
    for host in HOSTS {
        stage.bind_pod(host, true).await?;
        let sim = stage.host(host)?;
        sim.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        ensure!(sim.hang(), "{host} was up");
        stage.remediate(host).await?;
    }
    for host in HOSTS {
        stage.wait_step(host, "Draining").await?;
        comes_and_goes(stage, host).await?;
    }
    // What was seen is recorded, and not only remembered.
    ensure!(stage.stop_controller("first")?.success(), "ends well");
    stage.start_controller("second").await?;

    // Its Node is back after the power cycle.
    ends(stage, "v-1").await?;
    stage.withdraw("v-1").await?;
    // A host whose Node does not come back has attempts left.
    stage.host("v-2")?.never_boots(true);
    ends(stage, "v-2").await?;

    for host in HOSTS {
        let object = stage.remediations().get_opt(host).await?;
        let object = object.with_context(|| format!("{host}: the finalizer was removed"))?;
        let has_finalizer = object.finalizers().iter().any(|name| name == FINALIZER);
        ensure!(has_finalizer, "{host}: the finalizer was removed");
        stage.one_cycle(host)?;
    }
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

/// CAPM3's controller sets its key on the BareMetalHost, and removes it once Rackhand has seen it.
async fn comes_and_goes(stage: &Stage, host: &str) -> Result<()> {
    let uid = stage.remediations().get(host).await?.uid();
    let key = format!("{CAPM3_HOLD}{}", uid.context("no UID")?);
    let hosts = stage.bare_metal_hosts();
    stage.annotate(&hosts, host, &key, Some("")).await?;
    stage.wait_warning(host, "RivalController").await?;
    let recorded = stage.recorded(host).await?;
    let state = &recorded.data["spec"]["state"];
    ensure!(state["rival"].is_string(), "{host}: {state}");
    ensure!(state["step"] == "Draining", "{host} goes on: {state}");
    stage.annotate(&hosts, host, &key, None).await
}

/// What has begun is finished, and nothing begins after it.
async fn ends(stage: &Stage, host: &str) -> Result<()> {
    stage.let_pod_go(host).await?;
    let seen = stage.wait_step(host, "Blocked").await?;
    ensure!(seen.reason == "RivalController", "{host}: {seen:?}");
    wait_until(&format!("{host}: nothing is left"), LONG, || async {
        let left = stage.left_on(host).await?;
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(", "))
        })
    })
    .await
}
