//! A recorded failure, rehearsed: what was done is what would have been done.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    process::Process,
    stage::{HostLink, LONG, NAMESPACE, RackSpec, Stage, StageConfig, wait_until},
};
use serde_json::Value;

const HOST: &str = "rack-a-1";

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_failure_is_rehearsed_with_the_check_that_handled_it() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("rack-a", 3, HostLink::Inventory)];
    let config = StageConfig::steady(racks, &[]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    let recording = stage.dir().join("recording.jsonl");
    let mut recorder = record(stage, &recording)?;
    let recorded = |part: &'static str| {
        let recording = recording.clone();
        wait_until(part, LONG, move || {
            let recording = recording.clone();
            async move {
                let text = std::fs::read_to_string(&recording).unwrap_or_default();
                let found = text.lines().any(|l| l.contains(HOST) && l.contains(part));
                Ok(if found { Ok(()) } else { Err(text) })
            }
        })
    };
    recorded("\"kind\":\"Machine\"").await?;
    recorded("\"kind\":\"Node\"").await?;
    ensure!(stage.host(HOST)?.hang(), "{HOST} was not up");
    recorded("\"status\":\"Unknown\"").await?;
    stage.wait_back(HOST).await?;
    recorder.stop(LONG)?;

    let checks = stage.kubectl(&["get", "machinehealthchecks", "-A", "-o", "yaml"])?;
    let file = stage.dir().join("checks.yaml");
    std::fs::write(&file, checks)?;
    let (file, history) = (file.display().to_string(), recording.display().to_string());
    let arguments = ["rehearse", "-f", &file, "--history", &history];
    let table = stage.controller_command(&arguments, "")?;
    ensure!(table.contains("1 requested, 1 switched off"), "{table}");
    let json = [&arguments[..], &["-o", "json"]].concat();
    let rehearsed: Value = serde_json::from_str(&stage.controller_command(&json, "")?)?;
    let remediations = rehearsed["remediations"].as_array().context("no list")?;
    let [only] = remediations.as_slice() else {
        anyhow::bail!("{rehearsed:#}");
    };
    ensure!(only["machine"] == HOST, "{only:#}");
    ensure!(
        only["check"]
            .as_str()
            .is_some_and(|c| c.starts_with(NAMESPACE)),
        "{only:#}"
    );
    ensure!(only["causes"].to_string().contains("Ready"), "{only:#}");
    Ok(())
}

/// Starts `rackhand-controller record`.
fn record(stage: &Stage, file: &std::path::Path) -> Result<Process> {
    let command = [
        stage.binary("rackhand-controller").display().to_string(),
        "record".to_owned(),
        format!("--kubeconfig={}", stage.plane().kubeconfig().display()),
        format!("--output={}", file.display()),
    ];
    Process::start("record", &command, &[], stage.dir())
}
