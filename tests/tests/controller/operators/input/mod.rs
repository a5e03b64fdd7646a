//! Invalid input of users: it is reported by a condition, an Event or a message that names the correction,
//! and does not block other objects.

mod admin;
mod agents;
mod checks;
mod remediations;
mod state;
mod tenant;
mod world;

use anyhow::Result;
use rackhand_tests::{
    pki::CertSpec,
    stage::{HostLink, RackSpec, Recorder, Scenarios, Stage, StageConfig},
};

use admin::{admin, rights};
use agents::{broken_inventory, expired, other_rack, rogue_agent};
use checks::{
    broken_kubeconfig, future_condition, impossible_range, missing_cluster, missing_template,
    printed, remediation,
};
use remediations::{no_host, recovered_early, unknown_strategy};
use world::World;

#[tokio::test(flavor = "multi_thread")]
async fn invalid_input_is_reported_and_does_not_block_others() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("good", 4, HostLink::Inventory),
        RackSpec::new("cut", 3, HostLink::Inventory).in_pool("by-hand"),
        RackSpec::new("lost", 1, HostLink::Inventory).in_pool("lost"),
        RackSpec::new("rogue", 1, HostLink::Inventory),
    ];
    let mut config = StageConfig::fast(racks);
    config.controller_args.clear();
    let mut stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&mut stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let w = &world;

    let mut all = Scenarios::new();
    all.add(
        "remediation_is_owned_by_machine_and_has_capm3_columns",
        remediation(w),
    );
    all.add(
        "documented_yaml_is_accepted_and_columns_match_cluster_api",
        printed(w),
    );
    all.add(
        "f11_recovery_before_power_off_aborts_remediation",
        recovered_early(w),
    );
    all.add(
        "missing_template_is_reported_until_created",
        missing_template(w),
    );
    all.add(
        "unknown_strategy_is_refused_with_valid_values",
        unknown_strategy(w),
    );
    all.add("machine_without_host_is_reported", no_host(w));
    all.add("check_of_missing_cluster_is_reported", missing_cluster(w));
    all.add("empty_unhealthy_range_is_reported", impossible_range(w));
    all.add(
        "future_condition_is_reported_on_its_check_only",
        future_condition(w),
    );
    all.add(
        "malformed_kubeconfig_of_other_cluster_is_reported",
        broken_kubeconfig(w),
    );
    all.add(
        "agent_with_certificate_of_other_ca_is_not_trusted",
        rogue_agent(w),
    );
    all.add("agent_of_other_rack_is_not_trusted", other_rack(w));
    all.add("invalid_inventory_reports_all_errors", broken_inventory(w));
    all.add("expired_controller_certificate_is_reported", expired(w));
    all.add(
        "f15_removed_damaged_or_forged_state_is_restored",
        state::removed(w),
    );
    all.add("f9_taint_with_lost_state_is_not_removed", state::lost(w));
    let outcome = all.run().await;
    let outcome = match outcome {
        Ok(()) => admin(w).await.and_then(|()| rights(w)),
        failed => failed,
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &mut Stage) -> Result<()> {
    let rogue = stage.pki().other("rogue")?;
    let spec = CertSpec::peer("agent-rogue", "spiffe://rackhand/rack/rogue");
    let certificate = stage.issue_from(&rogue, "rogue", &spec)?;
    stage.wait_agent("rogue").await?;
    stage.stop_agent("rogue")?;
    stage.set_agent_certificate("rogue", certificate);
    stage.start_agent("rogue")?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await
}
