//! Beside medik8s and OpenShift: our remediation as medik8s' operator uses it, and our health checks of
//! Nodes where the controller dies in the middle, or where OpenShift has a say.
//!
//! All of it runs on one stage. The operator's part is played with exactly the rights that it gathers by
//! its label, and its checks are not evaluated here: only those that say so are.

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
    stage::{CLUSTER, HostLink, RackSpec, Scenarios, Stage, StageConfig},
};

use objects::{KINDS, OPERATOR, TEMPLATES};
use world::World;

#[tokio::test(flavor = "multi_thread")]
async fn node_health_checks_coexist_with_medik8s_operator_and_openshift() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("bare", 2, HostLink::Inventory);
    let arguments = ["--power-timeout=20s", "--health-checks=annotated"];
    let config = StageConfig::steady(vec![rack], &arguments);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let operator = match begin(&stage).await {
        Ok(operator) => operator,
        Err(error) => panic!("{error:#}\n{}", stage.report().await),
    };
    let world = World { stage, operator };
    let w = &world;
    let mut all = Scenarios::new();
    all.add(
        "its_remediation_succeeds_and_is_left_to_it",
        operator::succeeds(w),
    );
    all.add(
        "told_to_stop_it_cleans_up_and_the_next_goes_on",
        operator::stops(w),
    );
    all.add(
        "a_new_leader_goes_on_in_the_middle_of_a_step",
        crash::crash(w),
    );
    let all = async {
        all.run().await?;
        // It concerns every check of the cluster.
        openshift::openshift(w).await
    };
    // On a machine that is too busy a leader loses its Lease, ends, and is started again.
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
    // A cluster that knows nothing of Cluster API.
    let all = DeleteParams::default();
    let machines = stage.machines();
    machines
        .delete_collection(&all, &ListParams::default())
        .await?;
    let clusters = stage.api("cluster.x-k8s.io", "v1beta1", "Cluster");
    clusters.delete(CLUSTER, &all).await?;
    stage.install("node-health-checks").await?;
    stage.install_openshift().await?;
    for text in [OPERATOR, TEMPLATES, KINDS] {
        apply_yaml(&stage.client, text).await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    let account = "node-healthcheck-controller-manager";
    client_of(&stage.plane().kubeconfig_of("default", account).await?).await
}
