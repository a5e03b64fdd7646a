//! Rate limit of the status writes of a check.

use std::time::Duration;

/// Minimum interval of writes of one status, so that a mass failure causes a few writes per second.
const STATUS_PACE: Duration = Duration::from_millis(300);

/// Minimum interval for each object that the status names. etcd stores the whole status after each change, and
/// every watch receives it, so the interval keeps the bytes per second of a mass failure independent of the
/// size of the check.
const STATUS_PACE_PER_NAME: Duration = Duration::from_millis(1);

/// The minimum interval of writes of a status that names this many objects.
fn pace(names: usize) -> Duration {
    let names = u32::try_from(names).unwrap_or(u32::MAX);
    STATUS_PACE.max(STATUS_PACE_PER_NAME.saturating_mul(names))
}

/// The schedule of the status of one check, by a monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusSchedule {
    /// Whether the status may have changed since it was written.
    due: bool,
    writing: bool,
    not_before: Duration,
    failures: u32,
}

// === impl StatusSchedule ===

impl StatusSchedule {
    /// Requests a write. Returns when it may begin, unless a write is already scheduled.
    pub fn request(&mut self) -> Option<Duration> {
        let known = std::mem::replace(&mut self.due, true) || self.writing;
        (!known).then_some(self.not_before)
    }

    /// Begins a write. Returns whether there is anything to write.
    pub fn begin(&mut self) -> bool {
        if !self.due || self.writing {
            return false;
        }
        self.due = false;
        self.writing = true;
        true
    }

    /// Records the end of a write of a status that names this many objects. Returns when the next write may begin,
    /// if one is due.
    pub fn finish(&mut self, written: bool, names: usize, now: Duration) -> Option<Duration> {
        self.writing = false;
        if written {
            self.failures = 0;
            self.not_before = now + pace(names);
        } else {
            let wait = STATUS_PACE.saturating_mul(1 << self.failures.min(7));
            self.failures = self.failures.saturating_add(1);
            self.not_before = now + wait;
            self.due = true;
        }
        self.due.then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn changes_during_status_write_are_written_after_it() {
        let mut pace = StatusSchedule::default();
        assert!(!pace.begin(), "nothing is due");
        assert!(pace.request().is_some());
        assert_eq!(pace.request(), None, "it is known already");
        assert!(pace.begin());
        assert_eq!(pace.request(), None, "after the write");
        assert!(!pace.begin());
        let now = NOW;
        assert_eq!(pace.finish(true, 3, now), Some(now + STATUS_PACE));
        assert!(pace.begin());
        assert_eq!(pace.finish(true, 3, now), None);
    }

    #[test]
    fn status_with_many_names_is_written_less_often() {
        let mut pace = StatusSchedule::default();
        let now = NOW;
        assert!(pace.request().is_some() && pace.begin());
        assert_eq!(pace.finish(true, 5_000, now), None);
        assert_eq!(pace.request(), Some(now + Duration::from_secs(5)));
    }

    #[test]
    fn failed_status_write_is_retried_with_backoff() {
        let mut pace = StatusSchedule::default();
        let now = NOW;
        pace.request();
        let mut waits = Vec::new();
        for _ in 0..3 {
            assert!(pace.begin());
            waits.push(pace.finish(false, 3, now).unwrap() - now);
        }
        assert_eq!(waits, [STATUS_PACE, STATUS_PACE * 2, STATUS_PACE * 4]);
    }
}
