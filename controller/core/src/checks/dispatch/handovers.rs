//! The live reads after which the unhealthy members of each check are handed over (F13).
//!
//! Owns which checks wait for the end of a settling time, and the numbers of the reads, so that the result of
//! an outdated read is never used. [`Handover`] keeps the batches of one check.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::Item;
use crate::checks::handover::{Handover, HandoverStep};

/// A live read of everything that a check depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LiveRead<K> {
    /// Key of the check.
    pub check: K,
    /// Its number, unique among all reads.
    pub number: u64,
}

/// The members of one check that wait to be handed over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Waiting {
    handover: Handover,
    /// Number of the latest read of this check.
    read: u64,
}

/// The members of all evaluated checks that wait to be handed over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Handovers<K: Ord> {
    checks: BTreeMap<K, Waiting>,
    /// Checks with members whose burst is settling.
    settling: BTreeSet<K>,
    /// The earliest end of a settling time.
    settled_at: Option<Duration>,
    /// Number of the last read of any check.
    reads: u64,
}

impl<K: Ord> Default for Handovers<K> {
    fn default() -> Self {
        Self {
            checks: BTreeMap::new(),
            settling: BTreeSet::new(),
            settled_at: None,
            reads: 0,
        }
    }
}

// === impl Handovers ===

impl<K: Ord + Clone> Handovers<K> {
    /// Begins with a check, without a waiting member.
    pub(super) fn begin(&mut self, check: &K) {
        self.checks.insert(check.clone(), Waiting::default());
    }

    /// Drops a check.
    pub(super) fn end(&mut self, check: &K) {
        self.checks.remove(check);
        self.settling.remove(check);
    }

    /// Whether a check is evaluated.
    pub(super) fn knows(&self, check: &K) -> bool {
        self.checks.contains_key(check)
    }

    /// Registers a member that is due. Returns whether it may be handed over now; otherwise it waits for
    /// the read of its batch.
    pub(super) fn request(&mut self, item: &Item<K>, now: Duration) -> bool {
        let Some(waiting) = self.checks.get_mut(&item.check) else {
            return false;
        };
        let cleared = waiting.handover.request(&item.member, now);
        if !cleared {
            self.settling.insert(item.check.clone());
        }
        cleared
    }

    /// Removes a member that is no longer due.
    pub(super) fn withdraw(&mut self, item: &Item<K>) {
        if let Some(waiting) = self.checks.get_mut(&item.check) {
            waiting.handover.withdraw(&item.member);
        }
    }

    /// Removes all members of a check.
    pub(super) fn withdraw_all(&mut self, check: &K) {
        if let Some(waiting) = self.checks.get_mut(check) {
            waiting.handover.withdraw_all();
        }
    }

    /// The reads that begin now. `settles`: whether one more failure could close the limit of a check.
    pub(super) fn begin_reads(
        &mut self,
        settles: impl Fn(&K) -> bool,
        now: Duration,
    ) -> Vec<LiveRead<K>> {
        let mut begun = Vec::new();
        self.settled_at = None;
        for check in std::mem::take(&mut self.settling) {
            let Some(waiting) = self.checks.get_mut(&check) else {
                continue;
            };
            match waiting.handover.step(settles(&check), now) {
                HandoverStep::Idle => {}
                HandoverStep::Wait(at) => {
                    self.settled_at = Some(self.settled_at.map_or(at, |next| next.min(at)));
                    self.settling.insert(check);
                }
                HandoverStep::Read => {
                    self.reads += 1;
                    waiting.read = self.reads;
                    let number = self.reads;
                    begun.push(LiveRead { check, number });
                }
            }
        }
        begun
    }

    /// Ends a read. Returns the members that are cleared now; `None`: it is not the latest read of its check,
    /// so its result is ignored.
    pub(super) fn end_read(
        &mut self,
        read: &LiveRead<K>,
        result: Result<(), String>,
        now: Duration,
    ) -> Option<BTreeSet<Arc<str>>> {
        let waiting = self.checks.get_mut(&read.check)?;
        if waiting.read != read.number {
            return None;
        }
        self.settling.insert(read.check.clone());
        Some(waiting.handover.finish_read(result, now))
    }

    /// Why due members of a check are not handed over, if its last read failed.
    pub(super) fn failure(&self, check: &K) -> Option<&str> {
        self.checks.get(check)?.handover.failure()
    }

    /// When the next settling time ends.
    pub(super) fn settled_at(&self) -> Option<Duration> {
        self.settled_at
    }

    /// Replaces every stored time.
    pub(super) fn map_times(mut self, map: impl Fn(Duration) -> Duration) -> Self {
        for waiting in self.checks.values_mut() {
            let handover = std::mem::take(&mut waiting.handover);
            waiting.handover = handover.map_times(&map);
        }
        self.settled_at = self.settled_at.map(map);
        self
    }

    /// Numbers the reads anew: the nth of those in flight gets number n, and an ended one gets 0.
    pub(super) fn renumber(&mut self, in_flight: &[u64]) {
        for waiting in self.checks.values_mut() {
            waiting.read = renumbered(waiting.read, in_flight);
        }
        self.reads = in_flight.len() as u64;
    }
}

/// The number of a read after the reads in flight were numbered anew from 1; 0 if it has ended.
pub fn renumbered(read: u64, in_flight: &[u64]) -> u64 {
    let place = in_flight.iter().position(|known| *known == read);
    place.map_or(0, |place| place as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::handover::{CLEARED_FOR, RETRY, SETTLE};

    type Handovers = super::Handovers<&'static str>;

    const NOW: Duration = Duration::from_secs(100);

    fn item(check: &'static str) -> Item<&'static str> {
        Item::new(&check, &"m".into())
    }

    fn mk_handovers() -> Handovers {
        let mut all = Handovers::default();
        for check in ["a", "b"] {
            all.begin(&check);
            assert!(!all.request(&item(check), NOW));
        }
        all
    }

    #[test]
    fn f13_each_check_is_read_once_its_own_burst_has_settled() {
        let mut all = mk_handovers();
        let read = |check, number| LiveRead { check, number };
        let begun = all.begin_reads(|check| *check == "b", NOW);
        assert_eq!(begun, [read("a", 1)]);
        assert_eq!(all.settled_at(), Some(NOW + SETTLE));
        assert_eq!(all.begin_reads(|_| true, NOW + SETTLE), [read("b", 2)]);
        assert_eq!(all.settled_at(), None);
        let cleared = all.end_read(&read("a", 1), Ok(()), NOW).unwrap();
        assert_eq!(cleared.len(), 1);
        assert!(all.request(&item("a"), NOW));
        assert!(!all.request(&item("b"), NOW), "its read has not ended");
        assert!(!all.request(&item("a"), NOW + CLEARED_FOR));
    }

    #[test]
    fn f13_result_of_an_outdated_read_clears_nobody() {
        let mut all = mk_handovers();
        let first = all.begin_reads(|_| false, NOW);
        all.end(&"a");
        all.begin(&"a");
        assert!(!all.request(&item("a"), NOW));
        assert_eq!(all.end_read(&first[0], Ok(()), NOW), None);
        assert!(!all.request(&item("a"), NOW));
        all.end(&"b");
        assert_eq!(all.end_read(&first[1], Ok(()), NOW), None);
        assert!(!all.knows(&"b") && !all.request(&item("b"), NOW));
    }

    #[test]
    fn failed_read_is_tried_again_and_reported() {
        let mut all = mk_handovers();
        let begun = all.begin_reads(|_| false, NOW);
        let why = Err("denied".to_owned());
        assert_eq!(all.end_read(&begun[0], why, NOW), Some(BTreeSet::new()));
        assert_eq!(
            (all.failure(&"a"), all.failure(&"b")),
            (Some("denied"), None)
        );
        assert!(all.begin_reads(|_| false, NOW).is_empty());
        assert_eq!(all.settled_at(), Some(NOW + RETRY));
        all.withdraw(&item("a"));
        assert_eq!(all.failure(&"a"), None);
    }
}
