//! Three faults: a world for each three kinds of faults, because all kinds together need more memory than
//! there is. Every run with three faults is a run of one of these worlds.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use crate::explore::{Bounds, Cut, Report};

/// All sets of three kinds; with `always`, those that contain it, where runs without it are those of another
/// world.
pub fn triples<F: Copy + PartialEq>(faults: &[F], always: Option<F>) -> Vec<Vec<F>> {
    let others: Vec<F> = faults
        .iter()
        .copied()
        .filter(|fault| Some(*fault) != always)
        .collect();
    let chosen = 3 - usize::from(always.is_some());
    if others.len() <= chosen {
        return vec![faults.to_vec()];
    }
    let mut sets: Vec<Vec<F>> = vec![always.into_iter().collect()];
    let mut from: Vec<usize> = vec![0];
    for _ in 0..chosen {
        let before: Vec<_> = sets.drain(..).zip(from.drain(..)).collect();
        for (set, first) in before {
            for (place, fault) in others.iter().enumerate().skip(first) {
                let mut longer = set.clone();
                longer.push(*fault);
                sets.push(longer);
                from.push(place + 1);
            }
        }
    }
    sets
}

/// What was explored of one world.
#[derive(Debug, Default)]
pub struct Explored {
    /// The sets that were explored to the end.
    pub done: usize,
    /// All sets.
    pub sets: usize,
    /// The distinct states of each set, added up.
    pub states: usize,
    /// The states of the largest set.
    pub largest: usize,
    /// The longest shortest path.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// The set that was given up, and why; those after it were not begun.
    pub given_up: Option<(String, Cut)>,
    /// No rule was broken.
    pub holds: bool,
}

/// Explores one set after the other, until one needs more than it may or the time is over. `progress` is told after
/// each set.
pub fn explore<F: Debug + Clone>(
    sets: &[Vec<F>],
    bounds: Bounds,
    explore: impl Fn(Vec<F>, Bounds) -> Report,
    tell: impl Fn(&Report),
    progress: impl Fn(&Explored),
) -> Explored {
    let begun = Instant::now();
    let mut explored = Explored {
        sets: sets.len(),
        holds: true,
        ..Explored::default()
    };
    for set in sets {
        let time = bounds.time.map(|time| time.saturating_sub(begun.elapsed()));
        let report = explore(set.clone(), Bounds { time, ..bounds });
        explored.states += report.states;
        explored.largest = explored.largest.max(report.states);
        explored.depth = explored.depth.max(report.depth);
        if !report.found.is_empty() {
            explored.holds = false;
            tell(&report);
        }
        if let Some(cut) = report.cut {
            explored.given_up = Some((format!("{set:?}"), cut));
            break;
        }
        explored.done += 1;
        explored.took = begun.elapsed();
        progress(&explored);
    }
    explored.took = begun.elapsed();
    explored
}

/// The most memory that this process has had, in MiB.
pub fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib = kib.and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
