//! A region loses its power and gets it back: what the API server, the agents and the BMCs see of a large
//! fleet, and when its hosts are back.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    time::Duration,
};

use anyhow::Result;

use crate::{
    api::resource::POWER_REMEDIATIONS,
    faults::Roster,
    fleet::{Check, Fleet, FleetSpec, HostId, Link, Os},
    kernel::{Kernel, World},
    oracle::Violation,
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
/// For how many hosts there is a health check: the most Nodes that a cluster of Kubernetes is meant for.
const HOSTS_OF_CHECK: usize = 5_000;
/// Of a hundred hosts, how many may be remediated at one time.
const MAX_UNHEALTHY: usize = 10;

/// One phase, as the API server and the BMCs saw it.
#[derive(Debug, Clone, Default)]
struct Phase {
    name: &'static str,
    time: Duration,
    requests: BTreeMap<(&'static str, &'static str), u64>,
    peak: u64,
    longest_queue: usize,
    bmc_calls: u64,
    bmc_peak: u64,
    bmc_most: usize,
    bmc_most_of_rack: usize,
    remediations: usize,
}

/// What came of it.
#[derive(Debug)]
pub struct RegionReport {
    region: Region,
    phases: Vec<Phase>,
    /// From the return of power: the hosts that start by themselves, and those that do not.
    by_themselves: Vec<Duration>,
    remediated: Vec<Duration>,
    /// Bytes held by each controller and by all agents, at rest and at most.
    at_rest: [usize; 3],
    at_most: [usize; 3],
    left: Vec<String>,
    violations: Vec<Violation>,
    cpu: Duration,
}

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
        spec.hosts_of_check = Some(HOSTS_OF_CHECK);
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
        world.ways.rate = Some(self.api_rate.max(1));
        let (kernel, roster) = set_up(dir, world)?;
        let mut run = Run {
            kernel,
            roster: &roster,
            phases: Vec::new(),
            at_most: [0; 3],
        };
        run.phase("start", |_| START)?;
        run.phase("quiet", |_| QUIET)?;
        let at_rest = run.bytes_held();
        run.lose_power();
        run.phase("without power", |_| OUTAGE)?;
        let failing = run.return_power();
        let returned = run.kernel.simulation().world().now();
        run.recover(returned + RECOVERY)?;
        let simulation = run.kernel.simulation();
        let world = simulation.world();
        let (mut by_themselves, mut remediated) = (Vec::new(), Vec::new());
        for id in world.fleet.ids() {
            let Some(at) = world.fleet.host(id).ready_since else {
                continue;
            };
            let times = if failing.contains(&id) {
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
        let mut phase = Phase {
            name,
            ..Phase::default()
        };
        let before = {
            let mut world = simulation.world();
            world.ways.longest_queue = 0;
            world.fleet.bmc_requests.most = 0;
            world.fleet.bmc_requests.most_of_rack = 0;
            world.api.counts.clone()
        };
        let begin = simulation.world().now();
        let calls_before = simulation.world().fleet.oracle.counts.bmc_calls;
        loop {
            let (now, requests, calls, wanted) = seen(&simulation.world(), &time);
            if now >= begin + wanted {
                break;
            }
            self.kernel.run_until(now + Duration::from_secs(1))?;
            let (_, later, calls_later, _) = seen(&simulation.world(), &time);
            phase.peak = phase.peak.max(later - requests);
            phase.bmc_peak = phase.bmc_peak.max(calls_later - calls);
            let live = simulation.world().api.list(POWER_REMEDIATIONS).count();
            phase.remediations = phase.remediations.max(live);
            let held = self.bytes_held();
            for (most, held) in self.at_most.iter_mut().zip(held) {
                *most = (*most).max(held);
            }
        }
        let world = simulation.world();
        phase.time = world.now() - begin;
        for (kind, count) in &world.api.counts {
            let new = count - before.get(kind).copied().unwrap_or(0);
            if new > 0 {
                phase.requests.insert(*kind, new);
            }
        }
        phase.longest_queue = world.ways.longest_queue;
        phase.bmc_calls = world.fleet.oracle.counts.bmc_calls - calls_before;
        phase.bmc_most = world.fleet.bmc_requests.most;
        phase.bmc_most_of_rack = world.fleet.bmc_requests.most_of_rack;
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

fn seen(world: &World, time: impl Fn(&World) -> Duration) -> (Duration, u64, u64, Duration) {
    let requests = world.api.counts.values().sum();
    let calls = world.fleet.oracle.counts.bmc_calls;
    (world.now(), requests, calls, time(world))
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.requests.values().sum();
        let seconds = self.time.as_secs_f64().max(1.0);
        write!(
            f,
            "{}, {seconds:.0} s: requests to the API server: {total} ({:.0} each second, at most {}; longest \
             queue {}); to BMCs: {} ({:.0} each second, at most {}; at one time {}, in one rack {}); \
             remediations at one time: {}",
            self.name,
            total as f64 / seconds,
            self.peak,
            self.longest_queue,
            self.bmc_calls,
            self.bmc_calls as f64 / seconds,
            self.bmc_peak,
            self.bmc_most,
            self.bmc_most_of_rack,
            self.remediations,
        )?;
        let mut kinds: Vec<_> = self.requests.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for ((verb, plural), count) in kinds.into_iter().take(8) {
            write!(f, "\n  {count:>9} {verb} {plural}")?;
        }
        Ok(())
    }
}

impl RegionReport {
    /// Whether every host is back and every rule held.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.left.is_empty() && self.violations.is_empty()
    }
}

impl fmt::Display for RegionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Region {
            hosts,
            racks,
            api_rate,
            seed,
            ..
        } = self.region;
        writeln!(
            f,
            "region of {hosts} hosts in {racks} racks, {} s without power; an API server that serves \
             {api_rate} requests a second; seed {seed}",
            OUTAGE.as_secs()
        )?;
        for phase in &self.phases {
            writeln!(f, "{phase}")?;
        }
        for (name, times) in [
            ("hosts that start by themselves", &self.by_themselves),
            ("hosts that stay off or hang", &self.remediated),
        ] {
            let at = |percent| crate::report::percentile(times, percent);
            writeln!(
                f,
                "{name}: {}, Ready after 50 %: {:.0} s, 99 %: {:.0} s, 100 %: {:.0} s",
                times.len(),
                at(50),
                at(99),
                at(100)
            )?;
        }
        let [a, b, agents] = self.at_rest;
        let [most_a, most_b, most_agents] = self.at_most;
        let each = |bytes: usize, of: usize| bytes as f64 / of.max(1) as f64 / 1024.0;
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "heap of the leading controller: {:.0} MiB at rest ({:.2} KiB for each host), {:.0} MiB at most \
             ({:.2}); of the other one: {:.0} and {:.0} MiB",
            mib(a.max(b)),
            each(a.max(b), hosts),
            mib(most_a.max(most_b)),
            each(most_a.max(most_b), hosts),
            mib(a.min(b)),
            mib(most_a.min(most_b)),
        )?;
        writeln!(
            f,
            "heap of an agent: {:.0} KiB at rest, {:.0} KiB at most ({:.2} and {:.2} KiB for each host)",
            each(agents, racks),
            each(most_agents, racks),
            each(agents, hosts),
            each(most_agents, hosts),
        )?;
        writeln!(f, "{:.0} s of a core", self.cpu.as_secs_f64())?;
        write!(f, "left: {}", self.left.len())?;
        for left in self.left.iter().take(10) {
            write!(f, "\n  {left}")?;
        }
        write!(f, "\nviolations: {}", self.violations.len())?;
        for violation in self.violations.iter().take(10) {
            let at = violation.at.as_secs_f64();
            write!(f, "\n  {at:.3} s: {}", violation.what)?;
        }
        Ok(())
    }
}
