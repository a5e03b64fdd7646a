//! Tables of the journal, and access to their records.

use redb::{Key, ReadableTable, TableDefinition, Value};

use super::{JournalError, records::Record, store::ReadTx, writer::Tx};

pub(super) type Table = TableDefinition<'static, &'static str, &'static [u8]>;

pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
/// Identity of the journal; one record.
pub(super) const IDENTITY: Table = TableDefinition::new("identity");
/// Empty; used to probe whether the file can be written.
pub(super) const PROBE: Table = TableDefinition::new("probe");
pub(super) const TERMS: Table = TableDefinition::new("terms");
pub(super) const SEQUENCES: Table = TableDefinition::new("sequences");
pub(super) const HOLDS: Table = TableDefinition::new("holds");
pub(super) const OPERATIONS: Table = TableDefinition::new("operations");
/// Terms that were set back by an operator, by time and election.
pub(super) const SET_BACK: TableDefinition<'static, (i64, &'static str), &'static [u8]> =
    TableDefinition::new("terms-set-back");
/// Ids of operations without an outcome.
pub(super) const RUNNING: TableDefinition<'static, &'static str, ()> =
    TableDefinition::new("running");
/// End times of operations, for removing the oldest.
pub(super) const ENDED: TableDefinition<'static, (i64, &'static str), ()> =
    TableDefinition::new("ended");

/// A transaction that allows reads.
pub(super) trait Lookup {
    /// Type of its tables.
    type Table<'a, K: Key + 'static, V: Value + 'static>: ReadableTable<K, V>
    where
        Self: 'a;

    fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<Self::Table<'_, K, V>, JournalError>;
}

impl Lookup for Tx {
    type Table<'a, K: Key + 'static, V: Value + 'static> = redb::Table<'a, K, V>;

    fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<redb::Table<'_, K, V>, JournalError> {
        Tx::open(self, table)
    }
}

impl Lookup for ReadTx {
    type Table<'a, K: Key + 'static, V: Value + 'static> = redb::ReadOnlyTable<K, V>;

    fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<redb::ReadOnlyTable<K, V>, JournalError> {
        ReadTx::open(self, table)
    }
}

pub(super) fn decode<T: Record>(bytes: &[u8]) -> Result<T, JournalError> {
    T::decode(bytes).map_err(|error| JournalError::Record(error.to_string()))
}

pub(super) fn encode(record: &impl Record) -> Result<Vec<u8>, JournalError> {
    let encoded = record.encode();
    encoded.map_err(|error| JournalError::Record(error.to_string()))
}

pub(super) fn get<T: Record>(
    tx: &impl Lookup,
    table: Table,
    key: &str,
) -> Result<Option<T>, JournalError> {
    let table = tx.open(table)?;
    let found = table.get(key).map_err(JournalError::storage)?;
    found.map(|value| decode(value.value())).transpose()
}

pub(super) fn put(
    tx: &Tx,
    table: Table,
    key: &str,
    record: &impl Record,
) -> Result<(), JournalError> {
    tx.open(table)?
        .insert(key, encode(record)?.as_slice())
        .map_err(JournalError::storage)?;
    Ok(())
}
