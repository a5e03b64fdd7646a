//! The history of a host, over changes of the leader.

mod limits;

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::Api;
use rackhand_api::kinds::{
    host_evidence::LogRecord,
    host_history::{HostHistory, HostRemediation},
};
use rackhand_core::overview::Overview;
use rackhand_tests::{
    process::free_port,
    rack::Severity,
    stage::{HostLink, RackSpec, Recorder, Stage, StageConfig, wait_until},
};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(120);
const HOST: &str = "r-1";
const ECC: &str = "Correctable memory error on DIMM A3";

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_host_survives_leaders_and_names_repeated_offenders() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("r", 3, HostLink::Inventory)];
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    let recorder = Recorder::start(&stage.client);
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await?;
    let host = stage.host(HOST)?;
    let event = |severity, text: &str| {
        host.with_settings(|now, settings| settings.events.add(now.wall, severity, text));
    };
    for _ in 0..37 {
        event(Severity::Warning, ECC);
    }
    // The first remediation waits for a pod until another controller leads.
    stage.bind_pod(HOST, true).await?;
    stage.host(HOST)?.hang();
    stage.wait_step(HOST, "Draining").await?;
    let begun = recorded(stage, "the steps of the first leader", |all| {
        let [one] = all else { return false };
        steps(one).contains("Draining")
    })
    .await?;
    ensure!(begun[0].outcome.is_none(), "{begun:?}");
    stage.kill_controller("controller-0")?;
    stage.start_controller("controller-1").await?;
    event(Severity::Critical, "Memory training failed");
    stage.let_pod_go(HOST).await?;
    stage.wait_back(HOST).await?;
    let first = &recorded(stage, "the end under the second leader", |all| {
        all.iter().all(|one| one.outcome.is_some())
    })
    .await?[0];
    let (before, after) = (steps(&begun[0]), steps(first));
    ensure!(before.is_subset(&after), "{before:?} {after:?}");
    for step in ["Holding", "PoweringOff", "Draining", "PoweringOn"] {
        ensure!(after.contains(step), "{step}: {after:?}");
    }
    ensure!(first.outcome.as_deref() == Some("succeeded"), "{first:?}");
    ensure!(
        first.requested_by.as_deref() == Some("MachineHealthCheck worker-healthcheck"),
        "{first:?}"
    );
    let cause = first.cause.as_deref().unwrap_or_default();
    ensure!(cause.contains("Ready"), "{first:?}");
    let evidence = first.power_off.as_ref().context("no evidence")?;
    ensure!(
        evidence.readings.len() >= 2 && evidence.readings.iter().all(|r| r.state == "Off"),
        "{evidence:?}"
    );
    // What the first leader collected, and what the second one read after the boot.
    let [collected] = first.evidence.as_slice() else {
        anyhow::bail!("{first:?}");
    };
    let power = collected.power.as_deref();
    ensure!(power == Some("On (Redfish)"), "{collected:?}");
    let ecc = |records: &[LogRecord]| records.iter().any(|r| r.message == ECC && r.count == 37);
    ensure!(ecc(&collected.log), "{collected:?}");
    let boot = collected.boot_log.as_ref().context("no log of the boot")?;
    let is_new = |r: &LogRecord| r.message == "Memory training failed";
    ensure!(boot.records.iter().any(is_new), "{collected:?}");
    ensure!(!ecc(&boot.records), "{collected:?}");
    let attempt = first.attempts.first().context("no attempt")?;
    ensure!(
        attempt.powered_off_at <= attempt.drained_at
            && attempt.drained_at <= attempt.powered_on_at
            && attempt.powered_on_at.is_some(),
        "{attempt:?}"
    );

    stage.host(HOST)?.hang();
    let is_second = |object: &Value| object["metadata"]["uid"] != *first.uid;
    recorder
        .wait_version(
            "Metal3Remediation",
            HOST,
            "the second one begins",
            is_second,
        )
        .await?;
    stage.wait_back(HOST).await?;
    let both = recorded(stage, "both remediations", |all| {
        all.len() == 2 && all.iter().all(|one| one.outcome.is_some())
    })
    .await?;
    ensure!(both[1].uid == first.uid, "the latest comes first: {both:?}");
    ensure!(both[1] == *first, "{both:?}\n{first:?}");

    let table = stage.controller_command(&["history", HOST], "").await?;
    ensure!(
        table.contains(&format!(
            "r-1 (r/r-1): 2 remediations in 1 day: {ECC}, 37 entries"
        )),
        "{table}"
    );
    ensure!(
        table.contains("log after the power-off") && table.contains("critical: Memory training"),
        "{table}"
    );
    ensure!(table.matches("succeeded").count() == 2, "{table}");
    let json = stage
        .controller_command(&["history", "--since", "1h", "-o", "json"], "")
        .await?;
    let json: Value = serde_json::from_str(&json)?;
    ensure!(
        json["hosts"][0]["remediations"][1]["uid"] == *first.uid,
        "{json}"
    );
    let yaml = stage
        .controller_command(&["history", "r/r-1", "-o", "yaml"], "")
        .await?;
    ensure!(yaml.contains("2 remediations in 1 day: "), "{yaml}");
    ensure!(
        stage
            .controller_command(&["history", "r-2"], "")
            .await
            .is_err()
    );
    let columns = stage.kubectl(&["get", "hosthistories"]).await?;
    ensure!(
        columns.contains("r.r-1") && columns.contains("succeeded"),
        "{columns}"
    );

    // A third leader shows on its page what it has not seen.
    stage.kill_controller("controller-1")?;
    let port = free_port()?;
    let address = format!("--metrics-address=127.0.0.1:{port}");
    stage
        .start_controller_as("controller-2", vec![address])
        .await?;
    wait_until("controller-2 leads", LONG, || async {
        let (_, metrics) = stage.admin("controller-2", "/metrics").await?;
        let leads = metrics.lines().any(|line| line == "rackhand_leader 1");
        Ok(if leads { Ok(()) } else { Err(metrics) })
    })
    .await?;
    let (_page, url) = stage.start_page(port).await?;
    wait_until("the page shows both", LONG, || async {
        let answer = reqwest::get(format!("{url}overview.json")).await?;
        if !answer.status().is_success() {
            return Ok(Err(answer.text().await?));
        }
        let shown: Overview = answer.json().await?;
        let occurrences: Vec<_> = shown
            .finished
            .iter()
            .map(|f| f.occurrence.as_deref())
            .collect();
        let second = format!("2nd in 1 day: {ECC}, 37 entries");
        Ok(if occurrences == [Some(second.as_str()), None] {
            Ok(())
        } else {
            Err(format!("{:?}", shown.finished))
        })
    })
    .await?;
    limits::are_enforced(stage, &both).await
}

fn steps(remediation: &HostRemediation) -> BTreeSet<String> {
    remediation.steps.iter().map(|s| s.step.clone()).collect()
}

/// The entries of the host's object, once they are as wanted.
async fn recorded(
    stage: &Stage,
    what: &str,
    wanted: impl Fn(&[HostRemediation]) -> bool,
) -> Result<Vec<HostRemediation>> {
    let client = stage.plane().client().await?;
    let objects: Api<HostHistory> = Api::all(client);
    wait_until(what, LONG, || async {
        let found = objects.get_opt("r.r-1").await?;
        let all = found
            .and_then(|h| h.status)
            .unwrap_or_default()
            .remediations;
        Ok(if !all.is_empty() && wanted(&all) {
            Ok(all)
        } else {
            Err(format!("{all:?}"))
        })
    })
    .await
}
