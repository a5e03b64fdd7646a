//! What is cut or killed, and how it is seen that everything was finished.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use rackhand_tests::{
    rack::ResetType,
    stage::{LONG, Recorder, Stage, wait_until},
};

/// Where something happens, each on a host of its own.
pub const STEPS: [&str; 8] = [
    "Holding",
    "PoweringOff",
    "ConfirmingOff",
    "Tainting",
    "Draining",
    "PoweringOn",
    "Booting",
    "Restoring",
];

/// The rack of the hosts, in tests of controllers.
pub const RACK: &str = "r";

/// Where the agent is killed, each with a rack of its own.
pub const AGENT_STEPS: [&str; 3] = ["PoweringOff", "Draining", "PoweringOn"];

/// The Lease of controllers that are killed: their successors need not wait long.
pub const BRIEF: &str = "--lease-duration=3s";

/// The Lease of those that must not lose it on a busy machine.
pub const CALM: &str = "--lease-duration=8s";

/// How long a host may take to a step while controllers come and go.
const PATIENCE: Duration = LONG.saturating_mul(4);

/// Hosts that stay healthy, so that pods have somewhere to go.
pub const SPARE: usize = 2;

/// What happens to a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// `kill -9`.
    Killed,
    /// Its connections to the API server are reset, and no new one holds.
    Cut,
    /// Its connections to the API server are there, and nothing comes through.
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

/// One cycle, one command that took effect each way, tainted only while off, nothing left.
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
    let requests: Vec<_> = recorder
        .of("Metal3Remediation", host)
        .iter()
        .map(|record| record.uid().to_owned())
        .collect();
    ensure!(
        requests.windows(2).all(|pair| pair[0] == pair[1]),
        "{host}: one request: {requests:?}"
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

/// Waits for the first sight of a step of one of these hosts' remediations. A step may be over at
/// once, so the recorder, which misses none, is asked and not the API.
pub async fn at_step<'a>(
    stage: &Stage,
    recorder: &Recorder,
    wanted: &[(&'a str, &'a str)],
) -> Result<(&'a str, &'a str)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for (host, step) in wanted {
            let steps = recorder.steps(host);
            if steps.iter().any(|(_, seen)| seen == step) {
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

/// Waits for a controller to lead: who has not led does not lose the Lease, and goes on asking for it.
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

/// Whatever was begun was not begun again: one command each way.
pub fn commanded_once(stage: &Stage, host: &str) -> Result<()> {
    let counters = stage.host(host)?.counters();
    let (off, on) = (
        counters.received(ResetType::ForceOff),
        counters.received(ResetType::On),
    );
    ensure!((off, on) == (1, 1), "{host}: {counters:?}");
    Ok(())
}

/// The racks whose line to the controller is cut, or silent, at one step each.
pub fn cut_racks() -> Vec<(String, &'static str, Trouble)> {
    let troubles = [Trouble::Cut, Trouble::Silenced].into_iter().cycle();
    STEPS
        .into_iter()
        .zip(troubles)
        .enumerate()
        .map(|(number, (step, trouble))| (format!("n{number}"), step, trouble))
        .collect()
}
