//! Pieces of CEL.

/// A string literal.
pub(super) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

/// What can be wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// The path of the field, such as `spec.selector`.
    pub(super) field: String,
    /// Whether it is wrong, as a condition.
    pub(super) fails: String,
    /// What is then reported, as a string expression.
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
