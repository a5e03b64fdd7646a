//! The observation of each BMC over all readings of this agent, for the proof of an off (F1) and for the signals of
//! its host.
//!
//! Must never: let a proof outlast an interruption, or keep data about a BMC that is no longer read.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use rackhand_bmc::{
    Accepted, BmcError, ErrorKind, PowerReading,
    operation::{LastReading, Past, PowerObservation},
};
use tokio::time::Instant;

/// Observations by the key of the BMC.
#[derive(Debug)]
pub(super) struct Watches {
    begun: Instant,
    /// Boxed, as a table has room for twice as many as it contains, or more while it grows.
    known: Mutex<HashMap<String, Box<PowerObservation>>>,
    /// Number of the observation that begins with the next reading, if that begins one.
    next: AtomicU64,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            known: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl Watches {
    /// Records the result of a reading.
    pub(super) fn read(&self, key: &str, result: &Result<PowerReading, BmcError>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.change(key, |seen, now| match result {
            Ok(reading) => seen.read(now, reading, number),
            Err(_) => seen.interrupt(now),
        });
    }

    /// Records the result of a power command.
    pub(super) fn commanded(&self, key: &str, result: &Result<Accepted, BmcError>) {
        self.change(key, |seen, now| match result {
            Ok(accepted) => seen.accepted(now, accepted),
            Err(error) if error.kind == ErrorKind::Refused => seen.refused(now),
            Err(_) => seen.interrupt(now),
        });
    }

    /// The observation of a BMC, by a clock that is 0 at `begun`.
    pub(super) fn since(&self, key: &str, begun: Instant) -> Past {
        let known = self.known.lock();
        let seen = known.get(key);
        let begun = begun.saturating_duration_since(self.begun);
        seen.map(|seen| seen.since(begun)).unwrap_or_default()
    }

    /// The last reading of a BMC, unless its observation was interrupted since, and the present time by the clock of
    /// its times.
    pub(super) fn last(&self, key: &str) -> Option<(LastReading, Duration)> {
        let last = self.known.lock().get(key)?.last()?.clone();
        Some((last, self.begun.elapsed()))
    }

    /// Forgets observations that have ended by themselves.
    pub(super) fn sweep(&self) {
        let now = self.begun.elapsed();
        self.known.lock().retain(|_, seen| !seen.is_over(now));
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut PowerObservation, Duration)) {
        let mut known = self.known.lock();
        let now = self.begun.elapsed();
        match known.get_mut(key) {
            Some(seen) => change(seen, now),
            None => change(known.entry(key.to_owned()).or_default(), now),
        }
    }
}
