//! The files of an inventory, and detection of their changes.

use std::{
    ffi::OsStr,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use secrecy::zeroize::Zeroizing;

use super::{
    decode,
    location::{Diagnostics, KeyPath},
    manifests::Manifests,
    schema::{Host, InventoryFile},
};

/// Reads the hosts of every named file and of every file in a named directory: TOML from `.toml`,
/// manifests from `.yaml`, `.yml` and `.json`. Also returns the named paths.
pub(super) fn read(
    named: &[PathBuf],
    beside: &Path,
    root: &KeyPath,
    diagnostics: &mut Diagnostics,
) -> (Vec<(KeyPath, Host)>, Vec<PathBuf>) {
    let (mut hosts, mut watched) = (Vec::new(), Vec::new());
    let mut manifests = Manifests::default();
    for (index, path) in named.iter().enumerate() {
        let (path, key_path) = (beside.join(path), root.key("inventory").item(index));
        watched.push(path.clone());
        let files = match files(&path) {
            Ok(files) => files,
            Err(error) => {
                diagnostics.problem(&key_path, format_args!("{}: {error}", path.display()));
                continue;
            }
        };
        for path in files {
            let text = match read_regular(&path) {
                Ok(text) => Zeroizing::new(text),
                Err(error) => {
                    diagnostics.problem(&key_path, format_args!("{}: {error}", path.display()));
                    continue;
                }
            };
            let file: Arc<Path> = path.as_path().into();
            match kind(&path) {
                Some(Kind::Toml) => {
                    let decoded: Option<InventoryFile> = decode::read(&file, &text, diagnostics);
                    let found = decoded.map_or_else(Vec::new, |decoded| decoded.hosts);
                    hosts.extend(located(&KeyPath::root(&file), found));
                }
                Some(Kind::Manifests) => manifests.add(&file, &text, diagnostics),
                None => {
                    let what = "an inventory ends in .toml, .yaml, .yml or .json";
                    diagnostics.problem(&key_path, format_args!("{}: {what}", path.display()));
                }
            }
        }
    }
    hosts.extend(manifests.hosts(diagnostics));
    (hosts, watched)
}

/// The hosts of a TOML file, with their key paths.
pub(super) fn located(root: &KeyPath, hosts: Vec<Host>) -> impl Iterator<Item = (KeyPath, Host)> {
    let list = root.key("hosts");
    let hosts = hosts.into_iter().enumerate();
    hosts.map(move |(index, host)| (list.item(index).called(&host.name), host))
}

enum Kind {
    Toml,
    Manifests,
}

fn kind(path: &Path) -> Option<Kind> {
    match path.extension().and_then(OsStr::to_str)? {
        "toml" => Some(Kind::Toml),
        // JSON is YAML.
        "yaml" | "yml" | "json" => Some(Kind::Manifests),
        _ => None,
    }
}

/// The file itself, or the inventory files of a directory in name order.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let name = path.file_name().map(OsStr::as_encoded_bytes);
        let is_hidden = name.is_some_and(|name| name.starts_with(b"."));
        // A link that leads nowhere is a mistake: without its hosts, theirs would be refused without a word.
        if !is_hidden && kind(&path).is_some() && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// State of files and directories, for detecting changes: identity, length and modification time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    paths: Vec<PathBuf>,
    marks: Vec<(PathBuf, Option<[i64; 4]>)>,
}

impl Fingerprint {
    /// The state of these files and of the files in these directories. Blocks on the disk.
    pub(super) fn of(paths: Vec<PathBuf>) -> Self {
        let mut marks = Vec::new();
        for path in &paths {
            marks.push((path.clone(), mark(path)));
            if path.is_dir() {
                let files = files(path).unwrap_or_default();
                marks.extend(files.into_iter().map(|file| {
                    let mark = mark(&file);
                    (file, mark)
                }));
            }
        }
        Self { paths, marks }
    }

    /// The current state of the same files. Blocks on the disk.
    pub(crate) fn now(&self) -> Self {
        Self::of(self.paths.clone())
    }

    /// All named files and directories.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

fn mark(path: &Path) -> Option<[i64; 4]> {
    let meta = std::fs::metadata(path).ok()?;
    let number = |n: u64| i64::from_ne_bytes(n.to_ne_bytes());
    Some([
        number(meta.ino()),
        number(meta.len()),
        meta.mtime(),
        meta.mtime_nsec(),
    ])
}

/// Reads a file. A pipe may have no writer, and a device no end.
fn read_regular(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    std::fs::read_to_string(path)
}
