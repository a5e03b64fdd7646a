//! Runs simulations and prints what came of them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use rackhand_simulator::{Options, Outcome, Report, run};

/// Controllers and agents as in production, in virtual time, with faults of all kinds from a seed.
#[derive(Debug, Parser)]
struct Args {
    /// The first seed; by chance, if it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one after another.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Hours of virtual time of each seed.
    #[arg(long, default_value_t = 10)]
    hours: u64,
    /// Hosts.
    #[arg(long, default_value_t = 12)]
    hosts: usize,
    /// Racks, each with an agent.
    #[arg(long, default_value_t = 3)]
    racks: usize,
    /// Seed after seed until a rule does not hold.
    #[arg(long)]
    forever: bool,
    /// Print everything that happens.
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("RACKHAND_LOG")
                .unwrap_or_else(|_| "off".into()),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    let first = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    let begun = std::time::Instant::now();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut seed = first;
    loop {
        let outcome = simulate(&args, seed)?;
        eprintln!(
            "seed {seed}: {:.1} h, {} faults, {} violations, log {:016x}, {:.1} s so far",
            outcome.time.as_secs_f64() / 3600.0,
            outcome.counts.faults.values().sum::<u64>(),
            outcome.violations.len(),
            outcome.hash,
            begun.elapsed().as_secs_f64(),
        );
        let broken = !outcome.violations.is_empty();
        outcomes.push(outcome);
        seed += 1;
        if (args.forever && broken) || (!args.forever && seed - first >= args.seeds) {
            break;
        }
    }
    let broken = outcomes
        .iter()
        .any(|outcome| !outcome.violations.is_empty());
    println!("{}", Report::new(outcomes, begun.elapsed(), args.hosts));
    if broken {
        eprintln!(
            "replay: hack/simulate --seed SEED --hours {} --hosts {} --racks {} --verbose",
            args.hours, args.hosts, args.racks
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// A thread of its own for each seed: what a thread keeps, such as its hash keys, begins anew.
fn simulate(args: &Args, seed: u64) -> Result<Outcome> {
    let options = Options {
        seed,
        hours: args.hours,
        hosts: args.hosts,
        racks: args.racks,
        follow: args.verbose,
        keep_log: false,
    };
    let dir = tempfile::Builder::new()
        .prefix("rackhand-simulator-")
        .tempdir_in(memory())?;
    let thread = std::thread::Builder::new().name("simulation".to_owned());
    let thread = thread
        .stack_size(16 << 20)
        .spawn(move || run(dir.path(), &options))?;
    match thread.join() {
        Ok(outcome) => outcome,
        Err(_) => anyhow::bail!("seed {seed}: the simulation panicked"),
    }
}

/// Where journals are written without waiting for a disk.
fn memory() -> std::path::PathBuf {
    let shared = std::path::Path::new("/dev/shm");
    if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    }
}
