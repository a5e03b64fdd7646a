//! Three controllers that share a management cluster, each with a Lease and a watch filter of its own.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::Role;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{
        HostLink, LONG, RackSpec, Recorder, SYSTEM, Scenarios, Stage, StageConfig, wait_until,
    },
};
use serde_json::{Value, json};

use crate::second_check;

const SHARDS: [&str; 3] = ["a", "b", "c"];
const FILTER: &str = "cluster.x-k8s.io/watch-filter";
#[tokio::test(flavor = "multi_thread")]
async fn f6_shards_share_a_management_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let rack = |name: &&str| RackSpec::new(name, 2, HostLink::Inventory).in_pool(name);
    let mut racks: Vec<RackSpec> = SHARDS.iter().map(rack).collect();
    racks.push(RackSpec::new("both", 1, HostLink::Inventory).in_pool("both"));
    racks.push(RackSpec::new("none", 1, HostLink::Inventory).in_pool("by-hand"));
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = run(&stage, &recorder).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.apply_rack_agents().await?;
    allow_leases(stage).await?;
    for shard in SHARDS {
        let own = [
            format!("--watch-filter={shard}"),
            format!("--lease-name=rackhand-{shard}"),
        ];
        stage.start_controller_as(shard, own.into()).await?;
        apply_yaml(&stage.client, &stage.health_check_of(shard, shard, "100%")).await?;
        label(&stage.checks(), shard, shard).await?;
    }
    for host in ["a-1", "b-1", "c-1"] {
        stage.bind_pod(host, true).await?;
        let runs = stage.host(host)?;
        runs.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
    }
    let mut all = Scenarios::new();
    all.add(
        "a_check_moves_while_its_remediation_is_in_flight",
        moved(stage, recorder),
    );
    all.add("a_shard_works_on_its_own_alone", own(stage));
    all.add(
        "a_shard_that_is_removed_is_taken_over",
        removed(stage, recorder),
    );
    all.add("a_remediation_of_no_shard_is_reported", unclaimed(stage));
    all.add(
        "f1_checks_of_two_shards_for_one_host_run_nothing_twice",
        overlapping(stage, recorder),
    );
    all.run().await?;
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

/// As the chart does for each shard.
async fn allow_leases(stage: &Stage) -> Result<()> {
    let roles: Api<Role> = Api::namespaced(stage.client.clone(), SYSTEM);
    let names = SHARDS.map(|shard| format!("rackhand-{shard}"));
    let patch = Patch::Merge(json!({ "rules": [
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] },
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": names,
          "verbs": ["get", "update"] },
    ]}));
    let params = PatchParams::default();
    roles
        .patch("rackhand-leader-election", &params, &patch)
        .await?;
    Ok(())
}

async fn label(objects: &Api<DynamicObject>, name: &str, shard: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { FILTER: shard } } }));
    objects.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Hangs a host and waits until its remediation waits for its pod; by which shard.
async fn drained(stage: &Stage, host: &str) -> Result<(String, String)> {
    ensure!(stage.host(host)?.hang(), "{host} was not up");
    stage.wait_step(host, "Draining").await?;
    let object = stage.remediations().get(host).await?;
    let shard = object.labels().get(FILTER).cloned();
    Ok((object.uid().unwrap_or_default(), shard.unwrap_or_default()))
}

async fn back(stage: &Stage, host: &str) -> Result<()> {
    stage.wait_back(host).await?;
    stage.one_cycle(host)
}

async fn own(stage: &Stage) -> Result<()> {
    let (_, shard) = drained(stage, "b-1").await?;
    ensure!(shard == "b", "{shard}");
    stage.let_pod_go("b-1").await?;
    back(stage, "b-1").await?;
    for other in ["a", "c"] {
        let log = stage.log_of(other)?;
        ensure!(!log.contains("metal3/b-1"), "{other} works on b-1:\n{log}");
    }
    Ok(())
}

async fn moved(stage: &Stage, recorder: &Recorder) -> Result<()> {
    let (uid, shard) = drained(stage, "a-1").await?;
    ensure!(shard == "a", "{shard}");
    label(&stage.checks(), "a", "b").await?;
    // The next failure of the same check is b's already; the first stays with a.
    ensure!(stage.host("a-2")?.hang(), "up");
    let is_of_b = |object: &Value| object["metadata"]["labels"][FILTER] == "b";
    recorder
        .wait_version("Metal3Remediation", "a-2", "it is of b", is_of_b)
        .await?;
    back(stage, "a-2").await?;
    let object = stage.remediations().get("a-1").await?;
    ensure!(object.uid().as_deref() == Some(&uid), "it was made anew");
    ensure!(
        object
            .labels()
            .get(FILTER)
            .is_some_and(|shard| shard == "a"),
        "it has moved"
    );
    stage.let_pod_go("a-1").await?;
    back(stage, "a-1").await
}

async fn removed(stage: &Stage, recorder: &Recorder) -> Result<()> {
    let (uid, shard) = drained(stage, "c-1").await?;
    ensure!(shard == "c", "{shard}");
    ensure!(stage.stop_controller("c")?.success(), "ends well");
    label(&stage.checks(), "c", "b").await?;
    stage.let_pod_go("c-1").await?;
    label(&stage.remediations(), "c-1", "b").await?;
    back(stage, "c-1").await?;
    let versions = recorder.of("Metal3Remediation", "c-1");
    let same = versions.iter().all(|version| version.uid() == uid);
    ensure!(same, "it was made anew: {versions:?}");
    Ok(())
}

/// Two checks that the documentation forbids: neither shard knows of the other's remediation before it has
/// begun, so both may begin at once.
async fn overlapping(stage: &Stage, recorder: &Recorder) -> Result<()> {
    const HOST: &str = "both-1";
    stage.bind_pod(HOST, true).await?;
    let runs = stage.host(HOST)?;
    runs.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    apply_yaml(
        &stage.client,
        &stage.health_check_of("both-a", "both", "100%"),
    )
    .await?;
    apply_yaml(&stage.client, &second_check("both-b", "both")).await?;
    for shard in ["a", "b"] {
        label(&stage.checks(), &format!("both-{shard}"), shard).await?;
    }
    ensure!(runs.hang(), "{HOST} was not up");
    wait_until("it is tainted", LONG, || async {
        Ok(match stage.tainted(HOST).await? {
            true => Ok(()),
            false => Err("not tainted".to_owned()),
        })
    })
    .await?;
    stage.let_pod_go(HOST).await?;
    stage.wait_back(HOST).await?;
    wait_until("nothing is left", LONG, || async {
        let mut left = stage.left_on(HOST).await?;
        if stage.remediation(HOST).await?.is_some() {
            left.push("Metal3Remediation".to_owned());
        }
        if stage
            .api("rackhand.dev", "v1alpha1", "PowerRemediation")
            .get_opt(HOST)
            .await?
            .is_some()
        {
            left.push("PowerRemediation".to_owned());
        }
        Ok(match left.is_empty() {
            true => Ok(()),
            false => Err(format!("{left:?}")),
        })
    })
    .await?;
    stage.tainted_only_while_off(recorder, HOST).await
}

async fn unclaimed(stage: &Stage) -> Result<()> {
    stage.remediate("none-1").await?;
    stage.wait_warning("none-1", "NoShard").await?;
    let seen = stage.remediation("none-1").await?.context("it is there")?;
    ensure!(seen.step.is_empty(), "{}", seen.step);
    stage.untouched("none-1")?;
    stage.withdraw("none-1").await?;
    wait_until("none-1: it is gone", LONG, || async {
        let left = stage.remediation("none-1").await?;
        Ok(left.map_or(Ok(()), |seen| Err(seen.message)))
    })
    .await
}
