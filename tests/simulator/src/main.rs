//! Runs simulations and prints what came of them.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Parser;
use parking_lot::Mutex;
use rackhand_simulator::{
    ALONE, Causes, CountingAllocator, Options, Outcome, Region, Report, fleet::FleetSpec, run,
    run_alone,
};

/// Counts the memory of each simulated process.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Controllers and agents as in production, in virtual time, with faults of all kinds from a seed.
#[derive(Debug, Parser)]
struct Args {
    /// The first seed; by chance, if it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one after another.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Something that happens to a large fleet, instead of faults by chance.
    #[arg(long)]
    scenario: Option<Scenario>,
    /// Of a scenario: how many requests the API server serves in a second.
    #[arg(long, default_value_t = 2000)]
    api_rate: u32,
    /// So many seeds by chance, beside those.
    #[arg(long, default_value_t = 0)]
    fresh: u64,
    /// How many seeds run at one time; as many as there are cores, if it is not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Hours of virtual time of each seed.
    #[arg(long, default_value_t = 10)]
    hours: u64,
    /// Minutes instead of hours.
    #[arg(long, conflicts_with = "hours")]
    minutes: Option<u64>,
    /// Hosts.
    #[arg(long, default_value_t = 12)]
    hosts: usize,
    /// Racks; each second one has two agents.
    #[arg(long, default_value_t = 3)]
    racks: usize,
    /// So many outages of each kind (racks, switches, PDUs, kernels, API servers), and what the judgement of
    /// shared causes makes of them, instead of faults by chance.
    #[arg(long, conflicts_with = "scenario")]
    causes: Option<u32>,
    /// Seed after seed until a rule does not hold.
    #[arg(long)]
    forever: bool,
    /// Print everything that happens.
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> Result<ExitCode> {
    let mut line = std::env::args().skip(1);
    if line.next().as_deref() == Some(ALONE) {
        return alone(&line.next().unwrap_or_default());
    }
    let args = Args::parse();
    if let Some(Scenario::RegionPowerLoss) = args.scenario {
        return region(&args);
    }
    if let Some(trials) = args.causes {
        let seed = args.seed.unwrap_or(1);
        println!("{}", Causes { seed, trials }.run());
        return Ok(ExitCode::SUCCESS);
    }
    let program = std::env::current_exe()?;
    let begun = std::time::Instant::now();
    let seeds = Seeds::new(&args);
    let outcomes = Mutex::new(Vec::new());
    let jobs = args
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(seed) = seeds.next() {
                let outcome = run(&program, &args.options(seed)).inspect_err(|_| seeds.stop())?;
                if args.forever && !outcome.violations.is_empty() {
                    seeds.stop();
                }
                eprintln!(
                    "{}; {:.1} s so far",
                    outcome.line(),
                    begun.elapsed().as_secs_f64()
                );
                outcomes.lock().push(outcome);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(_) => anyhow::bail!("a worker panicked"),
            }
        }
        Ok(())
    })?;
    let mut outcomes: Vec<Outcome> = outcomes.into_inner();
    outcomes.sort_by_key(|outcome| outcome.seed);
    let broken = outcomes
        .iter()
        .any(|outcome| !outcome.violations.is_empty());
    let spec = FleetSpec::of(args.hosts, args.racks, 0);
    println!("{}", Report::new(spec, outcomes, begun.elapsed()));
    if broken {
        eprintln!(
            "to see all that happens: hack/simulate --seed SEED --minutes {} --hosts {} --racks {} --verbose",
            args.minutes(),
            args.hosts,
            args.racks
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// What happens to a large fleet.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Scenario {
    /// All hosts, BMCs and agents lose their power for ten minutes.
    RegionPowerLoss,
}

fn region(args: &Args) -> Result<ExitCode> {
    log_to_stderr();
    let region = Region {
        seed: args.seed.unwrap_or(1),
        hosts: args.hosts,
        racks: args.racks,
        api_rate: args.api_rate,
        follow: args.verbose,
    };
    let report = region.run()?;
    println!("{report}");
    Ok(if report.is_well() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Args {
    fn minutes(&self) -> u64 {
        self.minutes.unwrap_or(self.hours * 60)
    }

    fn options(&self, seed: u64) -> Options {
        Options {
            hosts: self.hosts,
            racks: self.racks,
            follow: self.verbose,
            ..Options::new(seed, Duration::from_secs(self.minutes() * 60))
        }
    }
}

/// The seeds that are not taken yet.
struct Seeds {
    left: Mutex<Box<dyn Iterator<Item = u64> + Send>>,
}

impl Seeds {
    fn new(args: &Args) -> Self {
        let fresh = fastrand::u64(..1_000_000_000);
        let first = args.seed.unwrap_or(fresh);
        let given = first..first.saturating_add(args.seeds);
        let left: Box<dyn Iterator<Item = u64> + Send> = if args.forever {
            Box::new(first..)
        } else {
            Box::new(given.chain(fresh..fresh + args.fresh))
        };
        Self {
            left: Mutex::new(left),
        }
    }

    fn next(&self) -> Option<u64> {
        self.left.lock().next()
    }

    /// Nobody takes another one.
    fn stop(&self) {
        *self.left.lock() = Box::new(std::iter::empty());
    }
}

/// Runs one seed, and prints its outcome for the process that has started this one.
fn alone(options: &str) -> Result<ExitCode> {
    log_to_stderr();
    let options: Options = serde_json::from_str(options)?;
    println!("{}", serde_json::to_string(&run_alone(&options)?)?);
    Ok(ExitCode::SUCCESS)
}

fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("RACKHAND_LOG")
                .unwrap_or_else(|_| "off".into()),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
}
