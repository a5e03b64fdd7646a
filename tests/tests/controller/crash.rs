//! Crashes and cuts: wherever controller or agent die, or lose the API server or each other, a
//! remediation is finished by whoever comes next, with one power cycle and no pod twice.

mod agents;
mod controllers;
mod world;

use std::time::Instant;

use anyhow::Result;
use rackhand_tests::stage::{HostLink, RackSpec, Recorder, Stage, StageConfig, TcpProxy};

use agents::{agent_cut_off, agent_killed};
use controllers::{controller_in_trouble_at_every_step, higher_term, stopped_leader};
use world::{AGENT_STEPS, BRIEF, SPARE, STEPS, TROUBLES, cut_racks, start, workload_runs};

fn racks() -> Vec<RackSpec> {
    let mut racks = vec![
        RackSpec::new("spare", SPARE, HostLink::Inventory),
        RackSpec::new("two", 2, HostLink::Inventory),
    ];
    for (_, rack) in TROUBLES {
        racks.push(RackSpec::new(rack, STEPS.len(), HostLink::Detached));
    }
    for (rack, ..) in cut_racks() {
        racks.push(RackSpec::new(&rack, 1, HostLink::Inventory));
    }
    for number in 1..=AGENT_STEPS.len() {
        racks.push(RackSpec::new(&format!("a{number}"), 1, HostLink::Inventory));
    }
    racks
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_a_part_dies_the_remediation_is_finished_with_one_cycle() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StageConfig::fast(racks());
    config.controller_args.clear();
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = all(&stage, &recorder).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn all(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.apply_rack_agents().await?;
    let mut lines = Vec::new();
    for (rack, ..) in cut_racks() {
        let line = TcpProxy::to(&stage.agent_endpoint(&rack)?).await?;
        stage.apply_rack_agent(&rack, line.address()).await?;
        lines.push(line);
    }
    let line = stage.lead_over_a_line().await?;
    start(stage, "controller-0", BRIEF).await?;
    let hosts: usize = stage
        .config()
        .racks
        .iter()
        .map(|rack| rack.hosts.len())
        .sum();
    let pods = u32::try_from(hosts)?;
    stage.apply_workload(pods).await?;
    workload_runs(stage, hosts).await?;
    stage.apply_health_check().await?;

    let begun = Instant::now();
    let told = |what: &str| println!("    {what} ... ok ({:.1?})", begun.elapsed());
    controller_in_trouble_at_every_step(stage, recorder, &line).await?;
    told("f7_a_controller_killed_at_any_step_is_replaced");
    told("f7_a_controller_without_the_api_ends_itself_at_any_step_and_is_replaced");
    // Only now: who has ended cannot report that it misses an agent.
    let agents_in_trouble = async {
        tokio::try_join!(
            agent_killed(stage, recorder),
            agent_cut_off(stage, recorder, &lines)
        )
    };
    tokio::select! {
        done = agents_in_trouble => drop(done?),
        ended = stage.supervise("last") => return ended,
    }
    told("f7_an_agent_killed_in_the_middle_goes_on_after_its_restart");
    told("f7_an_agent_out_of_reach_at_any_step_is_found_again");
    tokio::select! {
        done = higher_term(stage, recorder) => done?,
        ended = stage.supervise("last") => return ended,
    }
    told("f7_a_higher_term_at_an_agent_is_outbid");
    stopped_leader(stage, recorder).await?;
    told("f7_a_leader_that_was_stopped_commands_nothing_when_it_goes_on");
    workload_runs(stage, hosts).await?;
    told("every_pod_runs_again_and_none_ran_twice");
    Ok(())
}
