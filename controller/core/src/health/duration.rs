//! Durations as Go prints them, which is how Cluster API writes them in conditions.

use std::fmt;
use std::time::Duration;

/// A duration that displays like Go's `time.Duration`: `5m0s`, `1h0m0s`, `1.5s`, `20ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GoDuration(pub Duration);

/// Displays `duration` like Go's `time.Duration`.
pub fn go_duration(duration: Duration) -> GoDuration {
    GoDuration(duration)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if secs == 0 {
            return match nanos {
                0 => f.write_str("0s"),
                1..1_000 => write!(f, "{nanos}ns"),
                1_000..1_000_000 => decimal(f, u64::from(nanos / 1_000), nanos % 1_000, 3, "µs"),
                _ => decimal(f, u64::from(nanos / 1_000_000), nanos % 1_000_000, 6, "ms"),
            };
        }
        let (hours, minutes) = (secs / 3600, secs / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        decimal(f, secs % 60, nanos, 9, "s")
    }
}

/// Writes `whole.fraction`, where the fraction has `digits` digits, without trailing zeros.
fn decimal(
    f: &mut fmt::Formatter<'_>,
    whole: u64,
    fraction: u32,
    digits: usize,
    unit: &str,
) -> fmt::Result {
    if fraction == 0 {
        return write!(f, "{whole}{unit}");
    }
    let padded = format!("{fraction:0digits$}");
    write!(f, "{whole}.{}{unit}", padded.trim_end_matches('0'))
}
