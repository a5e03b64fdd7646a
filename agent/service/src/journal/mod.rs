//! What the agent must still know after a crash.
//!
//! Owns: terms, sequences, holds and operations on disk, and the one thread that writes them.
//! Must never: say "done" before the disk has it, keep a secret, or decide who may do what.

mod admit;
mod list;
mod records;
mod writer;

use std::{path::Path, sync::Arc};

use prost::Message;
use redb::{ReadableTable, TableDefinition};

pub(crate) use admit::{Action, Admission, Admitted, Authority, Refused};
pub(crate) use list::Asked;
pub(crate) use records::{HoldRecord, OperationRecord, SequenceRecord, TermRecord};
use writer::{Tx, Writer};

use rackhand_proto::v1;

type Table = TableDefinition<'static, &'static str, &'static [u8]>;

const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
const TERMS: Table = TableDefinition::new("terms");
const SEQUENCES: Table = TableDefinition::new("sequences");
const HOLDS: Table = TableDefinition::new("holds");
const OPERATIONS: Table = TableDefinition::new("operations");
/// Ids of operations without an outcome.
const RUNNING: TableDefinition<'static, &'static str, ()> = TableDefinition::new("running");
/// Ends of operations, for throwing the oldest away.
const ENDED: TableDefinition<'static, (i64, &'static str), ()> = TableDefinition::new("ended");

const SCHEMA: u64 = 1;

/// How long finished operations are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keep {
    /// At most so many.
    pub(crate) operations: u64,
    /// And none that ended longer ago.
    pub(crate) age: std::time::Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            operations: 10_000,
            age: std::time::Duration::from_secs(30 * 24 * 3600),
        }
    }
}

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

/// Makes an empty journal under another name and gives it its own once it is whole: a crash in the
/// middle would otherwise leave a file that no later start can read. Never replaces one.
fn make_if_missing(path: &Path, shown: &str) -> Result<(), JournalError> {
    if path.exists() {
        return Ok(());
    }
    let cannot = |error: std::io::Error| JournalError::Open {
        path: shown.to_owned(),
        reason: error.to_string(),
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
    prepare(&tx, shown)?;
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

/// The journal. Cloning shares it; it closes with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    writer: Arc<Writer>,
    keep: Keep,
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
        make_if_missing(path, &shown)?;
        let db = redb::Database::open(path).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => JournalError::InUse(shown.clone()),
            other => JournalError::Open {
                path: shown.clone(),
                reason: other.to_string(),
            },
        })?;
        let tx = Tx::begin(&db)?;
        prepare(&tx, &shown)?;
        let interrupted = interrupt_running(&tx, now)?;
        tx.commit()?;
        let journal = Self {
            writer: Arc::new(Writer::start(db)?),
            keep,
        };
        Ok((journal, interrupted))
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

fn prepare(tx: &Tx, path: &str) -> Result<(), JournalError> {
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
    Ok(())
}

fn interrupt_running(tx: &Tx, now: i64) -> Result<Vec<String>, JournalError> {
    let running: Vec<String> = {
        let table = tx.open(RUNNING)?;
        let ids = table.iter().map_err(JournalError::storage)?;
        ids.map(|entry| Ok(entry.map_err(JournalError::storage)?.0.value().to_owned()))
            .collect::<Result<_, JournalError>>()?
    };
    for id in &running {
        let sent = get::<OperationRecord>(tx, OPERATIONS, id)?.map_or(0, |r| r.sending.len());
        finish(tx, id, now, interrupted(sent))?;
    }
    Ok(running)
}

/// The outcome of an operation that the agent itself did not survive.
pub(crate) fn interrupted(commands_sent: usize) -> v1::Outcome {
    let sent = match commands_sent {
        0 => "no command had been sent".to_owned(),
        1 => "one command may have reached the BMC".to_owned(),
        n => format!("{n} commands may have reached the BMC"),
    };
    v1::Outcome {
        code: v1::OutcomeCode::Interrupted.into(),
        message: format!(
            "the agent was stopped in the middle; {sent}. Read the power state and ask again"
        ),
        commands_sent: u32::try_from(commands_sent).unwrap_or(u32::MAX),
        ..v1::Outcome::default()
    }
}

fn finish(tx: &Tx, id: &str, at: i64, outcome: v1::Outcome) -> Result<(), JournalError> {
    let Some(mut record) = get::<OperationRecord>(tx, OPERATIONS, id)? else {
        return Ok(());
    };
    record.outcome = Some(outcome);
    record.ended = at;
    put(tx, OPERATIONS, id, &record)?;
    tx.open(RUNNING)?
        .remove(id)
        .map_err(JournalError::storage)?;
    tx.open(ENDED)?
        .insert((at, id), ())
        .map_err(JournalError::storage)?;
    Ok(())
}

/// Throws away what is too old or too much, a few at a time.
fn prune(tx: &Tx, now: i64, keep: Keep) -> Result<(), JournalError> {
    use redb::ReadableTableMetadata;
    let oldest = now.saturating_sub(i64::try_from(keep.age.as_nanos()).unwrap_or(i64::MAX));
    let mut ended = tx.open(ENDED)?;
    let mut operations = tx.open(OPERATIONS)?;
    for _ in 0..16 {
        let count = ended.len().map_err(JournalError::storage)?;
        let first = {
            let first = ended.first().map_err(JournalError::storage)?;
            first.map(|(key, _)| {
                let (at, id) = key.value();
                (at, id.to_owned())
            })
        };
        match first {
            Some((at, id)) if count > keep.operations || at < oldest => {
                ended
                    .remove((at, id.as_str()))
                    .map_err(JournalError::storage)?;
                operations
                    .remove(id.as_str())
                    .map_err(JournalError::storage)?;
            }
            _ => break,
        }
    }
    Ok(())
}

fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, JournalError> {
    T::decode(bytes).map_err(|error| JournalError::Storage(format!("a record is damaged: {error}")))
}

fn get<T: Message + Default>(tx: &Tx, table: Table, key: &str) -> Result<Option<T>, JournalError> {
    let table = tx.open(table)?;
    let found = table.get(key).map_err(JournalError::storage)?;
    found.map(|value| decode(value.value())).transpose()
}

fn put(tx: &Tx, table: Table, key: &str, record: &impl Message) -> Result<(), JournalError> {
    tx.open(table)?
        .insert(key, record.encode_to_vec().as_slice())
        .map_err(JournalError::storage)?;
    Ok(())
}

#[cfg(test)]
mod tests;
