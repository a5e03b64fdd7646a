//! Tables of text.

use std::fmt::{self, Formatter};

use rackhand_core::values::columns::write_columns;

/// The path of an object.
pub(super) fn named(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Columns as wide as their widest cell; the last one is not padded.
pub(crate) fn table<const N: usize>(
    f: &mut Formatter<'_>,
    what: &str,
    head: [&str; N],
    rows: &[[String; N]],
) -> fmt::Result {
    if rows.is_empty() {
        return writeln!(f, "\nThere are no {what}.");
    }
    writeln!(f)?;
    let lines: Vec<[String; N]> = std::iter::once(head.map(str::to_owned))
        .chain(rows.iter().cloned())
        .collect();
    let shown: Vec<&[String]> = lines.iter().map(<[String; N]>::as_slice).collect();
    write_columns(f, &shown)
}
