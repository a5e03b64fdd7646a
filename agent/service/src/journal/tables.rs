//! Tables of the journal, and records in them.

use prost::Message;
use redb::{ReadableTable, TableDefinition};

use super::{JournalError, writer::Tx};

pub(super) type Table = TableDefinition<'static, &'static str, &'static [u8]>;

pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
/// Which journal this is; one record.
pub(super) const IDENTITY: Table = TableDefinition::new("identity");
pub(super) const TERMS: Table = TableDefinition::new("terms");
pub(super) const SEQUENCES: Table = TableDefinition::new("sequences");
pub(super) const HOLDS: Table = TableDefinition::new("holds");
pub(super) const OPERATIONS: Table = TableDefinition::new("operations");
/// Ids of operations without an outcome.
pub(super) const RUNNING: TableDefinition<'static, &'static str, ()> =
    TableDefinition::new("running");
/// Ends of operations, for throwing the oldest away.
pub(super) const ENDED: TableDefinition<'static, (i64, &'static str), ()> =
    TableDefinition::new("ended");

pub(super) fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, JournalError> {
    T::decode(bytes).map_err(|error| JournalError::Storage(format!("a record is damaged: {error}")))
}

pub(super) fn get<T: Message + Default>(
    tx: &Tx,
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
    record: &impl Message,
) -> Result<(), JournalError> {
    tx.open(table)?
        .insert(key, record.encode_to_vec().as_slice())
        .map_err(JournalError::storage)?;
    Ok(())
}
