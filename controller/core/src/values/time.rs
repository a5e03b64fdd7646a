//! Times as people read them.

use jiff::{Timestamp, Unit};

/// A time in whole seconds, as Kubernetes writes it: a fraction makes a column wider, and tells nobody anything.
#[must_use]
pub fn whole_second(at: Timestamp) -> Timestamp {
    at.round(Unit::Second).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_people_has_no_fraction() {
        let at: Timestamp = "2026-03-01T10:00:00.123456789Z".parse().unwrap();
        assert_eq!(whole_second(at).to_string(), "2026-03-01T10:00:00Z");
        assert_eq!(whole_second(Timestamp::MAX), Timestamp::MAX);
    }
}
