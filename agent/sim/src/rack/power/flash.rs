//! An update of firmware of a simulated host.
//!
//! Pure. A host that loses its power, or is reset, while its firmware is written never boots again, and is counted.

use std::time::{Duration, Instant};

/// Percentage at which an update that hangs stands still.
const HANGS_AT: u64 = 40;

/// An update that was begun or scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flash {
    /// When the writing began; `None`: it begins with the next start of the host.
    since: Option<Instant>,
    /// How long it takes; `None`: it hangs.
    takes: Option<Duration>,
}

/// How far an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashState {
    /// It begins with the next start of the host.
    Scheduled,
    /// It is being written, so many percent of it.
    Running(u64),
    /// All of it is written.
    Completed,
}

impl Flash {
    /// One that is written from `now` on; it hangs if it takes no certain time.
    pub(in crate::rack) fn running(now: Instant, takes: Option<Duration>) -> Self {
        Self {
            since: Some(now),
            takes,
        }
    }

    /// One that begins with the next start of the host.
    pub(in crate::rack) fn scheduled(takes: Option<Duration>) -> Self {
        Self { since: None, takes }
    }

    /// The host starts.
    pub(in crate::rack) fn host_starts(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// When it ends; `None`: it has not begun, or hangs.
    pub(in crate::rack) fn ends(&self) -> Option<Instant> {
        self.since?.checked_add(self.takes?)
    }

    pub(in crate::rack) fn state(&self, now: Instant) -> FlashState {
        let Some(since) = self.since else {
            return FlashState::Scheduled;
        };
        match self.takes {
            None => FlashState::Running(HANGS_AT),
            Some(_) if self.ends().is_some_and(|end| end <= now) => FlashState::Completed,
            Some(takes) => {
                let done = now.saturating_duration_since(since).as_millis() * 100;
                let percent = done.checked_div(takes.as_millis()).unwrap_or_default();
                FlashState::Running(u64::try_from(percent).unwrap_or(100).min(99))
            }
        }
    }

    pub(in crate::rack) fn is_running(&self, now: Instant) -> bool {
        matches!(self.state(now), FlashState::Running(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_runs_ends_hangs_or_waits_for_the_start() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let flash = Flash::running(now, Some(s(100)));
        assert_eq!(flash.state(now + s(25)), FlashState::Running(25));
        assert_eq!(flash.state(now + s(100)), FlashState::Completed);
        let hangs = Flash::running(now, None);
        assert_eq!(hangs.state(now + s(90_000)), FlashState::Running(HANGS_AT));
        let mut later = Flash::scheduled(Some(s(10)));
        assert!(!later.is_running(now + s(90_000)));
        later.host_starts(now + s(50));
        assert!(later.is_running(now + s(55)) && !later.is_running(now + s(60)));
    }
}
