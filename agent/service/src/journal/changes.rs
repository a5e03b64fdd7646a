//! What changes a host or an operation without being a power operation: written down with who asked,
//! in the same list as the operations.

use rackhand_proto::v1;

use super::{
    HoldRecord, JournalError, OperationRecord, Refused,
    admission::{self, Authority},
    holds::{self, Host},
    outcomes::finish,
    tables::{OPERATIONS, RUNNING, get, put},
    writer::Tx,
};

/// A record of something that is under way from now on.
pub(super) fn begin(tx: &Tx, record: &OperationRecord) -> Result<(), JournalError> {
    put(tx, OPERATIONS, &record.id, record)?;
    tx.open(RUNNING)?
        .insert(record.id.as_str(), ())
        .map_err(JournalError::storage)?;
    Ok(())
}

/// Notes who cancelled an operation; the first counts.
pub(super) fn cancelled(tx: &Tx, id: &str, by: &str) -> Result<(), JournalError> {
    if let Some(mut record) = get::<OperationRecord>(tx, OPERATIONS, id)?
        && record.cancelled_by.is_empty()
    {
        record.cancelled_by = by.to_owned();
        put(tx, OPERATIONS, id, &record)?;
    }
    Ok(())
}

/// A request to lift a hold.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    /// Names the record of it.
    pub(crate) id: String,
    /// The host's key.
    pub(crate) key: String,
    /// The same host by its addresses.
    pub(crate) at: Host,
    /// By what right.
    pub(crate) authority: Authority,
    /// In whose name.
    pub(crate) owner: String,
    /// Although somebody else holds the host.
    pub(crate) force: bool,
    /// Nanoseconds of the Unix epoch.
    pub(crate) now: i64,
}

impl Release {
    /// Lifts the hold and writes down who did. `Ok(None)`: there was none.
    pub(super) fn run(&self, tx: &Tx) -> Result<Result<Option<HoldRecord>, Refused>, JournalError> {
        if let Err(refused) = admission::check_term(tx, &self.authority)? {
            return Ok(Err(refused));
        }
        let holds = holds::find(tx, &self.at)?.on_host;
        let first = holds.iter().map(|(_, hold)| hold);
        let hold = first.min_by_key(|hold| hold.owner == self.owner).cloned();
        let host = hold
            .as_ref()
            .map_or(self.key.as_str(), |hold| hold.host.as_str());
        if let Some(refused) = admission::check_sequence(tx, &self.authority, &self.key, host)? {
            return Ok(Err(refused));
        }
        match hold {
            Some(hold) if hold.owner != self.owner && !self.force => Ok(Err(Refused::Held(hold))),
            hold => {
                admission::take_sequence(tx, &self.authority, &self.key)?;
                holds::remove(tx, &holds)?;
                if let Some(hold) = &hold {
                    self.write(tx, hold)?;
                }
                Ok(Ok(hold))
            }
        }
    }

    fn write(&self, tx: &Tx, hold: &HoldRecord) -> Result<(), JournalError> {
        let is_other = hold.owner != self.owner;
        let record = OperationRecord {
            id: self.id.clone(),
            key: self.key.clone(),
            host: hold.host.clone(),
            action: "release".to_owned(),
            owner: self.owner.clone(),
            by: self.authority.to_string(),
            begun: self.now,
            force: self.force,
            overrode: if is_other {
                hold.owner.clone()
            } else {
                String::new()
            },
            detail: format!("hold of {}", hold.owner),
            ..OperationRecord::default()
        };
        begin(tx, &record)?;
        let outcome = v1::Outcome {
            code: v1::OutcomeCode::Confirmed.into(),
            message: format!("host {}: the hold of {} was lifted", hold.host, hold.owner),
            ..v1::Outcome::default()
        };
        finish(tx, &self.id, self.now, outcome)
    }
}
