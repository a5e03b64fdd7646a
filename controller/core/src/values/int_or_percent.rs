//! A number of Machines or Nodes, or a percentage of them: `3` or `"40%"`.
//!
//! Owns parsing such a value, and the number that a percentage of a total is.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// An integer, or a percentage of a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntOrPercent {
    /// A plain integer, which may be larger than the total or negative.
    Int(i32),
    /// A percentage of the total.
    Percent(i32),
}

/// Why a value is neither an integer nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is {0}, want an integer or a percentage in quotes such as \"40%\"")]
pub struct IntOrPercentError(String);

impl IntOrPercent {
    /// Reads a JSON value. A quoted plain integer is refused, as Kubernetes'
    /// own reader refuses it.
    ///
    /// # Errors
    /// When the value is neither an integer of 32 bits nor a string `"N%"`.
    pub fn from_json(value: &Value) -> Result<Self, IntOrPercentError> {
        match value {
            Value::Number(number) => number
                .as_i64()
                .and_then(|wide| i32::try_from(wide).ok())
                .map(Self::Int)
                .ok_or_else(|| IntOrPercentError(number.to_string())),
            Value::String(text) => text.parse(),
            other => Err(IntOrPercentError(other.to_string())),
        }
    }

    /// A negative percentage as -1: it never allows a remediation, like a negative count.
    #[must_use]
    pub fn without_negative_percentage(self) -> Self {
        match self {
            Self::Percent(..0) => Self::Int(-1),
            other => other,
        }
    }

    /// The number of machines for a fleet of `expected`. A percentage is rounded down: 40% of 6 is 2, of 2
    /// it is 0 (docs/reference/cluster-api.md, The limit).
    pub fn of(self, expected: u32) -> i64 {
        match self.without_negative_percentage() {
            Self::Int(count) => i64::from(count),
            Self::Percent(share) => i64::from(expected) * i64::from(share) / 100,
        }
    }

    /// The number for a fleet of `expected`, with a percentage rounded up; a negative number is 0.
    pub(crate) fn rounded_up(self, expected: u32) -> u64 {
        match self {
            Self::Int(count) => u64::try_from(count).unwrap_or(0),
            Self::Percent(share) => {
                (u64::from(expected) * u64::try_from(share).unwrap_or(0)).div_ceil(100)
            }
        }
    }

    /// The JSON form: a number, or a string with a per cent sign.
    #[must_use]
    pub fn to_json(self) -> Value {
        match self {
            Self::Int(count) => Value::from(count),
            Self::Percent(_) => Value::from(self.to_string()),
        }
    }
}

/// Reads the string form, which is always a percentage.
impl FromStr for IntOrPercent {
    type Err = IntOrPercentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_suffix('%')
            .and_then(|digits| digits.parse().ok())
            .map(Self::Percent)
            .ok_or_else(|| IntOrPercentError(format!("{text:?}")))
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn integer_and_percentage_are_parsed() {
        assert_eq!(IntOrPercent::from_json(&json!(3)), Ok(IntOrPercent::Int(3)));
        assert_eq!(
            IntOrPercent::from_json(&json!(-1)),
            Ok(IntOrPercent::Int(-1))
        );
        assert_eq!(
            IntOrPercent::from_json(&json!("100%")),
            Ok(IntOrPercent::Percent(100))
        );
        assert_eq!(
            IntOrPercent::from_json(&json!("+40%")),
            Ok(IntOrPercent::Percent(40))
        );
    }

    #[test]
    fn values_that_kubernetes_rejects_are_rejected() {
        for bad in [
            json!("3"),
            json!(""),
            json!("%"),
            json!("40 %"),
            json!(" 40%"),
            json!("40.5%"),
            json!("40%%"),
            json!("forty%"),
            json!(1.5),
            json!(5_000_000_000_i64),
            json!(true),
            json!(["40%"]),
        ] {
            assert!(IntOrPercent::from_json(&bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn json_form_parses_back(percent: bool, number: i32) {
            let value = if percent { IntOrPercent::Percent(number) } else { IntOrPercent::Int(number) };
            prop_assert_eq!(IntOrPercent::from_json(&value.to_json()), Ok(value));
        }
    }
}
