//! The demonstration without a scenario: a hung node is fenced, its pod moves, and the node recovers.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use kube::ResourceExt;
use rackhand_tests::{
    process::{Process, free_port},
    rack::{OsState, PowerTimings},
    stage::{HealthTimes, HostLink, RackSpec, Stage, StageConfig, wait_until},
};

use crate::{Args, Shown, screen::Screen, summary, timeline::Timeline};

/// Timeout of each wait of the demonstration.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
const REPLICAS: u32 = 3;
/// The timeout of the check, as text in Go's form and as a duration.
const UNHEALTHY: (&str, Duration) = ("2s", Duration::from_secs(2));

fn config(args: &Args) -> StageConfig {
    let racks = (0..args.racks).map(|i| {
        let name = format!("rack-{}", char::from(b'a' + i));
        let link = if i == 0 {
            HostLink::Inventory
        } else {
            HostLink::Detached
        };
        RackSpec::new(&name, args.hosts.into(), link)
    });
    StageConfig {
        timings: PowerTimings {
            off_takes: Duration::from_millis(1500),
            on_takes: Duration::from_millis(1000),
            boot_takes: Duration::from_secs(4),
            ..PowerTimings::default()
        },
        health: HealthTimes {
            unhealthy: UNHEALTHY.0.into(),
            boot: "300s".into(),
            retries: 2,
        },
        ..StageConfig::steady(racks.collect(), &[])
    }
}

/// # Errors
/// The stage does not start.
pub(crate) async fn show(args: &Args, dir: &Path) -> Result<Shown> {
    let out = Screen::new();
    out.title(&format!(
        "Rackhand: {} racks of {} hosts with Redfish BMCs, one agent each, two controllers,\na real Kubernetes control plane; all on loopback, everything in {}",
        args.racks,
        args.hosts,
        dir.display()
    ));
    out.step(
        "starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler, racks, agents",
    );
    let stage = Stage::start(dir, config(args)).await?;
    stage.apply_rack_agents().await?;
    stage.delete_pods_at_once().await?;
    out.step("every node is Ready; starting two controllers under their own ServiceAccount");
    let mut ports = BTreeMap::new();
    for name in ["controller-0", "controller-1"] {
        let port = free_port()?;
        let address = format!("--metrics-address=127.0.0.1:{port}");
        stage.start_controller_as(name, vec![address]).await?;
        ports.insert(name, port);
    }
    stage.apply_workload(REPLICAS).await?;
    let (pod, victim) = workload_runs(&stage, REPLICAS).await?;
    out.step(&format!(
        "StatefulSet db runs {REPLICAS} pods; applying the MachineHealthCheck"
    ));
    stage.apply_health_check().await?;
    counted(&stage).await?;
    let page = match args.page {
        true => Some(page(out, &stage, &ports).await?),
        false => None,
    };

    let outcome = remediate(out, &stage, &pod, &victim).await;
    if let Err(error) = &outcome {
        out.title(&format!("failed: {error:#}\n\n{}", stage.logs()));
    }
    if !args.keep && !args.page {
        return Ok(Shown::ended(outcome));
    }
    explore(out, &stage, &victim);
    if let Some((_, url)) = &page {
        out.print(&format!("  status page: {url}"));
    }
    Ok(Shown {
        outcome,
        kept: Some(stage),
        page: page.map(|(process, _)| process),
    })
}

/// Starts the status page of the leader and prints its URL.
async fn page(
    out: Screen,
    stage: &Stage,
    ports: &BTreeMap<&str, u16>,
) -> Result<(Process, String)> {
    let (holder, _) = stage.leader().await?;
    let port = ports.iter().find(|(name, _)| holder.starts_with(**name));
    let (_, port) =
        port.with_context(|| format!("{holder:?} leads, which was not started here"))?;
    let (process, url) = stage.start_page(*port).await?;
    out.step(&format!(
        "the status page, for a browser on this machine: {url}"
    ));
    Ok((process, url))
}

/// Hangs the node of the pod, and shows all events until it has recovered.
async fn remediate(out: Screen, stage: &Stage, pod: &str, victim: &str) -> Result<()> {
    let host = stage.host(victim)?;
    host.hang();
    let mut timeline = Timeline::new(stage, victim, pod);
    out.header();
    out.line(
        0.0,
        "demo",
        &format!("{victim} hangs: its kubelet is dead, its power is on, {pod} still runs on it"),
    );
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        for moment in timeline.look().await {
            if let Some((who, what)) = moment.fact.line() {
                out.line(moment.at, who, &what);
            }
        }
        if timeline.over() {
            break;
        }
        if tokio::time::Instant::now() > deadline {
            bail!("the node is not back after {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    summary::show(out, stage, &timeline, victim, UNHEALTHY.1)
}

/// Waits until all pods run; returns one and its node.
pub(crate) async fn workload_runs(stage: &Stage, replicas: u32) -> Result<(String, String)> {
    wait_until("the workload runs", PATIENCE, || async {
        let pods = stage.pods().await?;
        let running: Vec<(String, String)> = pods
            .iter()
            .filter(|p| p.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running"))
            .filter_map(|p| Some((p.name_any(), p.spec.as_ref()?.node_name.clone()?)))
            .collect();
        let wanted = usize::try_from(replicas)?;
        if running.len() < wanted {
            return Ok(Err(format!("{} of {wanted} pods", running.len())));
        }
        // The first rack is that whose agent has an inventory.
        let first = running.iter().find(|(_, node)| node.starts_with("rack-a-"));
        Ok(first
            .or(running.first())
            .cloned()
            .ok_or_else(|| "no pod".to_owned()))
    })
    .await
}

/// Waits until the check has counted its Machines and detects failures.
pub(crate) async fn counted(stage: &Stage) -> Result<()> {
    let checks = stage.api("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck");
    let wanted: usize = stage.config().racks.iter().map(|r| r.hosts.len()).sum();
    wait_until(
        "the health check has counted its Machines",
        PATIENCE,
        || async {
            let check = checks.get("worker-healthcheck").await?;
            let healthy = check.data["status"]["currentHealthy"].as_u64().unwrap_or(0);
            let hosts_up = stage.racks().iter().flat_map(|r| r.hosts().values());
            let up = hosts_up.filter(|h| h.view().os == OsState::Running).count();
            Ok(if usize::try_from(healthy)? == wanted && up == wanted {
                Ok(())
            } else {
                Err(format!("{healthy} of {wanted} healthy"))
            })
        },
    )
    .await
}

fn explore(out: Screen, stage: &Stage, victim: &str) {
    let socket = stage.agent_socket("rack-a");
    let agent = stage.binary("rackhand-agent");
    out.title(&format!(
        "still running; stop it with Ctrl-C. In another terminal:

  export KUBECONFIG={}
  kubectl get nodes
  kubectl get rackagents
  kubectl -n metal3 get mhc,machines,m3r
  kubectl -n metal3 get events --field-selector involvedObject.name={victim}
  kubectl -n metal3 annotate machine rack-a-1 cluster.x-k8s.io/remediate-machine=   # remediates it again
  {} power status --all --socket {}
  {} power off rack-a-1 --socket {}

  logs: {}/*.log",
        stage.plane().kubeconfig().display(),
        agent.display(),
        socket.display(),
        agent.display(),
        socket.display(),
        stage.dir().display(),
    ));
}
