//! Time spans for people, in the forms that the command line, the status page and messages use.

use std::time::Duration;

use jiff::Timestamp;

/// Formats a time span like `45s`, `3m12s` or `2h05m`.
pub fn time_span(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..=59 => format!("{s}s"),
        60..=3599 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
    }
}

/// A duration in its largest whole unit, like `90 seconds` or `2 hours`.
pub(crate) fn whole_units(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let (count, unit) = units
        .into_iter()
        .find(|(length, _)| seconds >= *length && seconds.is_multiple_of(*length))
        .map_or((seconds, "second"), |(length, unit)| {
            (seconds / length, unit)
        });
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// How long ago a time was.
pub fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_span_prints_at_most_two_units() {
        let s = |n| time_span(Duration::from_secs(n));
        assert_eq!(
            (s(5), s(65), s(3600 * 2 + 60)),
            ("5s".into(), "1m05s".into(), "2h01m".into())
        );
    }
}
