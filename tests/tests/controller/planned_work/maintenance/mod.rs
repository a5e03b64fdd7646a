//! HostMaintenance on a real control plane: hosts are parked and come back, on every way to its end.
//!
//! All scenarios run at the same time on one stage, each with hosts of its own.

mod as_written;
mod freeze;
mod life;
mod marks;
mod openshift;
mod pods;
mod taken_back;
mod world;

use anyhow::{Result, ensure};
use rackhand_tests::{
    cluster::{apply, shipped},
    stage::{HostLink, RackSpec, Recorder, Scenarios, Stage, StageConfig},
};

use world::World;

fn racks() -> Vec<RackSpec> {
    let rack = |name: &str, hosts: &[&str], link| RackSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..RackSpec::new(name, 0, link).in_pool("by-hand")
    };
    vec![
        rack(
            "known",
            &[
                "park-1",
                "node-1",
                "host-1",
                "dies-1",
                "twice-1",
                "early-1",
                "orphan-1",
                "gone-1",
                "unseen-1",
                "hand-1",
                "crash-1",
                "on-1",
                "mute-1",
                "abort-1",
                "wait-1",
                "edit-1",
                "refused-1",
                "strip-1",
                "cordon-1",
                "page-1",
                "freeze-1",
                "lease-1",
            ],
            HostLink::Inventory,
        ),
        rack("managed", &["bmo-1", "ocp-1"], HostLink::Managed),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_parks_hosts_and_takes_everything_back() {
    let config = StageConfig::steady(racks(), &["--power-timeout=60s", "--cooperative-grace=1s"]);
    let (_dir, stage, ()) = crate::prepared(config, begin).await;
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("machine_is_parked_and_comes_back", life::machine(w));
    all.add("node_of_this_cluster_is_parked_for_a_time", life::node(w));
    all.add("host_is_found_by_its_rack_and_name", life::host(w));
    all.add("f1_host_that_dies_becomes_a_fence", life::dies(w));
    all.add("f16_power_goes_back_to_its_owner", life::managed(w));
    all.add("f6_second_maintenance_waits", life::twice(w));
    all.add(
        "f3_host_switched_on_by_hand_goes_off_again",
        life::by_hand(w),
    );
    all.add("host_that_stays_on_is_emptied", pods::stays_on(w));
    all.add(
        "silent_host_that_is_left_on_is_not_cut_before_a_person_says_so",
        pods::left_on(w),
    );
    all.add("abort_switches_nothing_and_uncordons", pods::aborts(w));
    all.add(
        "wait_names_the_budget_until_a_person_decides",
        pods::waits(w),
    );
    all.add("edits_of_a_running_maintenance_count", pods::edited(w));
    all.add("nothing_begins_while_a_mark_is_refused", marks::refused(w));
    all.add("check_of_openshift_is_left_no_way", openshift::machine(w));
    all.add("commands_of_the_page_do_as_it_says", as_written::page(w));
    all.add("freeze_takes_it_back_to_waiting", freeze::in_the_middle(w));
    all.add(
        "lease_that_is_taken_in_the_last_moment_keeps_the_host_on",
        marks::taken_last(w),
    );
    all.add("deleted_remediation_ends_it", taken_back::early(w));
    all.add(
        "deleted_machine_leaves_the_host_off_until_the_end",
        taken_back::machine_deleted(w),
    );
    all.add(
        "f9_taint_of_a_stripped_remediation_is_said",
        taken_back::stripped(w),
    );
    all.add(
        "f9_cordon_of_a_stripped_remediation_is_waited_for",
        taken_back::stripped_early(w),
    );
    all.add(
        "f9_maintenance_that_is_gone_leaves_nothing",
        taken_back::gone(w),
    );
    all.add(
        "f9_mark_on_a_machine_leads_to_the_lease_and_led",
        taken_back::unseen(w),
    );
    let outcome = match all.run().await {
        Ok(()) => after_a_crash(w).await,
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        let objects = world.shown().await;
        panic!("{error:#}\n{objects}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.install("nodes").await?;
    // The kinds of medik8s and the namespace of its Leases.
    for folder in ["crds/nodes", "kustomize/node-health-checks"] {
        for object in shipped(folder)? {
            apply(&stage.client, object).await?;
        }
    }
    stage.install_openshift().await?;
    stage
        .set_openshift_consumer("ocp-1", openshift::MACHINE)
        .await?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

/// Last, because it ends the controller of all.
async fn after_a_crash(w: &World) -> Result<()> {
    taken_back::crash(w).await?;
    let twice = w.stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}
