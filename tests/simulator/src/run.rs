//! One run of a seed.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Result;

use crate::{
    faults::{self, Roster},
    fleet::{Fleet, FleetSpec, endpoint, rack_name},
    kernel::{Kernel, World},
    oracle::{Counts, Violation},
    programs::Site,
};

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// For how long faults come and are healed, in hours.
    pub hours: u64,
    /// The hosts.
    pub hosts: usize,
    /// The racks, each with an agent.
    pub racks: usize,
    /// Print the log as it grows.
    pub follow: bool,
    /// Keep the lines of the log.
    pub keep_log: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The virtual time.
    pub time: Duration,
    /// The rules that did not hold.
    pub violations: Vec<Violation>,
    /// What was counted.
    pub counts: Counts,
    /// How long it took each time until nothing was left, after everything was healed.
    pub healed: Vec<Duration>,
    /// Starts of controllers and agents.
    pub starts: u32,
    /// Requests to the API server.
    pub api_requests: u64,
    /// The hash of the log.
    pub hash: u64,
    /// The log, if it was kept.
    pub log: Vec<String>,
}

/// How long faults come before everything is healed.
const STORM: Duration = Duration::from_secs(40 * 60);
/// How long everything may take to be well after that (L1).
const RECOVERY: Duration = Duration::from_secs(2 * 3600);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_secs(30);
/// How long everything takes to start.
const START: Duration = Duration::from_secs(120);

/// Runs a seed, with its files below a directory.
///
/// # Errors
/// The files cannot be written.
pub fn run(dir: &Path, options: &Options) -> Result<Outcome> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    rackhand_agent_service::block_inline();
    let fleet = Fleet::new(FleetSpec::of(options.hosts, options.racks));
    let limit = fleet.limit();
    let mut world = World::new(options.seed, fleet);
    world.fleet.oracle.limit = limit;
    if options.follow {
        world.follow_log();
    }
    if options.keep_log {
        world.keep_log();
    }
    let mut kernel = Kernel::new(world);
    let simulation = kernel.simulation();
    {
        let mut world = simulation.world();
        world.write_objects();
        for id in world.fleet.ids() {
            world.start_kubelet(id);
        }
        world.start_cluster();
        world.start_metal3();
    }
    let site = Site::new(dir)?;
    let mut agents = Vec::new();
    for rack in 0..options.racks {
        let program = site.agent(&simulation, rack)?;
        let name = rack_name(rack);
        let journal = site.state_dir(&name);
        agents.push((kernel.add(&format!("agent-{name}"), program), journal));
        tracing::debug!(endpoint = endpoint(&name), "agent");
    }
    let mut controllers = Vec::new();
    for name in ["controller-a", "controller-b"] {
        let program = site.controller(&simulation, name)?;
        controllers.push(kernel.add(name, program));
    }
    let roster = Arc::new(Roster {
        controllers,
        agents,
    });
    kernel.run_until(START)?;
    let end = START + Duration::from_secs(options.hours * 3600);
    let mut healed = Vec::new();
    let mut time = START;
    while time < end {
        time += STORM;
        faults::begin(&mut simulation.world(), &roster, time);
        kernel.run_until(time)?;
        faults::heal(&mut simulation.world(), &roster);
        let from = time;
        loop {
            time += LOOK;
            kernel.run_until(time)?;
            let left = simulation.world().leftovers();
            if left.is_empty() {
                healed.push(time - from);
                break;
            }
            if time - from > RECOVERY {
                let what = format!("L1: not healed after {RECOVERY:?}: {}", left.join("; "));
                simulation.world().violate(what);
                break;
            }
        }
        if !simulation.world().fleet.oracle.violations.is_empty() {
            break;
        }
    }
    let world = simulation.world();
    let processes = roster
        .controllers
        .iter()
        .chain(roster.agents.iter().map(|(id, _)| id));
    Ok(Outcome {
        seed: options.seed,
        time,
        violations: world.fleet.oracle.violations.clone(),
        counts: world.fleet.oracle.counts.clone(),
        healed,
        starts: processes.map(|id| world.state(*id).lives).sum(),
        api_requests: world.api.counts.values().sum(),
        hash: world.log_hash(),
        log: world.log_lines().to_vec(),
    })
}
