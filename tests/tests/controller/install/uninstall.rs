//! Uninstallation in the middle of remediations, on a real control plane.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        coordination::v1::Lease,
        core::v1::Node,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::{Server, apply, shipped},
    rack::PowerState,
    stage::{HostLink, LONG, RackSpec, SYSTEM, Stage, StageConfig, binaries, wait_until},
};
use serde_json::json;

use crate::clusters::workloads::{NODE, Workload};

/// Past its power-off, and before it.
const OFF: &str = "off-1";
const WAITS: &str = "waits-1";
const CONTROLLER: &str = "controller-0";
const PAUSED: &str = "rackhand.dev/paused";
const TAINT: &str = "node.kubernetes.io/out-of-service";
const CONDITION: &str = "FencingUnavailable";
const SIGNAL: &str = "rackhand.dev/PowerLost";
/// The name of the controller in `metadata.managedFields`.
const MANAGER: &str = "rackhand-controller";

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstallation_ends_remediations_first_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("off", 1, HostLink::Managed),
        RackSpec::new("waits", 1, HostLink::Managed).in_pool("by-hand"),
    ];
    let stage = Stage::start(
        dir.path(),
        StageConfig::steady(racks, &["--cooperative-grace=1s"]),
    )
    .await
    .unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    for object in shipped("kustomize/admission")? {
        apply(&stage.client, object).await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller(CONTROLLER).await?;
    stage.apply_health_check().await?;
    stage.bind_pod(OFF, true).await?;
    let host = stage.host(OFF)?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "up");
    let hosts = stage.bare_metal_hosts();
    let pause = "baremetalhost.metal3.io/paused";
    stage.annotate(&hosts, WAITS, pause, Some("")).await?;
    stage.remediate(WAITS).await?;
    stage.wait_blocked(WAITS, "HostPaused").await?;
    stage.wait_step(OFF, "Draining").await?;

    without_a_controller(stage).await?;
    stage.start_controller(CONTROLLER).await?;
    with_a_controller(stage).await?;
    ensure!(stage.stop_controller(CONTROLLER)?.success(), "ends well");
    let signal = json!({ "status": { "v1beta2": { "conditions": [{
        "type": SIGNAL, "status": "True", "reason": "PowerOff", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}}});
    let (machines, params) = (stage.machines(), PatchParams::default());
    machines
        .patch_status(WAITS, &params, &Patch::Merge(signal))
        .await?;
    the_rest(stage).await
}

fn uninstall(stage: &Stage) -> Result<Command> {
    let mut command = Command::new(binaries()?.join("rackhand-controller"));
    command
        .arg("uninstall")
        .arg("--yes")
        .arg("--timeout=120s")
        .arg(format!(
            "--kubeconfig={}",
            stage.plane().kubeconfig().display()
        ))
        .arg(format!("--lease-namespace={SYSTEM}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// Runs it beside the simulated hosts of this process.
async fn finished(mut command: Command) -> Result<(bool, String)> {
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    Ok(report(&output))
}

fn report(output: &Output) -> (bool, String) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (output.status.success(), text.concat())
}

/// Nothing may be removed.
async fn without_a_controller(stage: &Stage) -> Result<()> {
    ensure!(stage.stop_controller(CONTROLLER)?.success(), "ends well");
    let (done, text) = finished(uninstall(stage)?).await?;
    ensure!(!done && text.contains("no controller leads"), "{text}");
    ensure!(text.contains("metal3/off-1 (Draining)"), "{text}");
    ensure!(stage.tainted(OFF).await?, "the taint is left");
    let node = stage.node(OFF).await?;
    ensure!(
        manager_of_taints(&node) == Some(MANAGER),
        "by this an uninstallation knows whose taint it is: {:?}",
        node.meta().managed_fields
    );
    ensure!(
        crds(stage)
            .await?
            .iter()
            .any(|name| name.ends_with(".rackhand.dev")),
        "CRDs are left"
    );
    Ok(())
}

async fn with_a_controller(stage: &Stage) -> Result<()> {
    let command = uninstall(stage)?;
    let running = tokio::spawn(finished(command));
    wait_until(
        "the one that has switched nothing is gone",
        LONG,
        || async {
            let left = stage.remediation(WAITS).await?;
            Ok(left.map_or(Ok(()), |seen| Err(seen.message)))
        },
    )
    .await?;
    stage.untouched(WAITS)?;
    // The other one goes on: its pod has not moved.
    stage
        .wait_remediation(OFF, "it is withdrawn", |seen| {
            seen.object["metadata"]["deletionTimestamp"].is_string()
        })
        .await?;
    ensure!(!running.is_finished(), "it waits");
    ensure!(stage.tainted(OFF).await?, "tainted until it is drained");
    ensure!(
        stage.host(OFF)?.real_power() == PowerState::Off,
        "off until then"
    );
    stage.let_pod_go(OFF).await?;
    let (done, text) = running.await??;
    ensure!(done, "{text}");
    ensure!(
        text.contains("waiting: Metal3Remediation metal3/off-1 (Draining)"),
        "{text}"
    );
    ensure!(text.contains("helm uninstall"), "{text}");
    stage.wait_back(OFF).await?;
    stage.one_cycle(OFF)?;
    for rack in ["off", "waits"] {
        let held = stage.held_by(rack).await?;
        ensure!(held.values().all(String::is_empty), "{held:?}");
    }
    Ok(())
}

/// Helm removes what is in the chart, but its CRDs; not the Leases.
async fn the_rest(stage: &Stage) -> Result<()> {
    let (done, text) = finished(uninstall(stage)?).await?;
    ensure!(done, "{text}");
    let left = crds(stage).await?;
    ensure!(
        !left.iter().any(|name| name.ends_with(".rackhand.dev")),
        "{left:?}"
    );
    let kept = "kept: CustomResourceDefinition machines.cluster.x-k8s.io";
    ensure!(text.contains(kept), "{text}");
    ensure!(
        !left.contains(&"metal3remediations.infrastructure.cluster.x-k8s.io".to_owned()),
        "{text}"
    );
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), SYSTEM);
    let leases = leases.list(&ListParams::default()).await?;
    ensure!(leases.items.is_empty(), "{leases:?}");
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(stage.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(stage.client.clone());
    let all = ListParams::default();
    let policies = policies.list(&all).await?.items.len() + bindings.list(&all).await?.items.len();
    ensure!(policies == 0, "{policies} policies and bindings are left");
    let check = stage.checks().get("worker-healthcheck").await?;
    ensure!(
        !check.annotations().contains_key(PAUSED),
        "it is left paused"
    );
    for host in [OFF, WAITS] {
        let left = stage.left_on(host).await?;
        ensure!(left.is_empty(), "{host}: {left:?}");
        let host = stage.bare_metal_hosts().get(host).await?;
        let ours = host
            .annotations()
            .keys()
            .find(|key| key.contains("rackhand"));
        ensure!(ours.is_none(), "{ours:?}");
        ensure!(
            host.finalizers().iter().all(|f| !f.contains("rackhand")),
            "{host:?}"
        );
    }
    let machine = stage.machines().get(WAITS).await?;
    let conditions = machine.data["status"].to_string();
    ensure!(!conditions.contains(SIGNAL), "left: {conditions}");
    let (again, text) = finished(uninstall(stage)?).await?;
    ensure!(again, "a second time: {text}");
    Ok(())
}

/// Remediations that were removed by hand, with their finalizers, leave taints.
#[tokio::test(flavor = "multi_thread")]
async fn f9_uninstallation_removes_own_taints_from_workload_clusters_and_names_unreachable_ones() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(Vec::new(), &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let east = Workload::start(&stage, "east").await.unwrap();
    let west = Workload::start(&stage, "west").await.unwrap();
    if let Err(error) = taints_of_workload_clusters(&stage, &east, &west).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn taints_of_workload_clusters(
    stage: &Stage,
    east: &Workload,
    west: &Workload,
) -> Result<()> {
    const FOREIGN: &str = "node-of-somebody-else";
    for (client, node, manager) in [
        (&east.client, NODE, MANAGER),
        (&west.client, NODE, MANAGER),
        (&west.client, FOREIGN, "kubectl-taint"),
    ] {
        apply(
            client,
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } }),
        )
        .await?;
        taint(client, node, manager).await?;
    }
    let condition = json!({ "status": { "conditions": [{
        "type": CONDITION, "status": "True", "reason": "BMCUnavailable", "message": "",
    }]}});
    let nodes: Api<Node> = Api::all(west.client.clone());
    nodes
        .patch_status(NODE, &PatchParams::default(), &Patch::Strategic(condition))
        .await?;

    east.plane.kill(Server::ApiServer)?;
    let (done, text) = finished(uninstall(stage)?).await?;
    ensure!(!done, "{text}");
    for told in [
        "cluster metal3/east: ",
        "--skip-cluster NAMESPACE/NAME",
        "removed: the taint node.kubernetes.io/out-of-service of node node-1 of cluster metal3/west\n",
        "removed: condition FencingUnavailable of node node-1 of cluster metal3/west\n",
        "kept: the taint node.kubernetes.io/out-of-service of node node-of-somebody-else of cluster \
         metal3/west: ",
    ] {
        ensure!(text.contains(told), "{told}: {text}");
    }
    ensure!(taints(&west.client, NODE).await? == ["other"], "west");
    let left = conditions(&west.client, NODE).await?;
    ensure!(left == ["Ready"], "conditions of west: {left:?}");
    ensure!(
        taints(&west.client, FOREIGN).await? == ["other", TAINT],
        "it is not ours"
    );
    let ours = |name: &String| name.ends_with(".rackhand.dev");
    ensure!(crds(stage).await?.iter().any(ours), "CRDs are kept");

    east.plane.restart(Server::ApiServer)?;
    wait_until("the API of east answers", LONG, || async {
        let answer = taints(&east.client, NODE).await;
        Ok(answer.map(drop).map_err(|error| format!("{error:#}")))
    })
    .await?;
    let mut wrong = uninstall(stage)?;
    wrong.arg("--skip-cluster=metal3/north");
    let (done, text) = finished(wrong).await?;
    ensure!(
        !done && text.contains("metal3/north: there is no Cluster"),
        "{text}"
    );

    west.plane.kill(Server::ApiServer)?;
    let mut skipping = uninstall(stage)?;
    skipping.arg("--skip-cluster=metal3/west");
    let (done, text) = finished(skipping).await?;
    ensure!(
        done && text.contains("skipped: cluster metal3/west"),
        "{text}"
    );
    ensure!(taints(&east.client, NODE).await? == ["other"], "east");
    ensure!(!crds(stage).await?.iter().any(ours), "CRDs are removed");
    Ok(())
}

/// Sets the out-of-service taint beside another taint.
async fn taint(client: &Client, node: &str, manager: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = json!({ "spec": { "taints": [
        { "key": "other", "effect": "NoSchedule" },
        { "key": TAINT, "value": "nodeshutdown", "effect": "NoExecute" },
    ]}});
    nodes.patch(node, &params, &Patch::Merge(patch)).await?;
    Ok(())
}

async fn taints(client: &Client, node: &str) -> Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let spec = nodes.get(node).await?.spec;
    let taints = spec.and_then(|spec| spec.taints).unwrap_or_default();
    Ok(taints.into_iter().map(|taint| taint.key).collect())
}

async fn conditions(client: &Client, node: &str) -> Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let status = nodes.get(node).await?.status;
    let conditions = status.and_then(|status| status.conditions);
    let types = conditions.into_iter().flatten().map(|c| c.type_);
    Ok(types.collect())
}

fn manager_of_taints(node: &Node) -> Option<&str> {
    let mut entries = node.meta().managed_fields.iter().flatten();
    let entry = entries.find(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| fields.0["f:spec"]["f:taints"].is_object())
    })?;
    entry.manager.as_deref()
}

async fn crds(stage: &Stage) -> Result<Vec<String>> {
    let crds: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let listed = crds.list(&ListParams::default()).await.context("CRDs")?;
    let gone = |crd: &CustomResourceDefinition| crd.metadata.deletion_timestamp.is_some();
    Ok(listed
        .iter()
        .filter(|crd| !gone(crd))
        .map(ResourceExt::name_any)
        .collect())
}
