//! Expressions of CEL, put together from parts.

/// Quotes a text as a string literal of CEL.
pub(super) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

/// A check of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// The path of the field, such as `spec.selector`.
    pub(super) field: String,
    /// A condition that holds where the field is wrong.
    pub(super) fails: String,
    /// A string expression: the message for a field that is wrong.
    pub(super) message: String,
}

/// The message of the first check that fails, or an empty string.
pub(super) fn first_message<'a>(checks: impl IntoIterator<Item = &'a Check>) -> String {
    let mut expression = String::new();
    for Check { fails, message, .. } in checks {
        expression.push_str(&format!("{fails}\n? {message}\n: "));
    }
    expression + "''"
}
