//! The open database: concurrent reads, one writing thread, and reopening after an error.
//!
//! The storage engine rejects all work after its first I/O error until the file is reopened, so one
//! full disk would disable the agent permanently. Must never: create a file, or continue with
//! another file than the one it opened first.

use std::{
    fmt,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, RwLock};
use rackhand_agent_core::ledger::{Replaced, Version, replaced, settle};
use redb::{Database, Key, ReadTransaction, ReadableDatabase, TableDefinition, Value};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{
    JournalError,
    file::{self, prepare},
    identity,
    ledger::{View, write},
    records::IdentityRecord,
    running::RunningOperations,
    tables::PROBE,
    writer::Tx,
};

/// Size in bytes of a probe write: sufficient for the records of some hundred operations.
const PROBE_SIZE: usize = 256 * 1024;

/// How the file is opened; tests insert a failing disk.
pub(super) trait Source: fmt::Debug + Send + Sync {
    /// Opens the file, which must exist.
    fn open(&self) -> Result<Database, JournalError>;
}

/// The file on the disk.
#[derive(Debug)]
pub(super) struct OnDisk(pub(super) PathBuf);

impl Source for OnDisk {
    fn open(&self) -> Result<Database, JournalError> {
        file::open(&self.0)
    }
}

/// The opened file.
pub(super) struct OpenedJournal {
    pub(super) path: PathBuf,
    pub(super) identity: IdentityRecord,
    pub(super) generation: u64,
    pub(super) db: Database,
}

#[derive(Debug)]
pub(super) struct Store {
    source: Box<dyn Source>,
    path: PathBuf,
    shown: String,
    identity: IdentityRecord,
    /// Number of writes that are on disk.
    generation: AtomicU64,
    /// `None`: closed, or not reopened yet.
    db: RwLock<Option<Database>>,
    /// Reason why the file cannot be written now.
    trouble: Mutex<Option<String>>,
    /// Outcomes to write when the file is reopened.
    running: RunningOperations,
    /// Cancelled when the file is missing, damaged or replaced: only a new process can continue.
    lost: CancellationToken,
    reopened: Mutex<u64>,
}

/// A read transaction: a snapshot of the journal.
pub(super) struct ReadTx(ReadTransaction);

impl ReadTx {
    pub(super) fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<redb::ReadOnlyTable<K, V>, JournalError> {
        self.0.open_table(table).map_err(JournalError::storage)
    }
}

impl Store {
    pub(super) fn new(
        source: Box<dyn Source>,
        file: OpenedJournal,
        running: RunningOperations,
    ) -> Self {
        Self {
            source,
            shown: file.path.display().to_string(),
            path: file.path,
            identity: file.identity,
            generation: AtomicU64::new(file.generation),
            db: RwLock::new(Some(file.db)),
            trouble: Mutex::default(),
            running,
            lost: CancellationToken::new(),
            reopened: Mutex::default(),
        }
    }

    pub(super) fn identity(&self) -> &IdentityRecord {
        &self.identity
    }

    /// Instance and generation on disk.
    pub(super) fn version(&self) -> Version {
        Version {
            instance: self.identity.instance.clone(),
            generation: self.generation(),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Handles a caller that has seen this instance with a higher generation. Blocks on the disk.
    pub(super) fn seen_newer(&self, generation: u64) {
        let note = Version {
            instance: self.identity.instance.clone(),
            generation,
        };
        if let Err(error) = identity::write_note(&self.path, &note) {
            error!(journal = %self.shown, %error, "cannot record that the journal is an older copy");
        }
        self.lose(&JournalError::Older(self.shown.clone()));
    }

    /// Marks the journal as lost to this process.
    fn lose(&self, error: &JournalError) {
        if !self.lost.is_cancelled() {
            error!(journal = %self.shown, %error, "the journal is lost: the agent must be restarted");
            self.lost.cancel();
        }
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    pub(super) fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    pub(super) fn reopened(&self) -> u64 {
        *self.reopened.lock()
    }

    /// Reads a snapshot, which neither waits for nor contains writes in progress. Blocks on the
    /// disk.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&ReadTx) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let db = self.db.read();
        let db = db.as_ref().ok_or_else(|| self.unavailable())?;
        let tx = db.begin_read().map_err(JournalError::storage)?;
        read(&ReadTx(tx))
    }

    /// Writes in a transaction; nothing is changed unless this returns `Ok`. Blocks on the disk.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&Tx) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let db = self.db.read();
        let db = db.as_ref().ok_or_else(|| self.unavailable())?;
        let tx = Tx::begin(db)?;
        let done = change(&tx)?;
        let generation = identity::count_write(&tx)?;
        tx.commit()?;
        self.generation.store(generation, Ordering::Release);
        Ok(done)
    }

    fn unavailable(&self) -> JournalError {
        match self.trouble() {
            Some(trouble) => JournalError::Storage(trouble),
            None => JournalError::Closed,
        }
    }

    /// Records an error of the file; true if the file must be reopened before further work.
    pub(super) fn note(&self, error: &JournalError) -> bool {
        let JournalError::Storage(reason) = error else {
            return false;
        };
        let mut trouble = self.trouble.lock();
        if trouble.is_none() {
            error!(journal = %self.shown, reason, "the journal failed: it is opened again");
            *trouble = Some(reason.clone());
        }
        true
    }

    /// Reopens the file after an error, and writes the missing outcomes. Blocks on the disk.
    pub(super) fn reopen(&self, now: i64) -> Result<(), JournalError> {
        let mut db = self.db.write();
        // Releases the file lock.
        drop(db.take());
        let opened = self.source.open().and_then(|db| {
            let settled = self.check_and_settle(&db, now)?;
            probe(&db)?;
            Ok((db, settled))
        });
        match opened {
            Ok((opened, settled)) => {
                *db = Some(opened);
                *self.trouble.lock() = None;
                *self.reopened.lock() += 1;
                info!(journal = %self.shown, settled, "the journal is written again");
                Ok(())
            }
            Err(error) => {
                let mut trouble = self.trouble.lock();
                let reason = error.to_string();
                if trouble.as_ref() != Some(&reason) {
                    warn!(journal = %self.shown, reason, "the journal cannot be opened again yet");
                    *trouble = Some(reason);
                }
                if error.is_loss() {
                    self.lose(&error);
                }
                Err(error)
            }
        }
    }

    fn check_and_settle(&self, db: &Database, now: i64) -> Result<usize, JournalError> {
        let tx = Tx::begin(db)?;
        let found = prepare(&tx, &self.shown, self.identity.origin(), now)?;
        let found = Version {
            instance: found.instance,
            generation: identity::generation(&tx)?,
        };
        match replaced(&self.version(), &found) {
            Some(Replaced::Other) => {
                return Err(JournalError::Other {
                    path: self.shown.clone(),
                    instance: found.instance,
                });
            }
            Some(Replaced::Older) => return Err(JournalError::Older(self.shown.clone())),
            None => {}
        }
        let outcomes = self.running.unwritten();
        let is_live = |id: &str| self.running.is_live(id);
        write(&tx, settle(&View(&tx), is_live, &outcomes, now)?)?;
        tx.commit()?;
        self.running.written(outcomes.keys());
        Ok(outcomes.len())
    }

    /// Closes the file. Blocks on the disk.
    pub(super) fn close(&self) {
        drop(self.db.write().take());
    }
}

/// Writes and rolls back more than the free pages of the file hold: on a full disk the file can be
/// opened and accepts small writes, but no more.
fn probe(db: &Database) -> Result<(), JournalError> {
    let tx = Tx::begin(db)?;
    tx.open(PROBE)?
        .insert("probe", vec![0_u8; PROBE_SIZE].as_slice())
        .map_err(JournalError::storage)?;
    tx.commit()?;
    let tx = Tx::begin(db)?;
    tx.open(PROBE)?
        .remove("probe")
        .map_err(JournalError::storage)?;
    tx.commit()
}
