//! A time as the API server writes it.
//!
//! Owns that it is one. Must never be read or written anew where its text will do: of a heartbeat's
//! times nearly all are what they were.

use std::fmt;

use jiff::{Timestamp, civil::Date};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A time, in the text in which Kubernetes writes it: `2026-01-31T23:59:59Z`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct WireTime(String);

impl WireTime {
    /// The time.
    pub(super) fn timestamp(&self) -> Option<Timestamp> {
        self.0.parse().ok()
    }
}

impl From<Time> for WireTime {
    fn from(Time(at): Time) -> Self {
        Self(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

impl<'de> Deserialize<'de> for WireTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text)
    }
}

struct Text;

impl de::Visitor<'_> for Text {
    type Value = WireTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WireTime, E> {
        if is_usual(text.as_bytes()) {
            return Ok(WireTime(text.to_owned()));
        }
        let at: Timestamp = text.parse().map_err(E::custom)?;
        Ok(Time(at).into())
    }
}

/// Whether it is a time in the usual spelling.
fn is_usual(text: &[u8]) -> bool {
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        b'Z',
    ] = *text
    else {
        return false;
    };
    let digit = |d: u8| d.is_ascii_digit().then(|| i16::from(d - b'0'));
    let two = |a: u8, b: u8| Some(digit(a)? * 10 + digit(b)?);
    let below = |value: Option<i16>, limit: i16| value.is_some_and(|v| v < limit);
    let date = || {
        let year = two(y1, y2)? * 100 + two(y3, y4)?;
        let (month, day) = (two(m1, m2)?, two(d1, d2)?);
        Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
    };
    date().is_some() && below(two(h1, h2), 24) && below(two(n1, n2), 60) && below(two(s1, s2), 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_usual_spelling_is_kept_and_others_are_brought_to_it() {
        let read = |text: &str| {
            let time: Result<WireTime, _> = serde_json::from_value(json!(text));
            time.ok().map(|t| t.0)
        };
        for (text, kept) in [
            ("2026-01-31T23:59:59Z", Some("2026-01-31T23:59:59Z")),
            ("2026-01-31T23:59:59.5Z", Some("2026-01-31T23:59:59Z")),
            ("2026-01-31T23:59:59+01:00", Some("2026-01-31T22:59:59Z")),
            ("2026-02-30T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-01T24:00:00Z", None),
            ("", None),
            ("yesterday", None),
        ] {
            assert_eq!(read(text).as_deref(), kept, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_a_time(text in "[0-9]{4}-[0-3][0-9]-[0-4][0-9]T[0-3][0-9]:[0-9]{2}:[0-9]{2}Z") {
            if is_usual(text.as_bytes()) {
                prop_assert!(WireTime(text).timestamp().is_some());
            }
        }

        #[test]
        fn a_time_is_written_as_kubernetes_writes_it(second in -62_000_000_000_i64..250_000_000_000) {
            let at = Time(Timestamp::from_second(second).unwrap());
            let usual = serde_json::to_value(&at).unwrap();
            let time = WireTime::from(at.clone());
            prop_assert_eq!(usual, json!(time.0));
            prop_assert!(is_usual(time.0.as_bytes()));
            prop_assert_eq!(time.timestamp(), Some(at.0));
        }
    }
}
