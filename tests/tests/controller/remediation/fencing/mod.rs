//! Fencing on a real control plane: an unconfirmed power-off never counts as off, everything that was added
//! is removed, and a blocked host does not delay others.
//!
//! The tests share one stage and run at the same time, each with hosts of its own.
//!
//! The tests of each rule on a real control plane; tests named `f1_...` in the cores cover each rule alone:
//!
//! | rule | here | elsewhere |
//! |---|---|---|
//! | F1 | `f1_...` | `failure_table` |
//! | F2 | `f2_...` | `cooperative`, `crash` |
//! | F3 | `f3_...` | `cooperative` |
//! | F4 | `f4_...` | `power_remediation`, `failure_table` |
//! | F5 | `f5_...` | |
//! | F6 | | `failure_table` |
//! | F7 | | `crash`, and `authority` of the agent's service |
//! | F8 | `f8_...` | |
//! | F9 | `f9_...` | `power_remediation`, `input` |
//! | F10 | `f10_...` | |
//! | F11 | `f11_...` | `input` |
//! | L1 | the end of every scenario: back, or blocked with its reason | `failure_table` |

mod identity;
mod limit;
mod order;
mod unconfirmed;
mod withdrawn;
mod world;

use std::{path::Path, sync::atomic::AtomicBool};

use anyhow::{Result, bail};
use rackhand_tests::stage::{
    Fixture, HostLink, RackSpec, Recorder, SharedFixture, Stage, StageConfig,
};

use identity::{foreign, lie, swapped};
use limit::{limit_forty, limit_zero};
use order::{drained_first, held_first, recovered_agentless, switched_on};
use unconfirmed::{agentless, ignoring, lost_state, persons_word, refused, silent, stuck};
use withdrawn::{
    offline_powering_on, withdrawn_booting, withdrawn_draining, withdrawn_off,
    withdrawn_powering_off, withdrawn_powering_on,
};
use world::World;

fn racks() -> Vec<RackSpec> {
    let known = |name: &str, hosts: &[&str]| RackSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..RackSpec::new(name, 0, HostLink::Inventory)
    };
    vec![
        known(
            "many",
            &[
                "fine-1", "bmc-1", "bmc-2", "bmc-3", "bmc-4", "bmc-5", "bmc-6", "word-1", "lie-1",
                "drain-1", "drain-2",
            ],
        ),
        known("gone", &["gone-1"]),
        known("away", &["away-1"]),
        known("zero", &["zero-1"]).in_pool("zero"),
        known("forty", &["forty-1", "forty-2", "forty-3", "forty-4"]).in_pool("forty"),
        RackSpec::new("swap", 2, HostLink::Detached),
        RackSpec::new("held", 1, HostLink::Managed),
        RackSpec::new("del", 6, HostLink::Managed).in_pool("by-hand"),
    ]
}

static FIXTURE: SharedFixture<World> = SharedFixture::new();

impl Fixture for World {
    async fn start(dir: &Path) -> Result<Self> {
        let arguments = ["--power-timeout=8s", "--cooperative-grace=2s"];
        let stage = Stage::start(dir, StageConfig::steady(racks(), &arguments)).await?;
        if let Err(error) = begin(&stage).await {
            bail!("{error:#}\n{}", stage.report().await);
        }
        let recorder = Recorder::start(&stage.client);
        Ok(Self {
            stage,
            recorder,
            fine_hangs: AtomicBool::new(false),
        })
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }
}

rackhand_tests::fixture_tests! {
    FIXTURE;
    f1_bmc_stuck_in_powering_off_is_not_off => stuck,
    f8_silent_bmc_is_not_off => silent,
    f8_bmc_with_wrong_password_is_not_off => refused,
    f5_bmc_of_other_system_gets_no_command => foreign,
    f1_bmc_ignoring_commands_is_not_off => ignoring,
    f1_power_off_is_sent_although_bmc_reports_off => lost_state,
    f8_without_agent_no_node_is_tainted => agentless,
    f8_confirmation_counts_only_with_matching_uid => persons_word,
    f5_renewed_node_lease_prevents_taint_although_bmc_reports_off => lie,
    f5_wrongly_switched_off_host_is_switched_on_again => swapped,
    f3_host_switched_on_while_draining_is_switched_off_again => switched_on,
    f4_host_stays_off_until_last_pod_is_gone => drained_first,
    f11_remediation_is_aborted_if_node_recovers_without_agent => recovered_agentless,
    f10_limit_of_zero_creates_no_remediation => limit_zero,
    f10_two_failures_of_four_exceed_limit_of_40_percent => limit_forty,
    f2_hold_is_set_before_power_off => held_first,
    f9_withdrawal_while_powering_off_leaves_nothing_behind => withdrawn_powering_off,
    f9_withdrawal_when_off_leaves_nothing_behind => withdrawn_off,
    f9_withdrawal_while_draining_leaves_nothing_behind => withdrawn_draining,
    f9_withdrawal_while_powering_on_leaves_nothing_behind => withdrawn_powering_on,
    f9_withdrawal_while_booting_leaves_nothing_behind => withdrawn_booting,
    f11_host_set_offline_is_not_switched_on_after_remediation => offline_powering_on,
}

async fn begin(stage: &Stage) -> Result<()> {
    for rack in ["gone", "away"] {
        stage.wait_agent(rack).await?;
        stage.kill_agent(rack)?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await
}
