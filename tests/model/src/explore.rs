//! Explores a world with the checker, within bounds, and tells what was found.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use stateright::{Checker, HasDiscoveries, Model};

use crate::{
    checks,
    election::Election,
    remediation::{
        liveness::{self, healed, next_of_healed},
        setting::Setting,
        story,
        world::World,
    },
    replay::steps,
};

/// Actions that are told of a run that does not end.
const SHOWN: usize = 120;

/// A rule that was broken, and how.
#[derive(Debug, Clone)]
pub struct Found {
    /// The name of the property that was violated.
    pub property: &'static str,
    /// The actions that led to the violation, one line for each.
    pub story: Vec<String>,
    /// The same for [`replay`](crate::replay::replay).
    pub steps: Vec<usize>,
}

/// The result of exploring a world.
#[derive(Debug, Clone)]
pub struct Report {
    /// Number of distinct states.
    pub states: usize,
    /// The longest shortest path.
    pub depth: usize,
    /// The duration of the run.
    pub took: Duration,
    /// Rules that were broken.
    pub found: Vec<Found>,
    /// States that should be reachable and were never reached.
    pub unreached: Vec<&'static str>,
    /// Why it was not explored to its end.
    pub cut: Option<Cut>,
}

/// Why a world was not explored to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cut {
    /// The process needed more memory than it may.
    Memory,
    /// It took longer than it may.
    Time,
    /// Runs of more events were not followed.
    Depth,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "given up for its memory",
            Self::Time => "given up for its time",
            Self::Depth => "not followed further",
        })
    }
}

/// How far a world is explored.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Threads of the checker.
    pub threads: usize,
    /// Bytes of memory that the process may use.
    pub memory: u64,
    /// Time that a world may take.
    pub time: Option<Duration>,
    /// Events of a run that are followed.
    pub depth: Option<usize>,
}

impl Bounds {
    /// With this many threads, and otherwise none.
    pub fn threads(threads: usize) -> Self {
        Self {
            threads,
            memory: u64::MAX,
            time: None,
            depth: None,
        }
    }
}

/// Shortest and longest time between two looks at the memory.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// Bytes of a page of memory on the platforms that are supported.
const PAGE: u64 = 4096;

/// Waits until the checker has ended, or has used more than it may.
fn wait<M: Model>(checker: &impl Checker<M>, bounds: Bounds) -> Option<Cut> {
    let started = Instant::now();
    let mut pause = LOOK_EVERY.0;
    while !checker.is_done() {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        if resident.unwrap_or(0_u64).saturating_mul(PAGE) > bounds.memory {
            return Some(Cut::Memory);
        }
        if bounds.time.is_some_and(|time| started.elapsed() > time) {
            return Some(Cut::Time);
        }
        std::thread::sleep(pause);
        pause = pause.saturating_mul(2).min(LOOK_EVERY.1);
    }
    None
}

/// Explores a world. With a breakage it ends at the first rule that is broken.
pub fn explore(setting: Setting, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |model, mut path| {
        if let Some((last, _)) = path.last()
            && last.wrong.is_none()
        {
            let next_of = |w: &World| next_of_healed(w, model.breakage);
            path.extend(liveness::path(healed(last), SHOWN, next_of));
        }
        story::tell(&path, model)
    })
}

/// Explores an election likewise.
pub fn explore_election(election: Election, bounds: Bounds) -> Report {
    let first_only = election.broken.is_some();
    explore_model(election, first_only, bounds, |_, path| {
        let turns = path
            .iter()
            .filter_map(|(race, turn)| Some((race, (*turn)?)));
        turns
            .map(|(race, turn)| format!("tick {}: {turn:?}", race.time))
            .collect()
    })
}

/// Explores a world of health checks likewise.
pub fn explore_checks(setting: checks::Setting, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |model, path| {
        checks::story::tell(&path, model)
    })
}

pub(crate) fn explore_model<M>(
    model: M,
    first_only: bool,
    bounds: Bounds,
    tell: impl Fn(&M, Vec<(M::State, Option<M::Action>)>) -> Vec<String>,
) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let started = Instant::now();
    let when = if first_only {
        HasDiscoveries::AnyFailures
    } else {
        HasDiscoveries::AllFailures
    };
    let checker = model.checker().threads(bounds.threads).finish_when(when);
    let checker = match bounds.depth {
        Some(depth) => checker.target_max_depth(depth),
        None => checker,
    };
    let checker = checker.spawn_bfs();
    let mut cut = wait(&checker, bounds);
    let checker = match cut {
        Some(_) => checker,
        None => checker.join(),
    };
    if bounds
        .depth
        .is_some_and(|depth| checker.max_depth() >= depth)
    {
        cut = cut.or(Some(Cut::Depth));
    }
    let model = checker.model();
    let mut report = Report {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: started.elapsed(),
        found: Vec::new(),
        unreached: Vec::new(),
        cut,
    };
    for p in model.properties() {
        let path = checker.discovery(p.name);
        match (p.expectation.discovery_is_failure(), path) {
            (true, Some(path)) => {
                let path = path.into_vec();
                report.found.push(Found {
                    property: p.name,
                    steps: steps(model, &path),
                    story: tell(model, path),
                });
            }
            (false, None) if report.cut.is_none() => report.unreached.push(p.name),
            _ => {}
        }
    }
    report
}
