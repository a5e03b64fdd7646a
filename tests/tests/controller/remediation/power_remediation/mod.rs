//! PowerRemediation on a real control plane: by Machine and by Node, every strategy, every outcome, and the
//! output for people.
//!
//! All scenarios run at the same time on one stage, each with hosts of its own.

pub mod exhausted;
mod orphans;
mod other_node;
pub mod policies;
pub mod requesters;
mod shared_causes;
pub mod strategies;
pub mod world;

use anyhow::{Result, ensure};
use rackhand_tests::stage::{
    HostLink, LONG, RackSpec, Recorder, Scenarios, Stage, StageConfig, wait_until,
};

use exhausted::{escalate, notify, retire, stay_off};
use orphans::{check_deleted, leave_behind, left_behind};
use other_node::{machine_without_node_ref, renamed_before, renamed_by_own_cycle};
use policies::{approval_and_budget, freeze_and_mistake};
use requesters::{by_check, by_node, openshift, told_to_stop};
use strategies::{delete_node, held_by_another, power_cycle, power_off};
use world::World;

fn racks() -> Vec<RackSpec> {
    let rack = |name: &str, hosts: &[&str], link| RackSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..RackSpec::new(name, 0, link).in_pool("by-hand")
    };
    vec![
        RackSpec::new("mhc", 1, HostLink::Inventory).in_pool("power"),
        RackSpec::new("lone", 1, HostLink::Managed).in_pool("lone"),
        rack(
            "known",
            &[
                "off-1", "cycle-1", "node-1", "esc-1", "told-1", "stay-1", "late-1", "old-1",
                "pol-1", "pol-2", "pol-3", "pol-4", "pol-5", "ren-1", "ren-2",
            ],
            HostLink::Inventory,
        ),
        rack(
            "managed",
            &["kept-1", "retire-1", "ocp-1", "unl-1"],
            HostLink::Managed,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn power_remediation_follows_its_spec_and_reports_status() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(racks(), &["--power-timeout=60s", "--cooperative-grace=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add(
        "health_check_with_power_remediation_template_restores_host",
        by_check(w),
    );
    all.add(
        "power_off_strategy_keeps_host_off_until_deleted",
        power_off(w),
    );
    all.add("f9_host_held_by_other_owner_stays_off", held_by_another(w));
    all.add("power_cycle_first_keeps_pods_in_place", power_cycle(w));
    all.add(
        "remediation_by_node_needs_no_machine_and_is_not_deleted",
        by_node(w),
    );
    all.add(
        "f14_rename_in_own_power_cycle_causes_no_second_one",
        renamed_by_own_cycle(w),
    );
    all.add(
        "f14_host_under_another_node_name_is_not_switched_off",
        renamed_before(w),
    );
    all.add(
        "f14_ready_node_of_machine_without_noderef_is_not_switched_off",
        machine_without_node_ref(w),
    );
    all.add("openshift_machine_resolves_node_and_host", openshift(w));
    all.add("exhausted_escalate_sets_owner_remediated", escalate(w));
    all.add("exhausted_retire_also_marks_host", retire(w));
    all.add("exhausted_notify_only_reports", notify(w));
    all.add(
        "exhausted_stay_off_keeps_host_off_until_deleted",
        stay_off(w),
    );
    all.add(
        "f4_stopped_remediation_drains_and_restores_host",
        told_to_stop(w),
    );
    all.add(
        "recreated_node_gets_saved_labels_and_annotations",
        delete_node(w),
    );
    all.add(
        "power_policy_requires_approval_and_keeps_its_budget",
        approval_and_budget(w),
    );
    all.add(
        "power_policy_freezes_and_one_with_a_mistake_holds",
        freeze_and_mistake(w),
    );
    all.add(
        "f11_pending_remediation_of_deleted_check_is_withdrawn_without_power_off",
        check_deleted(w),
    );
    all.add(
        "f11_foreign_remediation_of_check_deleted_before_start_is_withdrawn",
        left_behind(w),
    );
    let outcome = all.run().await;
    let outcome = match outcome {
        Ok(()) => metrics(w).await,
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        let objects = world.shown().await;
        panic!("{error:#}\n{objects}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    // Manifests for remediations by Node, and for clusters in which Nodes are deleted.
    for folder in ["nodes", "workload-delete-node"] {
        stage.install(folder).await?;
    }
    leave_behind(stage).await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

async fn metrics(w: &World) -> Result<()> {
    let twice = w.stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    let parts = [
        "rackhand_remediations_total{outcome=\"fenced\",cause=\"Fenced\"}",
        "rackhand_remediations_total{outcome=\"kept_off\",cause=\"ExhaustedKeptOff\"} 1",
        "rackhand_remediations_total{outcome=\"escalated\",cause=\"Exhausted\"} 2",
        "rackhand_remediations_total{outcome=\"failed\",cause=\"NodeNotFound\"} 2",
        "rackhand_fence_violations_total{reason=\"FenceViolated\"} 1",
        "rackhand_remediation_step_seconds_bucket{le=\"",
        "rackhand_remediations_blocked",
    ];
    // A remediation is counted after the write of its last state.
    wait_until("all is counted", LONG, || async {
        let (status, text) = w.stage.admin("controller-0", "/metrics").await?;
        ensure!(status == 200, "{status}");
        let missing = parts.iter().find(|part| !text.contains(**part));
        Ok(missing.map_or(Ok(()), |part| Err(format!("{part} is missing in\n{text}"))))
    })
    .await
}
