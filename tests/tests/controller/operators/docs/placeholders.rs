//! Values for the placeholders of the pages.

use super::fixture::HOST;

/// What stands for the placeholders of the pages.
const PLACEHOLDERS: [(&str, &str); 8] = [
    ("NAMESPACE", "metal3"),
    ("NAME", "node-8"),
    ("CHECK", "workers"),
    ("HOST", HOST),
    ("NODE", HOST),
    ("LEADER", "rackhand-controller-0"),
    ("ELECTION", "rackhand-system/rackhand-controller"),
    ("TERM", "3"),
];

/// The text with values in place of its placeholders.
pub fn with_placeholders(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, value) in PLACEHOLDERS {
        text = replace_word(&text, name, value);
    }
    text
}

/// The text with a value in place of a word, where it is not part of a longer one.
pub fn replace_word(text: &str, word: &str, value: &str) -> String {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, from) = rest.split_at(at);
        let after = &from[word.len()..];
        let whole = !before.ends_with(inside) && !after.starts_with(inside);
        replaced.push_str(before);
        replaced.push_str(if whole { value } else { word });
        rest = after;
    }
    replaced + rest
}

#[test]
fn placeholders_are_whole_words() {
    let text = "get NAME -n NAMESPACE HOSTNAME CLUSTER_NAME";
    let wanted = "get node-8 -n metal3 HOSTNAME CLUSTER_NAME";
    assert_eq!(with_placeholders(text), wanted);
}
