//! When the engine takes its next turn.

use std::time::Duration;

use jiff::Timestamp;

use super::Shell;
use crate::remediation::{Command, LATEST_READING_AGE};

/// Longest time without an observation.
const RESYNC: Duration = Duration::from_secs(10);
/// Backoff after a failure: first and longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Into how many parts a pause is divided.
const PARTS: u32 = 64;
/// Longest time for which a call that the API server has put off is not repeated.
const LONGEST_REFUSAL: Duration = Duration::from_secs(30);
/// Pause before the same command is repeated, for its effect to become visible.
pub const REPEAT_PAUSE: Duration = Duration::from_secs(1);
// After a longer pause no reading would be recent enough for the taint, and it would never be set (L1).
const _: () = assert!(REPEAT_PAUSE.as_millis() < LATEST_READING_AGE.as_millis());
/// Consecutive failures after which an Event is sent.
pub const FAILURES_TOLD: u32 = 3;

/// The result of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Turn {
    /// The state was written, or a new observation is required.
    Again,
    /// A command was carried out.
    Did(Command),
    /// Nothing to do before this time or a change.
    Wait(Option<Timestamp>),
    /// A call failed.
    Failed,
    /// The API server has too much to do, and asks for a pause of this length.
    PutOff(Duration),
}

/// When the next turn is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pace {
    /// Decide again without a pause.
    Now,
    /// After this time, regardless of events.
    Pause(Duration),
    /// After this time, after a change, or after an event of the operation.
    Sleep(Duration),
}

impl Shell {
    /// Records a turn.
    pub fn turned(&mut self, turn: Turn, now: Timestamp) -> Pace {
        let last = self.last.take();
        let failures = std::mem::take(&mut self.failures);
        match turn {
            Turn::Again => Pace::Now,
            Turn::Did(command) => {
                let repeated = last.as_ref() == Some(&command);
                self.last = Some(command);
                if repeated {
                    Pace::Pause(REPEAT_PAUSE)
                } else {
                    Pace::Now
                }
            }
            Turn::Wait(until) => {
                let left = until.map_or(RESYNC, |until| {
                    Duration::try_from(until.duration_since(now)).unwrap_or_default()
                });
                Pace::Sleep(left.min(RESYNC))
            }
            Turn::Failed => {
                // A patch that conflicts does so until the object is read again.
                self.node.forget();
                self.failures = failures.saturating_add(1);
                Pace::Pause(backoff(self.failures))
            }
            // Nothing was done, so that what was read stands as before.
            Turn::PutOff(asked) => {
                self.failures = failures.saturating_add(1);
                let asked = asked.min(LONGEST_REFUSAL);
                let wait = backoff(self.failures).max(asked);
                Pace::Pause(wait.saturating_add(part_of(wait, &self.uid)))
            }
        }
    }
}

/// The pause after so many failures in a row.
fn backoff(failures: u32) -> Duration {
    let wait = BACKOFF.0.saturating_mul(1 << failures.min(6));
    wait.min(BACKOFF.1)
}

/// A part of a pause, up to the whole, by the UID of the remediation: those that were put off together come back one
/// after another.
fn part_of(wait: Duration, uid: &str) -> Duration {
    let sum = uid.bytes().fold(0_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    wait.saturating_mul(sum % PARTS) / PARTS
}
