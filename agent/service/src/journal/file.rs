//! The file of the journal: created atomically, opened only in a known format, and never replaced
//! silently.

use std::{
    io,
    path::{Path, PathBuf},
};

use rackhand_proto::v1::JournalOrigin;
use redb::{Database, DatabaseError, ReadableTable, StorageError};
use tracing::error;

use super::{
    JournalError, identity,
    records::IdentityRecord,
    tables::{ENDED, HOLDS, META, OPERATIONS, RUNNING, SEQUENCES, SET_BACK, TERMS},
    writer::Tx,
};

pub(super) const SCHEMA: u64 = 1;

/// Handling of a journal that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfDamaged {
    /// Rename the file, and create a new journal.
    Replace,
    /// Do not start.
    Refuse,
}

/// Number of damaged files that are kept: the first ones, which are the most informative, and the
/// last.
const KEPT: u32 = 3;

/// Opens the journal, or creates a new one.
pub(super) fn open_or_create(
    path: &Path,
    if_damaged: IfDamaged,
    now: i64,
) -> Result<Database, JournalError> {
    match open(path) {
        Err(JournalError::Missing(_)) => {
            let origin = match identity::noted(path).map_err(|error| cannot(path, &error))? {
                None => JournalOrigin::First,
                Some(_) => JournalOrigin::Missing,
            };
            create(path, origin, now)?;
            open(path)
        }
        Err(JournalError::Damaged { reason, .. }) if if_damaged == IfDamaged::Replace => {
            let kept = set_aside(path)?;
            error!(
                journal = %path.display(), kept = %kept.display(), reason,
                "the journal is damaged; its file is kept"
            );
            create(path, JournalOrigin::Damaged, now)?;
            open(path)
        }
        opened => opened,
    }
}

/// Opens an existing journal, and checks every page.
pub(super) fn open(path: &Path) -> Result<Database, JournalError> {
    let damaged = |reason: String| JournalError::Damaged {
        path: path.display().to_string(),
        reason,
    };
    match std::fs::metadata(path) {
        Ok(file) if file.len() == 0 => return Err(damaged("the file is empty".to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(JournalError::Missing(path.display().to_string()));
        }
        Err(error) => return Err(cannot(path, &error)),
    }
    checked(path, || {
        let mut builder = Database::builder();
        builder.set_check_integrity_on_open(true);
        builder.open(path)
    })
}

/// Opens a database, and distinguishes damage from a failing disk.
pub(super) fn checked(
    path: &Path,
    open: impl FnOnce() -> Result<Database, DatabaseError>,
) -> Result<Database, JournalError> {
    let shown = path.display().to_string();
    let damaged = |reason: String| JournalError::Damaged {
        path: shown.clone(),
        reason,
    };
    // The storage engine may panic on bytes that it never wrote.
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(open));
    let Ok(opened) = opened else {
        return Err(damaged("the storage engine gave up on it".to_owned()));
    };
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => JournalError::InUse(shown.clone()),
        DatabaseError::Storage(StorageError::Corrupted(reason)) => damaged(reason),
        DatabaseError::Storage(StorageError::Io(error))
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            damaged(error.to_string())
        }
        other => JournalError::Open {
            path: shown.clone(),
            reason: other.to_string(),
        },
    })
}

fn cannot(path: &Path, error: &io::Error) -> JournalError {
    JournalError::Open {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// Renames a damaged file, and returns the new name.
fn set_aside(path: &Path) -> Result<PathBuf, JournalError> {
    let kept = |number: u32| path.with_extension(format!("redb.damaged-{number}"));
    let free = (1..KEPT).map(kept).find(|name| !name.exists());
    let name = free.unwrap_or_else(|| kept(KEPT));
    std::fs::rename(path, &name).map_err(|error| cannot(path, &error))?;
    Ok(name)
}

/// Creates an empty journal under a temporary name and renames it when complete: a crash would
/// otherwise leave an unreadable file. Never replaces a journal.
fn create(path: &Path, origin: JournalOrigin, now: i64) -> Result<(), JournalError> {
    let shown = path.display().to_string();
    let fresh = path.with_extension(format!("redb.new-{}", std::process::id()));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(cannot(path, &error));
        }
        _ => {}
    }
    let db = Database::create(&fresh).map_err(|error| JournalError::Open {
        path: shown.clone(),
        reason: error.to_string(),
    })?;
    let tx = Tx::begin(&db)?;
    prepare(&tx, &shown, origin, now)?;
    tx.commit()?;
    drop(db);
    match std::fs::hard_link(&fresh, path) {
        // Another agent created it first; use that one.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(cannot(path, &error));
        }
        _ => {}
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::remove_file(&fresh)
        .and_then(|()| std::fs::File::open(dir)?.sync_all())
        .map_err(|error| cannot(path, &error))
}

/// Checks the format, creates missing tables, and returns the identity of the journal.
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
    tx.open(SET_BACK)?;
    identity::ensure(tx, origin, now)
}

/// A whole and empty journal.
#[cfg(test)]
pub(super) fn create_for_tests(path: &Path) -> Result<(), JournalError> {
    create(path, JournalOrigin::First, 1)
}
