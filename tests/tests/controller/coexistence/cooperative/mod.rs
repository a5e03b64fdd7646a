//! Coexistence with baremetal-operator and Ironic on a real control plane: neither side undoes the actions of
//! the other, and each host receives exactly the intended power commands.
//!
//! The operator and Ironic are a stand-in with shortened periods (60 s and 120 s are 1 s and 2 s
//! here). The tests share one stage with two controllers and run at the same time, each with
//! hosts of its own.

mod agent;
mod owner_acts;
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

use agent::{alone, detached, let_go, overruled, unheld};
use owner_acts::{deprovisioned, failing, paused_midway, serviced};
use together::{backing_off, foreign, path, plain, slow, synced, woken};
use undone::{deleted, forced, undone};
use waiting::{offline, paused, servicing, unprovisioned, unswitchable};
use world::{GRACE, WELL, World};

static FIXTURE: SharedFixture<World> = SharedFixture::new();

impl Fixture for World {
    async fn start(dir: &Path) -> Result<Self> {
        let others = [
            "down-1", "late-1", "old-1", "ill-1", "ill-2", "away-1", "slow-1", "held-1", "again-1",
            "weary-1",
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
            well: stage.start_metal3(&WELL, Settings::default()).await?,
            down: stage.start_metal3(&["down-1"], Settings::default()).await?,
            late: stage
                .start_metal3(
                    &["late-1"],
                    Settings {
                        sync: Duration::from_secs(6),
                        sync_retries: 1000,
                        ..Settings::default()
                    },
                )
                .await?,
            _old: stage
                .start_metal3(
                    &["old-1"],
                    Settings {
                        deletes_holds: true,
                        ..Settings::default()
                    },
                )
                .await?,
            ill: stage
                .start_metal3(
                    &["ill-1", "ill-2"],
                    Settings {
                        force: false,
                        ..Settings::default()
                    },
                )
                .await?,
            slow: stage.start_metal3(&["slow-1"], Settings::default()).await?,
            away: stage.start_metal3(&["away-1"], Settings::default()).await?,
            held: stage.start_metal3(&["held-1"], Settings::default()).await?,
            weary: stage
                .start_metal3(
                    &["weary-1"],
                    Settings {
                        backoff: Duration::from_secs(3600),
                        force: false,
                        ..Settings::default()
                    },
                )
                .await?,
            alone: stage
                .start_metal3(&["again-1"], Settings::default())
                .await?,
            stage,
        })
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }
}

rackhand_tests::fixture_tests! {
    FIXTURE;
    baremetal_operator_switches_off_and_on_by_hold_key => path,
    f3_ironic_power_sync_keeps_held_host_off => synced,
    foreign_hold_is_reported_and_awaited => foreign,
    host_set_offline_midway_is_cleaned_up_and_stays_off => offline,
    paused_host_blocks_remediation => paused,
    servicing_host_blocks_remediation => servicing,
    unprovisioned_host_blocks_remediation => unprovisioned,
    host_with_disabled_power_off_blocks_remediation => unswitchable,
    detached_host_is_switched_by_agent_only => detached,
    host_detached_midway_is_switched_on_by_agent => let_go,
    plain_reboot_annotation_is_removed_while_host_is_held => plain,
    f16_host_waits_for_an_absent_baremetal_operator_and_stays_on => alone,
    f2_nothing_is_begun_while_the_webhook_of_baremetal_operator_is_away => unheld,
    f16_person_takes_the_power_from_an_absent_baremetal_operator => overruled,
    f3_host_forced_on_by_ironic_is_switched_off_again => forced,
    a2_hold_deleted_by_old_operator_is_restored => deleted,
    f16_agent_does_not_switch_on_what_ironic_has_as_off => undone,
    f16_nothing_is_sent_to_a_host_that_is_serviced_while_held => serviced,
    f16_nothing_is_sent_to_a_host_that_is_deprovisioned_while_held => deprovisioned,
    f16_host_that_is_paused_while_held_waits_for_its_owner => paused_midway,
    f16_host_stays_off_while_ironic_fails => failing,
    f5_late_power_on_by_baremetal_operator_is_no_identity_mismatch => slow,
    f16_renewed_hold_wakes_a_baremetal_operator_that_backs_off => woken,
    baremetal_operator_in_backoff_does_not_delay_remediation => backing_off,
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.start_controller("controller-1").await?;
    stage.apply_health_check().await
}
