//! Tables of the journal, and records in them.

use prost::Message;
use redb::{ReadableTable, TableDefinition};

use super::{JournalError, store::ReadTx, writer::Tx};

pub(super) type Table = TableDefinition<'static, &'static str, &'static [u8]>;

pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
/// Which journal this is; one record.
pub(super) const IDENTITY: Table = TableDefinition::new("identity");
/// Empty; shows whether the file can be written.
pub(super) const PROBE: Table = TableDefinition::new("probe");
pub(super) const TERMS: Table = TableDefinition::new("terms");
pub(super) const SEQUENCES: Table = TableDefinition::new("sequences");
pub(super) const HOLDS: Table = TableDefinition::new("holds");
pub(super) const OPERATIONS: Table = TableDefinition::new("operations");
/// Terms that were set back by hand, by time and election.
pub(super) const SET_BACK: TableDefinition<'static, (i64, &'static str), &'static [u8]> =
    TableDefinition::new("terms-set-back");
/// Ids of operations without an outcome.
pub(super) const RUNNING: TableDefinition<'static, &'static str, ()> =
    TableDefinition::new("running");
/// Ends of operations, for throwing the oldest away.
pub(super) const ENDED: TableDefinition<'static, (i64, &'static str), ()> =
    TableDefinition::new("ended");

/// A transaction that can be read from.
pub(super) trait Lookup {
    /// The bytes under a key.
    fn bytes(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>, JournalError>;
}

impl Lookup for Tx {
    fn bytes(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        let table = self.open(table)?;
        let found = table.get(key).map_err(JournalError::storage)?;
        Ok(found.map(|value| value.value().to_vec()))
    }
}

impl Lookup for ReadTx {
    fn bytes(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        let table = self.open(table)?;
        let found = table.get(key).map_err(JournalError::storage)?;
        Ok(found.map(|value| value.value().to_vec()))
    }
}

pub(super) fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, JournalError> {
    T::decode(bytes).map_err(|error| JournalError::Record(error.to_string()))
}

pub(super) fn get<T: Message + Default>(
    tx: &impl Lookup,
    table: Table,
    key: &str,
) -> Result<Option<T>, JournalError> {
    let found = tx.bytes(table, key)?;
    found.map(|bytes| decode(&bytes)).transpose()
}

pub(super) fn put(
    tx: &Tx,
    table: Table,
    key: &str,
    record: &impl Message,
) -> Result<(), JournalError> {
    tx.open(table)?
        .insert(key, record.encode_to_vec().as_slice())
        .map_err(JournalError::storage)?;
    Ok(())
}
