//! One run of a seed.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    breakage::Breakage,
    faults::{self, AgentProcess, Roster},
    fleet::{Fleet, FleetSpec, Os},
    habits::Habit,
    kernel::{Kernel, World},
    oracle::{Counts, Violation},
    programs::Site,
};

/// What to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// For how long faults come and are healed.
    pub time: Duration,
    /// The hosts.
    pub hosts: usize,
    /// The racks, each with an agent.
    pub racks: usize,
    /// Print the log as it grows.
    pub follow: bool,
    /// Keep the lines of the log.
    pub keep_log: bool,
    /// An assumption that does not hold, for a test of the oracle: some hosts hang at the start, and no other
    /// faults come.
    pub breakage: Option<Breakage>,
    /// A habit of the API server, while which some hosts hang; no other faults come.
    pub habit: Option<Habit>,
}

impl Options {
    /// A seed for so long, with twelve hosts in three racks.
    #[must_use]
    pub fn new(seed: u64, time: Duration) -> Self {
        Self {
            seed,
            time,
            hosts: 12,
            racks: 3,
            follow: false,
            keep_log: false,
            breakage: None,
            habit: None,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// Remediations that began while a habit acted, and all hosts of that time that are not well at the end.
    pub habit: Option<(u64, Vec<String>)>,
    /// Requests to the API server.
    pub api_requests: u64,
    /// The time on a core that it took.
    pub cpu: Duration,
    /// The hash of the log.
    pub hash: u64,
    /// The log, if it was kept.
    pub log: Vec<String>,
}

impl Outcome {
    /// A summary of the run in one line.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "seed {}: {:.1} h, {} faults, {} remediations, {} violations, log {:016x}, {:.1} s of a core",
            self.seed,
            self.time.as_secs_f64() / 3600.0,
            self.counts.faults.values().sum::<u64>(),
            self.counts.remediations,
            self.violations.len(),
            self.hash,
            self.cpu.as_secs_f64(),
        )
    }
}

/// How long faults come before everything is healed.
const STORM: Duration = Duration::from_secs(40 * 60);
/// How long everything may take to be well after that (L1).
const RECOVERY: Duration = Duration::from_secs(2 * 3600);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_secs(30);
/// How long agents have to tell what their journals hold.
const ANSWER: Duration = Duration::from_secs(1);
/// The stack of a simulation's thread, which is that of all its processes.
const STACK: usize = 16 << 20;
/// How long after its beginning a habit has reached everybody.
const HABIT_IS_KNOWN: Duration = Duration::from_secs(90);
/// How long everything takes to start.
const START: Duration = Duration::from_secs(120);

/// The argument with which the program runs one seed alone.
pub const ALONE: &str = "--alone";

/// Runs a seed in a process of its own, which `program` is started as: what a process counts, such as
/// tokio's runtimes, begins anew, so that a seed always gives the same run.
///
/// # Errors
/// The process cannot be started, or the simulation failed.
pub fn run(program: &Path, options: &Options) -> Result<Outcome> {
    let output = Command::new(program)
        .arg(ALONE)
        .arg(serde_json::to_string(options)?)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "seed {}: the simulation ended with {}",
            options.seed,
            output.status
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs a seed in this process, which must not have run another one, on a thread of its own.
///
/// # Errors
/// The files of the agents cannot be written, or the simulation panicked.
pub fn run_alone(options: &Options) -> Result<Outcome> {
    let options = options.clone();
    on_thread(move |dir| simulate(dir, &options))
}

/// Runs a simulation on a thread of its own, with a directory for the files of its processes.
pub(crate) fn on_thread<T: Send + 'static>(
    simulate: impl FnOnce(&Path) -> Result<T> + Send + 'static,
) -> Result<T> {
    let dir = tempfile::Builder::new()
        .prefix("rackhand-simulator-")
        .tempdir_in(memory())?;
    let thread = std::thread::Builder::new().name("simulation".to_owned());
    let thread = thread
        .stack_size(STACK)
        .spawn(move || simulate(dir.path()))?;
    match thread.join() {
        Ok(outcome) => outcome,
        Err(_) => bail!("the simulation panicked"),
    }
}

/// Where journals are written without waiting for a disk.
fn memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// A world with its objects, and the processes that are about to start in it.
pub(crate) fn set_up(dir: &Path, world: World) -> Result<(Kernel, Arc<Roster>)> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    rackhand_agent_service::block_inline();
    let spec = world.fleet.spec.clone();
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
        world.start_person();
        world.start_planned_work();
    }
    let site = Site::new(dir)?;
    let mut agents = Vec::new();
    for rack in 0..spec.racks.len() {
        for name in spec.agents(rack) {
            let program = site.agent(&simulation, rack, &name)?;
            let journal = site.state_dir(&name);
            let id = kernel.add(&format!("agent-{name}"), program);
            agents.push(AgentProcess { id, rack, journal });
        }
    }
    let mut controllers = Vec::new();
    for name in ["controller-a", "controller-b"] {
        let program = site.controller(&simulation, name)?;
        controllers.push(kernel.add(name, program));
    }
    let roster = Roster {
        controllers,
        agents,
    };
    Ok((kernel, Arc::new(roster)))
}

/// Hosts of each health check hang while the API server has a habit, which ends in the middle of the time.
/// Returns the remediations that began meanwhile, and what is left at the end.
fn act_by_habit(
    kernel: &mut Kernel,
    roster: &Roster,
    habit: Habit,
    end: Duration,
) -> Result<(u64, Vec<String>)> {
    let simulation = kernel.simulation();
    simulation.world().begin_habit(habit);
    if habit == Habit::CrdsLate {
        for controller in &roster.controllers {
            simulation.world().kill(*controller);
        }
    }
    // Watches that have begun go on for a minute.
    let hangs = START + HABIT_IS_KNOWN;
    kernel.run_until(hangs)?;
    {
        let mut world = simulation.world();
        let hung = world.fleet.one_of_each_check();
        for id in hung {
            world.fail_os(id, Os::Hung);
        }
    }
    kernel.run_until(START + (end - START) / 2)?;
    let begun = simulation.world().fleet.oracle.counts.remediations;
    simulation.world().end_habit(habit);
    kernel.run_until(end)?;
    simulation.world().ask_journals();
    kernel.run_until(end + ANSWER)?;
    let left = simulation.world().leftovers();
    Ok((begun, left))
}

fn simulate(dir: &Path, options: &Options) -> Result<Outcome> {
    let mut spec = FleetSpec::of(options.hosts, options.racks, options.seed);
    // Where a BMC does not keep to an assumption, outlets would make up for it.
    let breakage = options.breakage;
    spec.pdus = breakage.is_none_or(|breakage| breakage == Breakage::LyingPdus);
    let mut world = World::new(options.seed, Fleet::new(spec));
    world.fleet.breakage = options.breakage;
    if options.follow {
        world.follow_log();
    }
    if options.keep_log {
        world.keep_log();
    }
    let (mut kernel, roster) = set_up(dir, world)?;
    let simulation = kernel.simulation();
    kernel.run_until(START)?;
    let end = START + options.time;
    let mut healed = Vec::new();
    let mut time = START;
    if let Some(breakage) = options.breakage {
        simulation.world().begin_breakage(breakage);
        kernel.run_until(end)?;
        time = end;
    }
    let mut of_habit = None;
    if let Some(habit) = options.habit {
        of_habit = Some(act_by_habit(&mut kernel, &roster, habit, end)?);
        time = end;
    }
    while time < end {
        time = (time + STORM).min(end);
        faults::begin(&mut simulation.world(), &roster, time);
        kernel.run_until(time)?;
        if !simulation.world().fleet.oracle.violations.is_empty() {
            break;
        }
        faults::heal(&mut simulation.world(), &roster);
        let from = time;
        loop {
            kernel.run_until(time + LOOK)?;
            simulation.world().ask_journals();
            time += LOOK + ANSWER;
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
        .chain(roster.agents.iter().map(|agent| &agent.id));
    Ok(Outcome {
        seed: options.seed,
        time,
        violations: world.fleet.oracle.violations.clone(),
        counts: world.fleet.oracle.counts.clone(),
        healed,
        habit: of_habit,
        starts: processes.map(|id| world.state(*id).lives).sum(),
        api_requests: world.api.counts.values().sum(),
        cpu: rackhand_interpose::cpu_time(),
        hash: world.log_hash(),
        log: world.log_lines().to_vec(),
    })
}
