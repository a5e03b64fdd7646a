//! The journal: state of the agent that survives a crash.
//!
//! Owns: terms, sequences, holds and operations on disk, and the thread that writes them. Must never: report
//! success before the data are on disk, store a secret, or decide about permissions: `rackhand_agent_core::ledger`
//! does.

mod file;
mod identity;
mod ledger;
mod messages;
mod query;
mod read_system;
mod records;
mod running;
#[cfg(test)]
pub(crate) mod storage_faults;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use rackhand_proto::v1;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use rackhand_agent_core::{
    host_key::HostKeys,
    ledger::{
        self as rules, Action, Authority, Hold, Host, KnownTerm, NotSetBack, OwedPowerOn,
        RecordedOutcome, Records, Refused, Release, Reservation, Reserved, Retention, SetBack,
        StartAnswer, StartRequest, Term, Version,
    },
};

pub(crate) use file::IfDamaged;
use file::{SCHEMA, open_or_create, prepare};
use ledger::{View, decide, write, write_operation};
pub(crate) use messages::{interrupted, outcome_to_proto, refused_status};
pub(crate) use query::OperationFilter;
pub(crate) use read_system::ReadSystem;
pub(crate) use records::{IdentityRecord, OperationRecord};
use running::RunningOperations;
use store::{OnDisk, OpenedJournal, ReadTx, Source, Store};
use tables::{OPERATIONS, get, put};
use writer::{Tx, Writer};

use crate::blocking;

/// Errors of the journal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Another process has it open.
    #[error("journal {0} is in use: another agent runs with this state directory")]
    InUse(String),
    /// Written by a newer version.
    #[error(
        "journal {path} has format {found}, this version supports up to {SCHEMA}; do not downgrade the agent"
    )]
    Newer {
        /// The file that is affected.
        path: String,
        /// The format version of the file.
        found: u64,
    },
    /// The file cannot be opened.
    #[error("journal {path}: {reason}")]
    Open {
        /// The file that is affected.
        path: String,
        /// The reason, as the storage engine reports it.
        reason: String,
    },
    /// The file does not exist.
    #[error("journal {0} is missing")]
    Missing(String),
    /// The file exists, but is not a valid journal.
    #[error("journal {path} is damaged: {reason}")]
    Damaged {
        /// The file that is affected.
        path: String,
        /// The reason, as the storage engine reports it.
        reason: String,
    },
    /// The file was replaced by another journal while the agent ran.
    #[error("journal {path} was replaced by another one ({instance}) while the agent ran")]
    Other {
        /// The file that is affected.
        path: String,
        /// Instance id of the other journal.
        instance: String,
    },
    /// The file was replaced by an older copy while the agent ran.
    #[error("journal {0} was replaced by an older copy of it while the agent ran")]
    Older(String),
    /// A write or read failed.
    #[error("journal: {0}")]
    Storage(String),
    /// A record cannot be decoded; the file as a whole is valid.
    #[error("journal: a record is damaged: {0}")]
    Record(String),
    /// The writer has ended: the agent is stopping.
    #[error("journal is closed")]
    Closed,
}

impl JournalError {
    fn storage(error: impl Into<redb::Error>) -> Self {
        Self::Storage(error.into().to_string())
    }

    /// Whether the error is permanent for this process.
    fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Missing(_)
                | Self::Damaged { .. }
                | Self::Other { .. }
                | Self::Older(_)
                | Self::Newer { .. }
        )
    }
}

/// The journal. Clones share it; it is closed with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    store: Arc<Store>,
    writer: Arc<Writer>,
    running: RunningOperations,
    keep: Retention,
}

impl Journal {
    /// Opens or creates the journal, and ends every operation that an earlier process left running.
    /// Returns those operations. Blocks on the disk.
    pub(crate) fn open(
        path: &Path,
        if_damaged: IfDamaged,
        keep: Retention,
        now: i64,
    ) -> Result<(Self, Vec<String>), JournalError> {
        let db = open_or_create(path, if_damaged, now)?;
        Self::start(Box::new(OnDisk(path.to_owned())), path, db, keep, now)
    }

    fn start(
        source: Box<dyn Source>,
        path: &Path,
        db: redb::Database,
        keep: Retention,
        now: i64,
    ) -> Result<(Self, Vec<String>), JournalError> {
        let shown = path.display().to_string();
        let before = identity::noted(path).ok().flatten();
        let tx = Tx::begin(&db)?;
        let identity = prepare(&tx, &shown, v1::JournalOrigin::First, now)?;
        let identity = identity::renew_if_older(&tx, identity, before.as_ref(), now)?;
        let (interrupted, changes) = rules::interrupt_running(&View(&tx), now)?;
        write(&tx, changes)?;
        let generation = identity::count_write(&tx)?;
        tx.commit()?;
        report_identity(
            &shown,
            &identity,
            before.map(|note| note.instance).as_deref(),
        );
        // Without the note a later loss of the file would look like a first start.
        let note = Version {
            instance: identity.instance.clone(),
            generation,
        };
        identity::write_note(path, &note).map_err(|error| JournalError::Open {
            path: shown.clone(),
            reason: format!("cannot note its instance beside it: {error}"),
        })?;
        let running = RunningOperations::default();
        let file = OpenedJournal {
            path: path.to_owned(),
            identity,
            generation,
            db,
        };
        let store = Arc::new(Store::new(source, file, running.clone()));
        let journal = Self {
            writer: Arc::new(Writer::start(store.clone())?),
            store,
            running,
            keep,
        };
        Ok((journal, interrupted))
    }

    /// Identity of the journal.
    pub(crate) fn identity(&self) -> &IdentityRecord {
        self.store.identity()
    }

    /// Instance and generation on disk.
    pub(crate) fn version(&self) -> Version {
        self.store.version()
    }

    /// Number of writes to the file.
    pub(crate) fn generation(&self) -> u64 {
        self.store.generation()
    }

    /// Handles a caller that has seen this journal with a higher generation: the file is an older
    /// copy, and only a new process can continue, with another instance id.
    pub(crate) async fn seen_newer(&self, generation: u64) {
        let store = self.store.clone();
        let noted = blocking::run(move || store.seen_newer(generation));
        noted.await.ok();
    }

    /// Reason why the journal cannot be written now; `None`: it can.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    /// Cancelled when this process cannot continue with its journal: the file is missing, damaged
    /// or replaced.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.store.lost()
    }

    /// Number of times the file was reopened after an error.
    pub(crate) fn reopened(&self) -> u64 {
        self.store.reopened()
    }

    /// Closes the file; remaining clones get `Closed` from then on. Blocks on the disk.
    pub(crate) fn close(&self) {
        self.writer.close();
    }

    /// Reads a snapshot, concurrently with writes. After a disk error it retries once with the file
    /// reopened.
    async fn read<T, F>(&self, read: F) -> Result<T, JournalError>
    where
        T: Send + 'static,
        F: Fn(&ReadTx) -> Result<T, JournalError> + Send + Sync + 'static,
    {
        let read = Arc::new(read);
        let once = || {
            let (store, read) = (self.store.clone(), read.clone());
            async move {
                blocking::run(move || store.read(|tx| read(tx)))
                    .await
                    .unwrap_or(Err(JournalError::Closed))
            }
        };
        let result = once().await;
        match &result {
            Err(error) if self.store.note(error) => {
                self.writer.reopen().await;
                once().await
            }
            _ => result,
        }
    }

    /// Claims a term. `Err(highest)`: a newer term is known, or another holder has this one.
    pub(crate) async fn claim(
        &self,
        election: String,
        asked: Term,
    ) -> Result<Result<u64, Term>, JournalError> {
        self.writer
            .write(move |tx| decide(tx, |view| rules::claim(view, &election, asked)))
            .await
    }

    /// The terms of all elections, with the times they were set back.
    pub(crate) async fn terms(&self) -> Result<Vec<KnownTerm>, JournalError> {
        self.read(|tx| rules::known_terms(&View(tx))).await
    }

    /// Sets a term back and records caller and reason, in one transaction.
    pub(crate) async fn set_back_term(
        &self,
        asked: SetBack,
    ) -> Result<Result<KnownTerm, NotSetBack>, JournalError> {
        self.writer
            .write(move |tx| decide(tx, |view| asked.decide(view)))
            .await
    }

    /// Decides on a new operation and records it, in one transaction.
    pub(crate) async fn accept(
        &self,
        start: StartRequest,
    ) -> Result<StartAnswer<v1::Outcome>, JournalError> {
        let id = start.id.clone();
        let answer = self
            .writer
            .write(move |tx| decide(tx, |view| start.decide(view)))
            .await?;
        if matches!(answer, StartAnswer::Started { .. }) {
            self.running.begun(&id);
        }
        Ok(answer)
    }

    /// Releases a hold, if the caller may. `Ok(None)`: there was none.
    pub(crate) async fn release(
        &self,
        release: Release,
    ) -> Result<Result<Option<Hold>, Refused>, JournalError> {
        self.writer
            .write(move |tx| decide(tx, |view| release.decide(view)))
            .await
    }

    /// Records a change other than power before it is made; `finish` ends it.
    pub(crate) async fn begin_change(&self, record: OperationRecord) -> Result<(), JournalError> {
        let id = record.id.clone();
        self.writer
            .write(move |tx| write_operation(tx, &record))
            .await?;
        self.running.begun(&id);
        Ok(())
    }

    /// Records a cancellation before it takes effect.
    pub(crate) async fn cancelled(&self, id: String, by: String) -> Result<(), JournalError> {
        self.writer
            .write(move |tx| write(tx, rules::cancelled(&View(tx), &id, &by)?))
            .await
    }

    /// Checks whether a controller's term may still stop operations.
    pub(crate) async fn check_term(
        &self,
        authority: Authority,
    ) -> Result<Result<(), Refused>, JournalError> {
        self.read(move |tx| rules::check_term(&View(tx), &authority))
            .await
    }

    /// Records a command before it is sent.
    pub(crate) async fn sending(&self, id: String, at: i64) -> Result<(), JournalError> {
        self.writer
            .write(move |tx| write(tx, rules::sending(&View(tx), &id, at)?))
            .await
    }

    /// Holds the other hosts of shared outlets, before these are switched off.
    pub(crate) async fn reserve(&self, reservation: Reservation) -> Result<Reserved, JournalError> {
        self.writer
            .write(move |tx| decide(tx, |view| reservation.decide(view)))
            .await
    }

    /// Ends a reservation after which nothing was switched.
    pub(crate) async fn release_reserved(&self, keys: Vec<String>) -> Result<(), JournalError> {
        self.writer
            .write(move |tx| write(tx, rules::release_reserved(&keys)))
            .await
    }

    /// Records a power-on of shared outlets before it is sent.
    pub(crate) async fn sending_shared_on(
        &self,
        id: String,
        host: HostKeys,
        at: i64,
    ) -> Result<(), JournalError> {
        self.writer
            .write(move |tx| write(tx, rules::sending_shared_on(&View(tx), &id, &host, at)?))
            .await
    }

    /// Records the outcome of an operation. If the journal cannot be written now, the outcome is
    /// written when it is reopened.
    pub(crate) async fn finish(
        &self,
        id: String,
        at: i64,
        outcome: v1::Outcome,
    ) -> Result<(), JournalError> {
        let keep = self.keep;
        self.running.over(&id, at, outcome.clone());
        let over = id.clone();
        let finish = move |tx: &Tx| {
            let outcome = RecordedOutcome::Reported(outcome);
            write(tx, rules::finish(&View(tx), &over, at, outcome)?)?;
            write(tx, rules::prune(&View(tx), at, keep)?)
        };
        let written = self.writer.write(finish).await;
        if written.is_ok() {
            self.running.written(std::iter::once(&id));
        }
        written
    }

    /// Adds the power reading that follows an interrupted operation.
    pub(crate) async fn amend(
        &self,
        id: String,
        reading: v1::PowerReading,
    ) -> Result<(), JournalError> {
        let amend = move |tx: &Tx| {
            let Some(mut record) = get::<OperationRecord>(tx, OPERATIONS, &id)? else {
                return Ok(());
            };
            if let Some(outcome) = record.outcome.take() {
                let mut outcome = outcome_to_proto(outcome);
                outcome.readings = vec![reading];
                record.outcome = Some(RecordedOutcome::Reported(outcome));
                put(tx, OPERATIONS, &id, &record)?;
            }
            Ok(())
        };
        self.writer.write(amend).await
    }

    /// The power-ons that are owed for interrupted operations (F17).
    pub(crate) async fn owed_power_ons(
        &self,
        interrupted: Vec<String>,
    ) -> Result<Vec<OwedPowerOn>, JournalError> {
        self.read(move |tx| rules::owed_power_ons(&View(tx), &interrupted))
            .await
    }

    /// The record of one operation.
    pub(crate) async fn operation(
        &self,
        id: String,
    ) -> Result<Option<OperationRecord>, JournalError> {
        self.read(move |tx| get(tx, OPERATIONS, &id)).await
    }

    /// The operations that match the filter, newest first.
    pub(crate) async fn operations(
        &self,
        asked: OperationFilter,
    ) -> Result<Vec<OperationRecord>, JournalError> {
        self.read(move |tx| query::operations(tx, &asked)).await
    }

    /// Time of the last command, after `since`, of an operation of the host whose effect `action` may undo.
    pub(crate) async fn last_command(
        &self,
        host: HostKeys,
        action: Action,
        since: i64,
    ) -> Result<Option<i64>, JournalError> {
        self.read(move |tx| query::last_command(tx, &host, action, since))
            .await
    }

    /// What the confirmed operations of the host read of its system, among the newest operations.
    pub(crate) async fn last_system(
        &self,
        host: HostKeys,
    ) -> Result<Option<ReadSystem>, JournalError> {
        self.read(move |tx| read_system::last_system(tx, &host))
            .await
    }

    /// All holds, by host key.
    pub(crate) async fn holds(&self) -> Result<Vec<(String, Hold)>, JournalError> {
        self.read(|tx| View(tx).holds()).await
    }

    /// The hold on one host; a hold of another owner takes precedence over one of `owner`.
    pub(crate) async fn hold(
        &self,
        host: Host,
        owner: String,
    ) -> Result<Option<Hold>, JournalError> {
        self.read(move |tx| rules::hold_on(&View(tx), &host, &owner))
            .await
    }
}

/// Logs the identity of the journal at start, as a warning if an earlier journal was lost.
fn report_identity(shown: &str, identity: &IdentityRecord, before: Option<&str>) {
    let instance = identity.instance.as_str();
    if before == Some(instance) {
        info!(journal = shown, instance, "journal opened");
        return;
    }
    match (identity.origin(), before) {
        (v1::JournalOrigin::Unspecified | v1::JournalOrigin::First, None) => {
            info!(journal = shown, instance, "journal created");
        }
        (origin, before) => warn!(
            journal = shown,
            instance,
            before,
            origin = origin.as_str_name(),
            "this is not the journal of the last start: terms, holds and operations of before are \
             not known. Look at the hosts that were held off (power status) before switching any"
        ),
    }
}

/// Current time in nanoseconds of the Unix epoch.
pub(crate) fn wall_clock() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
