//! Queries for current and past operations.

use rackhand_agent_core::{
    host_key::HostKeys,
    ledger::{Action, Device},
};
use redb::ReadableTable;

use super::{
    JournalError, OperationRecord,
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
