//! Messages of a BMC: `error`, `@Message.ExtendedInfo` and the messages of a task.
//!
//! Owns: parsing them (Redfish DSP0266, clause 8.6, "Error responses"). Must never: trust their
//! size, shape or characters.

use serde_json::Value;

use super::document;
use crate::{
    PowerState,
    redfish::vendor::{self, Meaning},
};

/// Maximum number of messages kept; some BMCs add one for each property.
const MAX_MESSAGES: usize = 8;

/// Maximum number of arguments kept of a message.
const MAX_ARGS: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redfish) struct Message {
    /// MessageId; may be empty.
    pub(in crate::redfish) id: String,
    /// `MessageArgs`.
    pub(in crate::redfish) args: Vec<String>,
    /// Message text; may be empty.
    pub(in crate::redfish) text: String,
    /// Meaning, as classified by the vendor table.
    pub(in crate::redfish) meaning: Meaning,
    /// Whether `Severity` or `MessageSeverity` is `Critical`.
    pub(super) critical: bool,
}

/// All messages in the body of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Messages(pub(in crate::redfish) Vec<Message>);

impl Messages {
    /// Finds messages in all places that BMCs use; empty for a document without messages.
    pub(in crate::redfish) fn of(body: &Value) -> Self {
        let error = body.get("error");
        let mut messages: Vec<Message> = [
            error.and_then(|error| error.get("@Message.ExtendedInfo")),
            body.get("@Message.ExtendedInfo"),
            body.get("Messages"),
        ]
        .into_iter()
        .flatten()
        .flat_map(items)
        .filter_map(message)
        .take(MAX_MESSAGES)
        .collect();
        if messages.is_empty() {
            // `code` only refers to the extended information, if there is any.
            messages.extend(error.and_then(|error| match error {
                Value::String(text) => {
                    Some(plain(String::new(), document::cut(text).to_owned(), false))
                }
                _ => message(error),
            }));
        }
        Self(messages)
    }

    /// Whether one of the messages has this meaning.
    pub(in crate::redfish) fn has(&self, meaning: Meaning) -> bool {
        self.0.iter().any(|message| message.meaning == meaning)
    }

    /// Whether one of the messages reports that the host is in this state already, and none another reason.
    pub(crate) fn mean_already(&self, state: PowerState) -> bool {
        let is_other = [Meaning::NotReady, Meaning::Unsupported, Meaning::Privilege]
            .iter()
            .any(|meaning| self.has(*meaning));
        let mut messages = self.0.iter();
        !is_other && messages.any(|message| vendor::is_already(&message.id, &message.args, state))
    }

    /// Whether the body contradicts its success status: it has a critical message, and none of
    /// success. iLO sends `Base.x.Success` inside an `error` object.
    pub(crate) fn contradict_success(&self) -> bool {
        !self.has(Meaning::Success) && self.0.iter().any(|message| message.critical)
    }

    /// All messages as one text.
    pub(in crate::redfish) fn text(&self) -> String {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(
                |message| match (message.id.as_str(), message.text.as_str()) {
                    ("", text) => text.to_owned(),
                    (id, "") => id.to_owned(),
                    (id, text) => format!("{text} ({id})"),
                },
            )
            .collect();
        parts.join("; ")
    }
}

/// The items of an array, or a single object in its place.
fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Object(_) | Value::String(_) => std::slice::from_ref(value),
        _ => &[],
    }
}

fn message(value: &Value) -> Option<Message> {
    let text = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| value.get(name).and_then(Value::as_str))
            .map(document::cut)
            .unwrap_or_default()
            .to_owned()
    };
    if let Value::String(text) = value {
        return Some(plain(String::new(), document::cut(text).to_owned(), false));
    }
    let id = text(&["MessageId", "MessageID", "code"]);
    let words = text(&["Message", "message"]);
    let severity = text(&["MessageSeverity", "Severity"]);
    let args = value.get("MessageArgs").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    let args = args.take(MAX_ARGS).map(document::cut);
    let args = args.map(str::to_owned).collect();
    (!id.is_empty() || !words.is_empty()).then(|| Message {
        args,
        ..plain(id, words, severity.eq_ignore_ascii_case("critical"))
    })
}

fn plain(id: String, text: String, critical: bool) -> Message {
    let meaning = vendor::meaning(&id);
    Message {
        id,
        args: Vec::new(),
        text,
        meaning,
        critical,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extended_info_is_parsed_with_its_causes() {
        let messages = Messages::of(&json!({"error": {
            "code": "Base.1.8.GeneralError",
            "message": "A general error has occurred. See ExtendedInfo.",
            "@Message.ExtendedInfo": [
                {"MessageId": "IDRAC.2.8.SYS518", "Message": "iDRAC is not ready.",
                 "Severity": "Critical", "Resolution": "Retry in 30 seconds."},
            ],
        }}));
        assert!(messages.has(Meaning::NotReady));
        assert!(messages.contradict_success());
        assert_eq!(messages.text(), "iDRAC is not ready. (IDRAC.2.8.SYS518)");
    }

    #[test]
    fn success_message_in_an_error_body_is_success() {
        let messages = Messages::of(&json!({"error": {
            "code": "iLO.0.10.ExtendedInfo",
            "@Message.ExtendedInfo": [{"MessageId": "Base.0.10.Success"}],
        }}));
        assert!(messages.has(Meaning::Success));
        assert!(!messages.contradict_success());
    }

    #[test]
    fn every_known_shape_of_messages_is_parsed() {
        for (body, text) in [
            (json!({"error": "busy"}), "busy"),
            (
                json!({"error": {"code": "X.1.Y", "message": "no"}}),
                "no (X.1.Y)",
            ),
            (
                json!({"@Message.ExtendedInfo": {"MessageId": "A.1.B"}}),
                "A.1.B",
            ),
            (
                json!({"Messages": ["one", {"Message": "two"}, 3, null]}),
                "one; two",
            ),
            (json!({"error": {"@Message.ExtendedInfo": []}}), ""),
            (json!([1, 2]), ""),
            (json!(null), ""),
        ] {
            assert_eq!(Messages::of(&body).text(), text, "{body}");
        }
    }

    #[test]
    fn number_of_messages_is_limited() {
        let many = vec![json!({"MessageId": "A.1.B"}); 1000];
        let messages = Messages::of(&json!({"error": {"@Message.ExtendedInfo": many}}));
        assert_eq!(messages.0.len(), MAX_MESSAGES);
    }
}
