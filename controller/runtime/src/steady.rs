//! The time that a remediation goes by.
//!
//! Owns a clock that cannot be set: the wall clock of the first look, and the time since, suspended time
//! included. Ages of
//! readings, of Leases and of silence are distances on it, so a step of the wall clock makes neither an
//! old reading fresh nor a kubelet silent (F1, F5).

use std::{sync::OnceLock, time::Duration};

use jiff::Timestamp;

use crate::clock::boottime;

/// The time by this process's own clock.
pub(crate) fn now() -> Timestamp {
    static ORIGIN: OnceLock<(Timestamp, Duration)> = OnceLock::new();
    let (wall, origin) = ORIGIN.get_or_init(|| (Timestamp::now(), boottime()));
    let since = boottime().saturating_sub(*origin);
    wall.checked_add(since).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn f1_the_clock_of_a_remediation_never_goes_back() {
        let looks: Vec<_> = (0..1000).map(|_| super::now()).collect();
        assert!(looks.is_sorted());
    }
}
