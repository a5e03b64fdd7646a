//! The pages of `docs/reference` that are generated from code.
//!
//! Each crate renders the page of its own types in a test, which fails when the file is stale.
//! `hack/codegen` runs the same tests with `RACKHAND_CODEGEN` set: then they write the files.

mod commands;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use commands::commands;

/// Set to any value, [`assert_current`] writes the page.
pub const WRITE: &str = "RACKHAND_CODEGEN";

/// Compares the page `docs/reference/NAME` with what code generates, or writes it (see [`WRITE`]).
///
/// # Errors
/// The page differs, or cannot be read or written. The message says what to do.
pub fn assert_current(name: &str, source: &str, text: &str) -> Result<(), String> {
    let page = folder()
        .map_err(|error| format!("docs/reference: {error}"))?
        .join(name);
    let text = format!(
        "<!-- Generated from {source} by hack/codegen: change it there. -->\n\n{}\n",
        text.trim_end()
    );
    if std::env::var_os(WRITE).is_some() {
        return fs::write(&page, text).map_err(|error| format!("{}: {error}", page.display()));
    }
    match fs::read_to_string(&page) {
        Ok(found) if found == text => Ok(()),
        _ => Err(format!(
            "{} is not what {source} generates: run hack/codegen",
            page.display()
        )),
    }
}

/// A text as a cell of a table: one line, without a character that ends the cell.
#[must_use]
pub fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// `docs/reference` of the repository whose crate is tested.
fn folder() -> io::Result<PathBuf> {
    // cargo runs a test in the directory of its crate.
    let here = std::env::current_dir()?;
    here.ancestors()
        .map(|folder| folder.join("docs/reference"))
        .find(|folder| Path::is_dir(folder))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_is_refused_and_names_the_remedy() {
        let error = assert_current("README.md", "nothing", "something else").unwrap_err();
        assert!(error.contains("run hack/codegen"), "{error}");
    }

    #[test]
    fn a_cell_is_one_line_without_bars_and_tags() {
        assert_eq!(cell("a |\n  b <c>"), "a \\| b &lt;c>");
    }
}
