//! The aggregates of a fleet: counts, ordered sets and deadlines.
//!
//! A machine must be removed with the same counts and judgement with which it was added.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::checks::machines::{Cause, Counts, FleetCounts, Judgement, Verdict};

/// Counters, the machines that count against the limit, the unhealthy ones, the deadlines, and the
/// machines with a cause in the future.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Counters {
    tally: FleetCounts,
    counting: BTreeSet<Arc<str>>,
    unhealthy: BTreeSet<Arc<str>>,
    causes: BTreeMap<&'static str, u32>,
    deadlines: BTreeSet<(Timestamp, Arc<str>)>,
    ahead: BTreeSet<Arc<str>>,
}

// === impl Counters ===

impl Counters {
    pub(super) fn add(&mut self, name: &Arc<str>, counts: Counts, judgement: &Judgement) {
        let verdict = &judgement.verdict;
        self.tally.add(counts);
        if counts.not_healthy {
            self.counting.insert(name.clone());
        }
        if matches!(verdict, Verdict::Unhealthy { .. }) {
            self.unhealthy.insert(name.clone());
        }
        if let Some(cause) = first_cause(verdict) {
            let count = self.causes.entry(cause.label()).or_default();
            *count = count.saturating_add(1);
        }
        if let Some(at) = judgement.holds_until() {
            self.deadlines.insert((at, name.clone()));
        }
        if !judgement.ahead.is_empty() {
            self.ahead.insert(name.clone());
        }
    }

    pub(super) fn remove(&mut self, name: &Arc<str>, counts: Counts, judgement: &Judgement) {
        let verdict = &judgement.verdict;
        self.tally.remove(counts);
        self.counting.remove(name);
        self.unhealthy.remove(name);
        if let Some(cause) = first_cause(verdict)
            && let Some(count) = self.causes.get_mut(cause.label())
        {
            *count = count.saturating_sub(1);
        }
        if let Some(at) = judgement.holds_until() {
            self.deadlines.remove(&(at, name.clone()));
        }
        if !judgement.ahead.is_empty() {
            self.ahead.remove(name);
        }
    }

    pub(super) fn tally(&self) -> &FleetCounts {
        &self.tally
    }

    pub(super) fn causes(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.causes.iter().map(|(cause, count)| (*cause, *count))
    }

    /// Machines that count against the limit, by name.
    pub(super) fn counting(&self) -> impl Iterator<Item = &str> + '_ {
        self.counting.iter().map(AsRef::as_ref)
    }

    pub(super) fn unhealthy(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.unhealthy.iter()
    }

    pub(super) fn unhealthy_count(&self) -> usize {
        self.unhealthy.len()
    }

    /// At most so many of the unhealthy machines after this one, by name.
    pub(super) fn unhealthy_after(&self, name: Option<&Arc<str>>, most: usize) -> Vec<Arc<str>> {
        let after = name.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self
            .unhealthy
            .range::<Arc<str>, _>((after, Bound::Unbounded));
        range.take(most).cloned().collect()
    }

    /// Machines with a cause whose recorded time is in the future, by name.
    pub(super) fn ahead(&self) -> impl ExactSizeIterator<Item = &Arc<str>> + '_ {
        self.ahead.iter()
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// At most so many of the machines whose deadline has passed at `now`, the earliest first.
    pub(super) fn due(&self, now: Timestamp, most: usize) -> Vec<Arc<str>> {
        let over = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let over = over.take(most);
        over.map(|(_, name)| name.clone()).collect()
    }
}

/// The cause by which an unhealthy machine is counted.
fn first_cause(verdict: &Verdict) -> Option<&Cause> {
    match verdict {
        Verdict::Unhealthy { causes } => causes.first(),
        _ => None,
    }
}
