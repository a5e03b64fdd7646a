//! Whether a BMC could fence its host, from readings of the power state between remediations.
//!
//! A BMC that does not answer is found before it is needed. Nothing is switched on its account: a
//! remediation takes its own readings.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Readings that fail one after the other before a BMC counts as unable to fence.
const FAILURES: u32 = 3;

/// Longest time until the next reading after one that failed.
const RETRY: Duration = Duration::from_secs(60);

/// What the readings of one BMC have shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BmcHealth {
    /// When it is read next.
    pub next: Timestamp,
    failures: u32,
    /// When the first of the failures was observed, and the message of the latest.
    failure: Option<(Timestamp, String)>,
}

/// Why a BMC cannot fence its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unavailable {
    /// Time of the first failed reading.
    pub since: Timestamp,
    /// Message of the latest one.
    pub message: String,
}

impl BmcHealth {
    /// Health of a BMC that has not been read. `place` distributes the first readings of a fleet
    /// over the interval.
    #[must_use]
    pub fn new(now: Timestamp, interval: Duration, place: u64) -> Self {
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        Self {
            next: after(now, Duration::from_millis(place % millis.max(1))),
            failures: 0,
            failure: None,
        }
    }

    /// Records a reading, or why it failed.
    pub fn record(&mut self, reading: Result<(), String>, now: Timestamp, interval: Duration) {
        match reading {
            Ok(()) => *self = Self::new(after(now, interval), interval, 0),
            Err(message) => {
                let first = self.failure.as_ref().map_or(now, |(first, _)| *first);
                self.failures = self.failures.saturating_add(1);
                self.failure = Some((first, message));
                self.next = after(now, interval.min(RETRY));
            }
        }
    }

    /// Why the BMC cannot fence its host; `None` as long as too few readings have failed.
    #[must_use]
    pub fn unavailable(&self) -> Option<Unavailable> {
        let (since, message) = self.failure.clone()?;
        (self.failures >= FAILURES).then_some(Unavailable { since, message })
    }
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    now.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERVAL: Duration = Duration::from_secs(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn first_readings_are_distributed_over_the_interval() {
        for (place, seconds) in [(0, 0), (1_000, 1), (299_999, 299), (301_000, 1)] {
            let health = BmcHealth::new(at(0), INTERVAL, place);
            assert_eq!(health.next.as_second(), seconds, "{place}");
        }
        assert_eq!(BmcHealth::new(at(7), Duration::ZERO, 9).next, at(7));
    }

    #[test]
    fn failures_are_retried_soon_and_reported_after_the_third() {
        let mut health = BmcHealth::new(at(0), INTERVAL, 0);
        for second in [10, 70] {
            health.record(Err("refused".into()), at(second), INTERVAL);
            assert_eq!(health.next, at(second + 60));
            assert_eq!(health.unavailable(), None);
        }
        health.record(Err("no answer".into()), at(130), INTERVAL);
        let unavailable = Unavailable {
            since: at(10),
            message: "no answer".into(),
        };
        assert_eq!(health.unavailable(), Some(unavailable));
        health.record(Ok(()), at(190), INTERVAL);
        assert_eq!((health.unavailable(), health.next), (None, at(490)));
    }

    proptest! {
        #[test]
        fn it_is_unavailable_only_after_as_many_failures_without_a_success(
            readings in prop::collection::vec(any::<bool>(), 0..20),
        ) {
            let mut health = BmcHealth::new(at(0), INTERVAL, 0);
            for (second, ok) in readings.iter().enumerate() {
                let reading = if *ok { Ok(()) } else { Err("no answer".into()) };
                health.record(reading, at(second.try_into().unwrap()), INTERVAL);
            }
            let failed = readings.iter().rev().take_while(|ok| !**ok).count();
            prop_assert_eq!(health.unavailable().is_some(), failed >= 3);
        }
    }
}
