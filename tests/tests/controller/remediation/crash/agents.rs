//! Agents that are killed or disconnected.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use kube::{
    Api,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::{
    process::Process,
    rack::ResetType,
    stage::{LONG, Recorder, Stage, TcpProxy, binaries, wait_until},
};

use super::world::{AGENT_STEPS, Trouble, at_step, commanded_once, cut_racks, finished};

/// The journal is created at the first start. A kill during the creation must only end that start.
#[test]
fn agent_killed_during_first_start_starts_again() {
    let agent = binaries().unwrap().join("rackhand-agent");
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let dir = dir.path().join(round.to_string());
        let journal = dir.join("state").join("journal.redb");
        std::fs::create_dir_all(&dir).unwrap();
        let config = serde_json::json!({
            "rack": "a",
            "socket": dir.join("agent.sock"),
            "state": dir.join("state"),
            "allowed_bmc_networks": ["127.0.0.0/8"],
        });
        std::fs::write(dir.join("agent.toml"), toml::to_string(&config).unwrap()).unwrap();
        let config = dir.join("agent.toml").display().to_string();
        let command = [
            agent.display().to_string(),
            "serve".into(),
            "--config".into(),
            config,
        ];
        let begun = Instant::now();
        let mut first = Process::start("agent", &command, &[], &dir).unwrap();
        while !std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0) {
            assert!(begun.elapsed() < LONG, "no journal: {}", first.log_tail());
        }
        first.kill().unwrap();
        std::fs::remove_file(dir.join("agent.sock")).ok();
        let mut second = Process::start("agent", &command, &[], &dir).unwrap();
        while !dir.join("agent.sock").exists() {
            let ended = second.ended();
            assert!(
                ended.is_none() && begun.elapsed() < LONG,
                "round {round}: {ended:?}: {}",
                second.log_tail()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Cuts or silences the connection between controller and agent at a step of the agent's only host, until the
/// controller has detected it.
pub async fn agent_cut_off(stage: &Stage, recorder: &Recorder, lines: &[TcpProxy]) -> Result<()> {
    let one = |rack: String, step: &'static str, trouble: Trouble, line| async move {
        let line: &TcpProxy = line;
        let host = format!("{rack}-1");
        ensure!(stage.host(&host)?.hang(), "{host} was up");
        at_step(stage, recorder, &[(&host, step)]).await?;
        match trouble {
            Trouble::Silenced => line.silence(),
            _ => line.cut(),
        }
        wait_until(
            &format!("the disconnect of {rack} is detected"),
            LONG,
            || async {
                let connected = connected(stage, &rack).await?;
                Ok(if connected == "False" {
                    Ok(())
                } else {
                    Err(format!("Connected={connected}"))
                })
            },
        )
        .await?;
        line.mend();
        finished(stage, recorder, &host).await?;
        commanded_once(stage, &host)
    };
    let all = cut_racks().into_iter().zip(lines);
    try_join_all(all.map(|((rack, step, trouble), line)| one(rack, step, trouble, line)))
        .await
        .map(drop)
}

/// The status of condition Connected of a RackAgent.
async fn connected(stage: &Stage, rack: &str) -> Result<String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "rackhand.dev",
        "v1alpha1",
        "RackAgent",
    ));
    let agents: Api<DynamicObject> = Api::all_with(stage.client.clone(), &resource);
    let agent = agents.get(rack).await?;
    let status = agent.data["status"]["conditions"][0]["status"].as_str();
    Ok(status.unwrap_or_default().to_owned())
}

pub async fn agent_killed(stage: &Stage, recorder: &Recorder) -> Result<()> {
    let one = |number: usize, step: &'static str| async move {
        let (rack, host) = (format!("a{number}"), format!("a{number}-1"));
        // Power-off and power-on are slow, so that the agent is killed during them.
        stage
            .host(&host)?
            .set_timings(rackhand_tests::rack::PowerTimings {
                off_takes: Duration::from_secs(2),
                on_takes: Duration::from_secs(2),
                ..stage.config().timings
            });
        ensure!(stage.host(&host)?.hang(), "{host} was up");
        at_step(stage, recorder, &[(&host, step)]).await?;
        let command = match step {
            "PoweringOff" => Some(ResetType::ForceOff),
            "PoweringOn" => Some(ResetType::On),
            _ => None,
        };
        if let Some(command) = command {
            let sent = |view: &rackhand_tests::rack::HostView| view.counters.received(command) > 0;
            stage.host(&host)?.wait_for(LONG, "commanded", sent).await?;
        }
        stage.kill_agent(&rack)?;
        stage.start_agent(&rack)?;
        finished(stage, recorder, &host).await
    };
    let all = AGENT_STEPS.iter().enumerate();
    try_join_all(all.map(|(i, step)| one(i + 1, step)))
        .await
        .map(drop)
}
