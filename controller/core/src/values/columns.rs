//! Tables of text for a terminal.

use std::fmt::{self, Formatter};

/// Writes a line for each row, with columns as wide as their widest cell; the end of a line is not padded.
///
/// # Errors
/// The formatter fails.
pub fn write_columns<S: AsRef<str>>(f: &mut Formatter<'_>, rows: &[&[S]]) -> fmt::Result {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(*row) {
            *width = (*width).max(cell.as_ref().chars().count());
        }
    }
    for row in rows {
        let cells = row.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{:<width$}", cell.as_ref()))
            .collect();
        writeln!(f, "{}", padded.join("  ").trim_end())?;
    }
    Ok(())
}
