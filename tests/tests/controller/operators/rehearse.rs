//! A recorded failure, rehearsed: what was done is what would have been done.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    process::Process,
    stage::{HostLink, LONG, NAMESPACE, RackSpec, Stage, StageConfig, wait_until},
};
use serde_json::Value;

const HOST: &str = "rack-a-1";

/// By these rules the failure of one host of three is a shared cause.
const POLICY: &str = r"
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata:
  name: together
spec:
  sharedCauses: { minHosts: 1, minPercent: 30, settlingSeconds: 0 }
";

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
    let switch = "rackhand.dev/switches=tor-1";
    stage
        .kubectl(&["annotate", "nodes", "--all", switch])
        .await?;
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

    let checks = stage
        .kubectl(&["get", "machinehealthchecks", "-A", "-o", "yaml"])
        .await?;
    let file = stage.dir().join("checks.yaml");
    std::fs::write(&file, checks)?;
    let policy = stage.dir().join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    let (file, history) = (file.display().to_string(), recording.display().to_string());
    let arguments = ["rehearse", "-f", &file, "--history", &history];
    let table = stage.controller_command(&arguments, "").await?;
    ensure!(table.contains("1 requested, 1 switched off"), "{table}");
    let json = [&arguments[..], &["-o", "json"]].concat();
    let rehearsed: Value = serde_json::from_str(&stage.controller_command(&json, "").await?)?;
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
    let policy = policy.display().to_string();
    let held_with = [&arguments[..], &["--file", &policy]].concat();
    let held = stage.controller_command(&held_with, "").await?;
    ensure!(
        held.contains("1 of 3 hosts of switch tor-1") && held.contains("1 held for a shared cause"),
        "{held}"
    );
    let compared = [&held_with[..], &["--compare-with", &file, "-o", "json"]].concat();
    let compared: Value = serde_json::from_str(&stage.controller_command(&compared, "").await?)?;
    let difference = &compared["differences"][0];
    ensure!(
        difference["first"]["outcome"] == "Waiting" && difference["second"]["begun"].is_string(),
        "{compared:#}"
    );
    let cause = &difference["first"]["held"][0]["sharedCause"];
    ensure!(cause.is_string(), "{compared:#}");
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
