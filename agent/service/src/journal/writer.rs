//! One thread that writes: what has come in while the disk was busy goes into one commit.

use std::{sync::mpsc, thread};

use parking_lot::Mutex;
use redb::{Database, Key, TableDefinition, Value, WriteTransaction};
use tokio::sync::oneshot;

use super::JournalError;

/// A transaction under way.
pub(super) struct Tx(WriteTransaction);

impl Tx {
    pub(super) fn begin(db: &Database) -> Result<Self, JournalError> {
        Ok(Self(db.begin_write().map_err(JournalError::storage)?))
    }

    pub(super) fn commit(self) -> Result<(), JournalError> {
        self.0.commit().map_err(JournalError::storage)
    }

    pub(super) fn open<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<redb::Table<'_, K, V>, JournalError> {
        self.0.open_table(table).map_err(JournalError::storage)
    }
}

/// One change, and who waits for it.
trait Job: Send {
    /// Makes the change; false if it failed, and then nothing of the batch may stand.
    fn apply(&mut self, tx: &Tx) -> bool;
    /// Tells how it went. An error of the batch stands above what `apply` has found.
    fn answer(self: Box<Self>, batch: Result<(), JournalError>);
}

struct Change<F, T> {
    change: F,
    result: Option<Result<T, JournalError>>,
    answer: oneshot::Sender<Result<T, JournalError>>,
}

impl<F, T> Job for Change<F, T>
where
    F: FnMut(&Tx) -> Result<T, JournalError> + Send,
    T: Send,
{
    fn apply(&mut self, tx: &Tx) -> bool {
        let result = (self.change)(tx);
        let good = result.is_ok();
        self.result = Some(result);
        good
    }

    fn answer(self: Box<Self>, batch: Result<(), JournalError>) {
        let result = match (batch, self.result) {
            (_, Some(Err(error))) | (Err(error), _) => Err(error),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(JournalError::Closed),
        };
        self.answer.send(result).ok();
    }
}

/// The thread, and the way to it.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// A batch is committed at this size at the latest, so that nobody waits for a long queue.
const BATCH: usize = 256;

impl Writer {
    pub(super) fn start(db: Database) -> Result<Self, JournalError> {
        let (jobs, inbox) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || run(db, &inbox))
            .map_err(|error| JournalError::Storage(error.to_string()))?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns when the disk has it. The change may be made more than once: when the disk fails
    /// for a batch, each of its changes is tried alone.
    pub(super) async fn write<T, F>(&self, mut change: F) -> Result<T, JournalError>
    where
        T: Send + 'static,
        F: FnOnce(&Tx) -> Result<T, JournalError> + Clone + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let change = move |tx: &Tx| {
            let again = change.clone();
            std::mem::replace(&mut change, again)(tx)
        };
        let job = Change {
            change,
            result: None,
            answer,
        };
        let jobs = self.jobs.lock().clone().ok_or(JournalError::Closed)?;
        jobs.send(Box::new(job)).map_err(|_| JournalError::Closed)?;
        drop(jobs);
        answered.await.map_err(|_| JournalError::Closed)?
    }
}

impl Writer {
    /// Writes what was handed in, and closes the file. Blocks on the disk.
    pub(super) fn close(&self) {
        drop(self.jobs.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.join().ok();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the thread owns the file, to close it"
)]
fn run(db: Database, inbox: &mpsc::Receiver<Box<dyn Job>>) {
    while let Ok(first) = inbox.recv() {
        let mut batch = vec![first];
        batch.extend(inbox.try_iter().take(BATCH - 1));
        let result = commit(&db, &mut batch);
        if result.is_ok() || batch.len() == 1 {
            batch.into_iter().for_each(|job| job.answer(result.clone()));
            continue;
        }
        // One of them cannot be written: the others shall not suffer.
        for job in batch {
            let mut alone = [job];
            let result = commit(&db, &mut alone);
            let [job] = alone;
            job.answer(result);
        }
    }
}

fn commit(db: &Database, batch: &mut [Box<dyn Job>]) -> Result<(), JournalError> {
    let tx = Tx::begin(db)?;
    for job in batch {
        if !job.apply(&tx) {
            return Err(JournalError::Storage("a change failed".to_owned()));
        }
    }
    tx.commit()
}
