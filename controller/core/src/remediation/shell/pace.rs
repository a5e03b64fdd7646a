//! When the engine takes its next turn.

use std::time::Duration;

use jiff::Timestamp;

use super::Shell;
use crate::remediation::{Command, LATEST_READING_AGE};

/// Longest time without an observation.
const RESYNC: Duration = Duration::from_secs(10);
/// Backoff after a failure: first and longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
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
                let wait = BACKOFF.0.saturating_mul(1 << self.failures.min(6));
                Pace::Pause(wait.min(BACKOFF.1))
            }
        }
    }
}
