//! Corroboration of an off that the observation of the BMC does not prove (F1).

use std::time::Duration;

use super::{OffProof, proof};
use crate::PowerState;

/// Number of attempts to corroborate an off, and the time between two.
const ATTEMPTS: u32 = 2;
const AGAIN: Duration = Duration::from_secs(5);

/// State of the corroboration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Corroboration {
    /// The first of the readings of off that follow each other.
    first_off: Option<Duration>,
    /// When the next attempt is due; `None`: nothing has to be corroborated.
    due: Option<Duration>,
    attempts: u32,
    /// The last uptime of the manager, in the last attempt.
    uptime: Option<Duration>,
    found: Option<OffProof>,
}

impl Corroboration {
    /// Records a reading. A corroboration applies only to consecutive readings of off.
    pub(super) fn read(&mut self, now: Duration, state: PowerState) {
        if state == PowerState::Off {
            self.first_off.get_or_insert(now);
        } else {
            (self.first_off, self.due, self.found) = (None, None, None);
        }
    }

    /// Makes an attempt due, unless one is.
    pub(super) fn need(&mut self, now: Duration) {
        self.due.get_or_insert(now);
    }

    /// When the next attempt is due; `None`: nothing has to be corroborated.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    /// The proof that an attempt has found.
    pub(super) fn found(&self) -> Option<OffProof> {
        self.found
    }

    /// The uptime of the manager that was read last.
    pub(super) fn last_uptime(&self) -> Option<Duration> {
        self.uptime
    }

    /// Records the uptime of the manager that was read at `now`; `None`: it reports none. Returns whether it
    /// proves off.
    pub(super) fn uptime(&mut self, now: Duration, uptime: Option<Duration>) -> bool {
        self.uptime = uptime;
        matches!((uptime, self.first_off), (Some(uptime), Some(first))
            if proof::proves_off(uptime, now, first))
    }

    /// Records the result of an attempt. `false`: it found nothing, and there is no further attempt.
    pub(super) fn attempted(&mut self, now: Duration, found: Option<OffProof>) -> bool {
        self.found = found;
        self.due = None;
        if found.is_some() {
            return true;
        }
        self.attempts += 1;
        let is_over = self.attempts >= ATTEMPTS;
        if !is_over {
            self.due = Some(now.saturating_add(AGAIN));
        }
        !is_over
    }
}
