//! The Node conditions of hardware signals, from the BMC to the API.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rackhand_core::signals::Signal;
use rackhand_tests::{
    rack::ResetType,
    stage::{HostLink, LONG, RackSpec, Stage, StageConfig, wait_until},
};
use serde_json::json;

use super::bmc_watch::measured;

#[tokio::test(flavor = "multi_thread")]
async fn host_that_loses_its_power_is_said_to_until_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("known", 2, HostLink::Inventory),
        RackSpec::new("managed", 2, HostLink::Managed),
    ];
    // Only what is published is looked at: no check acts on it.
    let config = StageConfig::steady(racks, &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.apply_health_check().await?;
    let checks = stage.checks();
    stage
        .annotate(
            &checks,
            "worker-healthcheck",
            "cluster.x-k8s.io/paused",
            Some(""),
        )
        .await?;
    stage.start_controller("controller-0").await?;
    measured(stage, "rackhand_hardware_signal_watched_hosts 4").await?;
    for host in ["known-1", "managed-1"] {
        ensure!(condition(stage, host).await?.is_none(), "{host} has power");
        let lost = Instant::now();
        stage
            .host(host)?
            .switch(ResetType::ForceOff, "loss of power");
        wait_for(stage, host, "True", "PowerOff").await?;
        println!(
            "{host}: PowerLost after {:.1} s",
            lost.elapsed().as_secs_f64()
        );
        stage.host(host)?.switch(ResetType::On, "power is back");
        wait_for(stage, host, "False", "").await?;
    }
    // A person works on it.
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes
        .patch("known-2", &PatchParams::default(), &cordon)
        .await?;
    stage
        .host("known-2")?
        .switch(ResetType::ForceOff, "a person");
    wait_for(stage, "known-2", "False", "NodeCordoned").await?;
    measured(
        stage,
        "rackhand_hardware_signal_nodes{signal=\"PowerLost\"} 0",
    )
    .await?;
    for host in ["known-1", "known-2", "managed-1", "managed-2"] {
        let switched = stage.host(host)?.switched();
        let causes = switched
            .iter()
            .filter_map(|switched| switched.cause.as_ref());
        let of_rackhand = causes.filter(|cause| cause.by == "rackhand").count();
        ensure!(of_rackhand == 0, "{host} was switched because of a signal");
    }
    Ok(())
}

async fn wait_for(stage: &Stage, node: &str, status: &str, reason: &str) -> Result<()> {
    let what = format!("{node}: PowerLost is {status} {reason}");
    wait_until(&what, LONG, || async {
        let seen = condition(stage, node).await?;
        let is_so = seen.as_ref().is_some_and(|c| {
            let is_reason = reason.is_empty() || c.reason.as_deref() == Some(reason);
            c.status == status && is_reason
        });
        Ok(if is_so {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        })
    })
    .await
}

async fn condition(stage: &Stage, node: &str) -> Result<Option<NodeCondition>> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let status = nodes.get(node).await?.status.unwrap_or_default();
    let mut conditions = status.conditions.into_iter().flatten();
    Ok(conditions.find(|c| c.type_ == Signal::PowerLost.condition_type()))
}
