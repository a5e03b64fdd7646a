//! Beside baremetal-operator and Ironic on a real control plane: neither side undoes the other, and
//! each host gets exactly the power commands that are planned for it.
//!
//! The operator and Ironic are a stand-in with shortened periods (60 s and 120 s are 1 s and 2 s
//! here). The tests share one stage with two controllers and run at the same time, each with
//! hosts of its own.

mod agent;
mod together;
mod undone;
mod waiting;
mod world;

use std::{path::Path, time::Duration};

use anyhow::{Result, bail};
use rackhand_tests::{
    bmo::Settings,
    stage::{Fixture, HostLink, RackSpec, Recorder, SharedFixture, Stage, StageConfig},
};

use agent::{alone, detached, let_go};
use together::{backing_off, foreign, path, plain, slow, synced};
use undone::{deleted, forced, off_again, undone};
use waiting::{offline, paused, servicing, unprovisioned, unswitchable};
use world::{GRACE, WELL, World};

static FIXTURE: SharedFixture<World> = SharedFixture::new();

impl Fixture for World {
    async fn start(dir: &Path) -> Result<Self> {
        let others = [
            "down-1", "late-1", "old-1", "ill-1", "away-1", "slow-1", "again-1",
        ];
        let hosts = WELL.iter().chain(&others).map(|&host| host.to_owned());
        let rack = RackSpec {
            hosts: hosts.collect(),
            ..RackSpec::new("metal", 0, HostLink::Managed)
        };
        let grace = format!("--cooperative-grace={}s", GRACE.as_secs());
        let config = StageConfig::steady(vec![rack], &["--power-timeout=30s", &grace]);
        let stage = Stage::start(dir, config).await?;
        if let Err(error) = begin(&stage).await {
            bail!("{error:#}\n{}", stage.report().await);
        }
        Ok(Self {
            recorder: Recorder::start(&stage.client),
            well: stage.start_metal3(&WELL, Settings::default())?,
            down: stage.start_metal3(&["down-1"], Settings::default())?,
            late: stage.start_metal3(
                &["late-1"],
                Settings {
                    sync: Duration::from_secs(6),
                    sync_retries: 1000,
                    ..Settings::default()
                },
            )?,
            _old: stage.start_metal3(
                &["old-1"],
                Settings {
                    deletes_holds: true,
                    ..Settings::default()
                },
            )?,
            ill: stage.start_metal3(
                &["ill-1"],
                Settings {
                    force: false,
                    ..Settings::default()
                },
            )?,
            slow: stage.start_metal3(&["slow-1"], Settings::default())?,
            away: stage.start_metal3(&["away-1"], Settings::default())?,
            alone: stage.start_metal3(&["again-1"], Settings::default())?,
            stage,
        })
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }
}

rackhand_tests::fixture_tests! {
    FIXTURE;
    the_operator_switches_off_and_on_at_our_word => path,
    f3_ironics_sync_leaves_a_held_host_off => synced,
    held_by_others_is_shown_and_waited_for => foreign,
    wanted_off_midway_is_cleaned_and_left_off => offline,
    a_paused_host_waits_until_it_is_not => paused,
    a_host_in_service_waits_for_its_end => servicing,
    a_host_that_is_not_provisioned_waits => unprovisioned,
    a_host_that_must_stay_on_is_refused => unswitchable,
    a_detached_host_is_the_agents_alone => detached,
    detached_midway_is_finished_by_the_agent => let_go,
    a_plain_reboot_annotation_is_answered_once => plain,
    f2_without_the_operator_the_agent_acts => alone,
    f3_what_ironic_forces_is_switched_off_again => forced,
    a2_a_hold_that_was_deleted_comes_back => deleted,
    a7_what_ironic_undoes_is_not_held_against_the_host => undone,
    f5_a_slow_operator_is_not_another_host => slow,
    what_is_forced_off_while_it_boots_is_switched_on_again => off_again,
    an_operator_in_backoff_holds_up_nothing => backing_off,
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.start_controller("controller-1").await?;
    stage.apply_health_check().await
}
