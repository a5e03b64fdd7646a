//! Beside baremetal-operator and Ironic on a real control plane: neither side undoes the other, and
//! each host gets exactly the power commands that are planned for it.
//!
//! The operator and Ironic are a stand-in with shortened periods (60 s and 120 s are 1 s and 2 s
//! here). All scenarios run at the same time on one stage with two controllers, each with hosts of
//! its own.

mod agent;
mod together;
mod undone;
mod waiting;
mod world;

use std::time::Duration;

use anyhow::{Result, ensure};
use rackhand_tests::{
    bmo::Settings,
    stage::{HostLink, RackSpec, Recorder, Scenarios, Stage, StageConfig},
};

use agent::{alone, detached, let_go};
use together::{backing_off, foreign, path, plain, slow, synced};
use undone::{deleted, forced, off_again, undone};
use waiting::{offline, paused, servicing, unprovisioned, unswitchable};
use world::{GRACE, WELL, World};

#[tokio::test(flavor = "multi_thread")]
async fn beside_baremetal_operator_neither_side_undoes_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let others = [
        "down-1", "late-1", "old-1", "ill-1", "away-1", "slow-1", "again-1",
    ];
    let hosts = WELL.iter().chain(&others).map(|&host| host.to_owned());
    let rack = RackSpec {
        hosts: hosts.collect(),
        ..RackSpec::new("metal", 0, HostLink::Managed)
    };
    let config = StageConfig::steady(
        vec![rack],
        &[
            "--power-timeout=30s",
            &format!("--cooperative-grace={}s", GRACE.as_secs()),
        ],
    );
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let world = World {
        recorder: Recorder::start(&stage.client),
        well: stage.start_metal3(&WELL, Settings::default()).unwrap(),
        down: stage
            .start_metal3(&["down-1"], Settings::default())
            .unwrap(),
        late: stage
            .start_metal3(
                &["late-1"],
                Settings {
                    sync: Duration::from_secs(6),
                    sync_retries: 1000,
                    ..Settings::default()
                },
            )
            .unwrap(),
        _old: stage
            .start_metal3(
                &["old-1"],
                Settings {
                    deletes_holds: true,
                    ..Settings::default()
                },
            )
            .unwrap(),
        ill: stage
            .start_metal3(
                &["ill-1"],
                Settings {
                    force: false,
                    ..Settings::default()
                },
            )
            .unwrap(),
        slow: stage
            .start_metal3(&["slow-1"], Settings::default())
            .unwrap(),
        away: stage
            .start_metal3(&["away-1"], Settings::default())
            .unwrap(),
        alone: stage
            .start_metal3(&["again-1"], Settings::default())
            .unwrap(),
        stage,
    };
    let w = &world;

    let mut all = Scenarios::new();
    all.add("the_operator_switches_off_and_on_at_our_word", path(w));
    all.add("f3_ironics_sync_leaves_a_held_host_off", synced(w));
    all.add("held_by_others_is_shown_and_waited_for", foreign(w));
    all.add("wanted_off_midway_is_cleaned_and_left_off", offline(w));
    all.add("a_paused_host_waits_until_it_is_not", paused(w));
    all.add("a_host_in_service_waits_for_its_end", servicing(w));
    all.add("a_host_that_is_not_provisioned_waits", unprovisioned(w));
    all.add("a_host_that_must_stay_on_is_refused", unswitchable(w));
    all.add("a_detached_host_is_the_agents_alone", detached(w));
    all.add("detached_midway_is_finished_by_the_agent", let_go(w));
    all.add("a_plain_reboot_annotation_is_answered_once", plain(w));
    all.add("f2_without_the_operator_the_agent_acts", alone(w));
    all.add("f3_what_ironic_forces_is_switched_off_again", forced(w));
    all.add("a2_a_hold_that_was_deleted_comes_back", deleted(w));
    all.add(
        "a7_what_ironic_undoes_is_not_held_against_the_host",
        undone(w),
    );
    all.add("f5_a_slow_operator_is_not_another_host", slow(w));
    all.add(
        "what_is_forced_off_while_it_boots_is_switched_on_again",
        off_again(w),
    );
    all.add("an_operator_in_backoff_holds_up_nothing", backing_off(w));
    let outcome = all.run().await;
    let outcome = outcome.and_then(|()| {
        let twice = w.stage.ran_twice();
        ensure!(twice.is_empty(), "ran twice: {twice:?}");
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.start_controller("controller-1").await?;
    stage.apply_health_check().await
}
