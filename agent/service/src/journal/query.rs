//! Queries for current and past operations.

use rackhand_agent_core::{
    host_key::HostKeys,
    ledger::{Action, Device},
};
use rackhand_proto::v1;
use redb::ReadableTable;

use super::{
    JournalError, OperationRecord, RecordedOutcome,
    store::ReadTx,
    tables::{ENDED, OPERATIONS, RUNNING, decode, get},
};

/// Filter for operations; `None` matches all.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperationFilter {
    /// Operation id.
    pub(crate) id: Option<String>,
    /// Name of the host.
    pub(crate) host: Option<String>,
    /// On behalf of this owner, with an id that begins with the owner and a slash.
    pub(crate) owner: Option<String>,
    /// Only operations without an outcome.
    pub(crate) running_only: bool,
    /// Maximum number of operations.
    pub(crate) limit: usize,
}

/// Lists operations, newest first. The journal keeps some thousand; a list reads all of them unless
/// it is filtered by id, by owner or by running state.
pub(super) fn operations(
    tx: &ReadTx,
    asked: &OperationFilter,
) -> Result<Vec<OperationRecord>, JournalError> {
    let mut found: Vec<OperationRecord> = Vec::new();
    if let Some(id) = &asked.id {
        found.extend(get(tx, OPERATIONS, id)?);
    } else if asked.running_only {
        let running = tx.open(RUNNING)?;
        for entry in running.iter().map_err(JournalError::storage)? {
            let (id, ()) = entry
                .map(|(id, _)| (id, ()))
                .map_err(JournalError::storage)?;
            found.extend(get(tx, OPERATIONS, id.value())?);
        }
    } else if let Some(owner) = &asked.owner {
        let table = tx.open(OPERATIONS)?;
        // The character after the slash ends the range.
        let (first, end) = (format!("{owner}/"), format!("{owner}0"));
        let range = table.range(first.as_str()..end.as_str());
        for entry in range.map_err(JournalError::storage)? {
            let (_, record) = entry.map_err(JournalError::storage)?;
            found.push(decode(record.value())?);
        }
    } else {
        let table = tx.open(OPERATIONS)?;
        for entry in table.iter().map_err(JournalError::storage)? {
            let (_, record) = entry.map_err(JournalError::storage)?;
            found.push(decode(record.value())?);
        }
    }
    found.retain(|record: &OperationRecord| {
        let of_host = asked.host.as_ref().is_none_or(|host| *host == record.host);
        let of_owner = asked
            .owner
            .as_ref()
            .is_none_or(|owner| *owner == record.owner);
        of_host && of_owner && !(asked.running_only && record.outcome.is_some())
    });
    found.sort_by(|one, other| (other.begun, &other.id).cmp(&(one.begun, &one.id)));
    found.truncate(asked.limit);
    Ok(found)
}

/// Time of the last command, after `since`, of an operation of the host that `action` may undo. Reads only
/// operations that run or have ended since then.
pub(super) fn last_command(
    tx: &ReadTx,
    host: &HostKeys,
    action: Action,
    since: i64,
) -> Result<Option<i64>, JournalError> {
    let mut ids: Vec<String> = Vec::new();
    let running = tx.open(RUNNING)?;
    for entry in running.iter().map_err(JournalError::storage)? {
        ids.push(entry.map_err(JournalError::storage)?.0.value().to_owned());
    }
    let ended = tx.open(ENDED)?;
    let later = ended.range((since, "")..).map_err(JournalError::storage)?;
    for entry in later {
        ids.push(entry.map_err(JournalError::storage)?.0.value().1.to_owned());
    }
    let mut last = None;
    for id in ids {
        let Some(record) = get::<OperationRecord>(tx, OPERATIONS, &id)? else {
            continue;
        };
        if record.device == Device::Bmc && action.may_undo(&record.action) && host.mean(&record.key)
        {
            let sent = record.sending.into_iter().max();
            last = last.max(sent.filter(|at| *at >= since));
        }
    }
    Ok(last)
}

/// Operations that are looked at for what was read of a host.
const MAX_LOOKED: usize = 512;

/// What an operation read of the system of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadSystem {
    /// Id of the operation.
    pub(crate) operation: String,
    /// Its end, in nanoseconds of the Unix epoch.
    pub(crate) ended: i64,
    /// System UUID and serial number; one of them is not empty.
    pub(crate) identity: v1::SystemIdentity,
}

/// What the last confirmed operation at the BMC of the host read of its system over Redfish, among the newest
/// operations. A GUID over IPMI is not remembered: some BMCs have a new one at each start.
pub(super) fn last_system(
    tx: &ReadTx,
    host: &HostKeys,
) -> Result<Option<ReadSystem>, JournalError> {
    let ended = tx.open(ENDED)?;
    let newest = ended.iter().map_err(JournalError::storage)?.rev();
    for entry in newest.take(MAX_LOOKED) {
        let (at_and_id, _) = entry.map_err(JournalError::storage)?;
        let id = at_and_id.value().1;
        let Some(record) = get::<OperationRecord>(tx, OPERATIONS, id)? else {
            continue;
        };
        if record.device == Device::Bmc
            && host.mean(&record.key)
            && let Some(RecordedOutcome::Reported(outcome)) = &record.outcome
            && outcome.code() == v1::OutcomeCode::Confirmed
            && let Some(identity) = read_system(outcome)
        {
            return Ok(Some(ReadSystem {
                operation: record.id,
                ended: record.ended,
                identity,
            }));
        }
    }
    Ok(None)
}

/// The system that the last reading with one names.
fn read_system(outcome: &v1::Outcome) -> Option<v1::SystemIdentity> {
    let readings = outcome.readings.iter().rev();
    readings
        .filter(|reading| reading.protocol() == v1::Protocol::Redfish)
        .filter_map(|reading| reading.identity.clone())
        .find(|identity| !identity.system_uuid.is_empty() || !identity.serial.is_empty())
}
