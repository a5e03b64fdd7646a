//! The observation of each BMC over all readings of this agent, for the proof of an off (F1).
//!
//! Must never: outlast an interruption, or keep data about a BMC that is no longer read.

use std::collections::HashMap;

use parking_lot::Mutex;
use rackhand_bmc::{
    Accepted, BmcError, ErrorKind, PowerReading,
    operation::{LONGEST_GAP, Watch},
};
use tokio::time::Instant;

/// Observations by the key of the BMC.
#[derive(Debug)]
pub(super) struct Watches {
    begun: Instant,
    known: Mutex<HashMap<String, (Watch, Instant)>>,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            known: Mutex::default(),
        }
    }
}

impl Watches {
    /// Records the result of a reading.
    pub(super) fn read(&self, key: &str, result: &Result<PowerReading, BmcError>) {
        self.change(key, |watch, now| match result {
            Ok(reading) => watch.read(now, reading.state, reading.source, reading.connection),
            Err(_) => watch.interrupt(),
        });
    }

    /// Records the result of a power command.
    pub(super) fn commanded(&self, key: &str, result: &Result<Accepted, BmcError>) {
        self.change(key, |watch, now| match result {
            Ok(accepted) => watch.accepted(now, accepted, false),
            Err(error) if error.kind == ErrorKind::Refused => watch.answered(now, None),
            Err(_) => watch.interrupt(),
        });
    }

    /// The observation of a BMC, by a clock that is 0 at `begun`.
    pub(super) fn since(&self, key: &str, begun: Instant) -> Watch {
        let known = self.known.lock();
        let watch = known.get(key).map(|(watch, _)| watch);
        watch.map_or_else(Watch::default, |watch| {
            watch.since(begun.saturating_duration_since(self.begun))
        })
    }

    /// Forgets observations that have ended by themselves.
    pub(super) fn sweep(&self) {
        let mut known = self.known.lock();
        known.retain(|_, (_, at)| at.elapsed() <= LONGEST_GAP);
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Watch, std::time::Duration)) {
        let now = Instant::now();
        let mut known = self.known.lock();
        let (watch, at) = known
            .entry(key.to_owned())
            .or_insert_with(|| (Watch::default(), now));
        *at = now;
        change(watch, now.saturating_duration_since(self.begun));
    }
}
