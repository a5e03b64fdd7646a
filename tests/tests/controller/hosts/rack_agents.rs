//! Misconfigured agents, lost journals, and two agents of one rack, on a real control plane.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, ResourceExt, api::ListParams};
use rackhand_proto::v1::{ClaimTermRequest, Term, power_client::PowerClient};
use rackhand_tests::{
    pki::CertSpec,
    rack::PowerState,
    stage::{
        HostLink, LONG, RackSpec, Recorder, SYSTEM, Scenarios, Stage, StageConfig, TcpProxy,
        wait_until,
    },
};
use rackhand_transport::{ClientTls, TlsFiles};
use tokio::process::Command;

const CONTROLLER: &str = "controller-0";

fn racks() -> Vec<RackSpec> {
    vec![
        RackSpec::new("rogue", 1, HostLink::Inventory),
        RackSpec::new("sound", 1, HostLink::Inventory),
        RackSpec::new("lost", 1, HostLink::Inventory).in_pool("by-hand"),
        RackSpec::new("pair", 1, HostLink::Inventory),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn misconfigured_lost_or_duplicate_agent_harms_no_host() {
    let dir = tempfile::tempdir().unwrap();
    // A silent agent is replaced after up to 8 s: a probe each 5 s, with a deadline of 3 s. The operation that it
    // has begun must run for longer, on a busy machine too.
    let config = StageConfig::steady(racks(), &["--power-timeout=90s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let recorder = Recorder::start(&stage.client);
    let outcome = run(&stage, &recorder).await;
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_agent_as("pair", "pair-b")?;
    let lines = [
        TcpProxy::to(&stage.agent_endpoint("pair")?).await?,
        TcpProxy::to(&stage.agent_endpoint("pair-b")?).await?,
    ];
    for (name, line) in ["pair", "pair-b"].iter().zip(&lines) {
        stage
            .apply_rack_agent_as("pair", name, line.address())
            .await?;
    }
    stage.start_controller(CONTROLLER).await?;
    stage.apply_health_check().await?;
    let mut all = Scenarios::new();
    all.add(
        "f7_agent_with_outlier_term_does_not_block_other_racks",
        huge_term(stage, recorder),
    );
    all.add(
        "f12_host_is_not_left_off_after_agent_lost_journal",
        lost_journal(stage, recorder),
    );
    all.add(
        "f6_one_of_two_agents_serves_and_other_takes_over",
        two_agents(stage, recorder, &lines),
    );
    all.run().await?;
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

async fn huge_term(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.wait_connected("rogue", "Connected").await?;
    let tls = stage.issue(&CertSpec::peer("rogue", "spiffe://rackhand/controller"))?;
    let tls = ClientTls::controller(TlsFiles::in_dir(&tls))?;
    let endpoint = stage.agent_endpoint("rogue")?;
    let channel = rackhand_transport::connect(&endpoint, "rogue", &tls).await?;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let uid = namespaces.get("kube-system").await?.uid();
    let election = format!("{}/{SYSTEM}/rackhand-controller", uid.unwrap_or_default());
    let claimed = PowerClient::new(channel)
        .claim_term(ClaimTermRequest {
            term: Some(Term {
                election: election.clone(),
                number: 2_000_000_000,
                holder: "rogue".to_owned(),
            }),
            ..ClaimTermRequest::default()
        })
        .await?;
    ensure!(claimed.into_inner().accepted);
    stage.wait_connected("rogue", "TermOutlier").await?;
    let (_, term) = stage.leader().await?;
    ensure!(term < 10_000, "the leader followed to {term}");
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    wait_until("Event TermOutlier", LONG, || async {
        let events = events.list(&ListParams::default()).await?;
        let told = events.iter().any(|event| {
            event.reason.as_deref() == Some("TermOutlier")
                && event.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some("rogue")
        });
        Ok(told.then_some(()).ok_or_else(|| "none".to_owned()))
    })
    .await?;
    wait_until("the outlier is counted", LONG, || async {
        let (_, metrics) = stage.admin(CONTROLLER, "/metrics").await?;
        let is_counted = metrics.contains("rackhand_agents_term_outliers 1");
        Ok(if is_counted { Ok(()) } else { Err(metrics) })
    })
    .await?;
    ensure!(stage.host("sound-1")?.hang(), "up");
    recorder.wait_created("sound-1").await?;
    stage.wait_back("sound-1").await?;
    stage.one_cycle("sound-1")?;

    let output = Command::new(stage.binary("rackhand-agent"))
        .args(["term", "set-back", "--election", &election, "--to"])
        .arg(term.to_string())
        .args(["--reason", "claimed by a test", "--socket"])
        .arg(stage.agent_socket("rogue"))
        .output()
        .await?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{told}");
    stage.wait_connected("rogue", "Connected").await?;
    ensure!(stage.host("rogue-1")?.hang(), "up");
    recorder.wait_created("rogue-1").await?;
    stage.wait_back("rogue-1").await
}

/// A host was switched off by an agent that has lost its journal when the remediation is deleted.
async fn lost_journal(stage: &Stage, recorder: &Recorder) -> Result<()> {
    stage.wait_connected("lost", "Connected").await?;
    let host = stage.host("lost-1")?;
    host.stuck_powering_off(true);
    ensure!(host.hang(), "up");
    stage.remediate("lost-1").await?;
    host.wait_for(LONG, "going off", |view| {
        view.power == PowerState::PoweringOff
    })
    .await?;
    stage.kill_agent("lost")?;
    stage.lose_agent_state("lost")?;
    stage.withdraw("lost-1").await?;
    host.stuck_powering_off(false);
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    stage.start_agent("lost")?;
    stage.wait_warning("lost-1", "OperationLost").await?;
    stage.wait_back("lost-1").await?;
    stage.never_tainted(recorder, "lost-1").await
}

async fn two_agents(stage: &Stage, recorder: &Recorder, lines: &[TcpProxy; 2]) -> Result<()> {
    let names = ["pair", "pair-b"];
    let first = wait_until("one agent serves", LONG, || async {
        let mut reasons = Vec::new();
        for name in names {
            reasons.push(stage.connected(name).await?.1);
        }
        let reasons: Vec<_> = reasons.iter().map(String::as_str).collect();
        Ok(match reasons[..] {
            ["Connected", "Standby"] => Ok(0),
            ["Standby", "Connected"] => Ok(1),
            _ => Err(format!("{reasons:?}")),
        })
    })
    .await?;
    let (serving, other) = (names[first], names[1 - first]);
    let line = lines.get(first).context("a line")?;
    let host = stage.host("pair-1")?;
    host.stuck_powering_off(true);
    ensure!(host.hang(), "up");
    host.wait_for(LONG, "going off", |view| {
        view.power == PowerState::PoweringOff
    })
    .await?;
    // The agent continues its operation, unobserved.
    line.silence();
    stage.wait_connected(other, "Connected").await?;
    stage
        .wait_remediation("pair-1", "OtherAgentBusy", |seen| {
            seen.reason == "OtherAgentBusy"
        })
        .await?;
    ensure!(
        !stage.tainted("pair-1").await?,
        "the power-off is not confirmed"
    );
    host.stuck_powering_off(false);
    line.mend();
    // The agent returns on standby, and the other one continues to serve.
    stage.wait_connected(serving, "Standby").await?;
    stage.wait_back("pair-1").await?;
    stage.one_cycle("pair-1")?;
    stage.tainted_only_while_off(recorder, "pair-1").await?;
    // The hold at the agent that was replaced is released when the controller next compares its holds.
    for name in names {
        wait_until(&format!("{name} holds no host"), LONG, || async {
            let held = stage.held_by(name).await?;
            let is_free = held.values().all(String::is_empty);
            Ok(is_free.then_some(()).ok_or_else(|| format!("{held:?}")))
        })
        .await?;
    }
    let (_, reason) = stage.connected(other).await?;
    ensure!(reason == "Connected", "{other}: {reason}");
    Ok(())
}
