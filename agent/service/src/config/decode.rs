//! Decodes a TOML document key by key, so that every mistake is reported, not only the first.
//!
//! Must never: repeat a value whose key holds a secret.

use std::{path::Path, sync::Arc, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::location::{Diagnostics, KeyPath, Lines};

/// Parses a document and decodes it by `read`. Syntax errors are reported; the rest is decoded
/// nevertheless.
pub(super) fn read<T>(
    file: &Arc<Path>,
    text: &str,
    diagnostics: &mut Diagnostics,
    read: impl FnOnce(&mut Fields<'_, '_>, &mut Diagnostics) -> T,
) -> T {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let root = KeyPath::root(file);
    diagnostics.mark(&root, (1, 1));
    for error in errors {
        let at = error.span().map(|span| lines.at(span.start));
        diagnostics.problem_at(&root, at, error.message());
    }
    let mut fields = Fields::new(&lines, root, table.get_ref());
    let result = read(&mut fields, diagnostics);
    fields.end(diagnostics);
    result
}

/// Parses a duration: `5s`, `1m 30s`, `250ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(parsed).ok()
}

/// A table that is decoded key by key; other keys are mistakes.
pub(super) struct Fields<'r, 't> {
    lines: &'r Lines<'t>,
    key_path: KeyPath,
    table: &'r DeTable<'t>,
    known: Vec<&'static str>,
}

impl<'r, 't> Fields<'r, 't> {
    fn new(lines: &'r Lines<'t>, key_path: KeyPath, table: &'r DeTable<'t>) -> Self {
        Self {
            lines,
            key_path,
            table,
            known: Vec::new(),
        }
    }

    pub(super) fn key_path(&self) -> &KeyPath {
        &self.key_path
    }

    /// Sets the name with which the table is reported.
    pub(super) fn call(&mut self, name: &str) {
        self.key_path = self.key_path.clone().called(name);
    }

    fn find(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<(&'r DeValue<'t>, KeyPath)> {
        self.known.push(key);
        let value = self.table.get(key)?;
        // A placeholder of the parser for an invalid value, which it has reported.
        if value.span().end == 0 && !value.get_ref().is_table() {
            return None;
        }
        Some((value.get_ref(), self.mark(key, value, diagnostics)))
    }

    fn mark(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        diagnostics: &mut Diagnostics,
    ) -> KeyPath {
        let key_path = self.key_path.key(key);
        diagnostics.mark(&key_path, self.lines.at(value.span().start));
        key_path
    }

    pub(super) fn text(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<String> {
        let (value, key_path) = self.find(key, diagnostics)?;
        let text = value.as_str().map(str::to_owned);
        if text.is_none() {
            wrong(diagnostics, &key_path, "text in quotes", value);
        }
        text
    }

    /// Required text.
    pub(super) fn needed(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<String> {
        if !self.table.contains_key(key) {
            diagnostics.problem(&self.key_path.key(key), "missing");
        }
        self.text(key, diagnostics)
    }

    /// true or false.
    pub(super) fn flag(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<bool> {
        let (value, key_path) = self.find(key, diagnostics)?;
        let flag = value.as_bool();
        if flag.is_none() {
            wrong(diagnostics, &key_path, "true or false", value);
        }
        flag
    }

    /// A time with its unit.
    pub(super) fn time(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Duration> {
        let (value, key_path) = self.find(key, diagnostics)?;
        let time = value.as_str().and_then(duration);
        if time.is_none() {
            let what = "a time with its unit in quotes, such as \"5s\", \"250ms\" or \"2m\"";
            wrong(diagnostics, &key_path, what, value);
        }
        time
    }

    /// Text, or a whole number as text.
    pub(super) fn word(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<String> {
        let (value, key_path) = self.find(key, diagnostics)?;
        match value {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Integer(number) => Some(number.to_string()),
            _ => {
                wrong(
                    diagnostics,
                    &key_path,
                    "text in quotes, or a whole number",
                    value,
                );
                None
            }
        }
    }

    /// A list of texts.
    pub(super) fn texts(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<String>> {
        let (value, key_path) = self.find(key, diagnostics)?;
        let Some(array) = value.as_array() else {
            wrong(diagnostics, &key_path, "a list of texts", value);
            return None;
        };
        let mut texts = Vec::new();
        for (index, item) in array.iter().enumerate() {
            let key_path = key_path.item(index);
            diagnostics.mark(&key_path, self.lines.at(item.span().start));
            match item.get_ref().as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => wrong(diagnostics, &key_path, "text in quotes", item.get_ref()),
            }
        }
        Some(texts)
    }

    pub(super) fn table(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Fields<'r, 't>> {
        let (value, key_path) = self.find(key, diagnostics)?;
        match value.as_table() {
            Some(table) => Some(Fields::new(self.lines, key_path, table)),
            None => {
                wrong(diagnostics, &key_path, "a table", value);
                None
            }
        }
    }

    /// A list of tables, or a single one.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Vec<Fields<'r, 't>> {
        let Some((value, key_path)) = self.find(key, diagnostics) else {
            return Vec::new();
        };
        match value {
            DeValue::Table(table) => vec![Fields::new(self.lines, key_path, table)],
            DeValue::Array(array) => {
                let mut tables = Vec::new();
                for (index, item) in array.iter().enumerate() {
                    let key_path = key_path.item(index);
                    diagnostics.mark(&key_path, self.lines.at(item.span().start));
                    match item.get_ref().as_table() {
                        Some(table) => tables.push(Fields::new(self.lines, key_path, table)),
                        None => wrong(diagnostics, &key_path, "a table", item.get_ref()),
                    }
                }
                tables
            }
            _ => {
                wrong(
                    diagnostics,
                    &key_path,
                    "a table, or a list of tables",
                    value,
                );
                Vec::new()
            }
        }
    }

    /// Tables by arbitrary names.
    pub(super) fn named(&mut self, diagnostics: &mut Diagnostics) -> Vec<(String, Fields<'r, 't>)> {
        let mut tables = Vec::new();
        for (name, value) in self.table {
            let name: &str = name.get_ref();
            let key_path = self.mark(name, value, diagnostics);
            match value.get_ref().as_table() {
                Some(table) => {
                    tables.push((name.to_owned(), Fields::new(self.lines, key_path, table)));
                }
                None => wrong(diagnostics, &key_path, "a table", value.get_ref()),
            }
        }
        tables
    }

    /// Texts by arbitrary names.
    pub(super) fn pairs(&mut self, diagnostics: &mut Diagnostics) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (name, value) in self.table {
            let name: &str = name.get_ref();
            let key_path = self.mark(name, value, diagnostics);
            match value.get_ref().as_str() {
                Some(text) => pairs.push((name.to_owned(), text.to_owned())),
                None => wrong(diagnostics, &key_path, "text in quotes", value.get_ref()),
            }
        }
        pairs
    }

    /// Reports unknown keys.
    pub(super) fn end(&self, diagnostics: &mut Diagnostics) {
        for (key, _) in self.table {
            let (name, at): (&str, _) = (key.get_ref(), self.lines.at(key.span().start));
            if !self.known.contains(&name) {
                let what = format!("unknown key; there are {}", self.known.join(", "));
                diagnostics.problem_at(&self.key_path.key(name), Some(at), what);
            }
        }
    }
}

/// Reports a wrong type, without the value, which may be a secret.
fn wrong(diagnostics: &mut Diagnostics, key_path: &KeyPath, wanted: &str, found: &DeValue<'_>) {
    let found = match found {
        DeValue::String(_) => "other text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time of day",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    diagnostics.problem(key_path, format_args!("must be {wanted}, and is {found}"));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(text: &str) -> Vec<String> {
        let file: Arc<Path> = Path::new("a.toml").into();
        let mut diagnostics = Diagnostics::default();
        super::read(&file, text, &mut diagnostics, |fields, diagnostics| {
            fields.needed("name", diagnostics);
            fields.flag("on", diagnostics);
            fields.time("after", diagnostics);
            fields.texts("list", diagnostics);
            for mut inner in fields.tables("inner", diagnostics) {
                inner.word("suite", diagnostics);
                inner.end(diagnostics);
            }
        });
        diagnostics
            .into_problems()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn every_mistake_has_its_line_and_column() {
        let text = "\
on = 'yes'
after = 5
list = ['a', 2]
colour = 'red'

[[inner]]
suite = 17
[[inner]]
 suite = true
 other = 1
";
        assert_eq!(
            told(text),
            [
                "a.toml:1:1: name: missing",
                "a.toml:1:6: on: must be true or false, and is other text",
                "a.toml:2:9: after: must be a time with its unit in quotes, such as \"5s\", \
                 \"250ms\" or \"2m\", and is a whole number",
                "a.toml:3:14: list[1]: must be text in quotes, and is a whole number",
                "a.toml:4:1: colour: unknown key; there are name, on, after, list, inner",
                "a.toml:9:10: inner[1].suite: must be text in quotes, or a whole number, and is \
                 true or false",
                "a.toml:10:2: inner[1].other: unknown key; there are suite",
            ]
        );
        assert!(told("name = 'a'\non = true\nafter = '1m 30s'\n").is_empty());
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line_and_the_rest_too() {
        let told = told("name = 'a'\non = = true\nafter = 7\n");
        let (last, first) = told.split_last().unwrap();
        let on_line = |one: &String| one.starts_with("a.toml:2:");
        assert!(!first.is_empty() && first.iter().all(on_line), "{told:?}");
        assert!(last.starts_with("a.toml:3:9: after:"), "{told:?}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z\\[\\]{}=.'\"\n #0-9]{0,80}") {
            told(&text);
        }
    }
}
