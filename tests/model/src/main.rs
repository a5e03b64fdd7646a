//! Explores the worlds of the model and prints what was found.

use std::process::ExitCode;

use clap::Parser;
use rackhand_model::{
    actions::Fault,
    breakage::Breakage,
    check::{Report, Setting, explore},
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
    let both = |b: u8| [Setting::direct(b), Setting::cooperative(b)];
    for mut setting in budgets.into_iter().flat_map(both) {
        let chosen = |f: &Fault| args.fault.contains(&format!("{f:?}"));
        setting
            .faults
            .retain(|f| args.fault.is_empty() || chosen(f));
        let (name, budget) = (setting.name, setting.budget);
        let report = explore(setting, args.threads);
        println!(
            "{name:<12} {budget:>6} {:>10} {:>6} {:>6.1} s",
            report.states,
            report.depth,
            report.took.as_secs_f64()
        );
        tell(&report);
        good &= report.found.is_empty() && report.unreached.is_empty();
    }
    good
}

fn breakages(args: &Args) -> bool {
    let mut good = true;
    println!(
        "{:<55} {:<12} {:>6}  {:<28} {:>7} {:>8}",
        "breakage", "world", "budget", "found by", "states", "time"
    );
    for breakage in Breakage::ALL {
        let setting = breakage.setting();
        let (name, budget) = (setting.name, setting.budget);
        let report = explore(setting, args.threads);
        let found = report.found.first();
        println!(
            "{:<55} {name:<12} {budget:>6}  {:<28} {:>7} {:>6.1} s",
            breakage.description(),
            found.map_or("NOT FOUND", |f| f.property),
            report.states,
            report.took.as_secs_f64()
        );
        good &= found.is_some();
    }
    good
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
