//! Three faults: each set of faults is explored by a process of its own.

use std::{
    io,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use rackhand_model::deep;

use crate::{args::Args, tell};

/// Three faults in each of the chosen worlds.
pub(crate) fn explore_worlds(args: &Args) -> bool {
    println!(
        "{:<16} {:>11} {:>11} {:>10} {:>6} {:>9} {:>9}",
        "world, 3 faults", "fault sets", "states", "largest", "depth", "time", "memory"
    );
    let mut good = true;
    for world in deep::worlds() {
        if args.is_chosen(world.name) {
            good &= explore_world(args, &world);
        }
    }
    good
}

/// Explores the sets of faults of a world, and prints how far that came.
fn explore_world(args: &Args, world: &deep::World) -> bool {
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
    let explore =
        |set, time| explore_in_process(args, name, set, time).map_err(|e| format!("{e:#}"));
    let explored = deep::explore_sets(&world.sets, args.from, args.minutes, explore, progress);
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
        println!(
            "  {} sets were not begun in this time; --from {} goes on",
            explored.not_begun,
            sets - explored.not_begun
        );
    }
    !explored.failed
}

/// Explores a set of faults in a process of its own, which ends with this one.
fn explore_in_process(
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
pub(crate) fn explore_set(args: &Args, set: usize) -> anyhow::Result<()> {
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
