//! What the agent must still know after a crash.
//!
//! Owns: terms, sequences, holds and operations on disk, and the one thread that writes them.
//! Must never: say "done" before the disk has it, keep a secret, or decide who may do what.

mod admit;
mod ends;
mod file;
mod identity;
mod list;
mod records;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::{path::Path, sync::Arc};

use rackhand_proto::v1;
use redb::ReadableTable;

pub(crate) use admit::{Action, Admission, Admitted, Authority, Refused};
pub(crate) use ends::{Keep, interrupted};
use ends::{finish, interrupt_running, prune};
use file::{SCHEMA, make_if_missing, prepare};
pub(crate) use list::Asked;
pub(crate) use records::{HoldRecord, IdentityRecord, OperationRecord, SequenceRecord, TermRecord};
use tables::{HOLDS, OPERATIONS, TERMS, decode, get, put};
use writer::{Tx, Writer};

/// Why the journal does not work.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Another process has it open.
    #[error("journal {0} is in use: another agent runs with this state directory")]
    InUse(String),
    /// Written by a newer version.
    #[error("journal {path} has format {found}, this version knows up to {SCHEMA}; do not go back")]
    Newer {
        /// The file.
        path: String,
        /// Its format.
        found: u64,
    },
    /// The file cannot be opened.
    #[error("journal {path}: {reason}")]
    Open {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A write or a read failed.
    #[error("journal: {0}")]
    Storage(String),
    /// The writer is gone: the agent is stopping.
    #[error("journal is closed")]
    Closed,
}

impl JournalError {
    fn storage(error: impl Into<redb::Error>) -> Self {
        Self::Storage(error.into().to_string())
    }
}

/// The journal. Cloning shares it; it closes with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    writer: Arc<Writer>,
    keep: Keep,
    identity: Arc<IdentityRecord>,
}

impl Journal {
    /// Opens or creates the journal, and ends every operation that an earlier run left running.
    /// Returns those. Blocks on the disk.
    pub(crate) fn open(
        path: &Path,
        keep: Keep,
        now: i64,
    ) -> Result<(Self, Vec<String>), JournalError> {
        let shown = path.display().to_string();
        make_if_missing(path, &shown, now)?;
        let db = redb::Database::open(path).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => JournalError::InUse(shown.clone()),
            other => JournalError::Open {
                path: shown.clone(),
                reason: other.to_string(),
            },
        })?;
        let tx = Tx::begin(&db)?;
        let identity = prepare(&tx, &shown, v1::JournalOrigin::First, now)?;
        let interrupted = interrupt_running(&tx, now)?;
        tx.commit()?;
        // Without the note a later loss of the file would look like a first start.
        identity::write_note(path, &identity.instance).map_err(|error| JournalError::Open {
            path: shown,
            reason: format!("cannot note its instance beside it: {error}"),
        })?;
        let journal = Self {
            writer: Arc::new(Writer::start(db)?),
            keep,
            identity: Arc::new(identity),
        };
        Ok((journal, interrupted))
    }

    /// Which journal it is.
    pub(crate) fn identity(&self) -> &IdentityRecord {
        &self.identity
    }

    /// Closes the file, whoever still has a clone; they get `Closed` from then on. Blocks on the
    /// disk.
    pub(crate) fn close(&self) {
        self.writer.close();
    }

    /// Makes a term known. `Err(highest)` where a newer one is, or another holder has this one.
    pub(crate) async fn claim(
        &self,
        election: String,
        number: u64,
        holder: String,
    ) -> Result<Result<u64, TermRecord>, JournalError> {
        let claim = move |tx: &Tx| {
            let known: Option<TermRecord> = get(tx, TERMS, &election)?;
            if let Some(known) = known
                && (known.number > number || (known.number == number && known.holder != holder))
            {
                return Ok(Err(known));
            }
            put(tx, TERMS, &election, &TermRecord { number, holder })?;
            Ok(Ok(number))
        };
        self.writer.write(claim).await
    }

    /// Decides about a new operation and writes it down, in one step.
    pub(crate) async fn admit(&self, admission: Admission) -> Result<Admitted, JournalError> {
        self.writer.write(move |tx| admission.run(tx)).await
    }

    /// Lifts a hold, if the caller may. `Ok(None)`: there was none.
    pub(crate) async fn release(
        &self,
        key: String,
        authority: Authority,
        owner: String,
        force: bool,
    ) -> Result<Result<Option<HoldRecord>, Refused>, JournalError> {
        let release = move |tx: &Tx| admit::release(tx, &key, &authority, &owner, force);
        self.writer.write(release).await
    }

    /// Whether a controller's term may still stop things.
    pub(crate) async fn check_term(
        &self,
        authority: Authority,
    ) -> Result<Result<(), Refused>, JournalError> {
        self.writer
            .write(move |tx| admit::check_term(tx, &authority))
            .await
    }

    /// A command is about to leave.
    pub(crate) async fn sending(&self, id: String, at: i64) -> Result<(), JournalError> {
        let mark = move |tx: &Tx| {
            if let Some(mut record) = get::<OperationRecord>(tx, OPERATIONS, &id)? {
                record.sending.push(at);
                put(tx, OPERATIONS, &id, &record)?;
            }
            Ok(())
        };
        self.writer.write(mark).await
    }

    /// An operation is over.
    pub(crate) async fn finish(
        &self,
        id: String,
        at: i64,
        outcome: v1::Outcome,
    ) -> Result<(), JournalError> {
        let keep = self.keep;
        let finish = move |tx: &Tx| {
            finish(tx, &id, at, outcome)?;
            prune(tx, at, keep)
        };
        self.writer.write(finish).await
    }

    /// What the BMC says after an interrupted operation.
    pub(crate) async fn amend(
        &self,
        id: String,
        reading: v1::PowerReading,
    ) -> Result<(), JournalError> {
        let amend = move |tx: &Tx| {
            let Some(mut record) = get::<OperationRecord>(tx, OPERATIONS, &id)? else {
                return Ok(());
            };
            if let Some(outcome) = &mut record.outcome {
                outcome.readings = vec![reading];
                put(tx, OPERATIONS, &id, &record)?;
            }
            Ok(())
        };
        self.writer.write(amend).await
    }

    /// One operation.
    pub(crate) async fn operation(
        &self,
        id: String,
    ) -> Result<Option<OperationRecord>, JournalError> {
        self.writer.write(move |tx| get(tx, OPERATIONS, &id)).await
    }

    /// Operations that were asked for, the newest first.
    pub(crate) async fn operations(
        &self,
        asked: Asked,
    ) -> Result<Vec<OperationRecord>, JournalError> {
        self.writer
            .write(move |tx| list::operations(tx, &asked))
            .await
    }

    /// All holds, by host key.
    pub(crate) async fn holds(&self) -> Result<Vec<(String, HoldRecord)>, JournalError> {
        let read = |tx: &Tx| {
            let table = tx.open(HOLDS)?;
            let mut holds = Vec::new();
            for entry in table.iter().map_err(JournalError::storage)? {
                let (key, value) = entry.map_err(JournalError::storage)?;
                holds.push((key.value().to_owned(), decode(value.value())?));
            }
            Ok(holds)
        };
        self.writer.write(read).await
    }
}
