//! Durations as Go writes them: `"5m0s"`, `"1h2m3.5s"`, `"0"`.
//!
//! Cluster API's and CAPM3's v1beta1 kinds carry durations in this form, and Cluster
//! API writes it into conditions. This module owns reading it exactly as Go's `time.ParseDuration` does and
//! writing it exactly as Go's `Duration.String` does. It must never round.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A span of time with Go's range and forms: nanoseconds in 64 bits, signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    nanoseconds: i64,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not have the form of a duration.
    #[error("is {0:?}, want a duration such as \"300s\" or \"5m0s\"")]
    Malformed(String),
    /// A number in the text has no unit.
    #[error("is {0:?}: a number in it has no unit (ns, us, ms, s, m or h)")]
    MissingUnit(String),
    /// The text has a unit that does not exist.
    #[error("is {text:?}: there is no unit {unit:?}, only ns, us, ms, s, m and h")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unknown unit in it.
        unit: String,
    },
    /// The duration does not fit into 64 bits of nanoseconds (292 years).
    #[error("is {0:?}, which is longer than 292 years")]
    TooLong(String),
    /// The duration is negative where only zero or more makes sense.
    #[error("is {0}, want zero or more")]
    Negative(GoDuration),
}

/// Displays `duration` like Go's `time.Duration`.
pub fn go_duration(duration: Duration) -> GoDuration {
    GoDuration::from(duration)
}

impl GoDuration {
    /// The pattern of a duration of zero or more, for schemas.
    pub const PATTERN: &str = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

    /// A duration of zero.
    pub const ZERO: Self = Self { nanoseconds: 0 };

    /// The number of nanoseconds.
    #[must_use]
    pub const fn nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// Converts the duration to a standard one.
    ///
    /// # Errors
    /// When the duration is negative.
    pub fn to_std(self) -> Result<Duration, DurationError> {
        u64::try_from(self.nanoseconds)
            .map(Duration::from_nanos)
            .map_err(|_| DurationError::Negative(self))
    }
}

/// A standard duration longer than 292 years becomes the longest there is.
impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self {
            nanoseconds: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The length of a unit in nanoseconds. Both spellings of micro (U+00B5 and
/// U+03BC) are in use.
fn unit_length(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(MICROSECOND),
        "ms" => Some(MILLISECOND),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

/// Splits `text` after its leading characters that satisfy `take`.
fn split_while(text: &str, take: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !take(c)).unwrap_or(text.len()))
}

/// The nanoseconds of a number in two parts of digits and the length of its
/// unit; none when 64 bits cannot hold them.
fn scaled(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<u64>().ok()?
    };
    // No unit is longer than 10^13 nanoseconds: digits after the eighteenth
    // cannot make a nanosecond more.
    let mut part = 0_u128;
    let mut scale = 1_u128;
    for digit in fraction.bytes().take(18) {
        part = part * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    let part = u64::try_from(part * u128::from(unit) / scale).ok()?;
    whole.checked_mul(unit)?.checked_add(part)
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let too_long = || DurationError::TooLong(text.to_owned());
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        // Zero alone needs no unit.
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (whole, after_whole) = split_while(rest, |c| c.is_ascii_digit());
            let (fraction, after_number) = match after_whole.strip_prefix('.') {
                Some(after_dot) => split_while(after_dot, |c| c.is_ascii_digit()),
                None => ("", after_whole),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(malformed());
            }
            let (unit, after_unit) = split_while(after_number, |c| c != '.' && !c.is_ascii_digit());
            if unit.is_empty() {
                return Err(DurationError::MissingUnit(text.to_owned()));
            }
            let length = unit_length(unit).ok_or_else(|| DurationError::UnknownUnit {
                text: text.to_owned(),
                unit: unit.to_owned(),
            })?;
            let part = scaled(whole, fraction, length).ok_or_else(too_long)?;
            total = total.checked_add(part).ok_or_else(too_long)?;
            rest = after_unit;
        }
        let nanoseconds = if negative {
            // The most negative value has no positive counterpart.
            0_i64.checked_sub_unsigned(total)
        } else {
            i64::try_from(total).ok()
        };
        nanoseconds
            .map(|nanoseconds| Self { nanoseconds })
            .ok_or_else(too_long)
    }
}

/// Writes `count` of a unit of `unit` nanoseconds with its fraction, without
/// the zeros at its end.
fn write_fraction(f: &mut fmt::Formatter<'_>, count: u64, unit: u64) -> fmt::Result {
    write!(f, "{}", count / unit)?;
    let mut fraction = count % unit;
    if fraction == 0 {
        return Ok(());
    }
    f.write_str(".")?;
    let mut place = unit / 10;
    while fraction > 0 {
        write!(f, "{}", fraction / place)?;
        fraction %= place;
        place /= 10;
    }
    Ok(())
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.nanoseconds.unsigned_abs();
        if length == 0 {
            return f.write_str("0s");
        }
        if self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let (unit, name) = match length {
            0..MICROSECOND => (1, "ns"),
            MICROSECOND..MILLISECOND => (MICROSECOND, "\u{b5}s"),
            MILLISECOND..SECOND => (MILLISECOND, "ms"),
            _ => (SECOND, "s"),
        };
        if length >= HOUR {
            write!(f, "{}h", length / HOUR)?;
        }
        if length >= MINUTE {
            write!(f, "{}m", length % HOUR / MINUTE)?;
        }
        write_fraction(f, length % MINUTE, unit)?;
        f.write_str(name)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// A string of a form that CEL's `duration()` can read; below zero has no
/// place in any kind. The length bounds the cost of rules about it.
impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("GoDuration")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 64,
            "pattern": Self::PATTERN,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nanoseconds(text: &str) -> i64 {
        text.parse::<GoDuration>().unwrap().nanoseconds()
    }

    #[test]
    fn go_duration_forms_are_parsed() {
        for (text, seconds) in [
            ("0", 0.0),
            ("-0", 0.0),
            ("0m", 0.0),
            ("300s", 300.0),
            ("5m0s", 300.0),
            ("+5s", 5.0),
            ("-5s", -5.0),
            ("1.5h", 5400.0),
            ("1h2m3.5s", 3723.5),
            (".5s", 0.5),
            ("5.s", 5.0),
            ("100ms", 0.1),
            ("1s1s", 2.0),
            ("0.100000000000000000000h", 360.0),
        ] {
            #[expect(clippy::cast_precision_loss, reason = "short spans are exact")]
            let read = nanoseconds(text) as f64 / 1e9;
            assert!((read - seconds).abs() < 1e-9, "{text}: {read}");
        }
        assert_eq!(nanoseconds("12\u{b5}s"), 12_000);
        assert_eq!(nanoseconds("12\u{3bc}s"), 12_000);
        assert_eq!(nanoseconds("9223372036854775807ns"), i64::MAX);
        assert_eq!(nanoseconds("-9223372036854775808ns"), i64::MIN);
        assert_eq!(nanoseconds("0.9223372036854775807h"), 3_320_413_933_267);
    }

    #[test]
    fn forms_that_go_rejects_are_rejected() {
        for text in [
            "",
            "-",
            "+",
            "3",
            "10",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "1d",
            "5 s",
            " 5s",
            "5s ",
            "1h-5m",
            "--5s",
            "1e3s",
            "5S",
            "9223372036854775808ns",
            "3000000h",
            "99999999999999999999s",
        ] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }

    #[test]
    fn errors_quote_the_parsed_text() {
        let error = |text: &str| text.parse::<GoDuration>().unwrap_err().to_string();
        assert_eq!(
            error("10"),
            "is \"10\": a number in it has no unit (ns, us, ms, s, m or h)"
        );
        assert_eq!(
            error("2d"),
            "is \"2d\": there is no unit \"d\", only ns, us, ms, s, m and h"
        );
        let negative = "-5s".parse::<GoDuration>().unwrap();
        assert_eq!(
            negative.to_std().unwrap_err().to_string(),
            "is -5s, want zero or more"
        );
    }

    #[test]
    fn durations_print_like_go() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (10_000_000_000, "10s"),
            (300_000_000_000, "5m0s"),
            (245_001_000_000, "4m5.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (-1_500_000_000, "-1.5s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration { nanoseconds }.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn printed_duration_parses_back(nanoseconds: i64) {
            let duration = GoDuration { nanoseconds };
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn printed_short_duration_parses_back(nanoseconds in -10_000_000_000_i64..10_000_000_000) {
            let duration = GoDuration { nanoseconds };
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn duration_is_the_sum_of_its_parts(h in 0..1000_i64, m in 0..1000_i64, s in 0..1000_i64, ms in 0..1000_i64) {
            let text = format!("{h}h{m}m{s}.{ms:03}s");
            let want = ((h * 60 + m) * 60 + s) * 1_000_000_000 + ms * 1_000_000;
            prop_assert_eq!(nanoseconds(&text), want);
        }

        #[test]
        fn parsing_never_panics(text in "[-+.0-9nuµmsh ]{0,24}") {
            if let Ok(duration) = text.parse::<GoDuration>() {
                prop_assert_eq!(duration.to_string().parse(), Ok(duration));
            }
        }
    }
}
