//! Which journal this is: a random instance id in the file, and a note of it beside the file.
//!
//! The note tells a first start from the start after the file was lost. Must never: give a file
//! that has an instance id another one.

use std::{
    io,
    path::{Path, PathBuf},
};

use rackhand_proto::v1::JournalOrigin;

use super::{
    JournalError,
    records::IdentityRecord,
    tables::{IDENTITY, get, put},
    writer::Tx,
};

const KEY: &str = "journal";

/// Reads the identity, and gives one to a file that has none: a new one, or one of a version that
/// wrote none.
pub(super) fn ensure(
    tx: &Tx,
    origin: JournalOrigin,
    now: i64,
) -> Result<IdentityRecord, JournalError> {
    if let Some(known) = get::<IdentityRecord>(tx, IDENTITY, KEY)? {
        return Ok(known);
    }
    let identity = IdentityRecord {
        instance: uuid::Uuid::new_v4().to_string(),
        created: now,
        origin: origin.into(),
    };
    put(tx, IDENTITY, KEY, &identity)?;
    Ok(identity)
}

/// The note beside the journal.
fn note(path: &Path) -> PathBuf {
    path.with_extension("instance")
}

/// The instance of the journal that was last opened here. `None`: none was.
pub(super) fn noted(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(note(path)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the note, whole or not at all.
pub(super) fn write_note(path: &Path, instance: &str) -> io::Result<()> {
    let (note, fresh) = (note(path), path.with_extension("instance.new"));
    std::fs::write(&fresh, format!("{instance}\n"))?;
    std::fs::File::open(&fresh)?.sync_all()?;
    std::fs::rename(&fresh, note)?;
    std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
