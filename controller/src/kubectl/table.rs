//! Tables of text.

use std::fmt::{self, Formatter};

use jiff::Timestamp;

/// How long ago a time was.
pub(crate) fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

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
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut print = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(f, "{}", line.trim_end())
    };
    print(head)?;
    rows.iter()
        .try_for_each(|row| print(row.each_ref().map(String::as_str)))
}
