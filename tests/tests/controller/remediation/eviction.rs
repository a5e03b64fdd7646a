//! Pods leave a host that is still on, on a real control plane with its Eviction API: before the power-off, held by a
//! PodDisruptionBudget, and with the host kept on.
//!
//! All scenarios run at the same time on one stage, each with a host of its own.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    rack::PowerState,
    stage::{HostLink, LONG, RackSpec, Recorder, Scenarios, Stage, StageConfig, wait_until},
};
use serde_json::{Value, json};

use super::power_remediation::world::{World, condition};

const CORDONED_BY: &str = "rackhand.dev/cordoned-by";

fn racks() -> Vec<RackSpec> {
    let hosts = [
        "leave-1", "held-1", "abort-1", "wait-1", "stay-1", "left-1", "left-2", "left-3", "fail-1",
        "again-1", "two-1", "final-1", "lost-1",
    ];
    let hosts = hosts.map(str::to_owned).to_vec();
    vec![RackSpec {
        hosts,
        ..RackSpec::new("ready", 0, HostLink::Inventory).in_pool("by-hand")
    }]
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_leave_a_host_that_is_on_before_it_is_switched() {
    let config = StageConfig::steady(racks(), &["--power-timeout=60s"]);
    let (_dir, stage, ()) = crate::prepared(config, begin).await;
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
        "pods_of_a_failed_host_whose_budget_forbids_it_are_named",
        fails(w),
    );
    all.add("cordon_that_is_removed_is_set_again_and_said", again(w));
    all.add("several_budgets_of_a_pod_are_said", several(w));
    all.add("finalizers_that_keep_a_pod_are_said", finalizers(w));
    all.add("pods_of_a_deleted_node_are_waited_for", node_lost(w));
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

async fn is_marked(w: &World, name: &str) -> Result<bool> {
    let node = w.stage.node(name).await?;
    Ok(node.annotations().contains_key(CORDONED_BY))
}

async fn ensure_uncordoned(w: &World, name: &str) -> Result<()> {
    ensure!(!is_marked(w, name).await?, "{name} is still marked");
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

/// The host fails while a budget keeps its pod, which is waited for: it moves all the same, and that is said.
async fn fails(w: &World) -> Result<()> {
    w.stage.run_pod("fail-1").await?;
    w.stage.forbid_eviction("fail-1").await?;
    let strategy = json!({
        "type": "Reboot", "evictionPolicy": "Wait", "timeouts": { "evictionSeconds": 2 },
    });
    w.strategy("fail-1", strategy).await?;
    wait_reason(w, "fail-1", "EvictionWaits").await?;
    w.stage.untouched("fail-1")?;
    w.stage.host("fail-1")?.hang();
    w.stage.wait_warning("fail-1", "FailedWithPods").await?;
    let events = w.stage.events("fail-1").await?;
    let notes = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("FailedWithPods"));
    let notes: String = notes.filter_map(|event| event.note.clone()).collect();
    ensure!(
        notes.contains("default/keep-fail-1 forbade the eviction of 1 pod (default/on-fail-1)"),
        "{notes}"
    );
    let object = w.wait_step("fail-1", "Succeeded").await?;
    let attempt = &object["status"]["attempts"][0];
    // PodGC may have deleted it first, which is not counted.
    let deleted = &attempt["deletedPodNames"];
    let is_counted = *deleted == json!(["default/on-fail-1"]);
    ensure!(
        is_counted || (deleted.is_null() && attempt["podsDeleted"].is_null()),
        "{attempt}"
    );
    w.wait_back("fail-1").await?;
    w.stage.one_cycle("fail-1")?;
    ensure_uncordoned(w, "fail-1").await
}

async fn again(w: &World) -> Result<()> {
    w.strategy("again-1", json!({ "type": "Evict" })).await?;
    w.wait_step("again-1", "Evicted").await?;
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.uncordon("again-1").await?;
    w.stage.wait_warning("again-1", "CordonedAgain").await?;
    ensure!(w.stage.is_cordoned("again-1").await?, "not cordoned");
    w.withdraw("again-1").await?;
    w.wait_gone("again-1").await?;
    ensure_uncordoned(w, "again-1").await?;
    w.stage.untouched("again-1")
}

/// The Eviction API answers with an error of its own where two budgets select one pod.
async fn several(w: &World) -> Result<()> {
    w.stage.run_pod("two-1").await?;
    let budgets = w.stage.forbid_eviction("two-1").await?;
    let mut second = budgets.get("keep-two-1").await?;
    second.metadata = ObjectMeta {
        name: Some("keep-two-1-too".into()),
        ..ObjectMeta::default()
    };
    second.status = None;
    budgets.create(&PostParams::default(), &second).await?;
    let strategy = json!({
        "type": "Reboot", "evictionPolicy": "Wait", "timeouts": { "evictionSeconds": 2 },
    });
    w.strategy("two-1", strategy).await?;
    let is_said = |object: &Value| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        message.contains("several in namespace default")
    };
    w.wait("two-1", "two budgets", is_said).await?;
    w.stage.untouched("two-1")?;
    budgets
        .delete("keep-two-1-too", &DeleteParams::default())
        .await?;
    budgets
        .delete("keep-two-1", &DeleteParams::default())
        .await?;
    w.wait_step("two-1", "Succeeded").await?;
    w.wait_back("two-1").await?;
    w.stage.one_cycle("two-1")
}

async fn finalizers(w: &World) -> Result<()> {
    w.stage.bind_pod("final-1", true).await?;
    let strategy = json!({
        "type": "Reboot", "evictionPolicy": "Wait", "timeouts": { "evictionSeconds": 2 },
    });
    w.strategy("final-1", strategy).await?;
    let is_said = |object: &Value| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        message.contains("kept by the finalizers of default/on-final-1")
    };
    w.wait("final-1", "its finalizers", is_said).await?;
    w.stage.untouched("final-1")?;
    w.stage.let_pod_go("final-1").await?;
    w.wait_step("final-1", "Succeeded").await?;
    w.wait_back("final-1").await?;
    w.stage.one_cycle("final-1")
}

/// A Node that is deleted while its pod, which a budget keeps, is waited for.
async fn node_lost(w: &World) -> Result<()> {
    w.stage.run_pod("lost-1").await?;
    w.stage.forbid_eviction("lost-1").await?;
    let strategy = json!({
        "type": "Reboot", "evictionPolicy": "Wait", "timeouts": { "evictionSeconds": 600 },
    });
    w.strategy("lost-1", strategy).await?;
    wait_reason(w, "lost-1", "EvictionBlocked").await?;
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.delete("lost-1", &DeleteParams::default()).await?;
    wait_until("lost-1: its pod is gone", LONG, || async {
        let pod = w.stage.bound_pod("lost-1").await?;
        if pod.is_some() {
            ensure!(
                w.stage.host("lost-1")?.counters().offs == 0,
                "cut before its pod is gone"
            );
        }
        Ok(match pod {
            None => Ok(()),
            Some(_) => Err("it is there".into()),
        })
    })
    .await?;
    w.wait_step("lost-1", "Succeeded").await?;
    w.wait_back("lost-1").await?;
    w.stage.one_cycle("lost-1")
}

async fn left(w: &World) -> Result<()> {
    // As it was left; uncordoned since; uncordoned and cordoned since.
    let names = ["left-1", "left-2", "left-3"];
    for name in names {
        w.strategy(name, json!({ "type": "Evict" })).await?;
        w.wait_step(name, "Evicted").await?;
        ensure!(is_marked(w, name).await?, "{name}: no mark");
        ensure!(w.stage.is_cordoned(name).await?, "{name}: not cordoned");
    }
    // Without its finalizer, as after a restore. The controller may put it on again before the object is gone.
    let none = json!({ "metadata": { "finalizers": null } });
    w.stage.stop_controller("controller-0")?;
    for name in names {
        w.withdraw(name).await?;
        w.remediations()
            .patch(name, &PatchParams::default(), &Patch::Merge(&none))
            .await?;
        w.wait_gone(name).await?;
    }
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.uncordon("left-2").await?;
    nodes.uncordon("left-3").await?;
    nodes.cordon("left-3").await?;
    w.stage.start_controller("controller-0").await?;
    for name in names {
        let what = format!("{name}: its mark is removed");
        wait_until(&what, LONG, || async {
            Ok(match is_marked(w, name).await? {
                true => Err("it is there".to_owned()),
                false => Ok(()),
            })
        })
        .await?;
        let cordoned = w.stage.is_cordoned(name).await?;
        ensure!(
            cordoned == (name == "left-3"),
            "{name}: cordoned: {cordoned}"
        );
        w.stage.untouched(name)?;
    }
    Ok(())
}
