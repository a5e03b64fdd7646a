//! Deadlines of checks and timers of the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use jiff::Timestamp;

/// Longest sleep, so that a step of the wall clock is noticed.
const LONGEST: Duration = Duration::from_secs(60);

/// One deadline by the wall clock for each check `K`, and any number of timers `T`.
pub(in crate::checks) struct Schedule<K, T> {
    deadlines: BTreeSet<(Timestamp, K)>,
    armed: BTreeMap<K, Timestamp>,
    timers: BTreeSet<(Instant, T)>,
}

impl<K, T> Default for Schedule<K, T> {
    fn default() -> Self {
        Self {
            deadlines: BTreeSet::new(),
            armed: BTreeMap::new(),
            timers: BTreeSet::new(),
        }
    }
}

// === impl Schedule ===

impl<K: Ord + Clone, T: Ord> Schedule<K, T> {
    /// Sets or removes the deadline of a check.
    pub(in crate::checks) fn arm(&mut self, check: &K, at: Option<Timestamp>) {
        let old = match at {
            Some(at) => self.armed.insert(check.clone(), at),
            None => self.armed.remove(check),
        };
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.deadlines.remove(&(old, check.clone()));
        }
        self.deadlines.extend(at.map(|at| (at, check.clone())));
    }

    /// Adds a timer.
    pub(in crate::checks) fn set(&mut self, at: Instant, timer: T) {
        self.timers.insert((at, timer));
    }

    /// Adds a timer, which replaces an equal one.
    pub(in crate::checks) fn reset(&mut self, at: Instant, timer: T) {
        self.timers.retain(|(_, known)| *known != timer);
        self.set(at, timer);
    }

    /// The time of the first deadline or timer.
    pub(in crate::checks) fn next(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(at, _)| {
            let left = at.duration_since(Timestamp::now());
            let left = Duration::try_from(left).unwrap_or_default();
            Instant::now() + left.min(LONGEST)
        });
        let timer = self.timers.first().map(|(at, _)| *at);
        deadline.into_iter().chain(timer).min()
    }

    /// The next check whose deadline has passed, with that deadline.
    pub(super) fn due_deadline(&mut self, now: Timestamp) -> Option<(Timestamp, K)> {
        self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let (at, check) = self.deadlines.pop_first()?;
        self.armed.remove(&check);
        Some((at, check))
    }

    /// The next timer that is due.
    pub(super) fn due_timer(&mut self, now: Instant) -> Option<T> {
        self.timers.first().filter(|(at, _)| *at <= now)?;
        self.timers.pop_first().map(|(_, timer)| timer)
    }
}

/// Sleeps until this time; for ever if nothing is due.
pub(super) async fn sleep_until(at: Option<Instant>) {
    match at {
        None => std::future::pending().await,
        Some(at) => tokio::time::sleep_until(at.into()).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_has_one_deadline_and_due_items_come_in_order() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut schedule = Schedule::<&str, &str>::default();
        schedule.arm(&"a", Some(at(5)));
        schedule.arm(&"b", Some(at(3)));
        schedule.arm(&"a", Some(at(2)));
        assert_eq!(schedule.due_deadline(at(1)), None);
        assert_eq!(schedule.due_deadline(at(9)), Some((at(2), "a")));
        schedule.arm(&"b", None);
        assert_eq!(schedule.due_deadline(at(9)), None);
        assert_eq!(schedule.next(), None);

        let (now, later) = (Instant::now(), Instant::now() + LONGEST);
        schedule.set(later, "later");
        schedule.set(now, "now");
        schedule.reset(later, "now");
        assert_eq!(schedule.due_timer(now), None);
        assert_eq!(schedule.due_timer(later), Some("later"));
        assert_eq!(schedule.due_timer(later), Some("now"));
    }
}
