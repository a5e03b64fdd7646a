//! The model for stateright: worlds, their rules, and what a run of the checker found.

use std::{
    fmt::Debug,
    hash::Hash,
    time::{Duration, Instant},
};

use rackhand_core::remediation::State;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::{
    actions::{Action, FAULTS, Fault},
    breakage::Breakage,
    checks,
    election::Election,
    liveness::{self, ends},
    replay::steps,
    story,
    world::{World, Wrong},
};

/// Failed tries of one operation that are followed; a BMC that is silent for ever is tried for ever.
pub const TRIES: u32 = 2;
/// Repeated power-offs, and power-ons, that are followed.
pub const REPEATS: u32 = 2;

/// Actions that are told of a run that does not end.
const SHOWN: usize = 120;

/// A world to explore.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Name of the object.
    pub name: &'static str,
    /// baremetal-operator switches the host as well.
    pub cooperative: bool,
    /// The BMC lies.
    pub lying: bool,
    /// How many faults may happen.
    pub budget: u8,
    /// The faults that may happen.
    pub faults: Vec<Fault>,
    /// The deliberate fault, if any.
    pub breakage: Option<Breakage>,
}

impl Setting {
    /// A world in which only Rackhand switches the host.
    pub fn direct(budget: u8) -> Self {
        let mut faults = FAULTS.to_vec();
        faults.retain(|f| !matches!(f, Fault::HoldRemoved | Fault::Deposed));
        Self {
            name: "direct",
            cooperative: false,
            lying: false,
            budget,
            faults,
            breakage: None,
        }
    }

    /// A world in which baremetal-operator switches the host as well, following the hold.
    pub fn cooperative(budget: u8) -> Self {
        let mut faults = FAULTS.to_vec();
        faults.retain(|f| *f != Fault::Deposed);
        Self {
            name: "cooperative",
            cooperative: true,
            faults,
            ..Self::direct(budget)
        }
    }

    /// As `cooperative`, and another controller may take over while a call of the first one is on its way.
    pub fn leaders(budget: u8) -> Self {
        Self {
            name: "leaders",
            faults: FAULTS.to_vec(),
            ..Self::cooperative(budget)
        }
    }
}

impl Setting {
    /// Whether L1 is checked, after every fault and whenever time has passed. With more faults that takes too long.
    fn checks_ends(&self) -> bool {
        self.budget <= 1
    }
}

fn is(w: &World, wrong: Wrong) -> bool {
    w.wrong == Some(wrong)
}

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self.cooperative, self.lying, self.budget);
        if !ends(&world, self.breakage) {
            world.broken(Wrong::NoEnd);
        }
        vec![world]
    }

    fn actions(&self, w: &World, actions: &mut Vec<Action>) {
        actions.extend(w.enabled(&self.faults));
    }

    fn next_state(&self, w: &World, action: Action) -> Option<World> {
        let mut next = w.next(action, self.breakage);
        let from = matches!(action, Action::Fault(_) | Action::Late | Action::Time);
        if from && self.checks_ends() && !ends(&next, self.breakage) {
            next.broken(Wrong::NoEnd);
        }
        (next != *w).then_some(next)
    }

    fn within_boundary(&self, w: &World) -> bool {
        let bounded = |s: &State| {
            s.tries <= TRIES && s.power_off_repeats <= REPEATS && s.power_on_repeats <= REPEATS
        };
        w.object.state.as_ref().is_none_or(bounded)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no pod runs on two hosts", |_, w: &World| {
                !(w.pod.process && w.pod.elsewhere)
            }),
            Property::always("F1: taint only with proof", |_, w: &World| {
                !is(w, Wrong::Taint)
            }),
            Property::always("F2: intent is durable", |_, w: &World| {
                !is(w, Wrong::Intent)
            }),
            Property::always("F4: on only after the drain", |_, w: &World| {
                !is(w, Wrong::EarlyOn)
            }),
            Property::always("F6: one operation at a time", |_, w: &World| {
                !is(w, Wrong::TwoOperations)
            }),
            Property::always("F9: nothing is left", |_, w: &World| !is(w, Wrong::Left)),
            Property::always("F9: no host is left off", |_, w: &World| {
                !is(w, Wrong::LeftOff)
            }),
            Property::always("no command after the end", |_, w: &World| {
                !is(w, Wrong::Late)
            }),
            Property::always("L1: it ends", |_, w: &World| !is(w, Wrong::NoEnd)),
            Property::sometimes("a remediation ends", |_, w: &World| w.done.is_some()),
            Property::sometimes("the pod moves", |_, w: &World| w.pod.elsewhere),
        ]
    }
}

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
    /// Whether the run was stopped because the process needed more memory than allowed.
    pub cut: bool,
}

/// How far a world is explored.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Threads of the checker.
    pub threads: usize,
    /// Bytes of memory that the process may use.
    pub memory: u64,
}

impl Bounds {
    /// With this many threads and any amount of memory.
    pub fn threads(threads: usize) -> Self {
        Self {
            threads,
            memory: u64::MAX,
        }
    }
}

/// Shortest and longest time between two looks at the memory.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// Bytes of a page of memory on the platforms that are supported.
const PAGE: u64 = 4096;

/// Waits until the checker has ended; false: the process uses more memory than it may before that.
fn within_memory<M: Model>(checker: &impl Checker<M>, memory: u64) -> bool {
    let mut pause = LOOK_EVERY.0;
    while !checker.is_done() {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        if resident.unwrap_or(0_u64).saturating_mul(PAGE) > memory {
            return false;
        }
        std::thread::sleep(pause);
        pause = pause.saturating_mul(2).min(LOOK_EVERY.1);
    }
    true
}

/// Explores a world. With a breakage it ends at the first rule that is broken.
pub fn explore(setting: Setting, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |model, mut path| {
        if let Some((last, _)) = path.last()
            && is(last, Wrong::NoEnd)
        {
            let rest = liveness::path(last, model.breakage);
            path.extend(rest.into_iter().take(SHOWN));
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
            .map(|(race, turn)| format!("{} s: {turn:?}", race.time))
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
    let checker = model
        .checker()
        .threads(bounds.threads)
        .finish_when(when)
        .spawn_bfs();
    let cut = !within_memory(&checker, bounds.memory);
    let checker = if cut { checker } else { checker.join() };
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
            (false, None) if !report.cut => report.unreached.push(p.name),
            _ => {}
        }
    }
    report
}
