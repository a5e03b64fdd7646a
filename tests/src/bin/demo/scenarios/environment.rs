//! The stage of a scenario: a few hosts with a database, and a health check.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use kube::ResourceExt as _;
use rackhand_tests::{
    pdu::PduPair,
    rack::PowerTimings,
    stage::{HealthTimes, HostLink, NODE_CHECK, RackSpec, Stage, StageConfig},
};

use super::nodes;
use crate::{plain, screen::Screen};

/// The kind of the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cluster {
    /// One rack of two hosts, with Machines and a MachineHealthCheck.
    Machines,
    /// A rack of five hosts and one of two, with Machines and a MachineHealthCheck.
    Large,
    /// Two racks of two hosts, with a NodeHealthCheck and without Cluster API and Metal3.
    Plain,
}

/// The settings of a scenario.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) cluster: Cluster,
    pub(super) link: HostLink,
    /// Whether the BMCs report updates of firmware.
    pub(super) reports_updates: bool,
    /// Whether two PDUs feed each host of the first rack.
    pub(super) has_pdus: bool,
    pub(super) controllers: u8,
    /// Further arguments of the controllers, mostly shorter times than in production.
    pub(super) arguments: &'static [&'static str],
}

impl Settings {
    /// The default settings.
    pub(super) const PLAIN: Self = Self {
        cluster: Cluster::Machines,
        link: HostLink::Inventory,
        reports_updates: false,
        has_pdus: false,
        controllers: 1,
        arguments: &[],
    };
}

/// A stage in which all Nodes are healthy.
pub(super) struct Environment {
    pub(super) stage: Stage,
    /// A pod of the database.
    pub(super) pod: String,
    /// The host of the pod.
    pub(super) victim: String,
}

/// Starts everything, and waits until all Nodes are healthy and the pods run.
///
/// # Errors
/// A part does not start, or does not become healthy.
pub(super) async fn start(settings: &Settings, dir: &Path) -> Result<Environment> {
    let screen = Screen::new();
    let (mut racks, what, on_takes) = match settings.cluster {
        Cluster::Machines => (
            vec![RackSpec::new("rack-a", 2, settings.link)],
            "a rack of two hosts, its agent",
            Duration::from_secs(1),
        ),
        Cluster::Large => (
            vec![
                RackSpec::new("rack-a", 5, settings.link),
                RackSpec::new("rack-b", 2, settings.link),
            ],
            "a rack of five hosts and one of two, their agents",
            Duration::from_secs(1),
        ),
        Cluster::Plain => (
            vec![
                RackSpec::new("rack-a", 2, settings.link),
                RackSpec::new("rack-b", 2, settings.link)
                    .by_ipmi()
                    .known_by_uuid(),
            ],
            "two racks of two hosts, their agents",
            // IPMI has no state between off and on.
            Duration::from_millis(100),
        ),
    };
    for rack in &mut racks {
        rack.reports_updates = settings.reports_updates;
    }
    screen.step(&format!(
        "starting a Kubernetes control plane, {what}; all in {}",
        dir.display()
    ));
    let pdus = match settings.has_pdus {
        true => Some(PduPair::start(racks[0].hosts.len()).await?),
        false => None,
    };
    let config = StageConfig {
        pdus,
        timings: PowerTimings {
            off_takes: Duration::from_millis(1500),
            on_takes,
            boot_takes: Duration::from_secs(2),
            ..PowerTimings::default()
        },
        health: HealthTimes {
            unhealthy: "1s".into(),
            boot: "300s".into(),
            retries: 2,
        },
        plain: matches!(settings.cluster, Cluster::Plain),
        ..StageConfig::steady(racks, settings.arguments)
    };
    let stage = Stage::start(dir, config).await?;
    stage.apply_rack_agents().await?;
    for number in 0..settings.controllers {
        stage
            .start_controller(&format!("controller-{number}"))
            .await?;
    }
    let (pod, victim, well) = match settings.cluster {
        Cluster::Machines => with_machines(&stage, 1).await?,
        Cluster::Large => with_machines(&stage, 4).await?,
        Cluster::Plain => with_nodes(&stage).await?,
    };
    screen.step(&format!("ready: {well}"));
    screen.step("every command below is run as shown; to run one yourself (with --keep), first:");
    screen.step(&format!(
        "export KUBECONFIG={}",
        stage.plane().kubeconfig().display()
    ));
    Ok(Environment { stage, pod, victim })
}

async fn with_machines(stage: &Stage, pods: u32) -> Result<(String, String, String)> {
    stage.apply_workload(pods).await?;
    let (pod, victim) = plain::workload_runs(stage, pods).await?;
    stage.apply_health_check().await?;
    plain::counted(stage).await?;
    let well =
        format!("{pod}, a database, runs on {victim}; a MachineHealthCheck selects the nodes");
    Ok((pod, victim, well))
}

async fn with_nodes(stage: &Stage) -> Result<(String, String, String)> {
    stage.apply_workload_by_zone().await?;
    plain::workload_runs(stage, 2).await?;
    stage.apply_node_health_check(nodes::QUICK_BOOT).await?;
    stage.wait_check_at_rest().await?;
    let (pod, victim) = runs_in(stage, "rack-a").await?;
    let (other, there) = runs_in(stage, "rack-b").await?;
    let well = format!(
        "{pod} runs on {victim}, {other} on {there}; NodeHealthCheck {NODE_CHECK} selects \
         the nodes"
    );
    Ok((pod, victim, well))
}

/// The pod of the database in a rack, and its host.
///
/// # Errors
/// No pod runs in the rack.
pub(super) async fn runs_in(stage: &Stage, rack: &str) -> Result<(String, String)> {
    let pods = stage.pods().await?;
    let mut placed = pods
        .iter()
        .filter_map(|pod| Some((pod.name_any(), pod.spec.as_ref()?.node_name.clone()?)));
    let found = placed.find(|(_, node)| node.starts_with(rack));
    found.with_context(|| format!("no pod of the database runs in {rack}"))
}

/// Prints how to explore the running stage.
pub(super) fn explore(stage: &Stage) {
    let agent = stage.binary("rackhand-agent");
    let racks = stage.config().racks.iter();
    let status = racks.map(|rack| {
        let socket = stage.agent_socket(&rack.name);
        format!(
            "\n  {} power status --all --socket {}",
            agent.display(),
            socket.display()
        )
    });
    let objects = if stage.config().plain {
        nodes::EXPLORE
    } else {
        "kubectl -n metal3 get machines,m3r
  kubectl -n metal3 get events"
    };
    Screen::new().title(&format!(
        "still running; stop it with Ctrl-C. In another terminal:

  export KUBECONFIG={}
  kubectl get nodes
  {objects}{}

  logs: {}/*.log",
        stage.plane().kubeconfig().display(),
        status.collect::<String>(),
        stage.dir().display(),
    ));
}
