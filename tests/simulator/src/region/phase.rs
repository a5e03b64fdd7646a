//! One phase of the scenario, as the API servers and the BMCs saw it.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{api::resource::POWER_REMEDIATIONS, kernel::World};

/// Requests by verb and kind.
type Counts = BTreeMap<(&'static str, &'static str), u64>;

/// How many verbs and kinds are printed.
const PRINTED: usize = 14;
/// From which part of a second on the API server of the management cluster has too much to do.
const BUSY: Duration = Duration::from_millis(900);

/// What the API server and the BMCs saw in one phase of the outage.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase {
    name: &'static str,
    begin: Duration,
    time: Duration,
    requests: Counts,
    peak: u64,
    longest_queue: usize,
    /// How long the API server of the management cluster was busy.
    busy: Duration,
    /// Seconds in which it was busy nearly all the time, and the requests of these.
    busy_seconds: u64,
    busy_requests: Counts,
    bmc_calls: u64,
    bmc_peak: u64,
    bmc_most: usize,
    bmc_most_of_rack: usize,
    remediations: usize,
    last: Seen,
}

/// What is counted since the start.
#[derive(Debug, Clone, Default)]
struct Seen {
    requests: Counts,
    busy: Duration,
    bmc_calls: u64,
}

impl Seen {
    fn of(world: &World) -> Self {
        Self {
            requests: world.api.counts.clone(),
            busy: world.ways.load.busy,
            bmc_calls: world.fleet.oracle.counts.bmc_calls,
        }
    }
}

fn add(sum: &mut Counts, more: &Counts) {
    for (kind, count) in more {
        *sum.entry(*kind).or_default() += count;
    }
}

fn since(before: &Counts, now: &Counts) -> Counts {
    let new = now.iter().map(|(kind, count)| {
        let before = before.get(kind).copied().unwrap_or(0);
        (*kind, count - before)
    });
    new.filter(|(_, count)| *count > 0).collect()
}

impl Phase {
    /// A phase that begins now.
    pub(super) fn begin(name: &'static str, world: &mut World) -> Self {
        world.ways.load.longest_queue = 0;
        world.fleet.bmc_requests.most = 0;
        world.fleet.bmc_requests.most_of_rack = 0;
        Self {
            name,
            begin: world.now(),
            last: Seen::of(world),
            ..Self::default()
        }
    }

    /// For how long it has gone on.
    pub(super) fn age(&self, world: &World) -> Duration {
        world.now() - self.begin
    }

    /// A second has passed.
    pub(super) fn second(&mut self, world: &World) {
        let seen = Seen::of(world);
        let requests = since(&self.last.requests, &seen.requests);
        let (busy, bmc_calls) = (
            seen.busy - self.last.busy,
            seen.bmc_calls - self.last.bmc_calls,
        );
        add(&mut self.requests, &requests);
        self.peak = self.peak.max(requests.values().sum());
        self.busy += busy;
        if busy >= BUSY {
            self.busy_seconds += 1;
            add(&mut self.busy_requests, &requests);
        }
        self.bmc_calls += bmc_calls;
        self.bmc_peak = self.bmc_peak.max(bmc_calls);
        let live = world.api.list(POWER_REMEDIATIONS).count();
        self.remediations = self.remediations.max(live);
        self.last = seen;
    }

    /// It is over.
    pub(super) fn end(&mut self, world: &World) {
        self.time = self.age(world);
        self.longest_queue = world.ways.load.longest_queue;
        self.bmc_most = world.fleet.bmc_requests.most;
        self.bmc_most_of_rack = world.fleet.bmc_requests.most_of_rack;
        self.last = Seen::default();
    }
}

fn write_counts(f: &mut fmt::Formatter<'_>, counts: &Counts) -> fmt::Result {
    let mut kinds: Vec<_> = counts.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for ((verb, plural), count) in kinds.iter().take(PRINTED) {
        write!(f, "\n  {count:>9} {verb} {plural}")?;
    }
    let rest: u64 = kinds.iter().skip(PRINTED).map(|(_, count)| **count).sum();
    if rest > 0 {
        write!(f, "\n  {rest:>9} others")?;
    }
    Ok(())
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.requests.values().sum();
        let seconds = self.time.as_secs_f64().max(1.0);
        write!(
            f,
            "{}, {seconds:.0} s: requests to the API servers: {total} ({:.0} each second, at most {}; longest \
             queue {}; that of the management cluster is busy for {:.0} s); to BMCs: {} ({:.0} each second, at most \
             {}; at one time {}, in one rack {}); remediations at one time: {}",
            self.name,
            total as f64 / seconds,
            self.peak,
            self.longest_queue,
            self.busy.as_secs_f64(),
            self.bmc_calls,
            self.bmc_calls as f64 / seconds,
            self.bmc_peak,
            self.bmc_most,
            self.bmc_most_of_rack,
            self.remediations,
        )?;
        write_counts(f, &self.requests)?;
        if self.busy_seconds > 0 {
            write!(
                f,
                "\n  of these, in the {} s in which that of the management cluster is always busy:",
                self.busy_seconds
            )?;
            write_counts(f, &self.busy_requests)?;
        }
        Ok(())
    }
}
