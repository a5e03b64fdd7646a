//! The queue of machines with a pending action.
//!
//! Owns the order: remediations before conditions, one effect at a time for a machine, a backoff per
//! machine after a failure. Must never hold the effect, only the machine: the effect is decided when
//! the machine is taken from the queue, so that a limit that was exceeded meanwhile holds (F10).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use super::Item;

/// Upper bound of the window. The writer bounds the writes in flight; a few more machines wait behind
/// them so that it never idles.
pub const IN_FLIGHT: usize = 64;
/// Lower bound of the window, for an overloaded API server that still has to renew our Lease.
const FEWEST: usize = 4;
/// Size of the window at first.
const BEGIN_WITH: usize = 16;
/// Most machines among which one is searched: in a large fleet each push would cost as much as the fleet is large.
const SEARCHED: usize = 64;
/// Least time between two reductions of the window: calls that time out together count once.
const ONE_SIGN: Duration = Duration::from_secs(1);
/// Backoff after a failure: the first and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Delay of a retry that is due while its machine is in flight.
const POSTPONED: Duration = Duration::from_millis(200);

/// How many machines are in flight at one time. The number adapts to how many calls the API server
/// answers in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// Number of items that wait at present.
    pub now: usize,
    /// The lower bound of the size.
    pub fewest: usize,
    /// The upper bound of the size.
    pub most: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            now: BEGIN_WITH,
            fewest: FEWEST,
            most: IN_FLIGHT,
        }
    }
}

/// Machines with a pending action. `K` is the key of a check. Times are of a monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Queue<K: Ord> {
    window: Window,
    narrowed: Option<Duration>,
    acts: VecDeque<Item<K>>,
    conditions: VecDeque<Item<K>>,
    /// The machines that are queued, and whether there is more to do than to write a condition.
    queued: BTreeMap<Item<K>, bool>,
    running: BTreeSet<Item<K>>,
    again: BTreeSet<Item<K>>,
    failures: BTreeMap<Item<K>, u32>,
    retries: BTreeSet<(Duration, Item<K>)>,
    retry_at: BTreeMap<Item<K>, Duration>,
}

// === impl Queue ===

impl<K: Ord> Default for Queue<K> {
    fn default() -> Self {
        Self {
            window: Window::default(),
            narrowed: None,
            acts: VecDeque::new(),
            conditions: VecDeque::new(),
            queued: BTreeMap::new(),
            running: BTreeSet::new(),
            again: BTreeSet::new(),
            failures: BTreeMap::new(),
            retries: BTreeSet::new(),
            retry_at: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue with another window.
    pub(super) fn with_window(window: Window) -> Self {
        Self {
            window,
            ..Self::default()
        }
    }

    /// Replaces every stored time, for a model checker that shifts time.
    #[must_use]
    pub(super) fn map_times(self, map: impl Fn(Duration) -> Duration) -> Self {
        let retries = self.retries.into_iter();
        let retry_at = self.retry_at.into_iter();
        Self {
            narrowed: self.narrowed.map(&map),
            retries: retries.map(|(at, item)| (map(at), item)).collect(),
            retry_at: retry_at.map(|(item, at)| (item, map(at))).collect(),
            ..self
        }
    }

    /// Queues a machine. `acts`: there is more to do than to write a condition. A machine in flight is
    /// not queued; [`Self::end`] then reports that it was pushed.
    pub(super) fn push(&mut self, item: Item<K>, acts: bool) {
        if self.running.contains(&item) {
            self.again.insert(item);
            return;
        }
        match self.queued.insert(item.clone(), acts) {
            None if acts => self.acts.push_back(item),
            None => self.conditions.push_back(item),
            Some(true) => drop(self.queued.insert(item, true)),
            Some(false) if acts => {
                // Among many it keeps its place, which is skipped.
                if self.conditions.len() <= SEARCHED {
                    self.conditions.retain(|condition| *condition != item);
                }
                self.acts.push_back(item);
            }
            Some(false) => {}
        }
    }

    /// Takes the next machine while the window has room. Conditions use at most half of it, so that
    /// remediations always find room.
    pub(super) fn pop(&mut self) -> Option<Item<K>> {
        let item = if self.running.len() < self.window.now && !self.acts.is_empty() {
            self.acts.pop_front()
        } else if self.has_room_for_conditions() {
            self.pop_condition()
        } else {
            None
        }?;
        self.queued.remove(&item);
        Some(item)
    }

    /// Takes the next machine of which a condition is to be written, and nothing else is to be done.
    fn pop_condition(&mut self) -> Option<Item<K>> {
        loop {
            let item = self.conditions.pop_front()?;
            if self.queued.get(&item) == Some(&false) {
                return Some(item);
            }
        }
    }

    /// Whether a write of conditions may begin.
    pub(super) fn has_room_for_conditions(&self) -> bool {
        self.running.len() < self.window.now / 2
    }

    /// The API server has answered a call: grows the window by one.
    pub(super) fn answered(&mut self) {
        let window = &mut self.window;
        window.now = (window.now + 1).min(window.most);
    }

    /// A call has timed out: halves the window, at most once per second.
    pub(super) fn unanswered(&mut self, now: Duration) {
        let told = self.narrowed.replace(now);
        if told.is_none_or(|at| at + ONE_SIGN <= now) {
            let window = &mut self.window;
            window.now = (window.now / 2).max(window.fewest);
        } else {
            self.narrowed = told;
        }
    }

    /// The machine is in flight from now on.
    pub(super) fn begin(&mut self, item: Item<K>) {
        self.running.insert(item);
    }

    /// The machine is no longer in flight. Returns whether it was pushed meanwhile.
    pub(super) fn end(&mut self, item: &Item<K>) -> bool {
        self.running.remove(item);
        self.again.remove(item)
    }

    /// The effect succeeded: resets the backoff of the machine.
    pub(super) fn succeeded(&mut self, item: &Item<K>) {
        self.failures.remove(item);
    }

    /// The effect failed: schedules a retry, with a backoff that doubles with each failure.
    pub(super) fn failed(&mut self, item: &Item<K>, now: Duration) {
        let count = self.failures.entry(item.clone()).or_insert(0);
        let wait = BACKOFF.0.saturating_mul(1 << (*count).min(7));
        *count = count.saturating_add(1);
        self.later(item, now + wait.min(BACKOFF.1));
    }

    /// Schedules a retry at `at`, unless an earlier one is scheduled.
    pub(super) fn later(&mut self, item: &Item<K>, at: Duration) {
        if self.retry_at.get(item).is_some_and(|known| *known <= at) {
            return;
        }
        if let Some(known) = self.retry_at.insert(item.clone(), at) {
            self.retries.remove(&(known, item.clone()));
        }
        self.retries.insert((at, item.clone()));
    }

    /// When the next retry is due.
    pub(super) fn next_retry(&self) -> Option<Duration> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// Takes the machines whose retry is due. Of those in flight it is postponed: what is in flight does not
    /// end their backoff.
    pub(super) fn due(&mut self, now: Duration) -> Vec<Item<K>> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.retries.first()
            && *at <= now
        {
            due.extend(self.retries.pop_first().map(|(_, item)| item));
        }
        for item in &due {
            self.retry_at.remove(item);
        }
        let (running, due): (Vec<_>, Vec<_>) = due
            .into_iter()
            .partition(|item| self.running.contains(item));
        for item in &running {
            self.later(item, now + POSTPONED);
        }
        due
    }

    /// Drops everything about a deleted check, except what is in flight, which ends by itself.
    pub(super) fn forget(&mut self, check: &K) {
        let other = |item: &Item<K>| item.check != *check;
        self.acts.retain(other);
        self.conditions.retain(other);
        self.queued.retain(|item, _| other(item));
        self.again.retain(other);
        self.failures.retain(|item, _| other(item));
        self.retries.retain(|(_, item)| other(item));
        self.retry_at.retain(|item, _| other(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = super::Queue<&'static str>;

    const NOW: Duration = Duration::from_secs(100);

    fn item(machine: &str) -> Item<&'static str> {
        Item::new(&"check", &machine.into())
    }

    #[test]
    fn remediations_precede_conditions_and_a_machine_is_queued_once() {
        let mut queue = Queue::default();
        queue.push(item("a"), false);
        queue.push(item("b"), false);
        queue.push(item("c"), true);
        queue.push(item("b"), true);
        queue.push(item("a"), false);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [item("c"), item("b"), item("a")]);
    }

    #[test]
    fn machine_that_waits_behind_many_conditions_is_acted_on_first_and_once() {
        let mut queue = Queue::with_window(Window {
            now: 1_000,
            fewest: 1_000,
            most: 1_000,
        });
        let names: Vec<String> = (0..=SEARCHED).map(|i| format!("m{i:02}")).collect();
        names.iter().for_each(|name| queue.push(item(name), false));
        queue.push(item("m07"), true);
        queue.push(item("m07"), false);
        assert_eq!(queue.pop(), Some(item("m07")));
        // It is queued again behind the place that it had, and popped once.
        queue.push(item("m07"), false);
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let all: Vec<_> = names.iter().map(|name| item(name)).collect();
        assert_eq!(popped, all);
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn running_machine_is_not_popped_and_end_reports_a_push_meanwhile() {
        let mut queue = Queue::default();
        queue.begin(item("a"));
        queue.push(item("a"), true);
        assert_eq!(queue.pop(), None);
        assert!(queue.end(&item("a")));
        queue.begin(item("a"));
        assert!(!queue.end(&item("a")));
    }

    #[test]
    fn items_in_flight_stay_within_the_window() {
        let mut queue = Queue::default();
        for i in 0..2 * IN_FLIGHT {
            queue.push(item(&i.to_string()), true);
            queue.push(item(&format!("condition-{i}")), false);
        }
        let fill = |queue: &mut Queue| {
            while let Some(next) = queue.pop() {
                queue.begin(next);
            }
            queue.running.len()
        };
        assert_eq!(fill(&mut queue), BEGIN_WITH);
        (0..IN_FLIGHT).for_each(|_| queue.answered());
        assert_eq!(fill(&mut queue), IN_FLIGHT);
        queue.end(&item("0"));
        assert!(queue.pop().is_some());
    }

    #[test]
    fn conditions_use_at_most_half_of_the_window() {
        let mut queue = Queue::default();
        for i in 0..IN_FLIGHT {
            queue.push(item(&i.to_string()), false);
        }
        while let Some(next) = queue.pop() {
            queue.begin(next);
        }
        assert_eq!(queue.running.len(), BEGIN_WITH / 2);
        queue.push(item("remediation"), true);
        assert_eq!(queue.pop(), Some(item("remediation")));
    }

    #[test]
    fn unanswered_calls_halve_the_window_once_per_second() {
        let mut queue = Queue::default();
        let start = NOW;
        for i in 0..100 {
            queue.unanswered(start + Duration::from_millis(i));
        }
        assert_eq!(queue.window.now, BEGIN_WITH / 2, "halved once in a second");
        for i in 1..10 {
            queue.unanswered(start + ONE_SIGN * i);
        }
        assert_eq!(queue.window.now, FEWEST);
        queue.answered();
        assert_eq!(queue.window.now, FEWEST + 1);
    }

    #[test]
    fn backoff_doubles_per_failure_and_delays_only_its_machine() {
        let mut queue = Queue::default();
        let start = NOW;
        let mut waits = Vec::new();
        for _ in 0..9 {
            queue.failed(&item("a"), start);
            let at = queue.next_retry().unwrap();
            waits.push((at - start).as_millis());
            assert_eq!(queue.due(at), [item("a")]);
        }
        assert_eq!(
            waits,
            [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
        );
        queue.succeeded(&item("a"));
        queue.failed(&item("a"), start);
        queue.push(item("b"), true);
        assert_eq!(queue.pop(), Some(item("b")));
        assert!(queue.due(start).is_empty());
        queue.forget(&"check");
        assert_eq!(queue.next_retry(), None);
    }

    #[test]
    fn retry_of_a_machine_in_flight_is_postponed_and_not_lost() {
        let mut queue = Queue::default();
        let start = NOW;
        queue.failed(&item("a"), start);
        queue.failed(&item("b"), start);
        queue.begin(item("a"));
        let at = queue.next_retry().unwrap();
        assert_eq!(queue.due(at), [item("b")]);
        assert_eq!(queue.next_retry(), Some(at + POSTPONED));
        queue.end(&item("a"));
        assert_eq!(queue.due(at + POSTPONED), [item("a")]);
        assert_eq!(queue.next_retry(), None);
    }
}
