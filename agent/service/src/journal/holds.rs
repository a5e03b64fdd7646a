//! Which holds are on a host, by whatever address it is asked for.

use std::collections::BTreeMap;

use redb::ReadableTable;

use super::{
    HoldRecord, JournalError,
    store::ReadTx,
    tables::{HOLDS, decode, put},
    writer::Tx,
};
use crate::host_key::{HostKey, HostKeys};

/// A host, as far as it could be told from the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Host {
    /// Every address under which it is known.
    pub(crate) keys: HostKeys,
    /// Why a name of it has no address; `None`: every name has.
    pub(crate) unresolved: Option<String>,
    /// Holds that are known by names only: whether they are on this host. One that is not in here
    /// may be.
    pub(crate) compared: BTreeMap<String, bool>,
}

/// The holds that concern a host, by their keys.
#[derive(Debug, Default)]
pub(super) struct HostHolds {
    /// On this host.
    pub(super) on_host: Vec<(String, HoldRecord)>,
    /// On this host or on another one: it cannot be told.
    pub(super) doubtful: Vec<(String, HoldRecord)>,
}

impl HostHolds {
    pub(super) fn new(holds: Vec<(String, HoldRecord)>, host: &Host) -> Self {
        let mut found = Self::default();
        for (key, hold) in holds {
            let keys = hold.keys(&key);
            let compared = host.compared.get(&key).copied();
            if keys.matches(&host.keys) || compared == Some(true) {
                found.on_host.push((key, hold));
            } else if compared.is_none() && !keys.has_ip() {
                found.doubtful.push((key, hold));
            }
        }
        found
    }
}

/// All holds, by host key.
pub(super) fn all(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Vec<(String, HoldRecord)>, JournalError> {
    let mut holds = Vec::new();
    for entry in table.iter().map_err(JournalError::storage)? {
        let (key, value) = entry.map_err(JournalError::storage)?;
        holds.push((key.value().to_owned(), decode(value.value())?));
    }
    Ok(holds)
}

pub(super) fn find(tx: &Tx, host: &Host) -> Result<HostHolds, JournalError> {
    Ok(HostHolds::new(all(&tx.open(HOLDS)?)?, host))
}

/// The hold on a host, of somebody else before one of the owner.
pub(super) fn of(
    tx: &ReadTx,
    host: &Host,
    owner: &str,
) -> Result<Option<HoldRecord>, JournalError> {
    let found = HostHolds::new(all(&tx.open(HOLDS)?)?, host);
    let mut holds: Vec<HoldRecord> = found.on_host.into_iter().map(|(_, hold)| hold).collect();
    holds.sort_by_key(|hold| hold.owner == owner);
    Ok(holds.into_iter().next())
}

/// Takes all of these off.
pub(super) fn remove(tx: &Tx, holds: &[(String, HoldRecord)]) -> Result<(), JournalError> {
    let mut table = tx.open(HOLDS)?;
    for (key, _) in holds {
        table.remove(key.as_str()).map_err(JournalError::storage)?;
    }
    Ok(())
}

/// Puts a hold in the place of these, known by their addresses too.
pub(super) fn replace(
    tx: &Tx,
    before: &[(String, HoldRecord)],
    key: &str,
    host: &Host,
    hold: HoldRecord,
) -> Result<(), JournalError> {
    remove(tx, before)?;
    let mut keys = host.keys.clone();
    for (key, hold) in before {
        keys.extend(&hold.keys(key));
    }
    let hold = HoldRecord {
        addresses: keys.iter().map(HostKey::to_string).collect(),
        ..hold
    };
    put(tx, HOLDS, key, &hold)
}
