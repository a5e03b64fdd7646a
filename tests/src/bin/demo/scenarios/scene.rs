//! The stage of a scenario: one rack, two hosts, one database pod.

use std::{path::Path, time::Duration};

use anyhow::Result;
use rackhand_tests::{
    rack::PowerTimings,
    stage::{HealthTimes, HostLink, RackSpec, Stage, StageConfig},
};

use crate::{plain, screen::Screen};

/// What a scenario needs.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) link: HostLink,
    pub(super) controllers: u8,
    /// Further arguments of the controllers: mostly shorter times than one would set in production.
    pub(super) arguments: &'static [&'static str],
}

impl Settings {
    /// Nothing special.
    pub(super) const PLAIN: Self = Self {
        link: HostLink::Inventory,
        controllers: 1,
        arguments: &[],
    };
}

/// A stage on which all is well.
pub(super) struct Scene {
    pub(super) stage: Stage,
    /// The pod of the database.
    pub(super) pod: String,
    /// The host that it runs on.
    pub(super) victim: String,
}

/// Starts everything, and waits until all is well.
///
/// # Errors
/// It does not get there.
pub(super) async fn start(settings: &Settings, dir: &Path) -> Result<Scene> {
    let screen = Screen::new();
    screen.step(&format!(
        "starting a Kubernetes control plane, a rack of two hosts, its agent; all in {}",
        dir.display()
    ));
    let config = StageConfig {
        timings: PowerTimings {
            off_takes: Duration::from_millis(1500),
            on_takes: Duration::from_millis(1000),
            boot_takes: Duration::from_secs(2),
            ..PowerTimings::default()
        },
        health: HealthTimes {
            unhealthy: "1s".into(),
            boot: "300s".into(),
            retries: 2,
        },
        ..StageConfig::steady(
            vec![RackSpec::new("rack-a", 2, settings.link)],
            settings.arguments,
        )
    };
    let stage = Stage::start(dir, config).await?;
    stage.apply_rack_agents().await?;
    for number in 0..settings.controllers {
        stage
            .start_controller(&format!("controller-{number}"))
            .await?;
    }
    stage.apply_workload(1).await?;
    let (pod, victim) = plain::workload_runs(&stage, 1).await?;
    stage.apply_health_check().await?;
    plain::counted(&stage).await?;
    screen.step(&format!(
        "all is well: {pod}, a database, runs on {victim}; a MachineHealthCheck looks after the nodes"
    ));
    screen.step("every command that is shown is really run; before you run one yourself (--keep):");
    screen.step(&format!(
        "export KUBECONFIG={}",
        stage.plane().kubeconfig().display()
    ));
    Ok(Scene { stage, pod, victim })
}

/// Says what may be looked at while everything runs on.
pub(super) fn explore(stage: &Stage) {
    Screen::new().title(&format!(
        "still running; end it with Ctrl-C. In another terminal:

  export KUBECONFIG={}
  kubectl get nodes
  kubectl -n metal3 get machines,m3r
  kubectl -n metal3 get events
  {} power status --all --socket {}

  logs: {}/*.log",
        stage.plane().kubeconfig().display(),
        stage.binary("rackhand-agent").display(),
        stage.agent_socket("rack-a").display(),
        stage.dir().display(),
    ));
}
