//! The conditions of hardware signals on Nodes and Machines, from the BMC to the API.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rackhand_api::views::{Condition, MachineView, find_condition};
use rackhand_core::signals::Signal;
use rackhand_tests::{
    rack::ResetType,
    stage::{HostLink, LONG, RackSpec, Stage, StageConfig, wait_until},
};
use serde_json::json;

use super::bmc_watch::measured;

const LOST: &str = Signal::PowerLost.condition_type();

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
        let machine = of_machine(stage, host).await?;
        ensure!(machine.is_none(), "the host of its Machine has power");
        let lost = Instant::now();
        stage
            .host(host)?
            .switch(ResetType::ForceOff, "loss of power");
        wait_for(stage, host, "True", "PowerOff").await?;
        println!(
            "{host}: PowerLost after {:.1} s",
            lost.elapsed().as_secs_f64()
        );
        let shown = wait_for_machine(stage, host, "True", "PowerOff").await?;
        println!(
            "{host}: its Machine shows it after {:.1} s",
            lost.elapsed().as_secs_f64()
        );
        let message = shown.message.unwrap_or_default();
        ensure!(
            message.contains("see to its power supply"),
            "what was decided: {message}"
        );
        stage.host(host)?.switch(ResetType::On, "power is back");
        wait_for(stage, host, "False", "").await?;
        wait_for_machine(stage, host, "False", "").await?;
        let conditions = view(stage, host).await?.conditions_v1beta2;
        let signals = conditions.iter().filter(|c| c.condition_type != LOST);
        let mut ours = signals.filter(|c| c.condition_type.starts_with("rackhand.dev/"));
        ensure!(
            ours.next().is_none(),
            "nothing else is written: {conditions:?}"
        );
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
    wait_for_machine(stage, "known-2", "False", "NodeCordoned").await?;
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

async fn wait_for_machine(
    stage: &Stage,
    name: &str,
    status: &str,
    reason: &str,
) -> Result<Condition> {
    let what = format!("Machine {name}: PowerLost is {status} {reason}");
    wait_until(&what, LONG, || async {
        let seen = of_machine(stage, name).await?;
        Ok(match seen {
            Some(c)
                if c.status == status
                    && (reason.is_empty() || c.reason.as_deref() == Some(reason)) =>
            {
                Ok(c)
            }
            seen => Err(format!("{seen:?}")),
        })
    })
    .await
}

async fn of_machine(stage: &Stage, name: &str) -> Result<Option<Condition>> {
    let view = view(stage, name).await?;
    Ok(find_condition(&view.conditions_v1beta2, LOST).cloned())
}

async fn view(stage: &Stage, name: &str) -> Result<MachineView> {
    Ok(MachineView::from_dynamic(
        &stage.machines().get(name).await?,
    )?)
}

async fn condition(stage: &Stage, node: &str) -> Result<Option<NodeCondition>> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let status = nodes.get(node).await?.status.unwrap_or_default();
    let mut conditions = status.conditions.into_iter().flatten();
    Ok(conditions.find(|c| c.type_ == LOST))
}
