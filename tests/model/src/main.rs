//! Explores the worlds of the model and prints what was found.

use std::process::ExitCode;

use clap::Parser;
use rackhand_model::{
    actions::Fault,
    breakage::Breakage,
    check::{Report, Setting, explore, explore_election},
    election::{Broken, Election},
};

/// Explores every interleaving of a remediation in small worlds.
#[derive(Parser)]
#[command(name = "check-model", disable_help_subcommand = true)]
struct Args {
    /// Show instead that every breakage is found.
    #[arg(long)]
    breakages: bool,
    /// Faults that may happen in one run; without it, one and then two. The end of every run (L1) is
    /// checked with at most one.
    #[arg(long)]
    budget: Option<u8>,
    /// Only this fault may happen, for example Crash; may be given again.
    #[arg(long)]
    fault: Vec<String>,
    /// Threads of the checker.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Long enough for a Lease to expire and for the next leader to lose it again.
const SECONDS: u64 = 6;

fn tell(report: &Report) {
    for found in &report.found {
        println!("\nBROKEN: {}", found.property);
        for (i, line) in found.story.iter().enumerate() {
            println!("{:>4}. {line}", i + 1);
        }
    }
    for name in &report.unreached {
        println!("\nNEVER REACHED: {name}");
    }
}

fn worlds(args: &Args) -> bool {
    let mut good = true;
    println!(
        "{:<12} {:>6} {:>10} {:>6} {:>8}",
        "world", "budget", "states", "depth", "time"
    );
    let budgets = args.budget.map_or(vec![1, 2], |budget| vec![budget]);
    let all = |b: u8| {
        [
            Setting::direct(b),
            Setting::cooperative(b),
            Setting::leaders(b),
        ]
    };
    for mut setting in budgets.into_iter().flat_map(all) {
        let chosen = |f: &Fault| args.fault.contains(&format!("{f:?}"));
        setting
            .faults
            .retain(|f| args.fault.is_empty() || chosen(f));
        let (name, budget) = (setting.name, setting.budget);
        good &= print_world(name, budget, &explore(setting, args.threads));
    }
    if args.fault.is_empty() {
        for budget in args.budget.map_or(vec![0, 1], |budget| vec![budget]) {
            let election = Election {
                budget,
                seconds: SECONDS,
                broken: None,
            };
            good &= print_world(
                "election",
                budget,
                &explore_election(election, args.threads),
            );
        }
    }
    good
}

fn print_world(name: &str, budget: u8, report: &Report) -> bool {
    println!(
        "{name:<12} {budget:>6} {:>10} {:>6} {:>6.1} s",
        report.states,
        report.depth,
        report.took.as_secs_f64()
    );
    tell(report);
    report.found.is_empty() && report.unreached.is_empty()
}

fn breakages(args: &Args) -> bool {
    let mut good = true;
    println!(
        "{:<57} {:<12} {:>6}  {:<28} {:>7} {:>8}",
        "breakage", "world", "budget", "found by", "states", "time"
    );
    for breakage in Breakage::ALL {
        let setting = breakage.setting();
        let (name, budget) = (setting.name, setting.budget);
        let report = explore(setting, args.threads);
        good &= print_breakage(breakage.description(), name, budget, &report);
    }
    for broken in Broken::ALL {
        let election = Election {
            budget: 1,
            seconds: SECONDS,
            broken: Some(broken),
        };
        let report = explore_election(election, args.threads);
        good &= print_breakage(broken.description(), "election", 1, &report);
    }
    good
}

fn print_breakage(description: &str, world: &str, budget: u8, report: &Report) -> bool {
    let found = report.found.first();
    println!(
        "{description:<57} {world:<12} {budget:>6}  {:<28} {:>7} {:>6.1} s",
        found.map_or("NOT FOUND", |f| f.property),
        report.states,
        report.took.as_secs_f64()
    );
    found.is_some()
}

fn main() -> ExitCode {
    let args = Args::parse();
    let good = if args.breakages {
        breakages(&args)
    } else {
        worlds(&args)
    };
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
