//! How operations end in the journal, and for how long it remembers them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use rackhand_proto::v1;
use redb::ReadableTable;

use super::{
    JournalError, OperationRecord,
    tables::{ENDED, OPERATIONS, RUNNING, get, put},
    writer::Tx,
};

/// How long finished operations are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// At most so many.
    pub(crate) operations: u64,
    /// And none that ended longer ago.
    pub(crate) age: std::time::Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            operations: 10_000,
            age: std::time::Duration::from_secs(30 * 24 * 3600),
        }
    }
}

/// Operations of this process, for a file that missed something of them.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningOperations(Arc<Mutex<Operations>>);

#[derive(Debug, Default)]
struct Operations {
    /// Begun and not over.
    live: BTreeSet<String>,
    /// Over, but not written down: when, and how.
    unwritten: Unwritten,
}

pub(super) type Unwritten = BTreeMap<String, (i64, v1::Outcome)>;

impl RunningOperations {
    pub(super) fn begun(&self, id: &str) {
        self.0.lock().live.insert(id.to_owned());
    }

    /// It is over, which the file must be told.
    pub(super) fn over(&self, id: &str, at: i64, outcome: v1::Outcome) {
        let mut operations = self.0.lock();
        operations.unwritten.insert(id.to_owned(), (at, outcome));
        operations.live.remove(id);
    }

    pub(super) fn unwritten(&self) -> Unwritten {
        self.0.lock().unwritten.clone()
    }

    /// The file has the outcomes of these.
    pub(super) fn written<'a>(&self, ids: impl Iterator<Item = &'a String>) {
        let mut operations = self.0.lock();
        for id in ids {
            operations.unwritten.remove(id);
        }
    }

    fn is_live(&self, id: &str) -> bool {
        self.0.lock().live.contains(id)
    }
}

/// Writes the outcomes that the file missed, and ends what it took for begun although the caller
/// was told otherwise.
pub(super) fn settle(
    tx: &Tx,
    running: &RunningOperations,
    outcomes: &Unwritten,
    now: i64,
) -> Result<(), JournalError> {
    for (id, (at, outcome)) in outcomes {
        finish(tx, id, *at, outcome.clone())?;
    }
    for id in running_ids(tx)? {
        if !running.is_live(&id) {
            interrupt(tx, &id, now)?;
        }
    }
    Ok(())
}

/// Ends what an earlier process left running, and returns the ids.
pub(super) fn interrupt_running(tx: &Tx, now: i64) -> Result<Vec<String>, JournalError> {
    let running = running_ids(tx)?;
    for id in &running {
        interrupt(tx, id, now)?;
    }
    Ok(running)
}

fn running_ids(tx: &Tx) -> Result<Vec<String>, JournalError> {
    let table = tx.open(RUNNING)?;
    let ids = table.iter().map_err(JournalError::storage)?;
    ids.map(|entry| Ok(entry.map_err(JournalError::storage)?.0.value().to_owned()))
        .collect()
}

fn interrupt(tx: &Tx, id: &str, now: i64) -> Result<(), JournalError> {
    let sent = get::<OperationRecord>(tx, OPERATIONS, id)?.map_or(0, |r| r.sending.len());
    finish(tx, id, now, interrupted(sent))
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

pub(super) fn finish(tx: &Tx, id: &str, at: i64, outcome: v1::Outcome) -> Result<(), JournalError> {
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
pub(super) fn prune(tx: &Tx, now: i64, keep: Retention) -> Result<(), JournalError> {
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
