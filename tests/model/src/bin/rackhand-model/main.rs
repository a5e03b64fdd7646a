//! Explores the worlds of the model and prints what was found.

mod args;
mod deep;

use std::process::ExitCode;

use clap::Parser;
use rackhand_model::{
    checks,
    election::{Broken, Election},
    explore::{Cut, Report, explore, explore_checks, explore_election},
    rack,
    remediation::{breakage::Breakage, setting::Setting},
    small,
};

use args::Args;

/// Each explored state is many small allocations, which jemalloc serves to two threads in less time.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn tell(report: &Report) {
    for found in &report.found {
        println!("\nBROKEN: {}", found.property);
        for (i, line) in found.story.iter().enumerate() {
            println!("{:>4}. {line}", i + 1);
        }
        println!("As a test: replay(&setting, &{:?})", found.steps);
    }
    for name in &report.unreached {
        println!("\nNEVER REACHED: {name}");
    }
}

fn worlds(args: &Args) -> bool {
    let mut good = true;
    println!(
        "{:<15} {:>6} {:>10} {:>6} {:>8}",
        "world", "budget", "states", "depth", "time"
    );
    let budgets = args.budget.map_or(vec![1, 2], |budget| vec![budget]);
    let all = |b: u8| {
        [
            Setting::direct(b),
            Setting::cooperative(b),
            Setting::leaders(b),
            Setting::restored(b),
            Setting::interrupt(b),
            Setting::other_host(b),
            Setting::late_status(b),
            Setting::updates(b),
            Setting::evictions(b),
            Setting::outlets(b),
            Setting::outlet_leaders(b),
            Setting::outlet_restored(b),
        ]
    };
    for mut setting in budgets.iter().copied().flat_map(all) {
        // With two faults, each of these would take as long as all others.
        let is_large = setting.outlets
            || setting.interrupts
            || ["cooperative", "leaders", "other-host", "evictions"].contains(&setting.name);
        let is_long = is_large && setting.budget > 1 && args.budget.is_none();
        if is_long || !args.choose(setting.name, &mut setting.faults) {
            continue;
        }
        let (name, budget) = (setting.name, setting.budget);
        good &= print_world(name, budget, &explore(setting, args.bounds()));
    }
    good &= racks(args, &budgets);
    for budget in &budgets {
        for mut setting in [
            checks::Setting::checks(*budget),
            checks::Setting::overlap(*budget),
            checks::Setting::covered(*budget),
        ] {
            let (name, budget) = (setting.name, setting.budget);
            if args.choose(name, &mut setting.faults) {
                good &= print_world(name, budget, &explore_checks(setting, args.bounds()));
            }
        }
    }
    // Their faults have no names.
    if args.fault.is_empty() {
        let chosen = small::WORLDS.into_iter();
        for world in chosen.filter(|world| args.is_chosen(world.name)) {
            let first = world.most - 1;
            let budgets = args
                .budget
                .map_or(vec![first, world.most], |budget| vec![budget]);
            for budget in budgets {
                let report = (world.explore)(budget, args.bounds());
                good &= print_world(world.name, budget, &report);
            }
        }
        let budgets = args.budget.map_or(vec![0, 1], |budget| vec![budget]);
        let worlds = |budget: u8| [Election::even(budget), Election::drifting(budget)];
        let worlds = budgets.into_iter().flat_map(worlds);
        for world in worlds.filter(|world| args.is_chosen(world.name())) {
            let (name, budget) = (world.name(), world.budget);
            good &= print_world(name, budget, &explore_election(world, args.bounds()));
        }
    }
    good
}

fn racks(args: &Args, budgets: &[u8]) -> bool {
    use rack::check::{Setting, explore};
    let settings = budgets.iter().flat_map(|budget| {
        // With two faults, those with an operator would take longer than all others.
        let operators = [Setting::operator(*budget), Setting::caller(*budget)];
        let is_quick = *budget < 2 || args.budget.is_some();
        let operators = operators.into_iter().filter(move |_| is_quick);
        [Setting::rack(*budget)].into_iter().chain(operators)
    });
    let mut good = true;
    for mut setting in settings {
        let (name, budget) = (setting.name, setting.budget);
        if !args.choose(name, &mut setting.faults) {
            continue;
        }
        good &= print_world(name, budget, &explore(setting, args.bounds()));
    }
    good
}

/// Prints what was found, and returns whether all rules hold as far as the world was explored.
fn print_world(name: &str, budget: u8, report: &Report) -> bool {
    let bound = report.cut.map(|cut| format!("  {cut}")).unwrap_or_default();
    println!(
        "{name:<15} {budget:>6} {:>10} {:>6} {:>6.1} s{bound}",
        report.states,
        report.depth,
        report.took.as_secs_f64(),
    );
    tell(report);
    if matches!(report.cut, Some(Cut::Memory | Cut::Time)) {
        // The threads of the checker go on.
        std::process::exit(i32::from(!report.found.is_empty()));
    }
    report.found.is_empty() && report.unreached.is_empty()
}

fn breakages(args: &Args) -> bool {
    let mut good = true;
    println!(
        "{:<57} {:<15} {:>6}  {:<28} {:>7} {:>8}",
        "breakage", "world", "budget", "found by", "states", "time"
    );
    for breakage in Breakage::ALL {
        let setting = breakage.setting();
        let (name, budget) = (setting.name, setting.budget);
        let report = explore(setting, args.bounds());
        good &= print_breakage(breakage.description(), name, budget, &report);
    }
    for breakage in checks::breakage::Breakage::ALL {
        let setting = breakage.setting();
        let (name, budget) = (setting.name, setting.budget);
        let report = explore_checks(setting, args.bounds());
        good &= print_breakage(breakage.description(), name, budget, &report);
    }
    for breakage in rack::breakage::Breakage::ALL {
        let setting = breakage.setting();
        let budget = setting.budget;
        let report = rack::check::explore(setting, args.bounds());
        good &= print_breakage(breakage.description(), "rack", budget, &report);
    }
    for broken in small::WORLDS.iter().flat_map(|world| (world.breakages)()) {
        let report = broken.explore(args.bounds());
        good &= print_breakage(broken.description, broken.world, broken.budget, &report);
    }
    for broken in Broken::ALL {
        let world = broken.setting();
        let (name, budget) = (world.name(), world.budget);
        let report = explore_election(world, args.bounds());
        good &= print_breakage(broken.description(), name, budget, &report);
    }
    good
}

fn print_breakage(description: &str, world: &str, budget: u8, report: &Report) -> bool {
    let found = report.found.first();
    println!(
        "{description:<57} {world:<15} {budget:>6}  {:<28} {:>7} {:>6.1} s",
        found.map_or("NOT FOUND", |f| f.property),
        report.states,
        report.took.as_secs_f64()
    );
    found.is_some()
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    args.check_names()?;
    if let Some(set) = args.set {
        deep::explore_set(&args, set)?;
        return Ok(ExitCode::SUCCESS);
    }
    let good = if args.breakages {
        breakages(&args)
    } else if args.deep {
        deep::explore_worlds(&args)
    } else {
        worlds(&args)
    };
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
