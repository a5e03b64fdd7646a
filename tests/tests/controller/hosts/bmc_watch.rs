//! The Node condition that tells that a BMC could not fence its host.

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    core::v1::{Node, NodeCondition},
    events::v1::Event,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use rackhand_tests::stage::{HostLink, LONG, NAMESPACE, RackSpec, Stage, StageConfig, wait_until};
use serde_json::json;

const CONTROLLER: &str = "controller-0";
const PAUSED: &str = "baremetalhost.metal3.io/paused";

#[tokio::test(flavor = "multi_thread")]
async fn node_of_an_unavailable_bmc_has_a_condition_until_it_answers() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("known", 2, HostLink::Inventory),
        RackSpec::new("managed", 1, HostLink::Managed),
    ];
    let config = StageConfig::steady(racks, &["--bmc-check-interval=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = run(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.apply_health_check().await?;
    stage.start_controller(CONTROLLER).await?;
    is_reported(stage, "known-1", "rackhand-agent host check known-1").await?;
    is_reported(stage, "managed-1", "kubectl rackhand preflight").await?;
    for rack in ["known", "managed"] {
        let line = format!("rackhand_fencing_unavailable_hosts{{rack=\"{rack}\"}} 1");
        measured(stage, &line).await?;
    }
    stage.host("known-1")?.bmc_alive().await?;
    wait_for(stage, "known-1", "False", "answers").await?;
    stage.host("managed-1")?.bmc_alive().await?;
    wait_for(stage, "managed-1", "False", "answers").await?;
    ensure!(condition(stage, "known-2").await?.is_none(), "it answered");
    owner_has_it_off(stage, "managed-1").await?;
    for host in ["known-1", "known-2", "managed-1"] {
        stage.untouched(host)?;
    }
    Ok(())
}

/// F16: a host that is on while its BareMetalHost reports off is reported until that has changed.
async fn owner_has_it_off(stage: &Stage, host: &str) -> Result<()> {
    let hosts = stage.bare_metal_hosts();
    // baremetal-operator would report the host on at its next look.
    stage.annotate(&hosts, host, PAUSED, Some("test")).await?;
    let status = Patch::Merge(json!({ "status": { "poweredOn": false } }));
    hosts
        .patch_status(host, &PatchParams::default(), &status)
        .await?;
    counts(stage, 1).await?;
    stage.annotate(&hosts, host, PAUSED, None).await?;
    counts(stage, 0).await?;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let told = wait_until("its Event", LONG, || async {
        let told = events.list(&ListParams::default()).await?;
        let mut told = told.items.into_iter();
        let told = told.find(|event| event.reason.as_deref() == Some("OwnerHasHostAsOff"));
        Ok(told.ok_or_else(|| "no Event".to_owned()))
    })
    .await?;
    let note = told.note.unwrap_or_default();
    ensure!(note.contains(host) && note.contains("Ironic"), "{note}");
    Ok(())
}

async fn counts(stage: &Stage, count: u32) -> Result<()> {
    let line = format!("rackhand_owner_has_host_off_hosts{{rack=\"managed\"}} {count}");
    measured(stage, &line).await
}

/// Waits until the metrics of the controller have this line.
pub async fn measured(stage: &Stage, line: &str) -> Result<()> {
    wait_until(line, LONG, || async {
        let (_, metrics) = stage.admin(CONTROLLER, "/metrics").await?;
        Ok(metrics.contains(line).then_some(()).ok_or(metrics))
    })
    .await
}

/// The Node of a host whose BMC dies gets the condition, and the host is left alone.
pub async fn is_reported(stage: &Stage, host: &str, advice: &str) -> Result<()> {
    stage.host(host)?.bmc_dead().await?;
    wait_for(stage, host, "True", advice).await
}

pub async fn wait_for(stage: &Stage, node: &str, status: &str, message: &str) -> Result<()> {
    wait_until(
        &format!("{node}: FencingUnavailable is {status}"),
        LONG,
        || async {
            let seen = condition(stage, node).await?;
            let is_so = seen.as_ref().is_some_and(|c| {
                c.status == status && c.message.as_deref().is_some_and(|m| m.contains(message))
            });
            Ok(if is_so {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            })
        },
    )
    .await
}

async fn condition(stage: &Stage, node: &str) -> Result<Option<NodeCondition>> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let status = nodes.get(node).await?.status.unwrap_or_default();
    let mut conditions = status.conditions.into_iter().flatten();
    Ok(conditions.find(|c| c.type_ == "FencingUnavailable"))
}
