//! Reads the documents of a recording from its folder.
//!
//! Must never: follow a symbolic link, or read more than the limits allow: a recording comes from somebody else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;
use thiserror::Error;

use super::ROOT;

const INDEX: &str = "index.json";
/// Limits; the largest published recordings have a few thousand documents and some dozens of MB.
const MAX_DOCUMENTS: usize = 20_000;
const MAX_DOCUMENT_BYTES: u64 = 8 << 20;
const MAX_BYTES: u64 = 256 << 20;
const MAX_DEPTH: usize = 32;

/// Why a recording cannot be served.
#[derive(Debug, Error)]
pub enum RecordingError {
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, #[source] io::Error),
    #[error("{} is not a document: {}", .0.display(), .1)]
    Content(PathBuf, String),
    #[error(
        "{} is a symbolic link, which a recording may not contain; copy what it refers to",
        .0.display()
    )]
    Link(PathBuf),
    #[error("{} is too large: {}", .0.display(), .1)]
    TooLarge(PathBuf, String),
    #[error(
        "{} is no recording of a Redfish service: it has neither redfish/v1/{INDEX} nor an {INDEX} of a service root",
        .0.display()
    )]
    NoRoot(PathBuf),
    #[error(
        "the recording {} has no system with the action #ComputerSystem.Reset, so there is no power to switch",
        .0.display()
    )]
    NoSystem(PathBuf),
}

/// The documents of a folder by their paths.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Value>, RecordingError> {
    let at_error = |error| RecordingError::Read(folder.to_owned(), error);
    fs::read_dir(folder).map_err(at_error)?;
    let long = folder.join("redfish").join("v1");
    for part in [folder.join("redfish"), long.clone()] {
        if part.is_symlink() {
            return Err(RecordingError::Link(part));
        }
    }
    let start = if long.join(INDEX).exists() {
        long
    } else {
        folder.to_owned()
    };
    let mut reader = Reader::default();
    reader.read(&start, ROOT, 0)?;
    let root = reader.documents.get(ROOT);
    if root.is_none_or(|root| root.get("Systems").is_none()) {
        return Err(RecordingError::NoRoot(folder.to_owned()));
    }
    Ok(reader.documents)
}

#[derive(Default)]
struct Reader {
    documents: BTreeMap<String, Value>,
    bytes: u64,
}

impl Reader {
    fn read(&mut self, folder: &Path, path: &str, depth: usize) -> Result<(), RecordingError> {
        let failed = |error| RecordingError::Read(folder.to_owned(), error);
        if depth > MAX_DEPTH {
            let why = format!("more than {MAX_DEPTH} folders deep");
            return Err(RecordingError::TooLarge(folder.to_owned(), why));
        }
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let at = entry.path();
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_symlink() {
                return Err(RecordingError::Link(at));
            }
            if kind.is_dir() {
                self.read(&at, &format!("{path}/{name}"), depth + 1)?;
            } else if kind.is_file() && name == INDEX {
                let document = self.document(&at)?;
                self.documents.insert(path.to_owned(), document);
            }
        }
        Ok(())
    }

    fn document(&mut self, file: &Path) -> Result<Value, RecordingError> {
        let failed = |error| RecordingError::Read(file.to_owned(), error);
        let too_large = |why| Err(RecordingError::TooLarge(file.to_owned(), why));
        let length = fs::metadata(file).map_err(failed)?.len();
        if length > MAX_DOCUMENT_BYTES {
            return too_large(format!("more than {MAX_DOCUMENT_BYTES} bytes"));
        }
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > MAX_BYTES || self.documents.len() >= MAX_DOCUMENTS {
            return too_large(format!(
                "the recording has more than {MAX_BYTES} bytes or {MAX_DOCUMENTS} documents"
            ));
        }
        let bytes = fs::read(file).map_err(failed)?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        match serde_json::from_slice(text) {
            Ok(document @ Value::Object(_)) => Ok(document),
            Ok(_) => Err(RecordingError::Content(
                file.to_owned(),
                "it is no JSON object".to_owned(),
            )),
            Err(error) => Err(RecordingError::Content(file.to_owned(), error.to_string())),
        }
    }
}
