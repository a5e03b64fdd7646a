//! The file of the journal: made whole or not at all, and only of a format that we know.

use std::path::Path;

use rackhand_proto::v1::JournalOrigin;
use redb::ReadableTable;

use super::{
    JournalError, identity,
    records::IdentityRecord,
    tables::{ENDED, HOLDS, META, OPERATIONS, RUNNING, SEQUENCES, TERMS},
    writer::Tx,
};

pub(super) const SCHEMA: u64 = 1;

/// Makes an empty journal under another name and gives it its own once it is whole: a crash in the
/// middle would otherwise leave a file that no later start can read. Never replaces one.
pub(super) fn make_if_missing(path: &Path, shown: &str, now: i64) -> Result<(), JournalError> {
    if path.exists() {
        return Ok(());
    }
    let cannot = |error: std::io::Error| JournalError::Open {
        path: shown.to_owned(),
        reason: error.to_string(),
    };
    let origin = match identity::noted(path).map_err(cannot)? {
        None => JournalOrigin::First,
        Some(_) => JournalOrigin::Missing,
    };
    let fresh = path.with_extension(format!("redb.new-{}", std::process::id()));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    let db = redb::Database::create(&fresh).map_err(|error| JournalError::Open {
        path: shown.to_owned(),
        reason: error.to_string(),
    })?;
    let tx = Tx::begin(&db)?;
    prepare(&tx, shown, origin, now)?;
    tx.commit()?;
    drop(db);
    match std::fs::hard_link(&fresh, path) {
        // Another agent was quicker: its journal is the one.
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(cannot(error));
        }
        _ => {}
    }
    std::fs::remove_file(&fresh).map_err(cannot)?;
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(cannot)
}

/// Checks the format, makes what is missing in it, and returns which journal it is.
pub(super) fn prepare(
    tx: &Tx,
    path: &str,
    origin: JournalOrigin,
    now: i64,
) -> Result<IdentityRecord, JournalError> {
    let mut meta = tx.open(META)?;
    let found = meta
        .get("schema")
        .map_err(JournalError::storage)?
        .map(|value| value.value());
    match found {
        Some(SCHEMA) => {}
        Some(found) => {
            return Err(JournalError::Newer {
                path: path.to_owned(),
                found,
            });
        }
        None => {
            meta.insert("schema", SCHEMA)
                .map_err(JournalError::storage)?;
        }
    }
    for table in [TERMS, SEQUENCES, HOLDS, OPERATIONS] {
        tx.open(table)?;
    }
    tx.open(RUNNING)?;
    tx.open(ENDED)?;
    identity::ensure(tx, origin, now)
}
