//! Time that cannot be set, and that a suspended machine does not lose.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Time since the machine booted, suspended time included (`CLOCK_BOOTTIME`). `Instant` is
/// `CLOCK_MONOTONIC` on Linux, which stands still while a machine is suspended.
pub(crate) fn boottime() -> Duration {
    // Every Linux has this clock, and the call cannot fail otherwise. A failure is the end of time:
    // every deadline has passed then, and whoever led no longer does.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f7_the_clock_is_the_one_that_counts_suspended_time() {
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
}
