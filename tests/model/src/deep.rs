//! Three faults: a world for each three kinds of faults, because all kinds together need more memory than
//! there is. Every run with three faults is a run of one of these worlds.

use std::{
    collections::BTreeSet,
    fmt::{self, Debug},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    checks,
    election::Election,
    explore::{Bounds, Cut, Report, explore, explore_checks, explore_election},
    rack,
    remediation::{actions::Fault, setting::Setting},
    small,
};

/// Explores one of the sets of a world.
type ExploreSet = Box<dyn Fn(usize, Bounds) -> Option<Report>>;

/// A world with three faults, and all its sets of kinds of faults.
pub struct World {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// The kinds of faults of each set.
    pub sets: Vec<String>,
    /// The names of all its kinds of faults; none if it is small enough for all of them together.
    pub faults: BTreeSet<String>,
    explore: ExploreSet,
}

impl Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("World").field(&self.name).finish()
    }
}

impl World {
    fn new<F: Debug + Clone + 'static>(
        name: &'static str,
        sets: Vec<Vec<F>>,
        explore: impl Fn(Vec<F>, Bounds) -> Report + 'static,
    ) -> Self {
        Self {
            name,
            sets: sets.iter().map(|set| format!("{set:?}")).collect(),
            faults: sets.iter().flatten().map(|f| format!("{f:?}")).collect(),
            explore: Box::new(move |set, bounds| Some(explore(sets.get(set)?.clone(), bounds))),
        }
    }

    /// A world that is small enough for all kinds together.
    fn whole(name: &'static str, explore: impl Fn(Bounds) -> Report + 'static) -> Self {
        Self {
            faults: BTreeSet::new(),
            ..Self::new(name, vec![vec!["all"]], move |_, bounds| explore(bounds))
        }
    }

    /// Explores the set of this number, if there is one.
    #[must_use]
    pub fn explore(&self, set: usize, bounds: Bounds) -> Option<Report> {
        (self.explore)(set, bounds)
    }
}

/// All worlds, the small ones first.
#[must_use]
pub fn worlds() -> Vec<World> {
    let remediations = [
        Setting::restored(3),
        Setting::direct(3),
        Setting::interrupt(3),
        Setting::other_host(3),
        Setting::late_status(3),
        Setting::updates(3),
        Setting::evictions(3),
        Setting::outlets(3),
        Setting::outlet_leaders(3),
        Setting::outlet_restored(3),
        Setting::cooperative(3),
        Setting::leaders(3),
    ];
    let remediations = remediations.into_iter().map(|world| {
        let awaited = [Fault::Deposed, Fault::Restored];
        let always = awaited
            .into_iter()
            .find(|fault| world.faults.contains(fault) && !world.interrupts);
        let sets = triples(&world.faults, always);
        World::new(world.name, sets, move |faults, bounds| {
            let world = world.clone();
            explore(Setting { faults, ..world }, bounds)
        })
    });
    let checks = [
        checks::Setting::covered(3),
        checks::Setting::checks(3),
        checks::Setting::overlap(3),
    ];
    let checks = checks.into_iter().map(|world| {
        let sets = triples(&world.faults, None);
        World::new(world.name, sets, move |faults, bounds| {
            let world = world.clone();
            explore_checks(checks::Setting { faults, ..world }, bounds)
        })
    });
    let racks = [
        rack::check::Setting::rack(3),
        rack::check::Setting::operator(3),
        rack::check::Setting::caller(3),
    ];
    let racks = racks.into_iter().map(|world| {
        let sets = triples(&world.faults, None);
        World::new(world.name, sets, move |faults, bounds| {
            let world = world.clone();
            rack::check::explore(rack::check::Setting { faults, ..world }, bounds)
        })
    });
    let small = small::WORLDS.into_iter();
    let small =
        small.map(|world| World::whole(world.name, move |bounds| (world.explore)(3, bounds)));
    let elections = [Election::drifting(3), Election::even(3)];
    let [drift, election] = elections.map(|world| {
        World::whole(world.name(), move |bounds| {
            explore_election(world.clone(), bounds)
        })
    });
    let large = checks.chain(remediations).chain(racks);
    small
        .chain([drift])
        .chain(large)
        .chain([election])
        .collect()
}

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

/// What was explored of a set, by a process of its own, so that its memory is free for the next one.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetReport {
    /// Number of distinct states.
    pub states: usize,
    /// The longest shortest path.
    pub depth: usize,
    /// The most memory that the process has had, in MiB.
    pub memory: u64,
    /// A rule was broken.
    pub broken: bool,
    /// Why it was not explored to its end.
    pub cut: Option<Cut>,
}

impl From<&Report> for SetReport {
    fn from(report: &Report) -> Self {
        Self {
            states: report.states,
            depth: report.depth,
            memory: memory(),
            broken: !report.found.is_empty(),
            cut: report.cut,
        }
    }
}

/// What was explored of a world.
#[derive(Debug, Default)]
pub struct Explored {
    /// The sets that were explored to the end.
    pub done: usize,
    /// The sets that were given up, and why.
    pub given_up: Vec<(String, String)>,
    /// The sets that were not begun before the time was over.
    pub not_begun: usize,
    /// The distinct states of each set, added up.
    pub states: usize,
    /// The states of the largest set.
    pub largest: usize,
    /// The longest shortest path.
    pub depth: usize,
    /// The most memory that a set has needed, in MiB.
    pub memory: u64,
    /// How long it took.
    pub took: Duration,
    /// A rule was broken, or a process has failed.
    pub failed: bool,
}

/// Explores one set after the other, beginning with number `from`, until the time is over. `explore` is given what is
/// left of it, `progress` what was explored so far.
pub fn explore_sets(
    sets: &[String],
    from: usize,
    time: Option<Duration>,
    explore: impl Fn(usize, Option<Duration>) -> Result<SetReport, String>,
    progress: impl Fn(&Explored),
) -> Explored {
    let begun = Instant::now();
    let mut explored = Explored::default();
    for (number, set) in sets.iter().enumerate().skip(from) {
        let left = time.map(|time| time.saturating_sub(begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            explored.not_begun = sets.len() - number;
            break;
        }
        let cut = match explore(number, left) {
            Ok(report) => {
                explored.states += report.states;
                explored.largest = explored.largest.max(report.states);
                explored.depth = explored.depth.max(report.depth);
                explored.memory = explored.memory.max(report.memory);
                explored.failed |= report.broken;
                report.cut.map(|cut| cut.to_string())
            }
            Err(why) => {
                explored.failed = true;
                Some(why)
            }
        };
        match cut {
            Some(why) => explored.given_up.push((set.clone(), why)),
            None => explored.done += 1,
        }
        explored.took = begun.elapsed();
        progress(&explored);
    }
    explored
}

/// The most memory that this process has had, in MiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib = kib.and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
