//! What users may get wrong, and what they see: bad input is answered by a condition, an Event or a
//! message that says what to do, and nobody else is held up by it.

mod admin;
mod agents;
mod checks;
mod remediations;
mod state;
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
    printed, request,
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
        "the_request_is_the_machines_and_its_columns_are_capm3s",
        request(w),
    );
    all.add(
        "the_printed_yaml_is_taken_by_kubectl_and_columns_are_cluster_apis",
        printed(w),
    );
    all.add(
        "f11_recovered_before_the_power_off_was_sent",
        recovered_early(w),
    );
    all.add(
        "a_missing_template_is_said_and_taken_up_when_it_comes",
        missing_template(w),
    );
    all.add(
        "an_unknown_strategy_is_refused_with_the_known_one",
        unknown_strategy(w),
    );
    all.add("a_machine_without_a_host_is_said", no_host(w));
    all.add("a_check_of_a_missing_cluster_is_said", missing_cluster(w));
    all.add("a_range_that_nothing_lies_in_is_said", impossible_range(w));
    all.add(
        "a_condition_from_the_future_is_said_of_its_check_alone",
        future_condition(w),
    );
    all.add(
        "a_broken_kubeconfig_of_another_cluster_is_said",
        broken_kubeconfig(w),
    );
    all.add(
        "an_agent_of_another_authority_is_not_trusted_until_it_is_ours",
        rogue_agent(w),
    );
    all.add("an_agent_of_another_rack_is_not_trusted", other_rack(w));
    all.add("a_broken_inventory_is_told_whole", broken_inventory(w));
    all.add("an_expired_certificate_of_a_controller_is_said", expired(w));
    all.add(
        "a_state_that_was_removed_is_written_again",
        state::removed(w),
    );
    all.add("f9_a_taint_of_a_lost_state_is_nobody_elses", state::lost(w));
    all.add("a_damaged_state_is_said_in_the_object", state::damaged(w));
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
