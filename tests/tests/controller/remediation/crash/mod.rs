//! Crashes and broken connections at any step: the remediation is finished by the next leader or the
//! restarted agent, with one power cycle, and no pod runs twice.

mod agents;
mod controllers;
mod world;

use anyhow::Result;
use rackhand_tests::stage::{HostLink, RackSpec, Recorder, Stage, StageConfig, TcpProxy};

use agents::{agent_cut_off, agent_killed};
use controllers::{higher_term, stopped_leader, trouble_at_every_step};
use world::{AGENT_STEPS, CALM, RACK, SPARE, STEPS, Trouble, cut_racks, start, workload_runs};

#[tokio::test(flavor = "multi_thread")]
async fn f7_controller_killed_at_any_step_is_replaced() {
    controller_in(Trouble::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_controller_disconnected_from_api_at_any_step_exits_and_is_replaced() {
    controller_in(Trouble::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_controller_with_silent_api_at_any_step_exits_and_is_replaced() {
    controller_in(Trouble::Silenced).await;
}

async fn controller_in(trouble: Trouble) {
    let racks = vec![RackSpec::new(RACK, STEPS.len(), HostLink::Detached)];
    with(racks, async |stage, recorder| {
        let line = stage.lead_over_a_line().await?;
        trouble_at_every_step(stage, recorder, &line, trouble).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_remediation_resumes_after_agent_is_killed_or_disconnected_at_any_step() {
    let rack = |name: &str| RackSpec::new(name, 1, HostLink::Inventory);
    let mut racks: Vec<RackSpec> = cut_racks().iter().map(|(name, ..)| rack(name)).collect();
    racks.extend((1..=AGENT_STEPS.len()).map(|number| rack(&format!("a{number}"))));
    with(racks, async |stage, recorder| {
        let mut lines = Vec::new();
        for (rack, ..) in cut_racks() {
            let line = TcpProxy::to(&stage.agent_endpoint(&rack)?).await?;
            stage.apply_rack_agent(&rack, line.address()).await?;
            lines.push(line);
        }
        start(stage, "last", CALM).await?;
        let in_trouble = async {
            tokio::try_join!(
                agent_killed(stage, recorder),
                agent_cut_off(stage, recorder, &lines)
            )
        };
        tokio::select! {
            done = in_trouble => done.map(drop),
            ended = stage.supervise("last") => ended,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_leader_raises_its_term_above_higher_term_at_agent() {
    let racks = vec![RackSpec::new(RACK, 1, HostLink::Inventory)];
    with(racks, async |stage, recorder| {
        start(stage, "last", CALM).await?;
        tokio::select! {
            done = higher_term(stage, recorder) => done,
            ended = stage.supervise("last") => ended,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_resumed_former_leader_sends_no_command() {
    let racks = vec![RackSpec::new(RACK, 1, HostLink::Inventory)];
    with(racks, async |stage, recorder| {
        start(stage, "last", CALM).await?;
        stopped_leader(stage, recorder).await
    })
    .await;
}

/// Runs a test on a stage with a workload on every host; at its end all pods run, and none ran twice.
async fn with(racks: Vec<RackSpec>, test: impl AsyncFnOnce(&Stage, &Recorder) -> Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    let spare = RackSpec::new("spare", SPARE, HostLink::Inventory);
    let racks: Vec<RackSpec> = std::iter::once(spare).chain(racks).collect();
    let hosts = racks.iter().map(|rack| rack.hosts.len()).sum();
    let mut config = StageConfig::fast(racks);
    config.controller_args.clear();
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    let outcome = async {
        stage.apply_rack_agents().await?;
        stage.apply_workload(u32::try_from(hosts)?).await?;
        workload_runs(&stage, hosts).await?;
        stage.apply_health_check().await?;
        test(&stage, &recorder).await?;
        workload_runs(&stage, hosts).await
    };
    if let Err(error) = outcome.await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}
