//! What names the host of a Node on a real control plane (F14): duplicate system UUIDs, a stale Node of a reused
//! host, one Node name in two clusters, and a Node that two racks list.
//!
//! All scenarios run at the same time on one stage, each with hosts of its own. Each host that must not be touched
//! is healthy.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::stage::{
    HostLink, LONG, NAMESPACE, RackSpec, Recorder, Scenarios, Stage, StageConfig, is_ready,
    wait_until,
};
use serde_json::{Value, json};

use crate::remediation::power_remediation::world::{NODE_NAME, World};

const UUID: &str = "8a95d198-7f46-11e5-bf8b-08002704d48e";

fn racks() -> Vec<RackSpec> {
    let inventory = |name: &str| RackSpec::new(name, 1, HostLink::Inventory).in_pool("by-hand");
    let same_board = |spec: RackSpec| RackSpec {
        system_uuid: Some(UUID.to_owned()),
        ..spec
    };
    vec![
        same_board(inventory("known")),
        // No inventory lists its hosts.
        same_board(RackSpec::new("lost", 2, HostLink::Detached).in_pool("by-hand")),
        RackSpec::new("used", 1, HostLink::Detached).in_pool("by-hand"),
        inventory("left"),
        RackSpec {
            also_lists: vec!["left-1".to_owned()],
            ..inventory("right")
        },
        inventory("two"),
        RackSpec {
            cluster: Some("local".to_owned()),
            ..inventory("told")
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_host_of_a_node_is_named_and_a_healthy_one_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(racks(), &["--power-timeout=20s", "--cooperative-grace=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("f14_duplicate_system_uuid", duplicate_uuid(w));
    all.add("f14_stale_node_of_reused_host", reused_host(w));
    all.add("f14_node_name_of_two_clusters", two_clusters(w));
    all.add("f14_node_that_two_racks_list", two_racks(w));
    if let Err(error) = all.run().await {
        let objects = world.shown().await;
        panic!("{error:#}\n{objects}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.install("nodes").await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

async fn ask(w: &World, node: &str) -> Result<()> {
    w.create_remediation(node, false, json!({ NODE_NAME: node }), json!({}))
        .await
}

/// Waits until a remediation is blocked for this reason, with a message that has all of `parts`.
async fn blocked(w: &World, name: &str, reason: &str, parts: &[&str]) -> Result<()> {
    let is_blocked = |object: &Value| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        let has_all = parts.iter().all(|part| message.contains(part));
        object["status"]["reason"] == reason && has_all
    };
    w.wait(name, reason, is_blocked).await.map(drop)
}

async fn hang(w: &World, node: &str) -> Result<()> {
    w.stage
        .machines()
        .delete(node, &DeleteParams::default())
        .await?;
    ensure!(w.stage.host(node)?.hang(), "{node} was not up");
    Ok(())
}

/// The inventory knows one host of three with this UUID. A second one has a BareMetalHost with a BMC of its own,
/// which names the Node. The third has nothing.
async fn duplicate_uuid(w: &World) -> Result<()> {
    for node in ["lost-1", "lost-2"] {
        hang(w, node).await?;
    }
    let hosts = w.stage.bare_metal_hosts();
    hosts.delete("lost-1", &DeleteParams::default()).await?;
    ask(w, "lost-1").await?;
    blocked(
        w,
        "lost-1",
        "HostNotFound",
        &["known-1", "lost-1", "system UUID"],
    )
    .await?;
    ask(w, "lost-2").await?;
    blocked(w, "lost-2", "HostNotFound", &["known-1", "lost-2"]).await?;
    for host in ["known-1", "lost-1", "lost-2"] {
        w.stage.untouched(host)?;
    }
    for node in ["lost-1", "lost-2"] {
        let taints = w.recorder.taints(node);
        ensure!(taints.is_empty(), "{node} was tainted");
    }
    // The one that its inventory names is brought back, although others have the same, which no longer run.
    for node in ["lost-1", "lost-2"] {
        wait_until("the others are not Ready", LONG, || async {
            Ok(match is_ready(&w.stage.node(node).await?) {
                true => Err(format!("{node} is Ready")),
                false => Ok(()),
            })
        })
        .await?;
    }
    hang(w, "known-1").await?;
    ask(w, "known-1").await?;
    w.wait_step("known-1", "Succeeded").await?;
    w.stage.one_cycle("known-1")
}

async fn reused_host(w: &World) -> Result<()> {
    let stale: Node = serde_json::from_value(json!({
        "metadata": { "name": "stale-1" },
        "spec": { "providerID": format!("metal3://{NAMESPACE}/used-1/stale-1") },
        "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
    }))?;
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    nodes.create(&PostParams::default(), &stale).await?;
    ask(w, "stale-1").await?;
    let consumed = format!("BareMetalHost {NAMESPACE}/used-1 is consumed by used-1");
    blocked(w, "stale-1", "HostNotFound", &[&consumed, "stale-1"]).await?;
    w.stage.untouched("used-1")
}

/// A Machine of another cluster has a Node of each name. Its cluster is not connected.
async fn two_clusters(w: &World) -> Result<()> {
    for node in ["two-1", "told-1"] {
        let machine: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
            "metadata": { "name": format!("elsewhere-{node}"), "namespace": NAMESPACE },
            "spec": {
                "clusterName": "elsewhere", "bootstrap": { "dataSecretName": "s" },
                "infrastructureRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine", "name": "x", "namespace": NAMESPACE,
                },
            },
        }))?;
        let machines = w.stage.machines();
        machines.create(&PostParams::default(), &machine).await?;
        let named = json!({ "status": { "nodeRef": {
            "apiVersion": "v1", "kind": "Node", "name": node,
        }}});
        let name = format!("elsewhere-{node}");
        machines
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(named))
            .await?;
        hang(w, node).await?;
        ask(w, node).await?;
    }
    let parts = ["two-1", "metal3/elsewhere", "set cluster"];
    blocked(w, "two-1", "HostAmbiguous", &parts).await?;
    w.wait_step("told-1", "Succeeded").await?;
    w.stage.one_cycle("told-1")?;
    w.stage.untouched("two-1")
}

async fn two_racks(w: &World) -> Result<()> {
    hang(w, "left-1").await?;
    ask(w, "left-1").await?;
    blocked(
        w,
        "left-1",
        "HostAmbiguous",
        &["left/left-1", "right/left-1"],
    )
    .await?;
    w.stage.untouched("left-1")?;
    let kind = GroupVersionKind::gvk("rackhand.dev", "v1alpha1", "RackAgent");
    let resource = ApiResource::from_gvk(&kind);
    let agents: Api<DynamicObject> = Api::all_with(w.stage.client.clone(), &resource);
    let named = json!({ "spec": { "nodes": ["left-*"] } });
    agents
        .patch("left", &PatchParams::default(), &Patch::Merge(named))
        .await?;
    w.wait_step("left-1", "Succeeded").await?;
    w.stage.one_cycle("left-1")?;
    let operations = w.stage.operations("right").await?;
    ensure!(operations.is_empty(), "{operations:?}");
    Ok(())
}
