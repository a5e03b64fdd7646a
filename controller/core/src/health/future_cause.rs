//! What is said to hold since a time that lies ahead: somebody's clock is wrong.
//!
//! Owns how far ahead is told of. Must never change a verdict: a timeout begins when it is said to.

use std::time::Duration;

use jiff::Timestamp;

use super::Cause;

/// What lies ahead by no more than this is not told of: clocks a few seconds apart are normal, and a
/// status must not flap with every condition that is set.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// A cause that is said to hold since a time that lies ahead by more than [`CLOCK_TOLERANCE`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FutureCause {
    /// What it will be called once its timeout is over.
    pub cause: Cause,
    /// Since when it is said to hold.
    pub since: Timestamp,
}

// === impl FutureCause ===

impl FutureCause {
    /// Whether a time lies too far ahead.
    pub(super) fn is(since: Timestamp, now: Timestamp) -> bool {
        ends(since) > now
    }

    /// From when on it is not told of any more.
    pub fn ends(&self) -> Timestamp {
        ends(self.since)
    }
}

fn ends(since: Timestamp) -> Timestamp {
    since.checked_sub(CLOCK_TOLERANCE).unwrap_or(Timestamp::MIN)
}
