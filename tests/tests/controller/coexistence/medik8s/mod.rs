//! Coexistence with medik8s and OpenShift: PowerRemediations of medik8s' operator, and NodeHealthChecks with
//! a crash of the controller and with OpenShift's kinds.
//!
//! All scenarios share one stage. The test acts as medik8s' operator with exactly its aggregated rights. Only
//! annotated checks are evaluated here.

mod checks;
mod crash;
mod objects;
mod openshift;
mod operator;
mod world;

use anyhow::Result;
use kube::{
    Client,
    api::{DeleteParams, ListParams},
};
use rackhand_tests::{
    cluster::{apply_yaml, client_of},
    stage::{CLUSTER, HostLink, RackSpec, Recorder, Scenarios, Stage, StageConfig},
};

use objects::{OPERATOR, TEMPLATES, kinds};
use world::World;

#[tokio::test(flavor = "multi_thread")]
async fn node_health_checks_coexist_with_medik8s_operator_and_openshift() {
    let rack = RackSpec::new("bare", 2, HostLink::Inventory);
    let arguments = ["--power-timeout=20s", "--health-checks=annotated"];
    let config = StageConfig::steady(vec![rack], &arguments);
    let (_dir, stage, operator) = crate::prepared(config, begin).await;
    let world = World {
        recorder: Recorder::start(&stage.client),
        stage,
        operator,
    };
    let w = &world;
    let mut all = Scenarios::new();
    all.add(
        "successful_remediation_is_deleted_by_medik8s_only",
        operator::succeeds(w),
    );
    all.add(
        "stopped_remediation_cleans_up_and_next_step_continues",
        operator::stops(w),
    );
    all.add("new_leader_continues_escalation_step", crash::crash(w));
    let all = async {
        all.run().await?;
        // This scenario affects every check of the cluster, so it runs last.
        openshift::openshift(w).await
    };
    // On an overloaded machine a leader loses its Lease, ends, and is started again.
    let restarts = async {
        tokio::try_join!(
            w.stage.supervise("controller-0"),
            w.stage.supervise("controller-1"),
            w.stage.supervise("controller-2"),
        )
    };
    let outcome = tokio::select! {
        outcome = all => outcome,
        ended = restarts => ended.map(drop),
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<Client> {
    // Removes Cluster API's kinds from the cluster.
    let all = DeleteParams::default();
    let machines = stage.machines();
    machines
        .delete_collection(&all, &ListParams::default())
        .await?;
    let clusters = stage.api("cluster.x-k8s.io", "v1beta1", "Cluster");
    clusters.delete(CLUSTER, &all).await?;
    stage.install("node-health-checks").await?;
    stage.install_openshift().await?;
    for text in [OPERATOR, TEMPLATES, kinds().as_str()] {
        apply_yaml(&stage.client, text).await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    let account = "node-healthcheck-controller-manager";
    client_of(&stage.plane().kubeconfig_of("default", account).await?).await
}
