//! Runs simulations and prints what came of them.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Parser;
use rackhand_simulator::{ALONE, Options, Outcome, Report, run, run_alone};

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
    /// Minutes instead of hours.
    #[arg(long, conflicts_with = "hours")]
    minutes: Option<u64>,
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
    let mut line = std::env::args().skip(1);
    if line.next().as_deref() == Some(ALONE) {
        return alone(&line.next().unwrap_or_default());
    }
    let args = Args::parse();
    let program = std::env::current_exe()?;
    let minutes = args.minutes.unwrap_or(args.hours * 60);
    let first = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    let begun = std::time::Instant::now();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut seed = first;
    loop {
        let options = Options {
            hosts: args.hosts,
            racks: args.racks,
            follow: args.verbose,
            ..Options::new(seed, Duration::from_secs(minutes * 60))
        };
        let outcome = run(&program, &options)?;
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
            "to see all that happens: hack/simulate --seed SEED --minutes {minutes} --hosts {} --racks {} --verbose",
            args.hosts, args.racks
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one seed, and prints its outcome for the process that has started this one.
fn alone(options: &str) -> Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("RACKHAND_LOG")
                .unwrap_or_else(|_| "off".into()),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    let options: Options = serde_json::from_str(options)?;
    println!("{}", serde_json::to_string(&run_alone(&options)?)?);
    Ok(ExitCode::SUCCESS)
}
