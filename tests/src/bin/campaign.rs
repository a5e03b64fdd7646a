//! `hack/campaign`: random faults in a real control plane, Rackhand's binaries and simulated racks.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use rackhand_tests::campaign::{Campaign, run};

/// Injects faults of all kinds, chosen by a seed, and checks invariants that must hold regardless of them.
#[derive(Debug, Parser)]
#[command(name = "campaign", version)]
struct Args {
    /// Minutes during which faults are injected; the recovery after them takes another minute or so.
    #[arg(long, default_value_t = 2)]
    minutes: u64,
    /// Seed of the faults and their times; by default a new one for each run.
    #[arg(long)]
    seed: Option<u64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let campaign = Campaign {
        seed: args.seed.unwrap_or_else(|| fastrand::u64(1..100_000)),
        duration: Duration::from_secs(args.minutes * 60),
    };
    println!("campaign: seed {}, starting", campaign.seed);
    let dir = match tempfile::tempdir() {
        Ok(dir) => dir,
        Err(error) => {
            eprintln!("error: no temporary directory: {error}");
            return ExitCode::FAILURE;
        }
    };
    match run(dir.path(), campaign, &|line| println!("{line}")).await {
        Ok(report) => {
            println!("\n{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("\nBROKEN: {error:#}");
            let kept = dir.keep();
            eprintln!("the logs are in {}", kept.display());
            ExitCode::FAILURE
        }
    }
}
