//! The ledger on disk: reads of decisions, and writes of their changes.

use rackhand_agent_core::ledger::{Change, Hold, Operation, Records, Sequence, Term, TermSetBack};
use rackhand_proto::v1;
use redb::{ReadableTable, ReadableTableMetadata};

use super::{
    JournalError,
    records::{OperationRecord, Record},
    tables::{
        ENDED, HOLDS, Lookup, OPERATIONS, RUNNING, SEQUENCES, SET_BACK, TERMS, Table, decode,
        encode, get, put,
    },
    writer::Tx,
};

/// A transaction, as decisions read it.
#[derive(Debug)]
pub(super) struct View<'a, L>(pub(super) &'a L);

/// Decides in a transaction and writes the changes in the same one.
pub(super) fn decide<'t, T, C>(
    tx: &'t Tx,
    decision: impl FnOnce(&View<'t, Tx>) -> Result<(T, C), JournalError>,
) -> Result<T, JournalError>
where
    C: IntoIterator<Item = Change<v1::Outcome>>,
{
    let (verdict, changes) = decision(&View(tx))?;
    write(tx, changes)?;
    Ok(verdict)
}

/// Writes the changes of a decision.
pub(super) fn write(
    tx: &Tx,
    changes: impl IntoIterator<Item = Change<v1::Outcome>>,
) -> Result<(), JournalError> {
    changes
        .into_iter()
        .try_for_each(|change| write_one(tx, change))
}

fn write_one(tx: &Tx, change: Change<v1::Outcome>) -> Result<(), JournalError> {
    match change {
        Change::Term { election, term } => put(tx, TERMS, &election, &term),
        Change::Sequence {
            election,
            host,
            sequence,
        } => {
            let key = sequence_key(&election, &host);
            put_or_remove(tx, SEQUENCES, &key, sequence.as_ref())
        }
        Change::Hold { key, hold } => put_or_remove(tx, HOLDS, &key, hold.as_ref()),
        Change::Operation(operation) => write_operation(tx, &operation),
        Change::Forget { ended, id } => {
            remove(tx, OPERATIONS, &id)?;
            let mut table = tx.open(ENDED)?;
            let removed = table.remove((ended, id.as_str()));
            removed.map(drop).map_err(JournalError::storage)
        }
        Change::SetBack(set_back) => {
            let bytes = encode(&set_back)?;
            let key = (set_back.at, set_back.election.as_str());
            let mut table = tx.open(SET_BACK)?;
            let inserted = table.insert(key, bytes.as_slice());
            inserted.map(drop).map_err(JournalError::storage)
        }
        Change::ForgetSetBack { at, election } => {
            let mut table = tx.open(SET_BACK)?;
            let removed = table.remove((at, election.as_str()));
            removed.map(drop).map_err(JournalError::storage)
        }
    }
}

/// Writes an operation, and its entry in the table of running or ended operations.
pub(super) fn write_operation(tx: &Tx, record: &OperationRecord) -> Result<(), JournalError> {
    let id = record.id.as_str();
    put(tx, OPERATIONS, id, record)?;
    let mut running = tx.open(RUNNING)?;
    if record.outcome.is_none() {
        return running
            .insert(id, ())
            .map(drop)
            .map_err(JournalError::storage);
    }
    running.remove(id).map_err(JournalError::storage)?;
    let mut ended = tx.open(ENDED)?;
    let inserted = ended.insert((record.ended, id), ());
    inserted.map(drop).map_err(JournalError::storage)
}

fn put_or_remove(
    tx: &Tx,
    table: Table,
    key: &str,
    record: Option<&impl Record>,
) -> Result<(), JournalError> {
    match record {
        Some(record) => put(tx, table, key, record),
        None => remove(tx, table, key),
    }
}

fn remove(tx: &Tx, table: Table, key: &str) -> Result<(), JournalError> {
    let mut table = tx.open(table)?;
    table.remove(key).map(drop).map_err(JournalError::storage)
}

/// Sequences are kept per election, because terms of two elections cannot be compared.
fn sequence_key(election: &str, host: &str) -> String {
    format!("{election}\n{host}")
}

impl<L: Lookup> View<'_, L> {
    /// The records of a table from a key on, while `is_in` holds for the key.
    fn records<T: Record>(
        &self,
        table: Table,
        from: &str,
        is_in: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, T)>, JournalError> {
        let table = self.0.open(table)?;
        let mut records = Vec::new();
        for entry in table.range(from..).map_err(JournalError::storage)? {
            let (key, value) = entry.map_err(JournalError::storage)?;
            if !is_in(key.value()) {
                break;
            }
            records.push((key.value().to_owned(), decode(value.value())?));
        }
        Ok(records)
    }

    fn all<T: Record>(&self, table: Table) -> Result<Vec<(String, T)>, JournalError> {
        self.records(table, "", |_| true)
    }
}

impl<L: Lookup> Records for View<'_, L> {
    type Report = v1::Outcome;
    type Error = JournalError;

    fn term(&self, election: &str) -> Result<Option<Term>, JournalError> {
        get(self.0, TERMS, election)
    }

    fn terms(&self) -> Result<Vec<(String, Term)>, JournalError> {
        self.all(TERMS)
    }

    fn sequence(&self, election: &str, host: &str) -> Result<Option<Sequence>, JournalError> {
        get(self.0, SEQUENCES, &sequence_key(election, host))
    }

    fn sequences(&self, election: &str) -> Result<Vec<(String, Sequence)>, JournalError> {
        let prefix = sequence_key(election, "");
        let is_in = |key: &str| key.starts_with(&prefix);
        let found = self.records(SEQUENCES, &prefix, is_in)?;
        let by_host = found.into_iter().map(|(key, record)| {
            let host = key.get(prefix.len()..).unwrap_or_default();
            (host.to_owned(), record)
        });
        Ok(by_host.collect())
    }

    fn holds(&self) -> Result<Vec<(String, Hold)>, JournalError> {
        self.all(HOLDS)
    }

    fn operation(&self, id: &str) -> Result<Option<Operation<v1::Outcome>>, JournalError> {
        get(self.0, OPERATIONS, id)
    }

    fn running(&self) -> Result<Vec<String>, JournalError> {
        let table = self.0.open(RUNNING)?;
        let ids = table.iter().map_err(JournalError::storage)?;
        ids.map(|entry| Ok(entry.map_err(JournalError::storage)?.0.value().to_owned()))
            .collect()
    }

    fn ended(&self) -> Result<u64, JournalError> {
        self.0.open(ENDED)?.len().map_err(JournalError::storage)
    }

    fn first_ended(&self, most: usize) -> Result<Vec<(i64, String)>, JournalError> {
        let table = self.0.open(ENDED)?;
        let ended = table.iter().map_err(JournalError::storage)?.take(most);
        ended
            .map(|entry| {
                let (key, _) = entry.map_err(JournalError::storage)?;
                let (at, id) = key.value();
                Ok((at, id.to_owned()))
            })
            .collect()
    }

    fn set_back(&self) -> Result<Vec<TermSetBack>, JournalError> {
        let table = self.0.open(SET_BACK)?;
        let records = table.iter().map_err(JournalError::storage)?;
        records
            .map(|entry| {
                let (_, value) = entry.map_err(JournalError::storage)?;
                decode(value.value())
            })
            .collect()
    }
}
