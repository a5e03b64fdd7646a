//! Whether a watch still feeds its view (F12).
//!
//! A watch that was refused, or has failed for a while, shows a state of the past: neither absence nor health follows
//! from it. Times are those of one monotonic clock.

use std::time::Duration;

/// Failures without an event in between, over this time, end a watch.
const FAILS_FOR: Duration = Duration::from_secs(20);
/// Failures further apart than this belong to different interruptions: a watch that goes on to fail fails more often, and
/// one that was resumed without a change reports nothing.
const APART: Duration = Duration::from_secs(65);
/// A watch that was lost feeds its view again once it has not failed for this time after its list. Who may list
/// and not watch would otherwise be seen to come and go.
const LASTS: Duration = Duration::from_secs(2);

/// A failure of a watch, by what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchFailure {
    /// The API server does not permit it (401, 403), or does not serve the path any more. A repetition fails too.
    Refused,
    /// It could not be started, or its answer cannot be understood, for a cause that may pass.
    Interrupted,
    /// It had begun, and its connection was cut: a proxy cuts each one that is idle for half a minute.
    Cut,
}

/// What a watch has reported so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WatchHealth {
    /// First and latest of the failures since the last event.
    failures: Option<(Duration, Duration)>,
    /// When the latest list was complete.
    listed: Option<Duration>,
    is_lost: bool,
}

impl WatchHealth {
    /// The first list is complete.
    pub fn listed(&mut self, now: Duration) {
        self.failures = None;
        self.listed = Some(now);
    }

    /// The watch has reported an object.
    pub fn progressed(&mut self) {
        self.failures = None;
    }

    /// Records a failure. Returns whether the watch is lost by it and must be made anew, with a new list.
    pub fn failed(&mut self, failure: WatchFailure, now: Duration) -> bool {
        if failure == WatchFailure::Cut {
            self.failures = None;
            return false;
        }
        let first = match self.failures {
            Some((first, last)) if now.saturating_sub(last) < APART => first,
            _ => now,
        };
        self.failures = Some((first, now));
        let lasts = now.saturating_sub(first) >= FAILS_FOR;
        if failure == WatchFailure::Refused || lasts {
            *self = Self {
                is_lost: true,
                ..Self::default()
            };
            return true;
        }
        false
    }

    /// Whether the view is fed.
    pub fn is_fed(&self, now: Duration) -> bool {
        self.listed
            .is_some_and(|listed| !self.is_lost || now.saturating_sub(listed) >= LASTS)
    }

    /// Returns whether the view is fed. If so, its loss is over, and [`wait`](Self::wait) has nothing left.
    pub fn settle(&mut self, now: Duration) -> bool {
        let is_fed = self.is_fed(now);
        self.is_lost &= !is_fed;
        is_fed
    }

    /// Time until [`settle`](Self::settle) succeeds without an event; `None` if only an event can change that.
    pub fn wait(&self, now: Duration) -> Option<Duration> {
        let listed = self.listed.filter(|_| self.is_lost)?;
        Some(LASTS.saturating_sub(now.saturating_sub(listed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn f12_refused_watch_is_lost_at_once() {
        let mut health = WatchHealth::default();
        assert!(!health.is_fed(at(0)), "nothing is listed");
        health.listed(at(1));
        assert!(health.is_fed(at(1)));
        assert!(health.failed(WatchFailure::Refused, at(60)));
        assert!(!health.is_fed(at(60)));
        // It may be listed, and is refused again.
        health.listed(at(65));
        assert!(!health.is_fed(at(65)));
        assert!(health.failed(WatchFailure::Refused, at(66)));
        assert!(!health.is_fed(at(600)));
        health.listed(at(601));
        assert_eq!(health.wait(at(602)), Some(at(1)));
        assert!(health.is_fed(at(603)));
        // An event may come in between, after which the caller still waits.
        assert_eq!(health.wait(at(604)), Some(Duration::ZERO));
        assert!(health.settle(at(604)));
        assert_eq!(health.wait(at(604)), None);
    }

    #[test]
    fn f12_watch_that_fails_for_a_while_is_lost_and_an_interruption_is_not() {
        let mut health = WatchHealth::default();
        health.listed(at(0));
        for (failure, lost) in [(100, false), (101, false), (110, false), (121, true)] {
            let failed = health.failed(WatchFailure::Interrupted, at(failure));
            assert_eq!(failed, lost, "{failure}");
        }
        // Interruptions long apart, and interruptions with an event between them.
        let mut health = WatchHealth::default();
        health.listed(at(0));
        for hour in 1..5 {
            assert!(!health.failed(WatchFailure::Interrupted, at(hour * 3600)));
            assert!(!health.failed(WatchFailure::Interrupted, at(hour * 3600 + 19)));
        }
        health.progressed();
        assert!(!health.failed(WatchFailure::Interrupted, at(4 * 3600 + 30)));
        assert!(health.is_fed(at(4 * 3600 + 30)));
    }

    #[test]
    fn f12_proxy_that_cuts_idle_watches_costs_nothing() {
        let mut health = WatchHealth::default();
        health.listed(at(0));
        for time in (35..3600).step_by(35) {
            assert!(!health.failed(WatchFailure::Interrupted, at(time - 1)));
            assert!(!health.failed(WatchFailure::Cut, at(time)));
            assert!(health.is_fed(at(time)));
        }
    }
}
