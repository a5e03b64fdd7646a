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
    /// Since when the BMC has reported another system than the Node, and the latest message.
    other_system: Option<(Timestamp, String)>,
}

/// Why a BMC cannot fence its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unavailable {
    /// Time of the first failed reading.
    pub since: Timestamp,
    /// Message of the latest one.
    pub message: String,
    /// The kind of failure.
    pub cause: UnavailableCause,
}

/// The kind of failure of a BMC that cannot fence its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnavailableCause {
    /// Its power cannot be read.
    NotReadable,
    /// It manages another system than the Node runs on.
    OtherSystem,
}

impl UnavailableCause {
    /// The reason of the Node condition.
    pub fn label(self) -> &'static str {
        match self {
            Self::NotReadable => "BMCUnavailable",
            Self::OtherSystem => "BMCIdentityMismatch",
        }
    }
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
            other_system: None,
        }
    }

    /// Records a reading, with the difference between its identity and that of the Node, or why it failed.
    pub fn record(
        &mut self,
        reading: Result<Option<String>, String>,
        now: Timestamp,
        interval: Duration,
    ) {
        match reading {
            Ok(None) => *self = Self::new(after(now, interval), interval, 0),
            Ok(Some(message)) => {
                let first = self.other_system.as_ref().map_or(now, |(first, _)| *first);
                // Read again soon: the entry is being mended, or the Node is being registered anew.
                let next = interval.min(RETRY);
                *self = Self {
                    other_system: Some((first, message)),
                    ..Self::new(after(now, next), next, 0)
                };
            }
            Err(message) => {
                let first = self.failure.as_ref().map_or(now, |(first, _)| *first);
                self.failures = self.failures.saturating_add(1);
                self.failure = Some((first, message));
                self.next = after(now, interval.min(RETRY));
            }
        }
    }

    /// Why the BMC cannot fence its host; `None` as long as too few readings have failed. One reading of
    /// another system is enough.
    #[must_use]
    pub fn unavailable(&self) -> Option<Unavailable> {
        let failure = self.failure.clone().filter(|_| self.failures >= FAILURES);
        let (cause, (since, message)) = match failure {
            Some(failure) => (UnavailableCause::NotReadable, failure),
            None => (UnavailableCause::OtherSystem, self.other_system.clone()?),
        };
        Some(Unavailable {
            since,
            message,
            cause,
        })
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
            cause: UnavailableCause::NotReadable,
        };
        assert_eq!(health.unavailable(), Some(unavailable));
        health.record(Ok(None), at(190), INTERVAL);
        assert_eq!((health.unavailable(), health.next), (None, at(490)));
    }

    #[test]
    fn f14_bmc_of_another_system_is_reported_at_once_until_it_is_mended() {
        let mut health = BmcHealth::new(at(0), INTERVAL, 0);
        let cause = |health: &BmcHealth| health.unavailable().map(|u| (u.cause, u.since));
        let other = |since| Some((UnavailableCause::OtherSystem, at(since)));
        health.record(Ok(Some("that of node-2".into())), at(10), INTERVAL);
        assert_eq!((cause(&health), health.next), (other(10), at(70)));
        health.record(Ok(Some("that of node-2".into())), at(70), INTERVAL);
        assert_eq!(cause(&health), other(10));
        // A BMC that does not answer shows nothing new, until that is the worse of both.
        for (second, expected) in [(130, other(10)), (190, other(10))] {
            health.record(Err("no answer".into()), at(second), INTERVAL);
            assert_eq!(cause(&health), expected);
        }
        health.record(Err("no answer".into()), at(250), INTERVAL);
        assert_eq!(
            cause(&health),
            Some((UnavailableCause::NotReadable, at(130)))
        );
        health.record(Ok(None), at(310), INTERVAL);
        assert_eq!((cause(&health), health.next), (None, at(610)));
    }

    proptest! {
        #[test]
        fn it_is_unavailable_only_after_as_many_failures_without_a_success(
            readings in prop::collection::vec(any::<bool>(), 0..20),
        ) {
            let mut health = BmcHealth::new(at(0), INTERVAL, 0);
            for (second, ok) in readings.iter().enumerate() {
                let reading = if *ok { Ok(None) } else { Err("no answer".into()) };
                health.record(reading, at(second.try_into().unwrap()), INTERVAL);
            }
            let failed = readings.iter().rev().take_while(|ok| !**ok).count();
            prop_assert_eq!(health.unavailable().is_some(), failed >= 3);
        }
    }
}
