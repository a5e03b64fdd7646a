//! Operations after they have started, and their retention.

use std::{collections::BTreeMap, time::Duration};

use super::{Change, RecordedOutcome, Records, release_siblings};
use crate::host_key::HostKeys;

/// Maximum number of operations removed in one transaction.
const FORGOTTEN_AT_ONCE: usize = 16;

/// Retention of finished operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum number of finished operations that are kept.
    pub operations: u64,
    /// Maximum age after their end.
    pub age: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            operations: 10_000,
            age: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

/// Whether a request has arrived before `latest`, after which it must start nothing. The controller
/// relies on it (F6): later it may command the BMC through another agent.
pub fn is_in_time(latest: Option<Duration>, now: Duration) -> bool {
    latest.is_none_or(|latest| now <= latest)
}

/// Records a command before it is sent. It may be sent once this is persisted.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn sending<V: Records>(
    records: &V,
    id: &str,
    now: i64,
) -> Result<Option<Change<V::Report>>, V::Error> {
    let operation = records.operation(id)?;
    Ok(operation.map(|mut operation| {
        operation.sending.push(now);
        Change::Operation(Box::new(operation))
    }))
}

/// Records a power-on of shared outlets before it is sent: the other hosts that they feed are held no longer.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn sending_shared_on<V: Records>(
    records: &V,
    id: &str,
    host: &HostKeys,
    now: i64,
) -> Result<Vec<Change<V::Report>>, V::Error> {
    let mut changes = release_siblings(&records.holds()?, host);
    changes.extend(sending(records, id, now)?);
    Ok(changes)
}

/// Records the caller that cancelled an operation; only the first is kept.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn cancelled<V: Records>(
    records: &V,
    id: &str,
    by: &str,
) -> Result<Option<Change<V::Report>>, V::Error> {
    let operation = records.operation(id)?;
    let operation = operation.filter(|operation| operation.cancelled_by.is_empty());
    Ok(operation.map(|mut operation| {
        operation.cancelled_by = by.to_owned();
        Change::Operation(Box::new(operation))
    }))
}

/// Records the outcome of an operation.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn finish<V: Records>(
    records: &V,
    id: &str,
    now: i64,
    outcome: RecordedOutcome<V::Report>,
) -> Result<Option<Change<V::Report>>, V::Error> {
    let operation = records.operation(id)?;
    Ok(operation.map(|mut operation| {
        operation.outcome = Some(outcome);
        operation.ended = now;
        Change::Operation(Box::new(operation))
    }))
}

/// Ends an operation that was running when the agent ended.
fn interrupt<V: Records>(
    records: &V,
    id: &str,
    now: i64,
) -> Result<Option<Change<V::Report>>, V::Error> {
    let operation = records.operation(id)?;
    let commands_sent = operation.map_or(0, |operation| operation.sending.len());
    finish(
        records,
        id,
        now,
        RecordedOutcome::Interrupted { commands_sent },
    )
}

/// Ends the operations that an earlier process left running, and returns their ids. None of them is
/// repeated.
///
/// # Errors
///
/// The stored records cannot be read.
#[allow(clippy::type_complexity, reason = "the ids, with the changes")]
pub fn interrupt_running<V: Records>(
    records: &V,
    now: i64,
) -> Result<(Vec<String>, Vec<Change<V::Report>>), V::Error> {
    let running = records.running()?;
    let mut changes = Vec::new();
    for id in &running {
        changes.extend(interrupt(records, id, now)?);
    }
    Ok((running, changes))
}

/// After failed writes: records the missing outcomes, and ends operations that were accepted
/// although the caller got an error. `is_live`: whether an operation of this process is running.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn settle<V: Records>(
    records: &V,
    is_live: impl Fn(&str) -> bool,
    outcomes: &BTreeMap<String, (i64, V::Report)>,
    now: i64,
) -> Result<Vec<Change<V::Report>>, V::Error> {
    let mut changes = Vec::new();
    for (id, (at, outcome)) in outcomes {
        changes.extend(finish(
            records,
            id,
            *at,
            RecordedOutcome::Reported(outcome.clone()),
        )?);
    }
    for id in records.running()? {
        if !is_live(&id) && !outcomes.contains_key(&id) {
            changes.extend(interrupt(records, &id, now)?);
        }
    }
    Ok(changes)
}

/// Removes operations beyond the retention, a few per transaction.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn prune<V: Records>(
    records: &V,
    now: i64,
    keep: Retention,
) -> Result<Vec<Change<V::Report>>, V::Error> {
    let oldest = now.saturating_sub(i64::try_from(keep.age.as_nanos()).unwrap_or(i64::MAX));
    let surplus = records.ended()?.saturating_sub(keep.operations);
    let surplus = usize::try_from(surplus).unwrap_or(usize::MAX);
    let first = records.first_ended(FORGOTTEN_AT_ONCE)?.into_iter();
    let forgotten = first
        .enumerate()
        .take_while(|(n, (ended, _))| *n < surplus || *ended < oldest);
    Ok(forgotten
        .map(|(_, (ended, id))| Change::Forget { ended, id })
        .collect())
}
