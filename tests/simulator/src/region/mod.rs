//! A region loses its power and gets it back: what the API server, the agents and the BMCs see of a large
//! fleet, and when its hosts are back.

mod phase;
mod report;
mod stages;

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::Result;

pub use self::report::RegionReport;
use self::{phase::Phase, stages::Stages};

use crate::{
    api::resource::POWER_REMEDIATIONS,
    faults::Roster,
    fleet::{Check, Fleet, FleetSpec, HostId, Link, Os},
    kernel::{Kernel, World},
    run::{on_thread, set_up},
};

/// What happens, and to how much.
#[derive(Debug, Clone)]
pub struct Region {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of hosts in all racks.
    pub hosts: usize,
    /// The racks, each with an agent that loses its power too.
    pub racks: usize,
    /// How many requests the API server serves in a second.
    pub api_rate: u32,
    /// Print the log as it grows.
    pub follow: bool,
}

/// How long everything takes to start.
const START: Duration = Duration::from_secs(180);
/// How long nothing happens after that.
const QUIET: Duration = Duration::from_secs(120);
/// How long there is no power.
const OUTAGE: Duration = Duration::from_secs(600);
/// How long it may take until everything is well.
const RECOVERY: Duration = Duration::from_secs(4 * 3600);
/// Of a hundred hosts, how many stay off when power is back, and how many hang as they start.
const STAY_OFF: usize = 3;
const HANG: usize = 2;
/// How many hosts a workload cluster has, with a health check of its own: the most Nodes that Kubernetes is meant for.
const HOSTS_OF_CLUSTER: usize = 5_000;
/// Of a hundred hosts, how many may be remediated at one time.
const MAX_UNHEALTHY: usize = 10;

impl Region {
    /// Runs it.
    ///
    /// # Errors
    /// The files of the agents cannot be written, or the simulation panicked.
    pub fn run(self) -> Result<RegionReport> {
        on_thread(move |dir| self.simulate(dir))
    }

    fn spec(&self) -> FleetSpec {
        let mut spec = FleetSpec::of(self.hosts, self.racks, self.seed);
        for (link, _) in &mut spec.racks {
            *link = Link::Inventory;
        }
        spec.pods = self.hosts / 10;
        spec.checks = vec![Check::Power];
        spec.hosts_of_check = Some(HOSTS_OF_CLUSTER);
        spec.hosts_of_cluster = Some(HOSTS_OF_CLUSTER);
        spec.max_unhealthy = MAX_UNHEALTHY;
        spec.second_agents = false;
        spec.rack_budget = None;
        spec.pdus = false;
        spec
    }

    fn simulate(self, dir: &Path) -> Result<RegionReport> {
        let mut world = World::new(self.seed, Fleet::new(self.spec()));
        if self.follow {
            world.follow_log();
        }
        world.ways.load.rate = Some(self.api_rate.max(1));
        let (kernel, roster) = set_up(dir, world)?;
        let mut run = Run {
            kernel,
            roster: &roster,
            phases: Vec::new(),
            stages: Stages::default(),
            at_most: [0; 3],
        };
        run.phase("start", |_| START)?;
        run.phase("quiet", |_| QUIET)?;
        let at_rest = run.bytes_held();
        run.lose_power();
        run.phase("without power", |_| OUTAGE)?;
        let returned = run.kernel.simulation().world().now();
        run.stages = Stages::new(run.return_power(), returned);
        run.recover(returned + RECOVERY)?;
        let simulation = run.kernel.simulation();
        let world = simulation.world();
        let (mut by_themselves, mut remediated) = (Vec::new(), Vec::new());
        for id in world.fleet.ids() {
            let Some(at) = world.fleet.host(id).ready_since else {
                continue;
            };
            let times = if run.stages.hosts().contains(&id) {
                &mut remediated
            } else {
                &mut by_themselves
            };
            times.push(at.saturating_sub(returned));
        }
        by_themselves.sort_unstable();
        remediated.sort_unstable();
        Ok(RegionReport {
            phases: run.phases.clone(),
            by_themselves,
            remediated,
            stages: run.stages.clone(),
            at_rest,
            at_most: run.at_most,
            left: world.leftovers(),
            violations: world.fleet.oracle.violations.clone(),
            cpu: rackhand_interpose::cpu_time(),
            region: self,
        })
    }
}

/// A run under way.
struct Run<'a> {
    kernel: Kernel,
    roster: &'a Roster,
    phases: Vec<Phase>,
    stages: Stages,
    at_most: [usize; 3],
}

impl Run<'_> {
    /// The bytes held by each controller, and by all agents.
    fn bytes_held(&self) -> [usize; 3] {
        let mut controllers = self.roster.controllers.iter().map(|id| id.bytes_held());
        let agents = self.roster.agents.iter().map(|agent| agent.id.bytes_held());
        [
            controllers.next().unwrap_or(0),
            controllers.next().unwrap_or(0),
            agents.sum(),
        ]
    }

    /// Runs second by second for as long as `time` says, and writes down what was seen.
    fn phase(&mut self, name: &'static str, time: impl Fn(&World) -> Duration) -> Result<()> {
        let simulation = self.kernel.simulation();
        let mut phase = Phase::begin(name, &mut simulation.world());
        loop {
            let next = {
                let world = simulation.world();
                if phase.age(&world) >= time(&world) {
                    break;
                }
                world.now() + Duration::from_secs(1)
            };
            self.kernel.run_until(next)?;
            {
                let world = simulation.world();
                phase.second(&world);
                self.stages.look(&world);
            }
            let held = self.bytes_held();
            for (most, held) in self.at_most.iter_mut().zip(held) {
                *most = (*most).max(held);
            }
        }
        phase.end(&simulation.world());
        eprintln!("{phase}");
        self.phases.push(phase);
        Ok(())
    }

    /// All hosts, BMCs and agents lose their power; the management cluster is elsewhere.
    fn lose_power(&mut self) {
        let simulation = self.kernel.simulation();
        let mut world = simulation.world();
        for id in world.fleet.ids() {
            world.cut_power(id, "the loss of power");
            world.fleet.host_mut(id).bmc.silent_until = Duration::MAX;
            world.fleet.host_mut(id).ready_since = None;
        }
        for agent in &self.roster.agents {
            world.stop(agent.id);
        }
    }

    /// Power is back: BMCs and agents start, and hosts as their firmware is set up. The hosts that need
    /// help.
    fn return_power(&mut self) -> BTreeSet<HostId> {
        let simulation = self.kernel.simulation();
        let mut world = simulation.world();
        let now = world.now();
        for agent in &self.roster.agents {
            let delay = world.between(Duration::from_secs(30), Duration::from_secs(120));
            world.restart(agent.id, delay);
        }
        let mut failing = BTreeSet::new();
        for id in world.fleet.ids() {
            let delay = world.between(Duration::from_secs(30), Duration::from_secs(120));
            world.fleet.host_mut(id).bmc.silent_until = now + delay;
            let chance = world.rng.usize(..100);
            if chance < STAY_OFF {
                failing.insert(id);
                continue;
            }
            world.give_power(id, "its return");
            if chance < STAY_OFF + HANG {
                failing.insert(id);
                let host = world.fleet.host_mut(id);
                host.os = Os::Panicked;
                host.epoch += 1;
            }
        }
        failing
    }

    /// Until everything is well, or a time.
    fn recover(&mut self, end: Duration) -> Result<()> {
        let begin = self.kernel.simulation().world().now();
        self.phase("after its return", |world| {
            let hosts = world.fleet.ids().map(|id| world.fleet.host(id));
            let well = hosts.into_iter().all(|host| host.ready_since.is_some())
                && world.api.list(POWER_REMEDIATIONS).next().is_none();
            let now = world.now() - begin;
            if well { now } else { end - begin }
        })?;
        self.kernel.simulation().world().ask_journals();
        self.phase("at the end", |_| Duration::from_secs(60))
    }
}
