//! `clusterctl move`, at a real API server: what waits for what, and what becomes of a remediation that was moved
//! all the same, or of a hold whose remediation is gone.
//!
//! Here the move is imitated in one cluster, so that it can be stopped at any moment: Cluster API's command pauses the
//! Cluster, copies every object (annotations and finalizers stay, UIDs are new, the status is lost), and deletes the
//! originals without their finalizers. The modules `clusterctl` and `given_up` run the real one.

mod clusterctl;
mod given_up;
mod target;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    bmo::{Metal3, Settings},
    stage::{CLUSTER, HostLink, LONG, RackSpec, Stage, StageConfig, wait_until},
};
use serde_json::{Value, json};

const BLOCK: &str = "clusterctl.cluster.x-k8s.io/block-move";
const HOLD: &str = "reboot.metal3.io/rackhand-";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
/// Age of a BareMetalHost from which orphaned hold keys are removed.
const AGE: &str = "--orphaned-hold-age=5s";

async fn start(dir: &Path, hosts: &[&str], age: &str) -> Result<(Stage, Metal3)> {
    let rack = RackSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..RackSpec::new("m", 0, HostLink::Managed).in_pool("by-hand")
    };
    let config = StageConfig::steady(vec![rack], &["--cooperative-grace=2s", age]);
    let stage = Stage::start(dir, config).await?;
    let owner = stage.start_metal3(hosts, Settings::default()).await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("source").await?;
    Ok((stage, owner))
}

fn clusters(stage: &Stage) -> Api<DynamicObject> {
    stage.api("cluster.x-k8s.io", "v1beta1", "Cluster")
}

async fn pause(stage: &Stage, paused: bool) -> Result<()> {
    let body = json!({ "spec": { "paused": paused } });
    let patch = Patch::Merge(body);
    let clusters = clusters(stage);
    clusters
        .patch(CLUSTER, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Switches a host off whose pod stays until [`Stage::let_pod_go`].
async fn draining(stage: &Stage, host: &str) -> Result<()> {
    stage.bind_pod(host, true).await?;
    let sim = stage.host(host)?;
    sim.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(sim.hang(), "{host} was up");
    stage.remediate(host).await?;
    stage.wait_step(host, "Draining").await?;
    ensure!(stage.tainted(host).await?, "{host} is tainted");
    Ok(())
}

async fn annotations(objects: &Api<DynamicObject>, name: &str) -> Result<Vec<String>> {
    let object = objects.get(name).await?;
    Ok(object.annotations().keys().cloned().collect())
}

async fn holds(stage: &Stage, host: &str) -> Result<Vec<String>> {
    let mut keys = annotations(&stage.bare_metal_hosts(), host).await?;
    keys.retain(|key| key.starts_with(HOLD));
    Ok(keys)
}

/// Deletes an object without its finalizers.
async fn strip(objects: &Api<DynamicObject>, name: &str) -> Result<DynamicObject> {
    let object = objects.get(name).await?;
    let body = json!({ "metadata": { "finalizers": [] } });
    objects
        .patch(name, &PatchParams::default(), &Patch::Merge(body))
        .await?;
    objects.delete(name, &DeleteParams::default()).await?;
    wait_until(&format!("{name} is deleted"), LONG, || async {
        let left = objects.get_opt(name).await?;
        Ok(left.map_or(Ok(()), |_| Err("it is there".to_owned())))
    })
    .await?;
    Ok(object)
}

/// What a move makes of an object: another UID, and without a status.
fn copied(mut object: DynamicObject, owner: Option<&DynamicObject>) -> DynamicObject {
    let meta = &mut object.metadata;
    meta.uid = None;
    meta.resource_version = None;
    meta.creation_timestamp = None;
    meta.deletion_timestamp = None;
    meta.managed_fields = None;
    if let Some(status) = object.data.as_object_mut() {
        status.remove("status");
    }
    let owners = object.metadata.owner_references.iter_mut().flatten();
    for reference in owners {
        if let Some(uid) = owner.and_then(ResourceExt::uid) {
            reference.uid = uid;
        }
    }
    object
}

async fn recreate(
    objects: &Api<DynamicObject>,
    object: DynamicObject,
    status: Option<Value>,
) -> Result<DynamicObject> {
    let name = object.name_any();
    let made = objects.create(&PostParams::default(), &object).await?;
    if let Some(status) = status {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        objects.patch_status(&name, &params, &patch).await?;
    }
    Ok(made)
}

/// Moves the Machine, the BareMetalHost and the remediation of a host, in the way of clusterctl; the Cluster is
/// paused.
async fn move_all(stage: &Stage, host: &str) -> Result<()> {
    let (machines, hosts) = (stage.machines(), stage.bare_metal_hosts());
    let remediations = stage.remediations();
    let former = stage.recorded(host).await?.name_any();
    let remediation = strip(&remediations, host).await?;
    let bmh = strip(&hosts, host).await?;
    let machine = strip(&machines, host).await?;
    // What is recorded about the original is in another cluster.
    let states = stage.remediation_states();
    states.delete(&former, &DeleteParams::default()).await?;
    // baremetal-operator restores its status from an annotation, and the Machine's controller writes it anew.
    let status = machine.data.get("status").cloned();
    let machine = recreate(&machines, copied(machine, None), status).await?;
    let status = bmh.data.get("status").cloned();
    recreate(&hosts, copied(bmh, None), status).await?;
    recreate(&remediations, copied(remediation, Some(&machine)), None).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f16_clusterctl_waits_while_a_host_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let (stage, _owner) = start(dir.path(), &["m-1", "m-2"], AGE).await.unwrap();
    if let Err(error) = waits(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn waits(stage: &Stage) -> Result<()> {
    let (hosts, remediations) = (stage.bare_metal_hosts(), stage.remediations());
    let before = annotations(&hosts, "m-1").await?;
    draining(stage, "m-1").await?;
    for objects in [&hosts, &remediations] {
        let seen = annotations(objects, "m-1").await?;
        ensure!(seen.iter().any(|key| key == BLOCK), "{seen:?}");
    }
    // What has not begun does not begin in a paused Cluster; what is held is finished.
    pause(stage, true).await?;
    ensure!(stage.host("m-2")?.hang(), "up");
    stage.remediate("m-2").await?;
    let seen = stage.wait_blocked("m-2", "Paused").await?;
    ensure!(!seen.message.is_empty(), "{seen:?}");
    stage.let_pod_go("m-1").await?;
    stage.wait_step("m-1", "Succeeded").await?;
    let left = annotations(&hosts, "m-1").await?;
    ensure!(left == before, "{left:?}, not {before:?}");
    // It goes with the finalizer, which is removed last.
    wait_until("the remediation blocks no move", LONG, || async {
        let left = annotations(&remediations, "m-1").await?;
        let is_gone = !left.iter().any(|key| key == BLOCK);
        Ok(is_gone.then_some(()).ok_or_else(|| format!("{left:?}")))
    })
    .await?;
    stage.untouched("m-2")?;
    ensure!(holds(stage, "m-2").await?.is_empty(), "it is not held");
    let seen = annotations(&remediations, "m-2").await?;
    ensure!(!seen.iter().any(|key| key == BLOCK), "{seen:?}");
    // F9: what somebody else has set stays.
    stage
        .annotate(&hosts, "m-2", BLOCK, Some("somebody"))
        .await?;
    pause(stage, false).await?;
    stage.wait_step("m-2", "Succeeded").await?;
    let left = annotations(&hosts, "m-2").await?;
    ensure!(left.iter().any(|key| key == BLOCK), "{left:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_moved_remediation_fences_again_and_leaves_nothing_of_its_former_self() {
    let dir = tempfile::tempdir().unwrap();
    let (stage, _owner) = start(dir.path(), &["m-1"], AGE).await.unwrap();
    if let Err(error) = moved(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn moved(stage: &Stage) -> Result<()> {
    draining(stage, "m-1").await?;
    let former = holds(stage, "m-1").await?;
    ensure!(stage.stop_controller("source")?.success(), "ends well");
    pause(stage, true).await?;
    move_all(stage, "m-1").await?;
    stage.start_controller("target").await?;
    stage.wait_blocked("m-1", "Paused").await?;
    ensure!(holds(stage, "m-1").await? == former, "nothing is removed");
    ensure!(stage.tainted("m-1").await?, "it stays tainted");
    pause(stage, false).await?;
    let seen = stage.wait_step("m-1", "Draining").await?;
    let now = holds(stage, "m-1").await?;
    ensure!(now.len() == 2, "its own and the former one: {now:?}");
    ensure!(seen.object["metadata"]["finalizers"].is_array(), "{seen:?}");
    stage.let_pod_go("m-1").await?;
    stage.wait_step("m-1", "Succeeded").await?;
    let left = annotations(&stage.bare_metal_hosts(), "m-1").await?;
    let ours = left
        .iter()
        .find(|key| key.contains("rackhand-") || *key == BLOCK);
    ensure!(ours.is_none(), "{left:?}");
    stage.withdraw("m-1").await?;
    stage.wait_back("m-1").await?;
    stage.one_cycle("m-1")?;
    let held = stage.held_by("m").await?;
    ensure!(held.values().all(String::is_empty), "{held:?}");
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f9_orphaned_hold_key_and_its_taint_are_removed_once_the_node_is_drained() {
    let dir = tempfile::tempdir().unwrap();
    let (stage, _owner) = start(dir.path(), &["m-1"], "--orphaned-hold-age=60s")
        .await
        .unwrap();
    if let Err(error) = orphaned(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn orphaned(stage: &Stage) -> Result<()> {
    draining(stage, "m-1").await?;
    ensure!(stage.stop_controller("source")?.success(), "ends well");
    let states = stage.remediation_states();
    let former = stage.recorded("m-1").await?.name_any();
    strip(&stage.remediations(), "m-1").await?;
    states.delete(&former, &DeleteParams::default()).await?;
    let hosts = stage.bare_metal_hosts();
    // Its age counts from here, not from the start of the stage.
    let bmh = strip(&hosts, "m-1").await?;
    let status = bmh.data.get("status").cloned();
    recreate(&hosts, copied(bmh, None), status).await?;
    stage.annotate(&hosts, "m-1", PAUSED, Some("")).await?;
    stage.start_controller("target").await?;
    for (what, text) in [
        ("paused", "is paused"),
        ("young", "its remediation may follow"),
    ] {
        if what == "young" {
            stage.annotate(&hosts, "m-1", PAUSED, None).await?;
        }
        told(stage, text).await?;
        ensure!(holds(stage, "m-1").await?.len() == 1, "{what}");
        ensure!(stage.tainted("m-1").await?, "{what}");
    }
    told(stage, "on-m-1").await?;
    ensure!(holds(stage, "m-1").await?.len() == 1, "not drained");
    stage.let_pod_go("m-1").await?;
    wait_until("nothing is left", LONG, || async {
        let left = stage.left_on("m-1").await?;
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(", "))
        })
    })
    .await?;
    let left = annotations(&hosts, "m-1").await?;
    ensure!(!left.iter().any(|key| key == BLOCK), "{left:?}");
    stage.one_cycle("m-1")
}

/// Waits for an Event about the orphaned key with this text.
async fn told(stage: &Stage, text: &str) -> Result<()> {
    wait_until(&format!("it is told: {text}"), 2 * LONG, || async {
        let events = stage.events("m-1").await?;
        let notes = events
            .into_iter()
            .filter(|e| e.reason.as_deref() == Some("OrphanedHold"));
        let notes: Vec<String> = notes.filter_map(|event| event.note).collect();
        Ok(match notes.iter().any(|note| note.contains(text)) {
            true => Ok(()),
            false => Err(format!("{notes:?}")),
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn f9_finalizer_that_capm3_has_set_first_is_left_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let (stage, _owner) = start(dir.path(), &["m-1"], AGE).await.unwrap();
    if let Err(error) = rival(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn rival(stage: &Stage) -> Result<()> {
    const FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";
    ensure!(stage.stop_controller("source")?.success(), "ends well");
    ensure!(stage.host("m-1")?.hang(), "up");
    stage.remediate("m-1").await?;
    let body = Patch::Merge(json!({ "metadata": { "finalizers": [FINALIZER] } }));
    let remediations = stage.remediations();
    remediations
        .patch("m-1", &PatchParams::default(), &body)
        .await?;
    stage.start_controller("target").await?;
    let seen = stage.wait_step("m-1", "Blocked").await?;
    ensure!(seen.reason == "RivalController", "{seen:?}");
    stage.wait_warning("m-1", "RivalController").await?;
    stage.withdraw("m-1").await?;
    stage.wait_looks("m-1", 0).await?;
    for _ in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let object = remediations.get_opt("m-1").await?;
        let object = object.context("its finalizer was removed")?;
        if !object.finalizers().iter().any(|f| f == FINALIZER) {
            bail!("its finalizer was removed: {object:?}");
        }
    }
    stage.untouched("m-1")
}
