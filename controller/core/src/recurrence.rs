//! How often one host was remediated.

use std::fmt::{self, Display, Formatter};

use jiff::{SignedDuration, Timestamp};

/// Remediations of one host within a number of days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrence {
    /// Number of remediations, at least two.
    pub count: usize,
    /// Days from the first one until the end of the period, rounded up; at least one.
    pub days: i64,
}

/// Days that count for one remediation: what is longer ago does not make a host a repeated offender.
const WINDOW: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Counts the remediations that began at these times, until `end`; `None` for fewer than two.
pub fn recurrence(times: &[Timestamp], end: Timestamp) -> Option<Recurrence> {
    let earlier = times.iter().copied().filter(|at| *at <= end);
    let (count, first) = (earlier.clone().count(), earlier.min()?);
    let seconds = end.duration_since(first).as_secs();
    let days = seconds.div_euclid(86_400) + i64::from(seconds.rem_euclid(86_400) > 0);
    (count >= 2).then_some(Recurrence {
        count,
        days: days.max(1),
    })
}

/// Which remediation of its host within 30 days the one is that began at `at`, such as `4th in 9 days`.
pub fn ordinal(times: &[Timestamp], at: Timestamp) -> Option<String> {
    let recent: Vec<Timestamp> = times
        .iter()
        .copied()
        .filter(|other| at.duration_since(*other) <= WINDOW)
        .collect();
    let Recurrence { count, days } = recurrence(&recent, at)?;
    let suffix = match (count % 10, count % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    Some(format!("{count}{suffix} in {}", in_days(days)))
}

fn in_days(days: i64) -> String {
    match days {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

impl Display for Recurrence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} remediations in {}", self.count, in_days(self.days))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: &[i64]) -> Vec<Timestamp> {
        let at = |day: &i64| Timestamp::from_second(day * 86_400).unwrap();
        days.iter().map(at).collect()
    }

    #[test]
    fn remediations_are_counted_from_the_first_until_the_end() {
        let end = days(&[9])[0];
        let of = |list: &[i64]| recurrence(&days(list), end).map(|r| r.to_string());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[8]), None);
        assert_eq!(of(&[8, 10]), None);
        assert_eq!(of(&[9, 9]).as_deref(), Some("2 remediations in 1 day"));
        assert_eq!(
            of(&[5, 0, 8, 2]).as_deref(),
            Some("4 remediations in 9 days")
        );
    }

    #[test]
    fn one_remediation_is_numbered_among_those_of_the_thirty_days_before() {
        let times = days(&[0, 50, 55, 56, 59, 70]);
        let of = |day: i64| ordinal(&times, days(&[day])[0]);
        assert_eq!(of(0), None);
        assert_eq!(of(50), None);
        assert_eq!(of(55).as_deref(), Some("2nd in 5 days"));
        assert_eq!(of(56).as_deref(), Some("3rd in 6 days"));
        assert_eq!(of(59).as_deref(), Some("4th in 9 days"));
        let many: Vec<i64> = (0..12).collect();
        let eleventh = ordinal(&days(&many), days(&[10])[0]);
        assert_eq!(eleventh.as_deref(), Some("11th in 10 days"));
    }
}
