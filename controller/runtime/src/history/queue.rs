//! Entries to write, by host.
//!
//! Pure. An entry that still changes is delayed, so that several steps become one write.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rackhand_api::kinds::host_history::{HostHistorySpec, HostRemediation};

use super::entry::update;

/// How long an entry waits whose remediation goes on. Each write takes two calls, and in a storm the API
/// server is what remediations wait for.
const BATCH: Duration = Duration::from_secs(15);
/// Writes that are tried for a host before its entries are given up.
const ATTEMPTS: u32 = 8;
/// Pause after the first failed write; it doubles with each.
const BACKOFF: Duration = Duration::from_secs(2);
/// Hosts with entries that wait. What comes after is given up: the API server is away for long.
const HOSTS: usize = 20_000;

/// Entries to write into one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) spec: HostHistorySpec,
    /// By UID of the remediation.
    pub(super) entries: BTreeMap<String, HostRemediation>,
    failures: u32,
    due: Instant,
}

impl Batch {
    fn add(&mut self, entry: HostRemediation) {
        let merged = match self.entries.get(&entry.uid) {
            Some(known) => update(known, &entry),
            None => entry,
        };
        self.entries.insert(merged.uid.clone(), merged);
    }
}

/// The batches, by name of the object.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<String, Batch>,
    /// Objects with a write in flight.
    writing: BTreeMap<String, Batch>,
}

impl Queue {
    /// Adds an entry to those of its host. Returns whether it was taken.
    pub(super) fn put(
        &mut self,
        name: String,
        spec: HostHistorySpec,
        entry: HostRemediation,
        now: Instant,
    ) -> bool {
        let ended = entry.outcome.is_some();
        if self.waiting.len() >= HOSTS && !self.waiting.contains_key(&name) {
            return false;
        }
        let batch = self.waiting.entry(name).or_insert_with(|| Batch {
            spec,
            entries: BTreeMap::new(),
            failures: 0,
            due: now + BATCH,
        });
        if ended && batch.failures == 0 {
            batch.due = now;
        }
        batch.add(entry);
        true
    }

    /// Removes and returns up to `limit` due batches, the oldest first.
    pub(super) fn take_due(&mut self, now: Instant, limit: usize) -> Vec<(String, Batch)> {
        let mut due: Vec<(Instant, String)> = self
            .waiting
            .iter()
            .filter(|(_, batch)| batch.due <= now)
            .map(|(name, batch)| (batch.due, name.clone()))
            .collect();
        due.sort();
        due.truncate(limit);
        let due: Vec<(String, Batch)> = due
            .into_iter()
            .filter_map(|(_, name)| self.waiting.remove_entry(&name))
            .collect();
        self.writing.extend(due.iter().cloned());
        due
    }

    /// A batch is written.
    pub(super) fn written(&mut self, name: &str) {
        self.writing.remove(name);
    }

    /// What is not written yet of an object, the older entries first.
    pub(super) fn unwritten(&self, name: &str) -> Vec<HostRemediation> {
        let batches = [self.writing.get(name), self.waiting.get(name)];
        let entries = batches.into_iter().flatten();
        entries.flat_map(|b| b.entries.values().cloned()).collect()
    }

    /// Puts a batch back whose write has failed. Entries that came meanwhile are newer. Returns false if
    /// the batch is given up.
    pub(super) fn put_back(&mut self, name: String, mut batch: Batch, now: Instant) -> bool {
        self.writing.remove(&name);
        batch.failures += 1;
        if batch.failures >= ATTEMPTS {
            return false;
        }
        batch.due = now + BACKOFF * 2_u32.pow(batch.failures - 1);
        if let Some(newer) = self.waiting.remove(&name) {
            newer.entries.into_values().for_each(|e| batch.add(e));
        }
        self.waiting.insert(name, batch);
        true
    }

    /// When the next batch is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.values().map(|batch| batch.due).min()
    }

    /// Makes everything due at once, because this process ends.
    pub(super) fn flush(&mut self, now: Instant) {
        for batch in self.waiting.values_mut() {
            batch.due = now;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::*;

    fn spec() -> HostHistorySpec {
        HostHistorySpec {
            rack: "r".into(),
            host: "h".into(),
        }
    }

    pub(in crate::history) fn entry(uid: &str, outcome: Option<&str>) -> HostRemediation {
        HostRemediation {
            uid: uid.into(),
            kind: "PowerRemediation".into(),
            namespace: "ns".into(),
            name: uid.into(),
            cluster: None,
            node: None,
            requested_by: None,
            cause: None,
            shared_cause: None,
            created_at: Timestamp::UNIX_EPOCH,
            steps: Vec::new(),
            attempts: Vec::new(),
            power_off: None,
            evidence: Vec::new(),
            finished_at: None,
            outcome: outcome.map(str::to_owned),
            reason: None,
            message: None,
        }
    }

    #[test]
    fn steps_are_written_together_and_an_end_at_once() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        assert!(queue.put("h".into(), spec(), entry("a", None), start));
        queue.put("h".into(), spec(), entry("a", None), start + BATCH / 2);
        assert!(queue.take_due(start + BATCH / 2, 9).is_empty());
        assert_eq!(queue.next_due(), Some(start + BATCH));
        assert_eq!(queue.unwritten("h").len(), 1);
        let due = queue.take_due(start + BATCH, 9);
        assert_eq!((due.len(), due[0].1.entries.len()), (1, 1));
        assert_eq!(queue.unwritten("h").len(), 1, "it is being written");
        queue.written("h");
        assert!(queue.unwritten("h").is_empty());
        assert_eq!(queue.next_due(), None);

        queue.put("h".into(), spec(), entry("a", None), start);
        queue.put("h".into(), spec(), entry("a", Some("succeeded")), start);
        let due = queue.take_due(start, 9);
        assert!(due[0].1.entries["a"].outcome.is_some());
    }

    #[test]
    fn a_failed_write_is_repeated_later_with_what_came_meanwhile_and_given_up_in_the_end() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.put("h".into(), spec(), entry("a", Some("failed")), now);
        let (name, batch) = queue.take_due(now, 9).remove(0);
        queue.put("h".into(), spec(), entry("b", None), now);
        assert!(queue.put_back(name, batch, now));
        // An end does not shorten the pause.
        queue.put("h".into(), spec(), entry("c", Some("failed")), now);
        assert_eq!(queue.next_due(), Some(now + BACKOFF));
        let mut writes = 1;
        loop {
            now += Duration::from_secs(1_000);
            let (name, batch) = queue.take_due(now, 9).remove(0);
            assert_eq!(batch.entries.len(), 3);
            writes += 1;
            if !queue.put_back(name, batch, now) {
                break;
            }
        }
        assert_eq!((writes, queue.next_due()), (ATTEMPTS, None));
    }

    #[test]
    fn the_queue_is_bounded_and_takes_the_longest_waiting_first() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        for number in 0..HOSTS {
            let at = start + Duration::from_millis(u64::try_from(HOSTS - number).unwrap());
            assert!(queue.put(format!("h{number}"), spec(), entry("a", None), at));
        }
        assert!(!queue.put("more".into(), spec(), entry("a", None), start));
        queue.flush(start);
        assert_eq!(queue.take_due(start, 3).len(), 3);
        assert!(queue.put("more".into(), spec(), entry("a", None), start));
    }
}
