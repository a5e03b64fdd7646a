//! Invariants of a campaign, checked by the real state of hosts and pods.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;

use super::storm::Begun;
use crate::{
    bmo::IRONIC,
    campaign::fault::Fault,
    rack::{LogEvent, PowerState, ResetType},
    stage::{Recorder, Stage, is_ready, wait_until},
};

/// Interval of the comparison of pods during faults.
const EVERY: Duration = Duration::from_millis(200);
/// Time for everything to recover after the last fault (L1).
pub(super) const RECOVERY: Duration = Duration::from_secs(240);
/// Maximum delay of the recorder: kube-apiserver and etcd are stopped for at most 3 s.
const RECORDED: Duration = Duration::from_secs(4);

/// Compares the pods of all hosts until it is dropped.
///
/// # Errors
/// A pod ran on two hosts at one time.
pub(super) async fn no_pod_runs_twice(stage: &Stage) -> Result<()> {
    loop {
        tokio::time::sleep(EVERY).await;
        let twice = stage.ran_twice();
        ensure!(twice.is_empty(), "a pod ran on two hosts: {twice:?}");
    }
}

/// Waits until nothing is left of any remediation, every Node is Ready and the workload runs.
///
/// # Errors
/// Something is left; the message names the hosts.
pub(super) async fn everything_recovers(
    stage: &Stage,
    hosts: &[String],
    pods: usize,
) -> Result<()> {
    wait_until("everything has recovered", RECOVERY, || async {
        let mut left = Vec::new();
        for host in hosts {
            confirm_what_is_off(stage, host).await?;
            let mut here = stage.asked_for(host).await?;
            here.extend(stage.left_on(host).await?);
            if !is_ready(&stage.node(host).await?) {
                here.push("not Ready".to_owned());
            }
            if !here.is_empty() {
                left.push(format!("{host}: {}", here.join(", ")));
            }
        }
        let listed = stage.pods().await?;
        let running = listed.iter().filter(|pod| runs(pod)).count();
        if running < pods {
            left.push(format!("{running} of {pods} pods run"));
        }
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("; "))
        })
    })
    .await
}

/// Does what the reason `FenceUnconfirmed` tells a person to do: looks at the host, and confirms that it is off. A BMC
/// that was restarted proves no off for ten minutes.
async fn confirm_what_is_off(stage: &Stage, host: &str) -> Result<()> {
    let waits = stage.remediation(host).await?;
    let Some(waits) = waits.filter(|seen| seen.reason == "FenceUnconfirmed") else {
        return Ok(());
    };
    if stage.host(host)?.real_power() != PowerState::Off {
        return Ok(());
    }
    let uid = waits.object["metadata"]["uid"].as_str();
    let objects = stage.remediations();
    stage
        .annotate(&objects, host, "rackhand.dev/confirm-fenced", uid)
        .await
}

fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && phase == Some("Running")
}

/// Checks that no agent holds a host (F9).
///
/// # Errors
/// A host is held; the message names it.
pub(super) async fn no_hold_is_left(stage: &Stage, racks: &[String]) -> Result<()> {
    for rack in racks {
        wait_until(&format!("no hold at agent {rack}"), RECOVERY, || async {
            let held = stage.held_by(rack).await?;
            let left: Vec<_> = held.into_iter().filter(|(_, by)| !by.is_empty()).collect();
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            })
        })
        .await?;
    }
    Ok(())
}

/// Checks that every power-off of a host occurred while it had a remediation. Ironic enforces the power state that it
/// has recorded, so it switches off a host whose BMC has reported off, once the BMC reports on again.
///
/// # Errors
/// A power-off without a remediation; the message names host and time.
pub(super) fn off_only_on_request(
    stage: &Stage,
    recorder: &Recorder,
    host: &str,
    begun: &[Begun],
) -> Result<usize> {
    let records = recorder.of("Metal3Remediation", host);
    let exists = |at: Instant| {
        let from = records.iter().any(|r| !r.gone && r.at <= at + RECORDED);
        let last = records.iter().rfind(|r| r.at + RECORDED <= at);
        from && last.is_none_or(|r| !r.gone || records.iter().any(|l| l.at + RECORDED > at))
    };
    let mut offs = 0;
    for entry in stage.host(host)?.log() {
        let LogEvent::Command { reset, by, .. } = &entry.event else {
            continue;
        };
        if *reset == ResetType::ForceOff {
            offs += 1;
            let is_enforced = by == IRONIC
                && begun.iter().any(|b| {
                    b.target == host && b.fault.misreports_off() && b.at <= entry.stamp.at
                });
            if !exists(entry.stamp.at) && !is_enforced {
                bail!("{host} was switched off by {by} without a remediation");
            }
        }
    }
    Ok(offs)
}

/// Seconds from each hang until the Node was Ready again.
pub(super) fn recoveries(recorder: &Recorder, begun: &[Begun]) -> Vec<Duration> {
    let hangs = begun.iter().filter(|b| b.fault == Fault::HostHangs);
    let mut all: Vec<Duration> = hangs
        .filter_map(|hang| {
            let records = recorder.of("Node", &hang.target);
            let mut later = records.iter().filter(|r| r.at > hang.at);
            later.by_ref().find(|r| !r.is_ready())?;
            later
                .find(|r| r.is_ready())
                .map(|r| r.at.duration_since(hang.at))
        })
        .collect();
    all.sort_unstable();
    all
}
