//! Identity of the journal: a random instance id and a generation in the file, and a note of both beside the file.
//!
//! The note distinguishes a first start from a start after the file was lost, and the file of the last start from
//! an older copy. Must never: keep the instance id of a file that is known to be an older copy.

use std::{
    io,
    path::{Path, PathBuf},
};

use rackhand_agent_core::ledger::{Version, disown_terms, starts_anew};
use rackhand_proto::v1::JournalOrigin;
use redb::ReadableTable;

use super::{
    JournalError,
    ledger::{View, write},
    records::IdentityRecord,
    tables::{IDENTITY, META, get, put},
    writer::Tx,
};

const KEY: &str = "journal";
const GENERATION: &str = "generation";

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

/// Gives the file a new instance id if the note names another file, or if the file is an older copy.
pub(super) fn renew_if_older(
    tx: &Tx,
    known: IdentityRecord,
    noted: Option<&Version>,
    now: i64,
) -> Result<IdentityRecord, JournalError> {
    let found = Version {
        instance: known.instance.clone(),
        generation: generation(tx)?,
    };
    if !starts_anew(&found, noted) {
        return Ok(known);
    }
    write(tx, disown_terms(&View(tx))?)?;
    let identity = IdentityRecord {
        instance: uuid::Uuid::new_v4().to_string(),
        created: now,
        origin: JournalOrigin::Restored.into(),
    };
    put(tx, IDENTITY, KEY, &identity)?;
    Ok(identity)
}

/// The number of writes to the file.
pub(super) fn generation(tx: &Tx) -> Result<u64, JournalError> {
    let meta = tx.open(META)?;
    let found = meta.get(GENERATION).map_err(JournalError::storage)?;
    Ok(found.map_or(0, |value| value.value()))
}

/// Counts a write, and returns the resulting generation.
pub(super) fn count_write(tx: &Tx) -> Result<u64, JournalError> {
    let next = generation(tx)? + 1;
    let mut meta = tx.open(META)?;
    meta.insert(GENERATION, next)
        .map_err(JournalError::storage)?;
    Ok(next)
}

/// The file of the note beside the journal.
fn note(path: &Path) -> PathBuf {
    path.with_extension("instance")
}

/// The journal that was last opened here, with a lower bound of its generation (0 in a note of an
/// earlier version). `None`: no journal was opened.
pub(super) fn noted(path: &Path) -> io::Result<Option<Version>> {
    match std::fs::read_to_string(note(path)) {
        Ok(text) => {
            let mut words = text.split_whitespace();
            Ok(Some(Version {
                instance: words.next().unwrap_or_default().to_owned(),
                generation: words.next().and_then(|word| word.parse().ok()).unwrap_or(0),
            }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the note, whole or not at all.
pub(super) fn write_note(path: &Path, noted: &Version) -> io::Result<()> {
    let (note, fresh) = (note(path), path.with_extension("instance.new"));
    std::fs::write(&fresh, format!("{} {}\n", noted.instance, noted.generation))?;
    std::fs::File::open(&fresh)?.sync_all()?;
    std::fs::rename(&fresh, note)?;
    std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
