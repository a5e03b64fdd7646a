//! An agent moves to another machine in the middle of a remediation: with its journal, and without it.

use anyhow::{Context, Result, ensure};
use rackhand_proto::v1::{ClaimTermRequest, ClaimTermResponse, Term, power_client::PowerClient};
use rackhand_tests::{
    pki::CertSpec,
    rack::PowerState,
    stage::{HostLink, LONG, RackSpec, Recorder, Scenarios, Stage, StageConfig, wait_until},
};
use rackhand_transport::{ClientTls, TlsFiles};

/// An election that only this test takes part in.
const ELECTION: &str = "moved/agent/test";
const HIGHEST: u64 = 7;

#[tokio::test(flavor = "multi_thread")]
async fn moved_agent_continues_the_remediations_of_its_rack() {
    let dir = tempfile::tempdir().unwrap();
    let racks = ["kept", "lost", "off"].map(|rack| RackSpec::new(rack, 1, HostLink::Inventory));
    let config = StageConfig::steady(racks.into(), &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = run(&stage, &recorder).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    let mut all = Scenarios::new();
    all.add(
        "f7_moved_journal_keeps_terms_and_holds",
        with_journal(stage, recorder),
    );
    all.add(
        "f12_agent_without_its_journal_finishes_a_drain",
        while_draining(stage, recorder),
    );
    all.add(
        "f12_agent_without_its_journal_repeats_a_power_off",
        while_powering_off(stage, recorder),
    );
    all.run().await?;
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

async fn with_journal(stage: &Stage, recorder: &Recorder) -> Result<()> {
    let uid = hang_and_drain(stage, "kept-1").await?;
    let before = claim(stage, "kept", HIGHEST).await?;
    ensure!(before.accepted, "{before:?}");
    ensure!(stage.stop_agent("kept")?.success(), "ends well");
    stage.move_agent_state("kept", "kept-b")?;
    move_to(stage, "kept", "kept-b").await?;

    let held = stage.held_by("kept-b").await?;
    ensure!(
        held.get("kept-1").is_some_and(|owner| owner.contains(&uid)),
        "held for {uid}: {held:?}"
    );
    let older = claim(stage, "kept-b", HIGHEST - 1).await?;
    ensure!(!older.accepted && older.highest == HIGHEST, "{older:?}");
    let known = |answer: &ClaimTermResponse| answer.journal.clone().map(|journal| journal.instance);
    ensure!(known(&older) == known(&before), "{older:?} {before:?}");

    stage.wait_connected("kept", "Connected").await?;
    stage.let_pod_go("kept-1").await?;
    stage.wait_back("kept-1").await?;
    stage.one_cycle("kept-1")?;
    stage.tainted_only_while_off(recorder, "kept-1").await
}

async fn while_draining(stage: &Stage, recorder: &Recorder) -> Result<()> {
    hang_and_drain(stage, "lost-1").await?;
    ensure!(stage.stop_agent("lost")?.success(), "ends well");
    move_to(stage, "lost", "lost-b").await?;
    stage.wait_connected("lost", "Connected").await?;
    ensure!(
        stage.host("lost-1")?.real_power() == PowerState::Off,
        "off until it is drained"
    );
    stage.let_pod_go("lost-1").await?;
    stage.wait_back("lost-1").await?;
    stage.one_cycle("lost-1")?;
    stage.tainted_only_while_off(recorder, "lost-1").await
}

async fn while_powering_off(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.wait_connected("off", "Connected").await?;
    let host = stage.host("off-1")?;
    host.stuck_powering_off(true);
    ensure!(host.hang(), "up");
    host.wait_for(LONG, "going off", |view| {
        view.power == PowerState::PoweringOff
    })
    .await?;
    // The machine is lost.
    stage.kill_agent("off")?;
    move_to(stage, "off", "off-b").await?;
    host.stuck_powering_off(false);
    stage.wait_back("off-1").await?;
    stage.one_cycle("off-1")?;
    stage.tainted_only_while_off(recorder, "off-1").await
}

/// Starts the agent of a rack as another one, and changes the endpoint of its RackAgent.
async fn move_to(stage: &Stage, rack: &str, name: &str) -> Result<()> {
    stage.start_agent_as(rack, name)?;
    stage.wait_agent(name).await?;
    let endpoint = stage.agent_endpoint(name)?;
    stage.apply_rack_agent(rack, &endpoint).await
}

/// Hangs a host with a pod, and waits until its remediation waits for that; the UID of the remediation.
async fn hang_and_drain(stage: &Stage, name: &str) -> Result<String> {
    stage.bind_pod(name, true).await?;
    let host = stage.host(name)?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "{name} was not up");
    stage.wait_step(name, "Draining").await?;
    wait_until("the UID of the remediation", LONG, || async {
        let seen = stage.remediation(name).await?.context("it is there")?;
        let uid = seen.object["metadata"]["uid"].as_str();
        Ok(uid
            .map(str::to_owned)
            .ok_or_else(|| seen.object.to_string()))
    })
    .await
}

/// Claims a term of the test's own election, as a controller.
async fn claim(stage: &Stage, agent: &str, number: u64) -> Result<ClaimTermResponse> {
    let tls = stage.issue(&CertSpec::peer(
        format!("claims-{agent}"),
        "spiffe://rackhand/controller",
    ))?;
    let tls = ClientTls::controller(TlsFiles::in_dir(&tls))?;
    let endpoint = stage.agent_endpoint(agent)?;
    let channel = rackhand_transport::connect(&endpoint, "kept", &tls).await?;
    let request = ClaimTermRequest {
        term: Some(Term {
            election: ELECTION.to_owned(),
            number,
            holder: "test".to_owned(),
        }),
        ..ClaimTermRequest::default()
    };
    Ok(PowerClient::new(channel)
        .claim_term(request)
        .await?
        .into_inner())
}
