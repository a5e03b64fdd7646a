//! Deadlines of checks and timers of the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

/// Longest wait for a deadline, so that a step of the wall clock is noticed.
const LONGEST: Duration = Duration::from_secs(60);

/// One deadline by the wall clock for each check `K`, and one time of a monotonic clock for each timer `T`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule<K: Ord, T: Ord> {
    deadlines: Times<Timestamp, K>,
    timers: Times<Duration, T>,
}

/// What is due when: each once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Times<A: Ord, T: Ord> {
    by_time: BTreeSet<(A, T)>,
    known: BTreeMap<T, A>,
}

impl<K: Ord, T: Ord> Default for Schedule<K, T> {
    fn default() -> Self {
        Self {
            deadlines: Times::default(),
            timers: Times::default(),
        }
    }
}

impl<A: Ord, T: Ord> Default for Times<A, T> {
    fn default() -> Self {
        Self {
            by_time: BTreeSet::new(),
            known: BTreeMap::new(),
        }
    }
}

// === impl Schedule ===

impl<K: Ord + Clone, T: Ord + Clone> Schedule<K, T> {
    /// Sets or removes the deadline of a check.
    pub fn arm(&mut self, check: &K, at: Option<Timestamp>) {
        self.deadlines.set(check, at);
    }

    /// Sets a timer.
    pub fn set(&mut self, at: Duration, timer: &T) {
        self.timers.set(timer, Some(at));
    }

    /// Sets a timer, unless it is due earlier.
    pub fn set_earlier(&mut self, at: Duration, timer: &T) {
        if self.timers.known.get(timer).is_none_or(|known| at < *known) {
            self.set(at, timer);
        }
    }

    /// The time of the first deadline or timer. `wall`: the time now by the wall clock.
    pub fn next(&self, wall: Timestamp, now: Duration) -> Option<Duration> {
        let deadline = self.deadlines.next().map(|at| {
            let left = Duration::try_from(at.duration_since(wall)).unwrap_or_default();
            now + left.min(LONGEST)
        });
        deadline.into_iter().chain(self.timers.next()).min()
    }

    /// The next check whose deadline has passed, with that deadline.
    pub fn due_deadline(&mut self, wall: Timestamp) -> Option<(Timestamp, K)> {
        self.deadlines.due(wall)
    }

    /// The next timer that is due.
    pub fn due_timer(&mut self, now: Duration) -> Option<T> {
        self.timers.due(now).map(|(_, timer)| timer)
    }
}

// === impl Times ===

impl<A: Ord + Copy, T: Ord + Clone> Times<A, T> {
    fn set(&mut self, what: &T, at: Option<A>) {
        let old = match at {
            Some(at) => self.known.insert(what.clone(), at),
            None => self.known.remove(what),
        };
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.by_time.remove(&(old, what.clone()));
        }
        self.by_time.extend(at.map(|at| (at, what.clone())));
    }

    fn next(&self) -> Option<A> {
        self.by_time.first().map(|(at, _)| *at)
    }

    fn due(&mut self, now: A) -> Option<(A, T)> {
        self.by_time.first().filter(|(at, _)| *at <= now)?;
        let (at, what) = self.by_time.pop_first()?;
        self.known.remove(&what);
        Some((at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn check_has_one_deadline_and_due_items_come_in_order() {
        let mut schedule = Schedule::<&str, &str>::default();
        schedule.arm(&"a", Some(at(5)));
        schedule.arm(&"b", Some(at(3)));
        schedule.arm(&"a", Some(at(2)));
        assert_eq!(schedule.due_deadline(at(1)), None);
        assert_eq!(schedule.due_deadline(at(9)), Some((at(2), "a")));
        schedule.arm(&"b", None);
        assert_eq!(schedule.due_deadline(at(9)), None);
        assert_eq!(schedule.next(at(9), NOW), None);
    }

    #[test]
    fn timer_is_due_once() {
        let mut schedule = Schedule::<&str, &str>::default();
        let later = NOW + LONGEST;
        schedule.set(later, &"later");
        schedule.set(NOW, &"moved");
        schedule.set(later, &"moved");
        schedule.set_earlier(NOW, &"early");
        schedule.set_earlier(later, &"early");
        assert_eq!(schedule.next(at(0), NOW), Some(NOW));
        assert_eq!(schedule.due_timer(NOW), Some("early"));
        assert_eq!(schedule.due_timer(NOW), None);
        assert_eq!(schedule.due_timer(later), Some("later"));
        assert_eq!(schedule.due_timer(later), Some("moved"));
        assert_eq!(schedule.due_timer(later), None);
    }

    #[test]
    fn step_of_the_wall_clock_is_noticed_before_a_distant_deadline() {
        let mut schedule = Schedule::<&str, &str>::default();
        schedule.arm(&"a", Some(at(3600)));
        assert_eq!(schedule.next(at(0), NOW), Some(NOW + LONGEST));
        assert_eq!(
            schedule.next(at(3599), NOW),
            Some(NOW + Duration::from_secs(1))
        );
        assert_eq!(schedule.next(at(4000), NOW), Some(NOW));
    }
}
