//! Kinds that cannot be read for a while are unknown, and detection goes on afterwards (F12).

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::{core::v1::Node, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::stage::{Stage, wait_until};
use serde_json::{Value, json};

use super::{fleet::*, mode::Mode};

const MODE: Mode = Mode::Template;
const MEMBERS: usize = 3;
/// A watch that has begun goes on for a minute after its rights are gone.
const REPORTED: Duration = Duration::from_secs(75);

/// A controller that evaluates healthy Machines.
async fn watched_fleet(stage: &Stage) -> Result<()> {
    stage.start_controller(CONTROLLER).await?;
    MODE.make_check(stage, "100%").await?;
    each(MEMBERS, |i| async move {
        let name = MODE.fresh(i);
        MODE.make_machine(stage, &name).await?;
        make_node(stage, &name, MODE).await?;
        MODE.join(stage, &name, &name).await
    })
    .await?;
    judged(stage, MODE, MEMBERS, MEMBERS).await
}

/// Waits until exactly these Machines have a remediation.
async fn remediated(stage: &Stage, machines: &[String]) -> Result<()> {
    wait_until("the remediations", PATIENCE, || async {
        let mut found = MODE.handed_over(stage).await?;
        found.sort();
        Ok(if found == machines {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_rights_taken_away_are_reported_and_detection_goes_on_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let stage = begin(dir.path()).await.unwrap();
    if let Err(error) = rights(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn rights(stage: &Stage) -> Result<()> {
    watched_fleet(stage).await?;
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    let name = "rackhand-controller";
    let rules = roles.get(name).await?.rules.unwrap_or_default();
    let machines = Some(vec!["machines".to_owned()]);
    let rest = rules.iter().filter(|rule| rule.resources != machines);
    let rest: Vec<_> = rest.collect();
    ensure!(rest.len() < rules.len(), "no rule is about Machines alone");
    let set = async |rules: Value| {
        let patch = Patch::Merge(json!({ "rules": rules }));
        roles.patch(name, &PatchParams::default(), &patch).await
    };
    set(json!(rest)).await?;
    let began = Instant::now();
    let failed = MODE.fresh(1);
    judged(stage, MODE, MEMBERS, 0).await?;
    let took = began.elapsed();
    ensure!(took < REPORTED, "it was reported after {took:?}");
    set_node(stage, &failed, false).await?;
    // The check of Nodes goes on with its rights, which shows that the controller does.
    Mode::Nodes.make_check(stage, "100%").await?;
    make_node(stage, "alone", Mode::Nodes).await?;
    judged(stage, Mode::Nodes, 1, 1).await?;
    let made = MODE.handed_over(stage).await?;
    ensure!(made.is_empty(), "remediated by a stale view: {made:?}");
    set(json!(rules)).await?;
    remediated(stage, &[failed]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_detection_goes_on_without_a_dropped_version_and_without_a_time_in_a_condition() {
    let dir = tempfile::tempdir().unwrap();
    let stage = begin(dir.path()).await.unwrap();
    if let Err(error) = dropped(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn dropped(stage: &Stage) -> Result<()> {
    watched_fleet(stage).await?;
    let names = [0, 1].map(|i| MODE.fresh(i));
    timeless(stage, &MODE.fresh(2)).await?;
    set_node(stage, &names[0], false).await?;
    remediated(stage, &names[..1]).await?;
    let crd = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crd = ApiResource::from_gvk(&crd);
    let crds: Api<DynamicObject> = Api::all_with(stage.client.clone(), &crd);
    for kind in ["machines", "machinehealthchecks", "clusters"] {
        let name = format!("{kind}.cluster.x-k8s.io");
        let mut crd = crds.get(&name).await?;
        let versions = crd.data["spec"]["versions"].as_array_mut();
        let mut preferred = versions.into_iter().flatten();
        let preferred = preferred.find(|version| version["storage"] == false);
        let Some(preferred) = preferred else {
            anyhow::bail!("{name} has one version");
        };
        preferred["served"] = false.into();
        crds.replace(&name, &PostParams::default(), &crd).await?;
    }
    set_node(stage, &names[1], false).await?;
    remediated(stage, &names).await
}

/// Adds a condition without a time to a Node, as a small agent does.
async fn timeless(stage: &Stage, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "lastTransitionTime": null, "lastHeartbeatTime": null });
    let conditions = [
        condition("Ready", "True"),
        condition("ExampleAgentHealthy", "False"),
    ];
    let status = Patch::Merge(json!({ "status": { "conditions": conditions } }));
    let params = PatchParams::default();
    let node = nodes.patch_status(name, &params, &status).await?;
    let told = node.status.and_then(|status| status.conditions);
    let has_time = told
        .iter()
        .flatten()
        .any(|c| c.last_transition_time.is_some());
    ensure!(!has_time, "the API server sets times: {told:?}");
    Ok(())
}
