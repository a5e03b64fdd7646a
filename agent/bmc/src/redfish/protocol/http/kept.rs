//! Whether a read shares its connection with the next one.
//!
//! Pure; times are of one clock of the caller. A connection of its own for each read costs a TLS handshake, which is
//! most of what a reading costs. But some web servers of BMCs reset a connection that is used again, or leave it
//! silent, so a BMC that does is given one for each read again.

use std::time::Duration;

use crate::redfish::KeepAlive;

/// A connection that was idle for longer is not used again: the BMC, or a firewall, may have forgotten it.
pub(super) const IDLE: Duration = Duration::from_secs(30);
/// How long each read has a connection of its own after the first failure of a kept one.
const FIRST_PAUSE: Duration = Duration::from_secs(3600);
/// The same at most; each further failure doubles it.
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);
/// Failures of reads that a new connection mended, after which each read has a connection of its own.
const DOUBTS: u32 = 2;
/// Reads over kept connections in a row after which a failure is the first one again: the BMC was restarted.
const PROVEN: u32 = 1000;

/// What is known of a BMC that keeps connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    mode: KeepAlive,
    /// Each read has a connection of its own until then.
    alone_until: Duration,
    failures: u32,
    /// Reads that failed over a connection that was used before, and did not over a new one.
    doubts: u32,
    /// Whether the BMC refused a password over a connection that was used before. If it accepts it over the next one, the
    /// connection was the reason.
    is_refused: bool,
    /// Reads over kept connections since the last failure.
    reads: u32,
    /// When a connection was used last that may still be open.
    used: Option<Duration>,
}

impl Kept {
    pub(super) fn new(mode: KeepAlive) -> Self {
        Self {
            mode,
            alone_until: Duration::ZERO,
            failures: 0,
            doubts: 0,
            is_refused: false,
            reads: 0,
            used: None,
        }
    }

    /// Whether a read at `now` leaves its connection open.
    pub(super) fn keeps(&self, now: Duration) -> bool {
        match self.mode {
            KeepAlive::Never => false,
            KeepAlive::Always => true,
            KeepAlive::Auto => now >= self.alone_until,
        }
    }

    /// Whether a read at `now` may go over a connection that was used before, and is repeated over a new one if that
    /// is broken or silent: the BMC may have restarted, or a firewall forgotten it, and nobody has said so.
    pub(super) fn may_be_used_again(&self, now: Duration) -> bool {
        let is_open = |used| now.saturating_sub(used) <= IDLE;
        self.keeps(now) && self.used.is_some_and(is_open)
    }

    /// Records an answer over a connection that is left open.
    pub(super) fn answered(&mut self, now: Duration) {
        self.used = Some(now);
        self.reads = self.reads.saturating_add(1);
        if self.reads >= PROVEN {
            (self.failures, self.doubts) = (0, 0);
        }
    }

    /// Records that a password was refused over a connection that was used before.
    pub(super) fn refused(&mut self) {
        self.is_refused = true;
    }

    /// Records that a document was read over a connection that is left open.
    pub(super) fn accepted(&mut self, now: Duration) {
        if self.is_refused {
            self.failed(now);
        }
    }

    /// Records that a read failed over a connection that was used before, and did not over a new one. The second time it
    /// is no accident.
    pub(super) fn doubted(&mut self, now: Duration) {
        self.doubts = self.doubts.saturating_add(1);
        if self.doubts >= DOUBTS || self.failures > 0 {
            self.failed(now);
        }
    }

    /// Records that a connection that was used before did not carry another read.
    pub(super) fn failed(&mut self, now: Duration) {
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        self.alone_until = now.saturating_add(pause);
        self.failures = self.failures.saturating_add(1);
        (self.reads, self.used) = (0, None);
        (self.doubts, self.is_refused) = (0, false);
    }

    /// Whether the connection is closed before a command, so that the BMC has one at a time.
    pub(super) fn closes_for_commands(&self) -> bool {
        self.mode == KeepAlive::Auto
    }

    /// Records that the connection was closed.
    pub(super) fn closed(&mut self) {
        self.used = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn connection_is_used_again_while_it_is_young() {
        let mut kept = Kept::new(KeepAlive::Auto);
        assert!(kept.keeps(s(0)) && !kept.may_be_used_again(s(0)));
        kept.answered(s(1));
        assert!(kept.may_be_used_again(s(31)) && !kept.may_be_used_again(s(32)));
        kept.closed();
        assert!(kept.keeps(s(2)) && !kept.may_be_used_again(s(2)));
    }

    #[test]
    fn bmc_that_breaks_kept_connections_has_one_for_each_read_for_longer_each_time() {
        let mut kept = Kept::new(KeepAlive::Auto);
        let mut now = s(0);
        for hours in [1, 2, 4, 8, 16, 24, 24] {
            kept.answered(now);
            kept.failed(now);
            let end = now + s(hours * 3600);
            assert!(!kept.keeps(end - s(1)) && kept.keeps(end), "{hours}");
            assert!(!kept.may_be_used_again(end));
            now = end;
        }
        for _ in 0..PROVEN {
            kept.answered(now);
        }
        kept.failed(now);
        assert!(kept.keeps(now + FIRST_PAUSE), "it was a restart of the BMC");
    }

    #[test]
    fn second_read_that_a_new_connection_mends_ends_kept_ones() {
        let mut kept = Kept::new(KeepAlive::Auto);
        kept.doubted(s(1));
        assert!(kept.keeps(s(1)), "it may be an accident");
        kept.doubted(s(2));
        assert!(!kept.keeps(s(2)));
        let later = s(2) + FIRST_PAUSE;
        assert!(kept.keeps(later));
        kept.doubted(later);
        assert!(!kept.keeps(later), "nothing has changed");
    }

    #[test]
    fn password_that_the_next_connection_accepts_was_refused_because_of_the_connection() {
        let mut kept = Kept::new(KeepAlive::Auto);
        kept.accepted(s(1));
        assert!(kept.keeps(s(1)));
        kept.refused();
        assert!(kept.keeps(s(2)), "it may have been changed");
        kept.accepted(s(3));
        assert!(!kept.keeps(s(3)));
    }

    #[test]
    fn setting_of_the_operator_is_kept_whatever_the_bmc_does() {
        for (mode, keeps) in [(KeepAlive::Always, true), (KeepAlive::Never, false)] {
            let mut kept = Kept::new(mode);
            kept.answered(s(1));
            // A connection that is kept may be dead all the same, so that a read gives it up if it is silent.
            assert_eq!(kept.may_be_used_again(s(1)), keeps);
            kept.failed(s(1));
            assert_eq!(kept.keeps(s(1)), keeps);
            assert!(!kept.may_be_used_again(s(1)) && !kept.closes_for_commands());
        }
    }
}
