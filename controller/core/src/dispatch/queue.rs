//! Whose turn it is.
//!
//! Owns the order: requests before conditions, one thing at a time for a machine, failures again
//! later and alone. Synchronous; must never hold what shall be done, only for whom: that is asked
//! anew when the turn comes, so that a gate that closed meanwhile is closed (F10).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Add,
    time::Duration,
};

use super::Item;

/// Most machines whose turn it is at one time. The writer bounds the writes; a few more wait behind
/// them so that it never idles.
pub const IN_FLIGHT: usize = 64;
/// Fewest, for an API server that does not keep up: what is left of it has to renew our Lease.
const FEWEST: usize = 4;
/// How many at first.
const BEGIN_WITH: usize = 16;
/// Time in which several calls without an answer are one sign.
const ONE_SIGN: Duration = Duration::from_secs(1);
/// Wait after a failure: first and longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// How many have their turn at one time: as many as the API server answers in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// At first, and then now.
    pub now: usize,
    /// Fewest.
    pub fewest: usize,
    /// Most.
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

/// Machines that want something. `K` names a check, `T` is a time of a monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue<K: Ord, T: Ord> {
    window: Window,
    narrowed: Option<T>,
    acts: VecDeque<Item<K>>,
    conditions: VecDeque<Item<K>>,
    queued: BTreeSet<Item<K>>,
    running: BTreeSet<Item<K>>,
    again: BTreeSet<Item<K>>,
    failures: BTreeMap<Item<K>, u32>,
    retries: BTreeSet<(T, Item<K>)>,
    retry_at: BTreeMap<Item<K>, T>,
}

// === impl Queue ===

impl<K: Ord, T: Ord> Default for Queue<K, T> {
    fn default() -> Self {
        Self {
            window: Window::default(),
            narrowed: None,
            acts: VecDeque::new(),
            conditions: VecDeque::new(),
            queued: BTreeSet::new(),
            running: BTreeSet::new(),
            again: BTreeSet::new(),
            failures: BTreeMap::new(),
            retries: BTreeSet::new(),
            retry_at: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone, T: Ord + Copy + Add<Duration, Output = T>> Queue<K, T> {
    /// An empty queue with another window.
    pub fn with_window(window: Window) -> Self {
        Self {
            window,
            ..Self::default()
        }
    }

    /// Replaces every time that is kept, as where time is shifted.
    #[must_use]
    pub fn map_times(self, map: impl Fn(T) -> T) -> Self {
        let retries = self.retries.into_iter();
        let retry_at = self.retry_at.into_iter();
        Self {
            narrowed: self.narrowed.map(&map),
            retries: retries.map(|(at, item)| (map(at), item)).collect(),
            retry_at: retry_at.map(|(item, at)| (item, map(at))).collect(),
            ..self
        }
    }

    /// A machine wants something; `acts`: not only a condition. While something is done for it, it
    /// waits until that is over.
    pub fn push(&mut self, item: Item<K>, acts: bool) {
        if self.running.contains(&item) {
            self.again.insert(item);
            return;
        }
        if self.queued.insert(item.clone()) {
            if acts {
                self.acts.push_back(item);
            } else {
                self.conditions.push_back(item);
            }
        } else if acts && let Some(at) = self.conditions.iter().position(|i| *i == item) {
            self.conditions.remove(at);
            self.acts.push_back(item);
        }
    }

    /// The next one, as long as there is room. Conditions leave half of it to requests.
    pub fn pop(&mut self) -> Option<Item<K>> {
        let room = |most: usize| self.running.len() < most;
        let item = if room(self.window.now) && !self.acts.is_empty() {
            self.acts.pop_front()
        } else if room(self.window.now / 2) {
            self.conditions.pop_front()
        } else {
            None
        }?;
        self.queued.remove(&item);
        Some(item)
    }

    /// The API server has answered: one more may have its turn.
    pub fn answered(&mut self) {
        let window = &mut self.window;
        window.now = (window.now + 1).min(window.most);
    }

    /// It has not, in time: half as many may.
    pub fn unanswered(&mut self, now: T) {
        let told = self.narrowed.replace(now);
        if told.is_none_or(|at| at + ONE_SIGN <= now) {
            let window = &mut self.window;
            window.now = (window.now / 2).max(window.fewest);
        } else {
            self.narrowed = told;
        }
    }

    /// Whether something is being done for it.
    pub fn is_running(&self, item: &Item<K>) -> bool {
        self.running.contains(item)
    }

    /// Something is done for it from now on.
    pub fn begin(&mut self, item: Item<K>) {
        self.running.insert(item);
    }

    /// It is over; true: something has changed meanwhile.
    pub fn end(&mut self, item: &Item<K>) -> bool {
        self.running.remove(item);
        self.again.remove(item)
    }

    /// What was done for it succeeded.
    pub fn succeeded(&mut self, item: &Item<K>) {
        self.failures.remove(item);
    }

    /// Looks at it again later, a while longer after each failure.
    pub fn failed(&mut self, item: &Item<K>, now: T) {
        let count = self.failures.entry(item.clone()).or_insert(0);
        let wait = BACKOFF.0.saturating_mul(1 << (*count).min(7));
        *count = count.saturating_add(1);
        self.later(item, now + wait.min(BACKOFF.1));
    }

    /// Looks at it again at that time, or earlier if it is to be looked at already.
    pub fn later(&mut self, item: &Item<K>, at: T) {
        if self.retry_at.get(item).is_some_and(|known| *known <= at) {
            return;
        }
        if let Some(known) = self.retry_at.insert(item.clone(), at) {
            self.retries.remove(&(known, item.clone()));
        }
        self.retries.insert((at, item.clone()));
    }

    /// When the next look is due that nothing but time asks for.
    pub fn next_retry(&self) -> Option<T> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// The machines whose next look is due.
    pub fn due(&mut self, now: T) -> Vec<Item<K>> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.retries.first()
            && *at <= now
        {
            due.extend(self.retries.pop_first().map(|(_, item)| item));
        }
        for item in &due {
            self.retry_at.remove(item);
        }
        due
    }

    /// A check is gone; what is under way for it ends by itself.
    pub fn forget(&mut self, check: &K) {
        let other = |item: &Item<K>| item.check != *check;
        self.acts.retain(other);
        self.conditions.retain(other);
        self.queued.retain(other);
        self.again.retain(other);
        self.failures.retain(|item, _| other(item));
        self.retries.retain(|(_, item)| other(item));
        self.retry_at.retain(|item, _| other(item));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    type Queue = super::Queue<&'static str, Instant>;

    fn item(machine: &str) -> Item<&'static str> {
        Item::new(&"check", &machine.into())
    }

    #[test]
    fn requests_come_before_conditions_and_each_machine_stands_once() {
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
    fn a_machine_has_one_turn_at_a_time_and_another_if_it_changed_meanwhile() {
        let mut queue = Queue::default();
        queue.begin(item("a"));
        queue.push(item("a"), true);
        assert_eq!(queue.pop(), None);
        assert!(queue.end(&item("a")));
        queue.begin(item("a"));
        assert!(!queue.end(&item("a")));
    }

    #[test]
    fn no_more_are_under_way_than_are_meant_to_be() {
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
    fn conditions_leave_room_to_requests() {
        let mut queue = Queue::default();
        for i in 0..IN_FLIGHT {
            queue.push(item(&i.to_string()), false);
        }
        while let Some(next) = queue.pop() {
            queue.begin(next);
        }
        assert_eq!(queue.running.len(), BEGIN_WITH / 2);
        queue.push(item("request"), true);
        assert_eq!(queue.pop(), Some(item("request")));
    }

    #[test]
    fn an_api_server_that_does_not_keep_up_is_asked_less() {
        let mut queue = Queue::default();
        let start = Instant::now();
        for i in 0..100 {
            queue.unanswered(start + Duration::from_millis(i));
        }
        assert_eq!(queue.window.now, BEGIN_WITH / 2, "one sign");
        for i in 1..10 {
            queue.unanswered(start + ONE_SIGN * i);
        }
        assert_eq!(queue.window.now, FEWEST);
        queue.answered();
        assert_eq!(queue.window.now, FEWEST + 1);
    }

    #[test]
    fn a_failure_waits_longer_each_time_and_alone() {
        let mut queue = Queue::default();
        let start = Instant::now();
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
}
