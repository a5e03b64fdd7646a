//! Positions of keys in the configuration files, and the mistakes found there.
//!
//! Must never: repeat the value of a secret.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Line and column, both counted from 1, the column in characters.
pub(super) type Position = (usize, usize);

/// A mistake, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file that is affected.
    pub file: PathBuf,
    /// Line and column, both from 1; `None`: the file as a whole.
    pub at: Option<(usize, usize)>,
    /// The key's path, such as `hosts[3] (node-4).bmc.address`; empty: the file as a whole.
    pub key: String,
    /// The mistake, and the expected value.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some((line, column)) = self.at {
            write!(f, "{line}:{column}:")?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.what)
    }
}

/// The path of a key in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPath {
    file: Arc<Path>,
    path: String,
    /// The path with the names of hosts in it.
    shown: String,
}

impl KeyPath {
    /// The path of the whole document.
    pub(super) fn root(file: &Arc<Path>) -> Self {
        Self {
            file: file.clone(),
            path: String::new(),
            shown: String::new(),
        }
    }

    /// The path of a key in it.
    pub(super) fn key(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let key = if !key.is_empty() && key.chars().all(bare) {
            key.to_owned()
        } else {
            format!("{key:?}")
        };
        self.with(&format!("{dot}{key}"))
    }

    /// The path of an element in it.
    pub(super) fn item(&self, index: usize) -> Self {
        self.with(&format!("[{index}]"))
    }

    fn with(&self, more: &str) -> Self {
        Self {
            file: self.file.clone(),
            path: format!("{}{more}", self.path),
            shown: format!("{}{more}", self.shown),
        }
    }

    /// The same path, reported with a name.
    pub(super) fn called(mut self, name: &str) -> Self {
        self.shown = format!("{} ({name})", self.shown);
        self
    }

    pub(super) fn file(&self) -> &Arc<Path> {
        &self.file
    }

    /// The directory of the file, to which the paths in the file are relative.
    pub(super) fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The positions of all keys, and the mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    positions: HashMap<Arc<Path>, HashMap<String, Position>>,
    pub(super) problems: Vec<Problem>,
}

impl Diagnostics {
    pub(super) fn mark(&mut self, key_path: &KeyPath, at: Position) {
        let positions = self.positions.entry(key_path.file.clone()).or_default();
        positions.insert(key_path.path.clone(), at);
    }

    /// Reports a mistake at the position of the key, or of the closest enclosing key.
    pub(super) fn problem(&mut self, key_path: &KeyPath, what: impl fmt::Display) {
        let at = self.at(key_path);
        self.problem_at(key_path, at, what);
    }

    pub(super) fn problem_at(
        &mut self,
        key_path: &KeyPath,
        at: Option<Position>,
        what: impl fmt::Display,
    ) {
        self.problems.push(Problem {
            file: key_path.file.to_path_buf(),
            at,
            key: key_path.shown.clone(),
            what: what.to_string(),
        });
    }

    /// Whether the file contains this key.
    pub(super) fn contains(&self, key_path: &KeyPath) -> bool {
        let positions = self.positions.get(&key_path.file);
        positions.is_some_and(|positions| positions.contains_key(&key_path.path))
    }

    fn at(&self, key_path: &KeyPath) -> Option<Position> {
        let positions = self.positions.get(&key_path.file)?;
        let mut path = key_path.path.as_str();
        loop {
            if let Some(at) = positions.get(path) {
                return Some(*at);
            }
            // The key is missing: use the enclosing key.
            path = match path.rfind(['.', '[']) {
                Some(end) => path.get(..end)?,
                None if path.is_empty() => return None,
                None => "",
            };
        }
    }

    /// All mistakes, sorted by file and position.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        let mut files: Vec<PathBuf> = Vec::new();
        for problem in &self.problems {
            if !files.contains(&problem.file) {
                files.push(problem.file.clone());
            }
        }
        let file = |problem: &Problem| files.iter().position(|file| *file == problem.file);
        self.problems
            .sort_by_key(|problem| (file(problem), problem.at));
        self.problems.dedup();
        self.problems
    }
}

/// Finds lines and columns in a text.
#[derive(Debug)]
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let behind = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(behind).collect(),
        }
    }

    /// The position of a byte offset; offsets past the end count as the end.
    pub(super) fn at(&self, byte: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..byte.min(self.text.len()));
        (line, before.map_or(0, |text| text.chars().count()) + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn position_is_that_of_the_key_or_its_nearest_parent() {
        let file: Arc<Path> = Path::new("a.toml").into();
        let (mut diagnostics, root) = (Diagnostics::default(), KeyPath::root(&file));
        diagnostics.mark(&root, (1, 1));
        let host = root.key("hosts").item(3).called("n");
        diagnostics.mark(&host, (7, 1));
        diagnostics.mark(&host.key("bmc").key("address"), (9, 11));
        diagnostics.problem(&host.key("bmc").key("address"), "wrong");
        diagnostics.problem(&host.key("labels").key("a.b"), "missing");
        diagnostics.problem(&root.key("rack"), "missing");
        let told: Vec<String> = diagnostics
            .into_problems()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "a.toml:1:1: rack: missing",
                "a.toml:7:1: hosts[3] (n).labels.\"a.b\": missing",
                "a.toml:9:11: hosts[3] (n).bmc.address: wrong",
            ]
        );
    }

    #[test]
    fn columns_count_characters() {
        let lines = Lines::new("a\nöü = 1\n");
        assert_eq!(lines.at(0), (1, 1));
        assert_eq!(lines.at(2), (2, 1));
        assert_eq!(lines.at(7), (2, 4));
        assert_eq!(lines.at(1000).0, 3);
    }

    proptest! {
        #[test]
        fn arbitrary_offsets_do_not_panic(text in ".{0,40}", byte in 0_usize..200) {
            let (line, column) = Lines::new(&text).at(byte);
            prop_assert!(line >= 1 && column >= 1);
        }
    }
}
