//! What the agent must still know after a crash.
//!
//! Owns: terms, sequences, holds and operations on disk, and the one thread that writes them.
//! Must never: say "done" before the disk has it, keep a secret, or decide who may do what: that is
//! `rackhand_agent_core::ledger`.

mod file;
mod identity;
mod ledger;
mod messages;
mod query;
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

use rackhand_agent_core::ledger::{
    self as rules, Admission, Admitted, Authority, Hold, Host, KnownTerm, NotSetBack, Outcome,
    Records, Refused, Release, Retention, SetBack, Term, Version,
};

pub(crate) use file::IfDamaged;
use file::{SCHEMA, open_or_create, prepare};
use ledger::{View, decide, write, write_operation};
pub(crate) use messages::{interrupted, refused_status};
pub(crate) use query::OperationFilter;
pub(crate) use records::{IdentityRecord, OperationRecord};
use running::RunningOperations;
use store::{OnDisk, OpenedJournal, ReadTx, Source, Store};
use tables::{OPERATIONS, get, put};
use writer::{Tx, Writer};

use crate::blocking;

/// Why the journal does not work.
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
    /// The file is not there.
    #[error("journal {0} is missing")]
    Missing(String),
    /// The file is there and cannot be read as a journal.
    #[error("journal {path} is damaged: {reason}")]
    Damaged {
        /// The file that is affected.
        path: String,
        /// The reason, as the storage engine reports it.
        reason: String,
    },
    /// Another file has taken its place while the agent ran.
    #[error("journal {path} was replaced by another one ({instance}) while the agent ran")]
    Other {
        /// The file that is affected.
        path: String,
        /// The instance of the other one.
        instance: String,
    },
    /// An older copy has taken its place while the agent ran.
    #[error("journal {0} was replaced by an older copy of it while the agent ran")]
    Older(String),
    /// A write or a read failed.
    #[error("journal: {0}")]
    Storage(String),
    /// A record does not read; the file as such is good.
    #[error("journal: a record is damaged: {0}")]
    Record(String),
    /// The writer is gone: the agent is stopping.
    #[error("journal is closed")]
    Closed,
}

impl JournalError {
    fn storage(error: impl Into<redb::Error>) -> Self {
        Self::Storage(error.into().to_string())
    }

    /// Whether what was written down is lost to this process, however often it tries.
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

/// The journal. Cloning shares it; it closes with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    store: Arc<Store>,
    writer: Arc<Writer>,
    running: RunningOperations,
    keep: Retention,
}

impl Journal {
    /// Opens or creates the journal, and ends every operation that an earlier run left running.
    /// Returns those. Blocks on the disk.
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

    /// Which journal it is.
    pub(crate) fn identity(&self) -> &IdentityRecord {
        self.store.identity()
    }

    /// The journal as far as the disk has it.
    pub(crate) fn version(&self) -> Version {
        self.store.version()
    }

    /// How often it was written.
    pub(crate) fn generation(&self) -> u64 {
        self.store.generation()
    }

    /// Somebody has seen this journal with a higher generation: the file is an older copy, and only a
    /// new process can go on, with another instance.
    pub(crate) async fn seen_newer(&self, generation: u64) {
        let store = self.store.clone();
        let noted = blocking::run(move || store.seen_newer(generation));
        noted.await.ok();
    }

    /// Why nothing can be written just now; `None`: it can.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    /// Is cancelled when this process cannot go on with its journal: the file is gone, damaged or
    /// another one.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.store.lost()
    }

    /// How often it was opened again after an error.
    pub(crate) fn reopened(&self) -> u64 {
        self.store.reopened()
    }

    /// Closes the file, whoever still has a clone; they get `Closed` from then on. Blocks on the
    /// disk.
    pub(crate) fn close(&self) {
        self.writer.close();
    }

    /// Reads a snapshot, beside whatever is being written. After an error of the disk it tries
    /// once more with the file opened anew.
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

    /// Makes a term known. `Err(highest)` where a newer one is, or another holder has this one.
    pub(crate) async fn claim(
        &self,
        election: String,
        asked: Term,
    ) -> Result<Result<u64, Term>, JournalError> {
        self.writer
            .write(move |tx| decide(tx, |view| rules::claim(view, &election, asked)))
            .await
    }

    /// All elections, with how their terms were set back.
    pub(crate) async fn terms(&self) -> Result<Vec<KnownTerm>, JournalError> {
        self.read(|tx| rules::known_terms(&View(tx))).await
    }

    /// Sets a term back and writes down who asked and why, in one step.
    pub(crate) async fn set_back_term(
        &self,
        asked: SetBack,
    ) -> Result<Result<KnownTerm, NotSetBack>, JournalError> {
        self.writer
            .write(move |tx| decide(tx, |view| asked.decide(view)))
            .await
    }

    /// Decides about a new operation and writes it down, in one step.
    pub(crate) async fn admit(
        &self,
        admission: Admission,
    ) -> Result<Admitted<v1::Outcome>, JournalError> {
        let id = admission.id.clone();
        let admitted = self
            .writer
            .write(move |tx| decide(tx, |view| admission.decide(view)))
            .await?;
        if matches!(admitted, Admitted::Started { .. }) {
            self.running.begun(&id);
        }
        Ok(admitted)
    }

    /// Lifts a hold, if the caller may. `Ok(None)`: there was none.
    pub(crate) async fn release(
        &self,
        release: Release,
    ) -> Result<Result<Option<Hold>, Refused>, JournalError> {
        self.writer
            .write(move |tx| decide(tx, |view| release.decide(view)))
            .await
    }

    /// A change beside power is about to be made; `finish` ends it.
    pub(crate) async fn begin_change(&self, record: OperationRecord) -> Result<(), JournalError> {
        let id = record.id.clone();
        self.writer
            .write(move |tx| write_operation(tx, &record))
            .await?;
        self.running.begun(&id);
        Ok(())
    }

    /// An operation is about to be cancelled.
    pub(crate) async fn cancelled(&self, id: String, by: String) -> Result<(), JournalError> {
        self.writer
            .write(move |tx| write(tx, rules::cancelled(&View(tx), &id, &by)?))
            .await
    }

    /// Whether a controller's term may still stop things.
    pub(crate) async fn check_term(
        &self,
        authority: Authority,
    ) -> Result<Result<(), Refused>, JournalError> {
        self.read(move |tx| rules::check_term(&View(tx), &authority))
            .await
    }

    /// A command is about to leave.
    pub(crate) async fn sending(&self, id: String, at: i64) -> Result<(), JournalError> {
        self.writer
            .write(move |tx| write(tx, rules::sending(&View(tx), &id, at)?))
            .await
    }

    /// An operation is over. Where that cannot be written now, it is as soon as the file can be
    /// written again.
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
            let outcome = Outcome::Reported(outcome);
            write(tx, rules::finish(&View(tx), &over, at, outcome)?)?;
            write(tx, rules::prune(&View(tx), at, keep)?)
        };
        let written = self.writer.write(finish).await;
        if written.is_ok() {
            self.running.written(std::iter::once(&id));
        }
        written
    }

    /// What the BMC says after an interrupted operation.
    pub(crate) async fn amend(
        &self,
        id: String,
        reading: v1::PowerReading,
    ) -> Result<(), JournalError> {
        let amend = move |tx: &Tx| {
            let Some(mut record) = get::<OperationRecord>(tx, OPERATIONS, &id)? else {
                return Ok(());
            };
            if let Some(outcome) = &mut record.outcome {
                outcome.readings = vec![reading];
                put(tx, OPERATIONS, &id, &record)?;
            }
            Ok(())
        };
        self.writer.write(amend).await
    }

    /// The record of one operation.
    pub(crate) async fn operation(
        &self,
        id: String,
    ) -> Result<Option<OperationRecord>, JournalError> {
        self.read(move |tx| get(tx, OPERATIONS, &id)).await
    }

    /// Operations that were asked for, the newest first.
    pub(crate) async fn operations(
        &self,
        asked: OperationFilter,
    ) -> Result<Vec<OperationRecord>, JournalError> {
        self.read(move |tx| query::operations(tx, &asked)).await
    }

    /// All holds, by host key.
    pub(crate) async fn holds(&self) -> Result<Vec<(String, Hold)>, JournalError> {
        self.read(|tx| View(tx).holds()).await
    }

    /// The hold on one host, of somebody else before one of the owner.
    pub(crate) async fn hold(
        &self,
        host: Host,
        owner: String,
    ) -> Result<Option<Hold>, JournalError> {
        self.read(move |tx| rules::hold_on(&View(tx), &host, &owner))
            .await
    }
}

/// Says at start which journal it is, loudly where an earlier one is lost.
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

/// For the journal: nanoseconds of the Unix epoch.
pub(crate) fn wall_clock() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
