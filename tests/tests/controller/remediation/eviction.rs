//! Pods leave a host that is still on, on a real control plane with its Eviction API: before the power-off, held by a
//! PodDisruptionBudget, and with the host kept on.
//!
//! All scenarios run at the same time on one stage, each with a host of its own.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use rackhand_tests::{
    rack::PowerState,
    stage::{HostLink, LONG, RackSpec, Recorder, Scenarios, Stage, StageConfig, wait_until},
};
use serde_json::{Value, json};

use super::power_remediation::world::{World, condition};

const CORDONED_BY: &str = "rackhand.dev/cordoned-by";

fn racks() -> Vec<RackSpec> {
    let hosts = ["leave-1", "held-1", "abort-1", "wait-1", "stay-1", "left-1"];
    let hosts = hosts.map(str::to_owned).to_vec();
    vec![RackSpec {
        hosts,
        ..RackSpec::new("ready", 0, HostLink::Inventory).in_pool("by-hand")
    }]
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_leave_a_host_that_is_on_before_it_is_switched() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(racks(), &["--power-timeout=60s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("pods_leave_before_the_power_off", leaves(w));
    all.add("budget_that_blocks_is_named_and_bounded", held(w));
    all.add("abort_switches_nothing_and_uncordons", aborts(w));
    all.add("wait_goes_on_once_the_budget_allows", waits(w));
    all.add("f9_cordon_of_somebody_else_stays", stays(w));
    all.add(
        "f9_cordon_of_a_remediation_that_is_gone_is_removed",
        left(w),
    );
    if let Err(error) = all.run().await {
        let objects = world.shown().await;
        panic!("{error:#}\n{objects}\n{}", world.stage.report().await);
    }
    let twice = world.stage.ran_twice();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.install("nodes").await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

async fn ensure_uncordoned(w: &World, name: &str) -> Result<()> {
    let node = w.stage.node(name).await?;
    let marked = node.annotations().contains_key(CORDONED_BY);
    ensure!(!marked, "{name} is still marked");
    ensure!(
        !w.stage.is_cordoned(name).await?,
        "{name} is still cordoned"
    );
    Ok(())
}

/// Waits for the reason of the remediation, and returns the object.
async fn wait_reason(w: &World, name: &str, wanted: &str) -> Result<Value> {
    w.wait(name, wanted, |object| object["status"]["reason"] == wanted)
        .await
}

pub async fn leaves(w: &World) -> Result<()> {
    w.stage.run_pod("leave-1").await?;
    let host = w.stage.host("leave-1")?;
    w.strategy("leave-1", json!({ "type": "Reboot" })).await?;
    wait_until("leave-1: its pod has left", LONG, || async {
        let pod = w.stage.bound_pod("leave-1").await?;
        // The host is never off before its pod has left.
        if pod.is_some() {
            ensure!(host.counters().offs == 0, "cut before its pod has left");
        }
        Ok(match pod {
            None => Ok(()),
            Some(_) => Err("it is there".into()),
        })
    })
    .await?;
    w.wait_step("leave-1", "Succeeded").await?;
    w.wait_back("leave-1").await?;
    w.stage.one_cycle("leave-1")?;
    ensure_uncordoned(w, "leave-1").await
}

async fn held(w: &World) -> Result<()> {
    w.stage.run_pod("held-1").await?;
    w.stage.forbid_eviction("held-1").await?;
    let strategy = json!({ "type": "Reboot", "timeouts": { "evictionSeconds": 8 } });
    w.strategy("held-1", strategy).await?;
    let object = wait_reason(w, "held-1", "EvictionBlocked").await?;
    let message = object["status"]["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("on-held-1") && message.contains("keep-held-1"),
        "{message}"
    );
    ensure!(condition(&object, "DrainBlocked") == "True", "{object}");
    let in_place = object["status"]["inPlace"].to_string();
    ensure!(in_place.contains("Cordon"), "{in_place}");
    ensure!(
        w.stage.host("held-1")?.counters().offs == 0,
        "cut too early"
    );
    w.wait_step("held-1", "Succeeded").await?;
    w.wait_back("held-1").await?;
    w.stage.one_cycle("held-1")?;
    ensure_uncordoned(w, "held-1").await
}

async fn aborts(w: &World) -> Result<()> {
    w.stage.run_pod("abort-1").await?;
    w.stage.forbid_eviction("abort-1").await?;
    let strategy = json!({
        "type": "Reboot", "evictionPolicy": "Abort", "timeouts": { "evictionSeconds": 3 },
    });
    w.strategy("abort-1", strategy).await?;
    let object = w.wait_step("abort-1", "Blocked").await?;
    let status = &object["status"];
    ensure!(status["reason"] == "EvictionAborted", "{status}");
    ensure!(status["phase"] == "Aborted", "{status}");
    w.stage.untouched("abort-1")?;
    let pod = w.stage.bound_pod("abort-1").await?;
    ensure!(
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()),
        "the pod is not there any more"
    );
    ensure_uncordoned(w, "abort-1").await
}

async fn waits(w: &World) -> Result<()> {
    w.stage.run_pod("wait-1").await?;
    let budgets = w.stage.forbid_eviction("wait-1").await?;
    let strategy = json!({
        "type": "Reboot", "evictionPolicy": "Wait", "timeouts": { "evictionSeconds": 2 },
    });
    w.strategy("wait-1", strategy).await?;
    let object = wait_reason(w, "wait-1", "EvictionWaits").await?;
    ensure!(condition(&object, "Blocked") == "True", "{object}");
    w.stage.untouched("wait-1")?;
    budgets
        .delete("keep-wait-1", &DeleteParams::default())
        .await?;
    w.wait_step("wait-1", "Succeeded").await?;
    w.wait_back("wait-1").await?;
    w.stage.one_cycle("wait-1")?;
    ensure_uncordoned(w, "wait-1").await
}

async fn stays(w: &World) -> Result<()> {
    w.stage.run_pod("stay-1").await?;
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.cordon("stay-1").await?;
    w.strategy("stay-1", json!({ "type": "Evict" })).await?;
    let object = w.wait_step("stay-1", "Evicted").await?;
    ensure!(condition(&object, "Succeeded") == "True", "{object}");
    ensure!(
        w.stage.bound_pod("stay-1").await?.is_none(),
        "its pod is there"
    );
    w.withdraw("stay-1").await?;
    w.wait_gone("stay-1").await?;
    ensure!(
        w.stage.is_cordoned("stay-1").await?,
        "a person's cordon is gone"
    );
    let power = w.stage.host("stay-1")?.real_power();
    ensure!(power == PowerState::On, "{power}");
    w.stage.untouched("stay-1")
}

async fn left(w: &World) -> Result<()> {
    w.strategy("left-1", json!({ "type": "Evict" })).await?;
    w.wait_step("left-1", "Evicted").await?;
    let node = w.stage.node("left-1").await?;
    ensure!(node.annotations().contains_key(CORDONED_BY), "no mark");
    ensure!(w.stage.is_cordoned("left-1").await?, "not cordoned");
    // Without its finalizer, as after a restore. The controller may put it on again before the object is gone.
    let none = json!({ "metadata": { "finalizers": null } });
    w.stage.stop_controller("controller-0")?;
    w.withdraw("left-1").await?;
    w.remediations()
        .patch("left-1", &PatchParams::default(), &Patch::Merge(none))
        .await?;
    w.wait_gone("left-1").await?;
    w.stage.start_controller("controller-0").await?;
    wait_until("left-1: uncordoned", LONG, || async {
        Ok(ensure_uncordoned(w, "left-1")
            .await
            .map_err(|e| e.to_string()))
    })
    .await?;
    w.stage.untouched("left-1")
}
