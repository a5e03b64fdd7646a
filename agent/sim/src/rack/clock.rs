//! The clock of one host: it runs with the world, or stands still until a test moves it.
//!
//! Pure: the world's time is passed in. Must never go back.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    shown: Instant,
    /// The world's time when `shown` was right; none while the clock stands.
    since: Option<Instant>,
}

impl Clock {
    /// A clock that runs with the world.
    pub fn new(world: Instant) -> Self {
        Self {
            shown: world,
            since: Some(world),
        }
    }

    /// What it shows at this moment of the world.
    pub fn now(&self, world: Instant) -> Instant {
        match self.since {
            Some(since) => self.shown + world.saturating_duration_since(since),
            None => self.shown,
        }
    }

    /// Stops it, or lets it run on from where it stands.
    pub fn stand(&mut self, world: Instant, still: bool) {
        self.shown = self.now(world);
        self.since = (!still).then_some(world);
    }

    /// Moves it forward.
    pub fn forward(&mut self, world: Instant, by: Duration) {
        let running = self.since.is_some();
        self.shown = self.now(world) + by;
        self.since = running.then_some(world);
    }

    /// When the world will be there as this clock shows `at`; none while it stands.
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
        clock.stand(start + second, true);
        assert_eq!(clock.now(start + 9 * second), start + second);
        assert_eq!(clock.world_at(start + 2 * second), None);
        clock.forward(start + 9 * second, 5 * second);
        assert_eq!(clock.now(start + 9 * second), start + 6 * second);
        clock.stand(start + 10 * second, false);
        assert_eq!(clock.now(start + 11 * second), start + 7 * second);
        assert_eq!(
            clock.world_at(start + 8 * second),
            Some(start + 12 * second)
        );
    }
}
