//! How often one host was remediated, and the event that its log has in common each time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display, Formatter},
};

use jiff::{SignedDuration, Timestamp};

use crate::remediation::{LogRecord, Severity};

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
        .filter(|other| is_recent(*other, at))
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

/// Whether a remediation that began at `other` counts for one that began at `at`: it is of the thirty days
/// before.
pub fn is_recent(other: Timestamp, at: Timestamp) -> bool {
    other <= at && at.duration_since(other) <= WINDOW
}

/// What the event log of a host contained in one remediation.
pub type SeenEvents<'a> = &'a [LogRecord];

/// An event in the logs of a host.
struct Event {
    /// Number of the remediations in whose logs it is.
    times: usize,
    severity: Severity,
    /// The most entries in one log.
    count: u32,
    latest: BTreeSet<Option<Timestamp>>,
}

impl Event {
    /// Whether it has happened more than once. The log goes on from one remediation to the next, so that one
    /// entry is in the logs of several.
    fn recurs(&self) -> bool {
        self.times >= 2 && (self.count >= 2 || self.latest.len() >= 2)
    }
}

/// The event, warning or worse, that has recurred and is in the logs of most of these remediations of one
/// host, such as `Correctable ECC (DIMM A3), 37 entries`; of several the most severe, then the most frequent
/// one. `None` if none is in the logs of at least two.
pub fn suspect(remediations: &[SeenEvents<'_>]) -> Option<String> {
    let mut events: BTreeMap<(&str, &str), Event> = BTreeMap::new();
    for records in remediations {
        let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
        for record in records.iter().filter(|r| r.severity > Severity::Ok) {
            let name = (record.message.as_str(), record.sensor.as_str());
            let event = events.entry(name).or_insert_with(|| Event {
                times: 0,
                severity: record.severity,
                count: 0,
                latest: BTreeSet::new(),
            });
            event.times += usize::from(seen.insert(name));
            event.severity = event.severity.max(record.severity);
            event.count = event.count.max(record.count);
            event.latest.insert(record.at);
        }
    }
    let recurring = events.into_iter().filter(|(_, event)| event.recurs());
    let ((message, sensor), Event { count, .. }) =
        recurring.max_by_key(|(_, event)| (event.times, event.severity, event.count))?;
    let about = match sensor {
        "" => String::new(),
        sensor if message.contains(sensor) => String::new(),
        sensor => format!(" ({sensor})"),
    };
    let entries = if count == 1 { "entry" } else { "entries" };
    Some(format!("{message}{about}, {count} {entries}"))
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

    fn record(severity: Severity, message: &str, sensor: &str, count: u32) -> LogRecord {
        LogRecord {
            at: None,
            severity,
            sensor: sensor.into(),
            message: message.into(),
            count,
        }
    }

    #[test]
    fn the_event_that_most_logs_have_in_common_is_the_suspect() {
        let ecc = |count| record(Severity::Warning, "Correctable ECC", "DIMM A3", count);
        let login = record(Severity::Ok, "User logged in", "", 40);
        let mce = record(Severity::Critical, "CPU machine check", "", 1);
        let logs = [
            vec![ecc(30), login.clone()],
            vec![ecc(37), login.clone(), mce.clone()],
            vec![login],
            vec![ecc(12)],
        ];
        let seen: Vec<SeenEvents<'_>> = logs.iter().map(Vec::as_slice).collect();
        let text = suspect(&seen);
        assert_eq!(
            text.as_deref(),
            Some("Correctable ECC (DIMM A3), 37 entries")
        );
        assert_eq!(suspect(&seen[1..3]), None);
        assert_eq!(suspect(&[]), None);
        // The same entry is in both logs, and no news.
        let mut severe = [vec![ecc(9), mce.clone()], vec![ecc(9), mce]];
        let of = |logs: &[Vec<LogRecord>]| {
            let seen: Vec<SeenEvents<'_>> = logs.iter().map(Vec::as_slice).collect();
            suspect(&seen)
        };
        let ecc = Some("Correctable ECC (DIMM A3), 9 entries");
        assert_eq!(of(&severe).as_deref(), ecc);
        severe[1][1].at = Some(days(&[3])[0]);
        assert_eq!(of(&severe).as_deref(), Some("CPU machine check, 1 entry"));
    }
}
