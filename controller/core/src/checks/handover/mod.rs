//! When the unhealthy members of one check are handed over to remediation (F13).
//!
//! Owns the batches: members that are due wait together until the burst has settled; then one live read
//! shows whether the view of the fleet is behind; once the view has reached the listing, they are
//! cleared. The limit is evaluated again for each of them after that. This module only makes sure that
//! the evaluation rests on the present fleet.
//!
//! `now` is the time on a monotonic clock of this process, since any origin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Time from the first verdict of a batch to its live read. Settling and read together take less than
/// 1.5 s.
pub const SETTLE: Duration = Duration::from_millis(1200);
/// How long a member stays cleared: the API server may take that long for a large batch.
pub const CLEARED_FOR: Duration = Duration::from_secs(10);
/// Wait after a live read that failed.
pub const RETRY: Duration = Duration::from_secs(1);

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandoverStep {
    /// Nothing waits, or a read is under way.
    Idle,
    /// Call [`Handover::step`] again at that time.
    Wait(Duration),
    /// Begin a live read, and give its result to [`Handover::finish_read`].
    Read,
}

/// The members of one check that are due to be handed over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Handover {
    /// Members that wait for a read, with the time since when.
    waiting: BTreeMap<Arc<str>, Duration>,
    /// Members whose read is under way, with the time since when they wait.
    reading: Option<BTreeMap<Arc<str>, Duration>>,
    /// Members that may be handed over, with the time until when.
    cleared: BTreeMap<Arc<str>, Duration>,
    retry_at: Option<Duration>,
    failure: Option<String>,
}

// === impl Handover ===

impl Handover {
    /// Registers a member that is due. Returns whether it may be handed over now.
    pub fn request(&mut self, member: &Arc<str>, now: Duration) -> bool {
        if self.cleared.get(member).is_some_and(|until| now < *until) {
            return true;
        }
        self.cleared.remove(member);
        let in_reading = self
            .reading
            .as_ref()
            .is_some_and(|r| r.contains_key(member));
        if !in_reading {
            self.waiting.entry(member.clone()).or_insert(now);
        }
        false
    }

    /// Removes a member that is no longer due: it was handed over, or has recovered.
    pub fn withdraw(&mut self, member: &str) {
        self.waiting.remove(member);
        self.cleared.remove(member);
        if let Some(reading) = &mut self.reading {
            reading.remove(member);
        }
        if self.waiting.is_empty() && self.reading.is_none() {
            self.failure = None;
        }
    }

    /// Removes all members. A read that is under way clears none of them.
    pub fn withdraw_all(&mut self) {
        self.waiting.clear();
        self.cleared.clear();
        if let Some(reading) = &mut self.reading {
            reading.clear();
        } else {
            self.failure = None;
        }
    }

    /// Decides what to do now. `settles`: more failures could exceed the limit, so the batch waits
    /// [`SETTLE`] for the rest of a burst; false if the limit would hold even if every member failed.
    pub fn step(&mut self, settles: bool, now: Duration) -> HandoverStep {
        self.cleared.retain(|_, until| now < *until);
        if self.reading.is_some() {
            return HandoverStep::Idle;
        }
        let Some(first) = self.waiting.values().min() else {
            return HandoverStep::Idle;
        };
        let settled = if settles { *first + SETTLE } else { *first };
        let at = self.retry_at.map_or(settled, |retry| retry.max(settled));
        if now < at {
            return HandoverStep::Wait(at);
        }
        self.reading = Some(std::mem::take(&mut self.waiting));
        HandoverStep::Read
    }

    /// Ends the live read of [`HandoverStep::Read`]. `result`: the view has reached the listing, or why not.
    /// Returns the members that are cleared now.
    pub fn finish_read(&mut self, result: Result<(), String>, now: Duration) -> BTreeSet<Arc<str>> {
        let batch = self.reading.take().unwrap_or_default();
        match result {
            Ok(()) => {
                (self.retry_at, self.failure) = (None, None);
                let until = now + CLEARED_FOR;
                let members: BTreeSet<Arc<str>> = batch.into_keys().collect();
                // They are in order, so that a map of them is made at once.
                let cleared = members.iter().map(|member| (member.clone(), until));
                self.cleared.append(&mut cleared.collect());
                members
            }
            Err(why) => {
                for (member, since) in batch {
                    let waits = self.waiting.entry(member).or_insert(since);
                    *waits = since.min(*waits);
                }
                self.retry_at = Some(now + RETRY);
                self.failure = (!self.waiting.is_empty()).then_some(why);
                BTreeSet::new()
            }
        }
    }

    /// Replaces every stored time, for a model checker that shifts time.
    #[must_use]
    pub fn map_times(self, map: impl Fn(Duration) -> Duration) -> Self {
        let mapped = |times: BTreeMap<Arc<str>, Duration>| {
            let times = times.into_iter();
            times.map(|(member, at)| (member, map(at))).collect()
        };
        Self {
            waiting: mapped(self.waiting),
            reading: self.reading.map(mapped),
            cleared: mapped(self.cleared),
            retry_at: self.retry_at.map(&map),
            failure: self.failure,
        }
    }

    /// Why due members are not handed over, if the last live read failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests;
