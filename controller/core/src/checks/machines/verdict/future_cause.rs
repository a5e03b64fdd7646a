//! Causes whose recorded time is in the future, which means that some clock is wrong.
//!
//! Owns the tolerance. Must never change a verdict: a timeout begins at the recorded time.

use std::time::Duration;

use jiff::Timestamp;

use super::super::Cause;

/// A time that is no further in the future than this is not reported: clocks a few seconds apart are
/// normal, and the status must not flap with every condition that is set.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// A cause whose recorded time is in the future by more than [`CLOCK_TOLERANCE`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FutureCause {
    /// The cause that makes the machine unhealthy once its timeout has passed.
    pub cause: Cause,
    /// lastTransitionTime of the condition, as it was recorded.
    pub since: Timestamp,
}

// === impl FutureCause ===

impl FutureCause {
    /// Whether a recorded time is too far in the future.
    pub(in crate::checks::machines) fn is(since: Timestamp, now: Timestamp) -> bool {
        ends(since) > now
    }

    /// From when on the cause is no longer reported.
    pub fn ends(&self) -> Timestamp {
        ends(self.since)
    }
}

fn ends(since: Timestamp) -> Timestamp {
    since.checked_sub(CLOCK_TOLERANCE).unwrap_or(Timestamp::MIN)
}
