//! PowerRemediation on a real control plane: by Machine and by Node, every strategy, every end, and
//! what people read about it.
//!
//! All scenarios run at the same time on one stage, each with hosts of its own.

pub mod exhausted;
mod orphans;
mod policies;
pub mod requesters;
pub mod strategies;
pub mod world;

use anyhow::{Result, ensure};
use rackhand_tests::stage::{HostLink, RackSpec, Recorder, Scenarios, Stage, StageConfig};

use exhausted::{escalate, notify, retire, stay_off};
use orphans::{check_deleted, leave_behind, left_behind};
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
                "pol-1", "pol-2", "pol-3", "pol-4",
            ],
            HostLink::Inventory,
        ),
        rack(
            "managed",
            &["kept-1", "retire-1", "ocp-1"],
            HostLink::Managed,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn power_remediation_follows_its_spec_and_reports_status() {
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
    all.add(
        "a_health_check_with_our_template_brings_a_host_back",
        by_check(w),
    );
    all.add(
        "power_off_stays_off_until_deleted_and_is_shown",
        power_off(w),
    );
    all.add(
        "f9_a_host_that_another_holds_is_left_off",
        held_by_another(w),
    );
    all.add("a_power_cycle_first_moves_nothing", power_cycle(w));
    all.add(
        "by_node_without_a_machine_and_never_deleted_by_us",
        by_node(w),
    );
    all.add("a_machine_of_openshift_names_node_and_host", openshift(w));
    all.add("exhausted_escalate_tells_the_owner", escalate(w));
    all.add("exhausted_retire_marks_the_host_too", retire(w));
    all.add("exhausted_notify_only_says_so", notify(w));
    all.add("exhausted_stay_off_is_off_until_deleted", stay_off(w));
    all.add(
        "f4_told_to_stop_it_drains_and_brings_the_host_back",
        told_to_stop(w),
    );
    all.add("a_deleted_node_gets_back_what_it_had", delete_node(w));
    all.add(
        "power_policy_requires_approval_and_keeps_its_budget",
        approval_and_budget(w),
    );
    all.add(
        "power_policy_freezes_and_one_with_a_mistake_holds",
        freeze_and_mistake(w),
    );
    all.add(
        "f11_a_request_that_waits_goes_with_its_check_and_nothing_is_switched",
        check_deleted(w),
    );
    all.add(
        "f11_a_foreign_request_whose_check_went_away_before_the_start_is_withdrawn",
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
    // What users add for requests by Node, and for clusters whose Nodes are deleted.
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
    let (status, text) = w.stage.admin("controller-0", "/metrics").await?;
    ensure!(status == 200, "{status}");
    for part in [
        "rackhand_remediations_total{outcome=\"fenced\",cause=\"Fenced\"}",
        "rackhand_remediations_total{outcome=\"kept_off\",cause=\"ExhaustedKeptOff\"} 1",
        "rackhand_remediations_total{outcome=\"escalated\",cause=\"Exhausted\"} 2",
        "rackhand_remediations_total{outcome=\"failed\",cause=\"NodeNotFound\"} 1",
        "rackhand_fence_violations_total{reason=\"FenceViolated\"} 1",
        "rackhand_remediation_step_seconds_bucket{le=\"",
        "rackhand_remediations_blocked",
    ] {
        ensure!(text.contains(part), "{part} is missing in\n{text}");
    }
    Ok(())
}
