//! Faults of these tests, and assertions that remediations have finished.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use rackhand_tests::{
    rack::ResetType,
    stage::{LONG, Recorder, Stage, wait_until},
};

/// Steps at which a fault occurs, each on a host of its own. Left out are those in which nothing is waited for here:
/// ConfirmingOff and Tainting, which are recorded with the drain, and Restoring.
pub const STEPS: [&str; 5] = [
    "Holding",
    "PoweringOff",
    "Draining",
    "PoweringOn",
    "Booting",
];

/// Name of the rack in tests of controllers.
pub const RACK: &str = "r";

/// Steps at which the agent is killed, each with a rack of its own.
pub const AGENT_STEPS: [&str; 3] = ["PoweringOff", "Draining", "PoweringOn"];

/// Lease duration of controllers that are killed, short so that their successors lead soon.
pub const BRIEF: &str = "--lease-duration=3s";

/// Lease duration of controllers that must not lose the Lease on a busy machine.
pub const CALM: &str = "--lease-duration=15s";

/// Timeout of a step while controllers are killed and started.
const PATIENCE: Duration = LONG.saturating_mul(4);

/// Number of hosts that stay healthy, so that pods can be scheduled.
pub const SPARE: usize = 2;

/// A fault of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// `kill -9`.
    Killed,
    /// Its connections to the API server are reset, and so is every new one.
    Cut,
    /// Its connections to the API server stay open without traffic.
    Silenced,
}

pub async fn start(stage: &Stage, name: &str, lease: &str) -> Result<()> {
    stage
        .start_controller_as(name, vec![lease.to_owned()])
        .await
}

pub async fn workload_runs(stage: &Stage, replicas: usize) -> Result<()> {
    wait_until("the workload runs", LONG, || async {
        let pods = stage.pods().await?;
        let runs = |pod: &&Pod| {
            pod.metadata.deletion_timestamp.is_none()
                && pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running")
        };
        let running = pods.iter().filter(runs).count();
        Ok(if running >= replicas {
            Ok(())
        } else {
            Err(format!("{running} of {replicas} run"))
        })
    })
    .await?;
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

/// Checks that a host had one power cycle with one effective command each way, was tainted only while off,
/// and nothing is left.
pub async fn finished(stage: &Stage, recorder: &Recorder, host: &str) -> Result<()> {
    wait_until(&format!("{host} has lost its taint"), PATIENCE, || async {
        let seen = stage.remediation(host).await?;
        let seen = seen.map(|s| (s.step, s.reason, s.message));
        let taints = recorder.taints(host);
        Ok(if taints.len() == 2 {
            Ok(())
        } else {
            Err(format!("{taints:?} {seen:?}"))
        })
    })
    .await?;
    stage.wait_back(host).await?;
    stage.one_cycle(host)?;
    stage.tainted_only_while_off(recorder, host).await?;
    let taints = recorder.taints(host);
    ensure!(taints.len() == 2, "{host}: one taint: {taints:?}");
    let remediations: Vec<_> = recorder
        .of("Metal3Remediation", host)
        .iter()
        .map(|record| record.uid().to_owned())
        .collect();
    ensure!(
        remediations.windows(2).all(|pair| pair[0] == pair[1]),
        "{host}: one remediation: {remediations:?}"
    );
    let twice = stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

pub async fn all_finished(stage: &Stage, recorder: &Recorder, hosts: &[String]) -> Result<()> {
    try_join_all(hosts.iter().map(|host| finished(stage, recorder, host)))
        .await
        .map(drop)
}

/// Waits until a remediation of one of these hosts has reached its step. Uses the recorder, because a step
/// may be too short to be seen at the API.
pub async fn at_step<'a>(
    stage: &Stage,
    recorder: &Recorder,
    wanted: &[(&'a str, &'a str)],
) -> Result<(&'a str, &'a str)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for (host, step) in wanted {
            let steps = recorder.steps(host);
            // Where the Node is back before the power-on is recorded, Booting is written with the step after it.
            let is_reached =
                |seen: &str| seen == *step || (*step == "Booting" && seen == "Restoring");
            if steps.iter().any(|(_, seen)| is_reached(seen)) {
                return Ok((host, step));
            }
        }
        if Instant::now() > deadline {
            let (host, _) = wanted[0];
            let seen = stage.remediation(host).await?;
            anyhow::bail!("never seen: {wanted:?}; {host}: {seen:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for a controller to lead, because only a leader loses the Lease and ends.
pub async fn leads(stage: &Stage, name: &str) -> Result<()> {
    wait_until(&format!("{name} leads"), LONG, || async {
        let (holder, _) = stage.leader().await?;
        Ok(if holder.starts_with(name) {
            Ok(())
        } else {
            Err(format!("{holder:?} leads"))
        })
    })
    .await
}

/// Checks that a host received one command each way, so that no operation was repeated.
pub fn commanded_once(stage: &Stage, host: &str) -> Result<()> {
    let counters = stage.host(host)?.counters();
    let (off, on) = (
        counters.received(ResetType::ForceOff),
        counters.received(ResetType::On),
    );
    ensure!((off, on) == (1, 1), "{host}: {counters:?}");
    Ok(())
}

/// The racks whose connection to the controller is cut or silent at one step each.
pub fn cut_racks() -> Vec<(String, &'static str, Trouble)> {
    let troubles = [Trouble::Cut, Trouble::Silenced].into_iter().cycle();
    STEPS
        .into_iter()
        .zip(troubles)
        .enumerate()
        .map(|(number, (step, trouble))| (format!("n{number}"), step, trouble))
        .collect()
}
