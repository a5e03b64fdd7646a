//! Decoder of TOML documents, with the position of each key.
//!
//! Must never: repeat a value, which may be a secret.

use std::{collections::HashMap, ops::Range, path::Path, sync::Arc, time::Duration};

use serde::{Deserialize, Deserializer, de};
use toml::{
    Spanned,
    de::{DeTable, DeValue, Error},
};

use super::location::{Diagnostics, KeyPath, Lines};

/// Decodes a document. `None`: syntax errors, or the first key that is unknown, missing or of the
/// wrong type; they are reported.
pub(super) fn read<'t, T: Deserialize<'t>>(
    file: &Arc<Path>,
    text: &'t str,
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let lines = Lines::new(text);
    let root = KeyPath::root(file);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map(|span| lines.at(span.start));
        diagnostics.problem_at(&root, at, error.message());
    }
    if !errors.is_empty() {
        return None;
    }
    diagnostics.mark(&root, (1, 1));
    let mut spans = Spans {
        lines: &lines,
        diagnostics,
        paths: HashMap::new(),
    };
    spans.mark_table(&root, table.get_ref());
    let paths = spans.paths;
    match T::deserialize(toml::de::Deserializer::from(table)) {
        Ok(decoded) => Some(decoded),
        Err(error) => {
            let span = error.span().unwrap_or_default();
            let key_path = paths.get(&span).unwrap_or(&root);
            diagnostics.problem_at(key_path, Some(lines.at(span.start)), message(&error));
            None
        }
    }
}

/// The message of an error, without the value that is of the wrong type.
fn message(error: &Error) -> String {
    let message = error.message();
    let mismatch = message
        .strip_prefix("invalid type: ")
        .and_then(|rest| rest.rsplit_once(", expected "));
    match mismatch {
        Some((found, expected)) => {
            let found = found.split(['`', '"']).next().unwrap_or_default().trim();
            format!("invalid type: {found}, expected {expected}")
        }
        None => message.to_owned(),
    }
}

/// Finds the paths of keys and values by their spans.
struct Spans<'a, 't> {
    lines: &'a Lines<'t>,
    diagnostics: &'a mut Diagnostics,
    paths: HashMap<Range<usize>, KeyPath>,
}

impl Spans<'_, '_> {
    fn mark_table(&mut self, key_path: &KeyPath, table: &DeTable<'_>) {
        for (key, value) in table {
            let key_path = key_path.key(key.get_ref());
            self.paths.insert(key.span(), key_path.clone());
            self.mark(&key_path, value);
        }
    }

    fn mark(&mut self, key_path: &KeyPath, value: &Spanned<DeValue<'_>>) {
        let at = self.lines.at(value.span().start);
        self.diagnostics.mark(key_path, at);
        // An array of tables has the span of its first table, which replaces its path.
        self.paths.insert(value.span(), key_path.clone());
        match value.get_ref() {
            DeValue::Table(table) => self.mark_table(key_path, table),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let table = item.get_ref().as_table();
                    let name = table.and_then(|table| table.get("name")?.get_ref().as_str());
                    let item_path = key_path.item(index);
                    let item_path = match name {
                        Some(name) => item_path.called(name),
                        None => item_path,
                    };
                    self.mark(&item_path, item);
                }
            }
            _ => {}
        }
    }
}

/// Decodes an optional duration: `5s`, `1m 30s`, `250ms`.
pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer).ok();
    let parsed = text.and_then(|text| text.parse::<jiff::SignedDuration>().ok());
    match parsed.and_then(|parsed| Duration::try_from(parsed).ok()) {
        Some(duration) => Ok(Some(duration)),
        None => Err(de::Error::custom(
            "must be a time with its unit in quotes, such as \"5s\", \"250ms\" or \"2m\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a table")]
    #[expect(dead_code, reason = "only the errors are tested")]
    struct Document {
        name: String,
        on: Option<bool>,
        #[serde(default, deserialize_with = "duration")]
        after: Option<Duration>,
        list: Option<Vec<String>>,
        inner: Option<Vec<Document>>,
    }

    fn errors(text: &str) -> Vec<String> {
        let file: Arc<Path> = Path::new("a.toml").into();
        let mut diagnostics = Diagnostics::default();
        let decoded = super::read::<Document>(&file, text, &mut diagnostics);
        let problems = diagnostics.into_problems();
        assert_eq!(decoded.is_none(), !problems.is_empty());
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn error_has_line_column_and_key_but_no_value() {
        let time = "must be a time with its unit in quotes, such as \"5s\", \"250ms\" or \"2m\"";
        for (text, error) in [
            ("on = true\n", "1:1: missing field `name`".to_owned()),
            (
                "name = 's3cret'\non = 's3cret, expected x'\n",
                "2:6: on: invalid type: string, expected a boolean".to_owned(),
            ),
            (
                "name = 17\n",
                "1:8: name: invalid type: integer, expected a string".to_owned(),
            ),
            ("name = 'a'\nafter = 5\n", format!("2:9: after: {time}")),
            ("name = 'a'\nafter = '-5s'\n", format!("2:9: after: {time}")),
            (
                "name = 'a'\nlist = ['a', 2]\n",
                "2:14: list[1]: invalid type: integer, expected a string".to_owned(),
            ),
            (
                "name = 'a'\n[[inner]]\nname = 'b'\n[[inner]]\nname = 'c'\n colour = 1\n",
                "6:2: inner[1] (c).colour: unknown field `colour`, expected one of `name`, `on`, \
                 `after`, `list`, `inner`"
                    .to_owned(),
            ),
            (
                "name = 'a'\n[[inner]]\n\n[[inner]]\nname = 'c'\n",
                "2:1: inner[0]: missing field `name`".to_owned(),
            ),
            (
                "name = 'a'\ninner = ['s3cret']\n",
                "2:10: inner[0]: invalid type: string, expected a table".to_owned(),
            ),
        ] {
            assert_eq!(errors(text), [format!("a.toml:{error}")]);
        }
        assert!(errors("name = 'a'\non = true\nafter = '1m 30s'\n").is_empty());
    }

    #[test]
    fn every_syntax_error_is_reported_with_its_line() {
        let errors = errors("name = 'a'\non = = true\nlist = = 3\n");
        for line in ["a.toml:2:", "a.toml:3:"] {
            assert!(
                errors.iter().any(|error| error.starts_with(line)),
                "{errors:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn decoding_arbitrary_text_does_not_panic(text in "[a-z\\[\\]{}=.'\"\n #0-9]{0,80}") {
            errors(&text);
        }
    }
}
