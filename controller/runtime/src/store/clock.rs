//! Clocks that cannot be set and that include suspended time, and the wall clock for people and calendars.

use std::{sync::OnceLock, time::Duration};

use jiff::{SignedDuration, Timestamp};
use nix::time::{ClockId, clock_gettime};
pub(crate) use rackhand_core::values::time::whole_second as to_second;

/// Time since the machine booted, suspended time included (`CLOCK_BOOTTIME`). `Instant` is
/// `CLOCK_MONOTONIC` on Linux, which stands still while a machine is suspended.
pub(crate) fn boottime() -> Duration {
    // Every Linux has this clock, and the call cannot fail otherwise. On a failure every deadline counts as
    // passed, so that a leader stops leading.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

/// The wall clock of the first call, and the time since then, suspended time included. Ages of readings,
/// of Leases and of silence are differences of it, so that a step of the wall clock makes neither an old
/// reading fresh nor a kubelet silent (F1, F5).
pub(crate) fn monotonic_now() -> Timestamp {
    static ORIGIN: OnceLock<(Timestamp, Duration)> = OnceLock::new();
    let (wall, origin) = ORIGIN.get_or_init(|| (Timestamp::now(), boottime()));
    let since = boottime().saturating_sub(*origin);
    wall.checked_add(since).unwrap_or(Timestamp::MAX)
}

/// Sets the origin of [`monotonic_now`]: the start of the process, not the first decision.
pub(crate) fn begin() {
    monotonic_now();
}

/// The wall clock as it is set now: for windows and freezes, and for times that people read. It may step, so it
/// must not be used to compute an age.
pub(crate) fn wall_now() -> Timestamp {
    Timestamp::now()
}

/// How far the wall clock as it is set now is ahead of [`monotonic_now`]. Every time of that clock that leaves the
/// process for people is moved by it.
pub(crate) fn wall_ahead() -> SignedDuration {
    ahead(monotonic_now(), wall_now())
}

/// The difference of two clocks that were read one after the other, in whole seconds: less is the duration of the
/// two readings, and a slow drift must not change what is displayed at every look.
fn ahead(monotonic: Timestamp, wall: Timestamp) -> SignedDuration {
    SignedDuration::from_secs(wall.duration_since(monotonic).as_secs())
}

/// A time in whole seconds, as Kubernetes writes it.
pub(crate) fn whole_seconds(at: Timestamp) -> String {
    to_second(at).to_string()
}

/// Measures the time since its start, suspended time included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    began: Duration,
    clock: fn() -> Duration,
}

// === impl Stopwatch ===

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self::with_clock(boottime)
    }

    fn with_clock(clock: fn() -> Duration) -> Self {
        Self {
            began: clock(),
            clock,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        (self.clock)().saturating_sub(self.began)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use rackhand_core::checks::handover::{Handover, HandoverStep};

    use super::*;

    #[test]
    fn f13_suspension_after_live_read_requires_another_live_read() {
        static SECONDS: AtomicU64 = AtomicU64::new(1000);
        let time = Stopwatch::with_clock(|| Duration::from_secs(SECONDS.load(Ordering::Relaxed)));
        let (mut handover, member) = (Handover::default(), Arc::from("m"));
        assert!(!handover.request(&member, time.elapsed()));
        assert_eq!(handover.step(false, time.elapsed()), HandoverStep::Read);
        handover.finish_read(Ok(()), time.elapsed());
        assert!(handover.request(&member, time.elapsed()));
        SECONDS.fetch_add(60, Ordering::Relaxed);
        assert!(!handover.request(&member, time.elapsed()));
    }

    #[test]
    fn f13_stopwatch_counts_suspended_time() {
        let time = Stopwatch::start();
        let (before, elapsed, after) = (boottime(), time.elapsed(), boottime());
        assert!(before <= time.began + elapsed && time.began + elapsed <= after);
    }

    #[test]
    fn f7_leader_clock_counts_suspended_time() {
        // The kernel's uptime includes suspended time.
        let read = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            Duration::from_secs_f64(seconds)
        };
        let (before, now, after) = (read(), boottime(), read());
        let hundredth = Duration::from_millis(10);
        assert!(
            before <= now + hundredth && now <= after + hundredth,
            "{now:?}"
        );
    }

    #[test]
    fn times_for_people_follow_a_step_of_the_wall_clock() {
        let second = |at| Timestamp::from_second(at).unwrap();
        // The clock was an hour slow when the process started, and was set since.
        let hour = SignedDuration::from_hours(1);
        assert_eq!(ahead(second(100), second(3700)), hour);
        assert_eq!(ahead(second(3700), second(100)), -hour);
        // The duration of the two readings is no step.
        let later = second(100) + Duration::from_millis(999);
        assert_eq!(ahead(second(100), later), SignedDuration::ZERO);
        assert_eq!(ahead(later, second(100)), SignedDuration::ZERO);
    }

    #[test]
    fn f1_remediation_clock_is_monotonic() {
        let looks: Vec<_> = (0..1000).map(|_| monotonic_now()).collect();
        assert!(looks.is_sorted());
    }
}
