//! Corroboration of an off that the observation of the BMC does not prove (F1), and refusals of a power-off by a
//! BMC that reports off.

use std::time::Duration;

use super::{CallFailure, OffProof, Operation, Outcome, Phase, proof};
use crate::{ErrorKind, PowerSource, PowerState, operation::Goal};

/// Number of attempts to corroborate an off, and the time between two.
const ATTEMPTS: u32 = 2;
const AGAIN: Duration = Duration::from_secs(5);

/// Number of refused power-offs after which no further one is sent to a BMC that reports off: a refusal proves
/// nothing, however often it is repeated.
const REFUSALS: u32 = 5;
/// Longest pause between two refused power-offs.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

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
}

impl Operation {
    /// Proof of the off that was read; `None`: there is none so far.
    pub fn proof(&self) -> Option<OffProof> {
        if !self.off_taken {
            return None;
        }
        // The outlets report for themselves; the BMC does not take part.
        if matches!(self.confirmed, Some((.., PowerSource::Outlets))) {
            return Some(OffProof::OtherDevice);
        }
        self.watch.proof().or(self.corroboration.found)
    }

    /// Time at which an off that was read often enough must be corroborated.
    pub(super) fn corroborates_at(&self) -> Option<Duration> {
        let is_off = matches!(self.phase, Phase::Soft | Phase::Off) && self.confirmed.is_some();
        self.corroboration.due.filter(|_| is_off)
    }

    /// Records that off was read often enough, but is not proven.
    pub(super) fn is_unproven(&mut self, now: Duration) {
        self.corroboration.due.get_or_insert(now);
    }

    /// Records the uptime of the manager that was read at `now`; `None`: it reports none. Returns whether it
    /// proves off.
    pub fn uptime(&mut self, now: Duration, uptime: Option<Duration>) -> bool {
        let first_off = self.corroboration.first_off;
        self.corroboration.uptime = uptime;
        let is_proof = matches!((uptime, first_off), (Some(uptime), Some(first))
            if proof::proves_off(uptime, now, first));
        if is_proof {
            self.corroborated(now, Some(OffProof::ManagerUptime));
        }
        is_proof
    }

    /// Records the result of an attempt to corroborate off.
    pub fn corroborated(&mut self, now: Duration, found: Option<OffProof>) {
        if self.ended.is_some() {
            return;
        }
        self.corroboration.found = found;
        self.corroboration.due = None;
        if found.is_some() {
            let (needed, _) = self.request.goal.proof();
            if self.confirmed.is_some_and(|(count, ..)| count >= needed) {
                self.is_off(now);
            }
            return;
        }
        self.corroboration.attempts += 1;
        if self.corroboration.attempts >= ATTEMPTS {
            self.ended = Some(self.unproven());
        } else {
            self.corroboration.due = Some(now.saturating_add(AGAIN));
        }
    }

    pub(super) fn unproven(&self) -> Outcome {
        Outcome::Unproven {
            uptime: self.corroboration.uptime,
        }
    }

    /// Pause after a failed command. The pauses between refused power-offs to a host that reads off grow, and the
    /// last refusal ends the operation.
    pub(super) fn pause_of_refusal(&mut self, failed: &CallFailure) -> Duration {
        let pause = self.request.timing.retry_after;
        let reads_off = self.seen.is_some_and(|(state, _)| state == PowerState::Off);
        if !reads_off || self.off_taken || self.phase != Phase::Off {
            return pause;
        }
        self.refused_off += 1;
        let is_refusal = matches!(
            failed.kind,
            ErrorKind::Refused | ErrorKind::Protocol | ErrorKind::Unsupported
        );
        if is_refusal && self.refused_off >= REFUSALS && !matches!(self.request.goal, Goal::On) {
            self.ended = Some(Outcome::NotTaken);
        }
        let factor = 1_u32 << self.refused_off.saturating_sub(1).min(8);
        pause.saturating_mul(factor).min(LONGEST_PAUSE.max(pause))
    }
}
