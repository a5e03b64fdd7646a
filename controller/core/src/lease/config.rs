//! The times of an election.
//!
//! Owns the invariant `retry < renew_deadline < duration`, on which the safety of the election rests.

use std::time::Duration;

/// How long a Lease lasts and how it is kept. Valid by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseConfig {
    duration: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Why the times of an election are not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LeaseConfigError {
    /// `leaseDurationSeconds` is a positive number of whole seconds.
    #[error("the lease duration must be whole seconds, at least one and below 2^31")]
    Duration,
    /// A leader would act after another could have taken over.
    #[error("the renew deadline must be shorter than the lease duration")]
    RenewDeadline,
    /// A leader would lose the Lease before its first renewal.
    #[error("the retry period must be more than zero and shorter than the renew deadline")]
    Retry,
}

// === impl LeaseConfig ===

impl Default for LeaseConfig {
    /// The times of client-go, which all controllers beside us use: the gap of 5 s between deadline
    /// and duration covers clocks that do not run at quite the same rate.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl LeaseConfig {
    /// Checks the times.
    ///
    /// # Errors
    ///
    /// The times are not in the order `0 < retry < renew_deadline < duration`, or `duration` is not in
    /// whole seconds.
    pub fn new(
        duration: Duration,
        renew_deadline: Duration,
        retry: Duration,
    ) -> Result<Self, LeaseConfigError> {
        let whole = duration.subsec_nanos() == 0 && i32::try_from(duration.as_secs()).is_ok();
        if !whole || duration.is_zero() {
            return Err(LeaseConfigError::Duration);
        }
        if renew_deadline >= duration {
            return Err(LeaseConfigError::RenewDeadline);
        }
        if retry.is_zero() || retry >= renew_deadline {
            return Err(LeaseConfigError::Retry);
        }
        Ok(Self {
            duration,
            renew_deadline,
            retry,
        })
    }

    /// How long a Lease lasts after its holder was last seen to renew it.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How long a leader acts after it sent its last successful renewal.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The time between renewals, and between attempts.
    pub fn retry(&self) -> Duration {
        self.retry
    }

    /// When a leader must stop whose last successful renewal was sent at `sent`.
    pub(super) fn renew_by(&self, sent: Duration) -> Duration {
        sent.saturating_add(self.renew_deadline)
    }

    /// When a Lease may be taken over that was seen to change at `changed`. Its holder may use a longer
    /// duration (`written`) than ours.
    pub(super) fn free_at(&self, changed: Duration, written: Duration) -> Duration {
        changed.saturating_add(self.duration.max(written))
    }
}
