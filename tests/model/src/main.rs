//! Explores the worlds of the model and prints what was found.

use std::{
    io,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::Context as _;
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
    #[arg(long, value_parser = minutes)]
    minutes: Option<Duration>,
    /// Events of a run that are followed; without it, all.
    #[arg(long)]
    depth: Option<usize>,
    /// With --deep: only the set of this number.
    #[arg(long, hide = true)]
    set: Option<usize>,
}

impl Args {
    fn is_chosen(&self, world: &str) -> bool {
        self.world.is_empty() || self.world.iter().any(|name| name == world)
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            threads: self.threads,
            memory: self.memory << 30,
            time: self.minutes,
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
    let chosen = |name: &str| args.is_chosen(name);
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
    let mut good = true;
    for world in deep::worlds() {
        if args.is_chosen(world.name) {
            good &= deep_world(args, &world);
        }
    }
    good
}

/// Explores the sets of faults of a world, and prints how far that came.
fn deep_world(args: &Args, world: &deep::World) -> bool {
    let (name, sets) = (world.name, world.sets.len());
    // A world takes hours.
    let progress = |explored: &deep::Explored| {
        eprintln!(
            "{name}: {} of {sets} sets, {} given up, {} states, {:.0} s",
            explored.done,
            explored.given_up.len(),
            explored.states,
            explored.took.as_secs_f64()
        );
    };
    let explore = |set, time| deep_process(args, name, set, time).map_err(|e| format!("{e:#}"));
    let explored = deep::explore_sets(&world.sets, args.minutes, explore, progress);
    println!(
        "{name:<16} {:>11} {:>11} {:>10} {:>6} {:>7.1} s {:>5} MiB",
        format!("{} of {sets}", explored.done),
        explored.states,
        explored.largest,
        explored.depth,
        explored.took.as_secs_f64(),
        explored.memory,
    );
    for (set, why) in &explored.given_up {
        println!("  {set}: {why}; not explored to the end");
    }
    if explored.not_begun > 0 {
        println!("  {} sets were not begun in this time", explored.not_begun);
    }
    !explored.failed
}

/// Explores a set of faults in a process of its own, which ends with this one.
fn deep_process(
    args: &Args,
    world: &str,
    set: usize,
    time: Option<Duration>,
) -> anyhow::Result<deep::SetReport> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--deep", "--world", world]);
    command.arg(format!("--set={set}"));
    command.arg(format!("--threads={}", args.threads));
    command.arg(format!("--memory={}", args.memory));
    if let Some(time) = time {
        command.arg(format!("--minutes={}", time.as_secs_f64() / 60.0));
    }
    if let Some(depth) = args.depth {
        command.arg(format!("--depth={depth}"));
    }
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let _open_until_the_end = process.stdin.take();
    let output = process.wait_with_output()?;
    anyhow::ensure!(
        output.status.success(),
        "its process ended: {}",
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let (stories, report) = text.trim_end().rsplit_once('\n').unwrap_or(("", &text));
    if !stories.is_empty() {
        println!("{stories}");
    }
    Ok(serde_json::from_str(report)?)
}

/// Explores a set of faults, and prints what was broken and a report for the process that has started this one.
fn deep_set(args: &Args, set: usize) -> anyhow::Result<()> {
    // Standard input ends when the process that waits for the report does.
    std::thread::spawn(|| {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        std::process::exit(1);
    });
    let worlds = deep::worlds();
    let world = worlds.iter().find(|world| args.is_chosen(world.name));
    let report = world.and_then(|world| world.explore(set, args.bounds()));
    let report = report.context("there is no such set of faults")?;
    if !report.found.is_empty() {
        tell(&report);
    }
    println!(
        "{}",
        serde_json::to_string(&deep::SetReport::from(&report))?
    );
    Ok(())
}

/// A number of minutes, also a fraction.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(60.0 * minutes).map_err(|error| error.to_string())
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

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let known: Vec<_> = deep::worlds().iter().map(|world| world.name).collect();
    for name in &args.world {
        let is_known = known.contains(&name.as_str());
        anyhow::ensure!(
            is_known,
            "there is no world {name}, but {}",
            known.join(", ")
        );
    }
    if let Some(set) = args.set {
        deep_set(&args, set)?;
        return Ok(ExitCode::SUCCESS);
    }
    let good = if args.breakages {
        breakages(&args)
    } else if args.deep {
        deep(&args)
    } else {
        worlds(&args)
    };
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
