//! A campaign: faults of all kinds, chosen by a seed, in a real control plane, Rackhand's binaries and
//! simulated racks, and invariants that must hold regardless of them.
//!
//! The seed decides faults, targets, times and durations. It does not decide how the processes interleave, so
//! that the same seed may fail in one run and pass in the next.

mod fault;
mod oracle;
mod report;
mod storm;

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Result, anyhow};

pub use fault::Fault;
pub use report::Report;
use storm::Storm;

use crate::{
    bmo::Settings,
    stage::{FaultSetup, HostLink, RackSpec, Recorder, Stage, StageConfig, TcpProxy},
};

/// Names of the controllers, of which one leads.
const CONTROLLERS: [&str; 2] = ["controller-a", "controller-b"];

/// The settings of a campaign.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// Seed of the faults.
    pub seed: u64,
    /// Time during which faults are injected.
    pub duration: Duration,
}

fn racks() -> Vec<RackSpec> {
    vec![
        RackSpec::new("inventory", 3, HostLink::Inventory),
        RackSpec::new("ipmi", 3, HostLink::Inventory).by_ipmi(),
        RackSpec::new("detached", 3, HostLink::Detached),
        RackSpec::new("managed", 3, HostLink::Managed),
        RackSpec::new("spare", 2, HostLink::Inventory),
    ]
}

/// Runs a campaign, and reports each fault when it begins.
///
/// # Errors
/// An invariant was violated, or the system could not be started.
pub async fn run(dir: &Path, campaign: Campaign, tell: &(dyn Fn(&str) + Sync)) -> Result<Report> {
    let racks = racks();
    let names: Vec<String> = racks.iter().map(|rack| rack.name.clone()).collect();
    let hosts: Vec<String> = racks.iter().flat_map(|rack| rack.hosts.clone()).collect();
    let stormy = hosts.iter().filter(|host| !host.starts_with("spare"));
    let stormy: Vec<String> = stormy.cloned().collect();
    let managed: Vec<&str> = hosts
        .iter()
        .filter(|host| host.starts_with("managed"))
        .map(String::as_str)
        .collect();
    let mut config = StageConfig::fast(racks);
    // Faults consume attempts, and a host whose attempts are exhausted would stay off.
    config.health.retries = 30;
    config.health.boot = "20s".into();
    config.brief_boots = true;
    config.faults = FaultSetup::allowed();
    config.controller_args.push("--power-timeout=6s".into());
    let stage = Stage::start(dir, config).await?;
    let _metal3 = stage.start_metal3(&managed, Settings::default()).await?;
    let recorder = Recorder::start(&stage.client);
    let judged = async {
        let api = stage.lead_over_a_line().await?;
        let mut agents = BTreeMap::new();
        for rack in &names {
            let line = TcpProxy::to(&stage.agent_endpoint(rack)?).await?;
            stage.apply_rack_agent(rack, line.address()).await?;
            agents.insert(rack.clone(), line);
        }
        stage.apply_workload(u32::try_from(stormy.len())?).await?;
        oracle::everything_recovers(&stage, &hosts, stormy.len()).await?;
        for controller in CONTROLLERS {
            stage.start_controller(controller).await?;
        }
        stage.delete_pods_at_once().await?;
        stage.apply_health_check().await?;
        let storm = Storm::new(&stage, &api, &agents, stormy.clone(), campaign.seed);
        let whole = async {
            storm.run(campaign.duration, tell).await?;
            tell("the last fault has ended");
            oracle::everything_recovers(&stage, &hosts, stormy.len()).await?;
            oracle::no_hold_is_left(&stage, &names).await
        };
        tokio::select! {
            done = whole => done?,
            twice = oracle::no_pod_runs_twice(&stage) => twice?,
            ended = supervise(&stage, &storm, &names) => ended?,
        }
        judge(&stage, &recorder, &hosts, &storm, campaign).await
    };
    match judged.await {
        Ok(report) => Ok(report),
        Err(error) => {
            let report = stage.report().await;
            Err(anyhow!("seed {}: {error:#}\n{report}", campaign.seed))
        }
    }
}

/// Checks the invariants after everything has recovered.
async fn judge(
    stage: &Stage,
    recorder: &Recorder,
    hosts: &[String],
    storm: &Storm<'_>,
    campaign: Campaign,
) -> Result<Report> {
    let begun = storm.begun();
    let (mut taints, mut offs, mut deletions) = (0, 0, 0);
    for host in hosts {
        stage.tainted_only_while_off(recorder, host).await?;
        deletions += stage
            .pods_deleted_only_while_off(host, storm::CLOCK_ERROR)
            .await?;
        taints += recorder.taints(host).iter().filter(|(_, on)| *on).count();
        offs += oracle::off_only_on_request(stage, recorder, host, &begun)?;
    }
    let (_, terms) = stage.leader().await?;
    Ok(Report {
        seed: campaign.seed,
        duration: campaign.duration,
        hosts: hosts.len(),
        recoveries: oracle::recoveries(recorder, &begun),
        faults: begun.iter().fold(BTreeMap::new(), |mut all, b| {
            *all.entry(b.fault).or_default() += 1;
            all
        }),
        taints,
        deletions,
        offs,
        terms,
    })
}

/// Restarts controllers and agents after they have ended, like a kubelet and systemd.
async fn supervise(stage: &Stage, storm: &Storm<'_>, racks: &[String]) -> Result<()> {
    let controllers = CONTROLLERS.map(|name| async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if stage.controller_runs(name) {
                continue;
            }
            tokio::time::sleep(storm.downtime()).await;
            // Without an API the controller does not become ready, and is started again.
            stage.start_controller(name).await.ok();
        }
    });
    let agents = racks.iter().map(|rack| async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if stage.agent_runs(rack) {
                continue;
            }
            tokio::time::sleep(storm.downtime()).await;
            stage.start_agent(rack)?;
        }
        #[allow(unreachable_code, reason = "it gives the future its type")]
        Ok::<(), anyhow::Error>(())
    });
    tokio::select! {
        _ = futures::future::join_all(controllers) => Ok(()),
        failed = futures::future::try_join_all(agents) => failed.map(drop),
    }
}
