//! Explores the worlds of the model and prints what was found.

use std::{fmt::Debug, process::ExitCode, time::Duration};

use clap::Parser;
use rackhand_model::{
    actions::Fault,
    breakage::Breakage,
    causes, checks, deep,
    election::{Broken, Election},
    explore::{Bounds, Cut, Report, explore, explore_checks, explore_election},
    policies, rack,
    setting::Setting,
};

/// Each explored state is many small allocations, which jemalloc serves to two threads in less time.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Explores every interleaving of a remediation in small worlds.
#[derive(Parser)]
#[command(name = "check-model", disable_help_subcommand = true)]
struct Args {
    /// Show instead that every breakage is found.
    #[arg(long)]
    breakages: bool,
    /// Three faults instead, each three kinds of faults in a world of its own.
    #[arg(long, conflicts_with = "breakages")]
    deep: bool,
    /// Faults that may happen in one run; without it, one and then two.
    #[arg(long)]
    budget: Option<u8>,
    /// Only this fault may happen, for example Crash; may be given again.
    #[arg(long)]
    fault: Vec<String>,
    /// Only this world; may be given again.
    #[arg(long)]
    world: Vec<String>,
    /// Threads of the checker.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Gibibytes of memory after which a world is given up.
    #[arg(long, default_value_t = 20)]
    memory: u64,
    /// Minutes after which a world is given up.
    #[arg(long)]
    minutes: Option<u64>,
    /// Events of a run that are followed; without it, all.
    #[arg(long)]
    depth: Option<usize>,
}

impl Args {
    fn bounds(&self) -> Bounds {
        Bounds {
            threads: self.threads,
            memory: self.memory << 30,
            time: self
                .minutes
                .map(|minutes| Duration::from_secs(60 * minutes)),
            depth: self.depth,
        }
    }
}

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
            Setting::outlets(b),
            Setting::outlet_leaders(b),
            Setting::outlet_restored(b),
        ]
    };
    let chosen = |name: &str| args.world.is_empty() || args.world.iter().any(|w| w == name);
    for mut setting in budgets.iter().copied().flat_map(all) {
        // With two faults, the outlets would take as long as all others.
        let is_long =
            (setting.outlets || setting.interrupts) && setting.budget > 1 && args.budget.is_none();
        if is_long || !chosen(setting.name) {
            continue;
        }
        let happens = |f: &Fault| args.fault.contains(&format!("{f:?}"));
        setting
            .faults
            .retain(|f| args.fault.is_empty() || happens(f));
        let (name, budget) = (setting.name, setting.budget);
        good &= print_world(name, budget, &explore(setting, args.bounds()));
    }
    good &= racks(args, &budgets, chosen);
    if args.fault.is_empty() {
        for budget in &budgets {
            for setting in [
                checks::Setting::checks(*budget),
                checks::Setting::overlap(*budget),
                checks::Setting::covered(*budget),
            ] {
                let (name, budget) = (setting.name, setting.budget);
                if chosen(name) {
                    good &= print_world(name, budget, &explore_checks(setting, args.bounds()));
                }
            }
        }
        for budget in budgets.iter().copied().filter(|_| chosen("policies")) {
            let setting = policies::Setting {
                budget,
                breakage: None,
            };
            let report = policies::explore(setting, args.bounds());
            good &= print_world("policies", budget, &report);
        }
        for budget in budgets.iter().copied().filter(|_| chosen("causes")) {
            let setting = causes::Setting {
                budget,
                breakage: None,
            };
            let report = causes::explore(setting, args.bounds());
            good &= print_world("causes", budget, &report);
        }
        let budgets = args.budget.map_or(vec![0, 1], |budget| vec![budget]);
        let worlds = |budget: u8| [Election::even(budget), Election::drifting(budget)];
        let worlds = budgets.into_iter().flat_map(worlds);
        for world in worlds.filter(|world| chosen(world.name())) {
            let (name, budget) = (world.name(), world.budget);
            good &= print_world(name, budget, &explore_election(world, args.bounds()));
        }
    }
    good
}

fn racks(args: &Args, budgets: &[u8], is_chosen: impl Fn(&str) -> bool) -> bool {
    use rack::{
        actions::Fault,
        check::{Setting, explore},
    };
    let settings = budgets.iter().flat_map(|budget| {
        // With two faults, the operator would take longer than all others.
        let operator = (*budget < 2 || args.budget.is_some()).then(|| Setting::operator(*budget));
        [Setting::rack(*budget)].into_iter().chain(operator)
    });
    let mut good = true;
    for mut setting in settings.filter(|s| is_chosen(s.name)) {
        let happens = |f: &Fault| args.fault.contains(&format!("{f:?}"));
        setting
            .faults
            .retain(|f| args.fault.is_empty() || happens(f));
        let (name, budget) = (setting.name, setting.budget);
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

/// Three faults in each of the chosen worlds.
fn deep(args: &Args) -> bool {
    println!(
        "{:<16} {:>11} {:>11} {:>10} {:>6} {:>9} {:>9}",
        "world, 3 faults", "fault sets", "states", "largest", "depth", "time", "memory"
    );
    let chosen = |name: &str| args.world.is_empty() || args.world.iter().any(|w| w == name);
    let mut good = true;
    let remediations = [
        Setting::restored(3),
        Setting::direct(3),
        Setting::interrupt(3),
        Setting::outlets(3),
        Setting::outlet_leaders(3),
        Setting::outlet_restored(3),
        Setting::cooperative(3),
        Setting::leaders(3),
    ];
    for world in remediations.into_iter().filter(|w| chosen(w.name)) {
        let awaited = [Fault::Deposed, Fault::Restored];
        let always = awaited
            .into_iter()
            .find(|fault| world.faults.contains(fault) && !world.interrupts);
        let sets = deep::triples(&world.faults, always);
        let one = |faults, bounds| {
            explore(
                Setting {
                    faults,
                    ..world.clone()
                },
                bounds,
            )
        };
        good &= print_deep(args, world.name, &sets, one);
    }
    let checks = [
        checks::Setting::covered(3),
        checks::Setting::checks(3),
        checks::Setting::overlap(3),
    ];
    for world in checks.into_iter().filter(|w| chosen(w.name)) {
        let sets = deep::triples(&world.faults, None);
        let one = |faults, bounds| {
            let world = checks::Setting {
                faults,
                ..world.clone()
            };
            explore_checks(world, bounds)
        };
        good &= print_deep(args, world.name, &sets, one);
    }
    let racks = [
        rack::check::Setting::rack(3),
        rack::check::Setting::operator(3),
    ];
    for world in racks.into_iter().filter(|w| chosen(w.name)) {
        let sets = deep::triples(&world.faults, None);
        let one = |faults, bounds| {
            let world = rack::check::Setting {
                faults,
                ..world.clone()
            };
            rack::check::explore(world, bounds)
        };
        good &= print_deep(args, world.name, &sets, one);
    }
    // Small enough for all kinds together.
    let (budget, breakage) = (3, None);
    if chosen("policies") {
        let one = |_, bounds| policies::explore(policies::Setting { budget, breakage }, bounds);
        good &= print_deep(args, "policies", &[vec!["all"]], one);
    }
    if chosen("causes") {
        let breakage = None;
        let one = |_, bounds| causes::explore(causes::Setting { budget, breakage }, bounds);
        good &= print_deep(args, "causes", &[vec!["all"]], one);
    }
    for world in [Election::drifting(3), Election::even(3)] {
        if chosen(world.name()) {
            let one = |_, bounds| explore_election(world.clone(), bounds);
            good &= print_deep(args, world.name(), &[vec!["all"]], one);
        }
    }
    good
}

/// Explores the sets of faults of a world, and prints how far that came.
fn print_deep<F: Debug + Clone>(
    args: &Args,
    name: &str,
    sets: &[Vec<F>],
    explore: impl Fn(Vec<F>, Bounds) -> Report,
) -> bool {
    // A world takes hours.
    let progress = |explored: &deep::Explored| {
        eprintln!(
            "{name}: {} of {} sets, {} states, {:.0} s",
            explored.done,
            explored.sets,
            explored.states,
            explored.took.as_secs_f64()
        );
    };
    let explored = deep::explore(sets, args.bounds(), explore, tell, progress);
    println!(
        "{name:<16} {:>11} {:>11} {:>10} {:>6} {:>7.1} s {:>5} MiB",
        format!("{} of {}", explored.done, explored.sets),
        explored.states,
        explored.largest,
        explored.depth,
        explored.took.as_secs_f64(),
        deep::memory(),
    );
    if let Some((set, cut)) = explored.given_up {
        println!("  {set}: {cut}; it and the sets after it are not explored to the end");
        // The threads of the checker go on.
        std::process::exit(i32::from(!explored.holds));
    }
    explored.holds
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
    for breakage in policies::Breakage::ALL {
        let setting = policies::Setting::broken(breakage);
        let budget = setting.budget;
        let report = policies::explore(setting, args.bounds());
        good &= print_breakage(breakage.description(), "policies", budget, &report);
    }
    for breakage in causes::Breakage::ALL {
        let setting = causes::Setting::broken(breakage);
        let budget = setting.budget;
        let report = causes::explore(setting, args.bounds());
        good &= print_breakage(breakage.description(), "causes", budget, &report);
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

fn main() -> ExitCode {
    let args = Args::parse();
    let good = if args.breakages {
        breakages(&args)
    } else if args.deep {
        deep(&args)
    } else {
        worlds(&args)
    };
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
