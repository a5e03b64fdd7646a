//! What the API shows of a simulated kubelet, beside a real control plane, against the record of a real kubelet.

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    rack::{PowerState, ResetType},
    stage::{HostLink, LONG, RackSpec, Record, Recorder, Stage, StageConfig, wait_until},
};
use serde_json::Value;

/// The only Node of its cluster, as in the record.
const HOST: &str = "alone-1";

#[tokio::test(flavor = "multi_thread")]
async fn hang_and_boot_look_as_those_of_a_real_kubelet() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("alone", 1, HostLink::Inventory)];
    let stage = Stage::start(dir.path(), StageConfig::steady(racks, &[]))
        .await
        .unwrap();
    let recorder = Recorder::start(&stage.client);
    if let Err(error) = run(&stage, &recorder).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn run(stage: &Stage, recorder: &Recorder) -> Result<()> {
    let all: Value = serde_json::from_str(include_str!("../../real/kubelet.json"))?;
    let host = stage.host(HOST)?;
    let first = settled(recorder, 0, |last| {
        last.is_ready() && taints(last).is_empty()
    })
    .await?;

    ensure!(host.hang(), "{HOST} was up");
    let unreachable = |last: &Record| !last.is_ready() && taints(last).contains("unreachable");
    let hung = settled(recorder, first, unreachable).await?;
    compare(recorder, first, hung, &all["phases"]["hang"])?;

    host.switch(ResetType::ForceOff, "test");
    let is_off = |view: &rackhand_tests::rack::HostView| view.power == PowerState::Off;
    host.wait_for(LONG, "is off", is_off).await?;
    host.switch(ResetType::On, "test");
    let back = settled(recorder, hung, |last| {
        last.is_ready() && taints(last).is_empty()
    })
    .await?;
    compare(recorder, hung, back, &all["phases"]["boot"])
}

fn versions(recorder: &Recorder) -> Vec<Record> {
    let mut versions = recorder.of("Node", HOST);
    versions.sort_by_key(Record::version);
    versions.dedup_by_key(|record| record.version());
    versions
}

/// Waits for a version of the Node after this one; returns its number.
async fn settled(recorder: &Recorder, after: u64, wanted: impl Fn(&Record) -> bool) -> Result<u64> {
    wait_until("the Node is as wanted", LONG, || async {
        let versions = versions(recorder);
        let last = versions.last();
        let version = last.filter(|last| last.version() > after && wanted(last));
        Ok(version
            .map(Record::version)
            .ok_or_else(|| format!("{:?}", last.map(|last| &last.object))))
    })
    .await
}

fn taints(node: &Record) -> String {
    let taints = node.object["spec"]["taints"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let taints = taints.into_iter().flatten();
    let taints: Vec<_> = taints
        .map(|taint| format!("{}:{}", text(&taint["key"]), text(&taint["effect"])))
        .collect();
    taints.join(", ")
}

/// What of a version a record shows, part by part.
fn parts(node: &Record) -> Result<[String; 3]> {
    let status = &node.object["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions
        .into_iter()
        .find(|condition| condition["type"] == "Ready")
        .context("no condition Ready")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok([
        text(&status["nodeInfo"]["bootID"]),
        format!(
            "ready {} {}",
            text(&ready["status"]),
            text(&ready["reason"])
        ),
        format!("taints {}", taints(node)),
    ])
}

/// Compares the changes between two versions with those of a recorded phase. Leases are not compared: whether the first
/// renewal comes first is tested where the writes of the kubelet are seen. A Node that is Ready again before the control
/// plane has tainted it as not Ready gets no such taint.
fn compare(recorder: &Recorder, from: u64, to: u64, phase: &Value) -> Result<()> {
    let recorded = phase.as_array().context("a phase")?.iter();
    let recorded: Vec<String> = recorded
        .filter_map(|change| change[1].as_str())
        .filter(|change| *change != "lease")
        .map(str::to_owned)
        .collect();
    let mut seen = Vec::new();
    let mut last: Option<[String; 3]> = None;
    for version in versions(recorder) {
        if version.version() < from || version.version() > to {
            continue;
        }
        let mut now = parts(&version)?;
        // The record was polled: it does not show the moment in which one taint is set and the other is not gone yet.
        if let (true, Some(last)) = (now[2].contains(", "), &last) {
            now[2].clone_from(&last[2]);
        }
        for (i, part) in now.iter().enumerate() {
            if last.as_ref().is_some_and(|last| last[i] != *part) {
                let is_boot = i == 0;
                seen.push(if is_boot {
                    "boot ID".to_owned()
                } else {
                    part.clone()
                });
            }
        }
        last = Some(now);
    }
    let brief = "taints node.kubernetes.io/not-ready:NoSchedule";
    let without = |changes: &[String]| -> Vec<String> {
        let kept = changes.iter().filter(|change| *change != brief);
        kept.cloned().collect()
    };
    ensure!(
        seen == recorded || seen == without(&recorded),
        "seen {seen:?}, recorded {recorded:?}"
    );
    Ok(())
}
