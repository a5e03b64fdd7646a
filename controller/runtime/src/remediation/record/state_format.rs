//! The stored form of a state, with its format.
//!
//! A controller of another version may read it. One that knows fewer steps or reasons must not guess what
//! was done, so it refuses a format that it does not know, before it reads anything else.

use std::borrow::Cow;

use rackhand_core::remediation::State;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The format that is written, and the newest that is read. It grows when an earlier version would act
/// wrongly on a state that it can parse; a field that it may ignore does not count.
const FORMAT: u64 = 1;
/// The field of the format.
const FIELD: &str = "format";

/// Why a stored state is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    /// A later version wrote it.
    #[error(
        "a newer version of rackhand-controller wrote it (format {found}; this version reads up to \
         {FORMAT}): run that version again; nothing is done about this remediation before that"
    )]
    Newer { found: Value },
    /// It cannot be parsed.
    #[error(
        "{0}; make sure that the host is on and the node carries no out-of-service taint, then remove \
         the finalizer and delete the object"
    )]
    Malformed(#[from] serde_json::Error),
}

/// The stored form.
///
/// # Errors
/// It cannot be serialized.
pub(super) fn encode(state: &State) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(state)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert(FIELD.to_owned(), FORMAT.into());
    }
    Ok(value)
}

/// The stored form as it is written; the index keeps it as text.
///
/// # Errors
/// The text is none of a stored form.
pub(super) fn as_written(stored: &Value) -> Result<Cow<'_, Value>, serde_json::Error> {
    match stored {
        Value::String(text) => serde_json::from_str(text).map(Cow::Owned),
        tree => Ok(Cow::Borrowed(tree)),
    }
}

/// Whether there is a stored form.
pub(super) fn is_stored(stored: Option<&Value>) -> bool {
    stored.is_some_and(|stored| !stored.is_null())
}

/// The format alone; everything else may be of a newer one.
#[derive(Deserialize)]
struct Format {
    // `null` is a format that is not known.
    #[serde(default, deserialize_with = "present")]
    format: Option<Value>,
}

fn present<'de, D: Deserializer<'de>>(format: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(format).map(Some)
}

/// The state of a stored form, or of its text; `None` if there is none.
///
/// # Errors
/// It is of a newer format, or cannot be parsed.
pub(super) fn decode(stored: Option<&Value>) -> Result<Option<State>, StateError> {
    let Some(stored) = stored.filter(|_| is_stored(stored)) else {
        return Ok(None);
    };
    // The text is read without a tree of it: each iteration of a remediation does so.
    let (format, text) = match stored {
        Value::String(text) => (serde_json::from_str(text), Some(text)),
        tree => (Format::deserialize(tree), None),
    };
    let Format { format } = format?;
    if let Some(found) = format.filter(|f| f.as_u64().is_none_or(|found| found > FORMAT)) {
        return Err(StateError::Newer { found });
    }
    let state = match text {
        Some(text) => serde_json::from_str(text)?,
        None => State::deserialize(stored)?,
    };
    Ok(Some(state))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_is_read_back() {
        let state = State::new(Timestamp::UNIX_EPOCH);
        let mut stored = encode(&state).unwrap();
        assert_eq!(stored["format"], 1);
        assert_eq!(decode(Some(&stored)).unwrap().as_ref(), Some(&state));
        stored["addedByALaterMinorVersion"] = json!(["x"]);
        assert_eq!(decode(Some(&stored)).unwrap().as_ref(), Some(&state));
        let text = Value::String(stored.to_string());
        assert_eq!(decode(Some(&text)).unwrap().as_ref(), Some(&state));
        assert_eq!(*as_written(&text).unwrap(), stored);
        assert!(decode(None).unwrap().is_none() && decode(Some(&Value::Null)).unwrap().is_none());
    }

    #[test]
    fn f8_a_newer_format_is_refused_whatever_else_stands_there() {
        let mut stored = encode(&State::new(Timestamp::UNIX_EPOCH)).unwrap();
        for format in [json!(2), json!("1"), json!(-1), json!(null)] {
            stored["format"] = format.clone();
            let error = decode(Some(&stored)).unwrap_err();
            assert!(
                matches!(error, StateError::Newer { .. }),
                "{format}: {error}"
            );
            assert!(
                error.to_string().contains("run that version again"),
                "{error}"
            );
            let error = decode(Some(&Value::String(stored.to_string())));
            assert!(matches!(error, Err(StateError::Newer { .. })), "{format}");
        }
        let garbage = decode(Some(&json!("Holding")));
        assert!(matches!(garbage, Err(StateError::Malformed(_))));
        let unknown = json!({ "format": 2, "step": "Levitating" });
        assert!(matches!(
            decode(Some(&unknown)),
            Err(StateError::Newer { .. })
        ));
        let damaged = json!({ "step": "Levitating" });
        assert!(matches!(
            decode(Some(&damaged)),
            Err(StateError::Malformed(_))
        ));
    }
}
