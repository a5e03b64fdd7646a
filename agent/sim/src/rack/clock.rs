//! The clock of one host: it follows real time, or is stopped and advanced by a test.
//!
//! Pure: real time is an argument. Must never: go backwards.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    shown: Instant,
    /// Real time at which `shown` was current; `None` while the clock is stopped.
    since: Option<Instant>,
}

impl Clock {
    /// A running clock.
    pub fn new(world: Instant) -> Self {
        Self {
            shown: world,
            since: Some(world),
        }
    }

    /// Time of this clock at real time `world`.
    pub fn now(&self, world: Instant) -> Instant {
        match self.since {
            Some(since) => self.shown + world.saturating_duration_since(since),
            None => self.shown,
        }
    }

    /// Stops or restarts the clock.
    pub fn set_stopped(&mut self, world: Instant, still: bool) {
        self.shown = self.now(world);
        self.since = (!still).then_some(world);
    }

    /// Advances the clock.
    pub fn advance(&mut self, world: Instant, by: Duration) {
        let running = self.since.is_some();
        self.shown = self.now(world) + by;
        self.since = running.then_some(world);
    }

    /// Real time at which the clock will show `at`; `None` while it is stopped.
    pub fn world_at(&self, at: Instant) -> Option<Instant> {
        let since = self.since?;
        Some(since + at.saturating_duration_since(self.shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_stops_advances_and_resumes() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut clock = Clock::new(start);
        assert_eq!(clock.now(start + second), start + second);
        clock.set_stopped(start + second, true);
        assert_eq!(clock.now(start + 9 * second), start + second);
        assert_eq!(clock.world_at(start + 2 * second), None);
        clock.advance(start + 9 * second, 5 * second);
        assert_eq!(clock.now(start + 9 * second), start + 6 * second);
        clock.set_stopped(start + 10 * second, false);
        assert_eq!(clock.now(start + 11 * second), start + 7 * second);
        assert_eq!(
            clock.world_at(start + 8 * second),
            Some(start + 12 * second)
        );
    }
}
