//! The course of an operation after its admission, and for how long it is remembered.

use std::{collections::BTreeMap, time::Duration};

use super::{Change, Outcome, Records};

/// Operations that are forgotten in one transaction at most.
const FORGOTTEN_AT_ONCE: usize = 16;

/// How long finished operations are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// At most so many.
    pub operations: u64,
    /// And none that ended longer ago.
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

/// Whether a request that must not begin anything after `latest` has come in time. The controller counts
/// on it (F6): later it may command the BMC through another agent.
pub fn is_in_time(latest: Option<Duration>, now: Duration) -> bool {
    latest.is_none_or(|latest| now <= latest)
}

/// A command is about to be sent. It may be sent once this is persisted.
///
/// # Errors
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

/// Records who cancelled an operation; the first counts.
///
/// # Errors
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

/// An operation is over.
///
/// # Errors
/// The stored records cannot be read.
pub fn finish<V: Records>(
    records: &V,
    id: &str,
    now: i64,
    outcome: Outcome<V::Report>,
) -> Result<Option<Change<V::Report>>, V::Error> {
    let operation = records.operation(id)?;
    Ok(operation.map(|mut operation| {
        operation.outcome = Some(outcome);
        operation.ended = now;
        Change::Operation(Box::new(operation))
    }))
}

/// Ends an operation that the agent did not survive.
fn interrupt<V: Records>(
    records: &V,
    id: &str,
    now: i64,
) -> Result<Option<Change<V::Report>>, V::Error> {
    let operation = records.operation(id)?;
    let commands_sent = operation.map_or(0, |operation| operation.sending.len());
    finish(records, id, now, Outcome::Interrupted { commands_sent })
}

/// Ends what an earlier process left running, and returns the ids. Nothing of it is repeated.
///
/// # Errors
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

/// After writes that failed: records the outcomes that were missed, and ends what was admitted although
/// the caller was told otherwise. `is_live`: whether an operation of this process goes on.
///
/// # Errors
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
            Outcome::Reported(outcome.clone()),
        )?);
    }
    for id in records.running()? {
        if !is_live(&id) && !outcomes.contains_key(&id) {
            changes.extend(interrupt(records, &id, now)?);
        }
    }
    Ok(changes)
}

/// Forgets what is too old or too much, a few at a time.
///
/// # Errors
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
