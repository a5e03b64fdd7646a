//! The writing thread: changes that arrive while the disk is busy are committed together.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redb::{Database, Key, TableDefinition, Value, WriteTransaction};
use tokio::sync::oneshot;

use super::{JournalError, store::Store, wall_clock};
use crate::blocking;

/// A transaction in progress.
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

/// One change, and the caller that waits for it.
trait Job: Send {
    /// Applies the change; after an error nothing of the batch is kept.
    fn apply(&mut self, tx: &Tx) -> Result<(), JournalError>;
    /// Reports the result. An error of the batch takes precedence over the result of `apply`.
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
    fn apply(&mut self, tx: &Tx) -> Result<(), JournalError> {
        let result = (self.change)(tx);
        let applied = result.as_ref().map(|_| ()).map_err(Clone::clone);
        self.result = Some(result);
        applied
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

/// A request to the writing thread.
enum Order {
    Write(Box<dyn Job>),
    /// A read has failed; the sender is notified when the file was reopened, or could not be.
    Reopen(oneshot::Sender<()>),
}

/// Where requests are sent.
#[derive(Debug)]
enum Inbox {
    Thread(mpsc::Sender<Order>),
    /// In a simulation, the caller executes the requests itself.
    Caller(Worker),
}

/// The writing thread, and its queue.
#[derive(Debug)]
pub(super) struct Writer {
    inbox: Mutex<Option<Inbox>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// Maximum number of changes in one commit, to limit the latency.
const BATCH: usize = 256;

/// Interval between two attempts to reopen a failed file. Changes in between are rejected at once.
const REOPEN: Duration = Duration::from_millis(500);

impl Writer {
    pub(super) fn start(store: Arc<Store>) -> Result<Self, JournalError> {
        let (orders, inbox) = mpsc::channel();
        let worker = Worker {
            store,
            failed: None,
        };
        if blocking::is_inline() {
            return Ok(Self {
                inbox: Mutex::new(Some(Inbox::Caller(worker))),
                thread: Mutex::default(),
            });
        }
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || worker.run(&inbox))
            .map_err(|error| JournalError::Storage(error.to_string()))?;
        Ok(Self {
            inbox: Mutex::new(Some(Inbox::Thread(orders))),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns when the change is on disk. The change may be applied more than once: after a disk
    /// error the file is reopened, and each change of the batch is retried.
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
        self.order(Order::Write(Box::new(job)))?;
        answered.await.map_err(|_| JournalError::Closed)?
    }

    /// Reopens the file if it still fails; returns after the attempt.
    pub(super) async fn reopen(&self) {
        let (done, waiting) = oneshot::channel();
        // If the file is closed, there is nothing to reopen.
        if self.order(Order::Reopen(done)).is_ok() {
            waiting.await.ok();
        }
    }

    fn order(&self, order: Order) -> Result<(), JournalError> {
        match self.inbox.lock().as_mut() {
            Some(Inbox::Thread(orders)) => orders.send(order).map_err(|_| JournalError::Closed),
            Some(Inbox::Caller(worker)) => {
                worker.carry_out(order, std::iter::empty());
                Ok(())
            }
            None => Err(JournalError::Closed),
        }
    }

    /// Writes the queued changes, and closes the file. Blocks on the disk.
    pub(super) fn close(&self) {
        if let Some(Inbox::Caller(worker)) = self.inbox.lock().take() {
            worker.store.close();
        }
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

/// State of the writing thread.
#[derive(Debug)]
struct Worker {
    store: Arc<Store>,
    /// Time of the last file error, if the file was not reopened since.
    failed: Option<Instant>,
}

impl Worker {
    fn run(mut self, inbox: &mpsc::Receiver<Order>) {
        loop {
            let order = match self.failed {
                None => inbox.recv().map_err(mpsc::RecvTimeoutError::from),
                Some(_) => inbox.recv_timeout(REOPEN),
            };
            match order {
                Ok(first) => self.carry_out(first, inbox.try_iter().take(BATCH - 1)),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.reopen();
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        self.store.close();
    }

    /// Executes a request, and the requests that wait behind a change.
    fn carry_out(&mut self, first: Order, waiting: impl Iterator<Item = Order>) {
        let first = match first {
            Order::Write(job) => job,
            Order::Reopen(done) => return self.reopen_for(done),
        };
        let mut batch = vec![first];
        let mut readers = Vec::new();
        for order in waiting {
            match order {
                Order::Write(job) => batch.push(job),
                Order::Reopen(done) => readers.push(done),
            }
        }
        self.write(batch);
        readers.into_iter().for_each(|done| self.reopen_for(done));
    }

    fn write(&mut self, mut batch: Vec<Box<dyn Job>>) {
        if self.failed.is_some_and(|at| at.elapsed() >= REOPEN) {
            self.reopen();
        }
        let result = self.commit(&mut batch);
        if result.is_ok() || batch.len() == 1 {
            batch.into_iter().for_each(|job| job.answer(result.clone()));
            return;
        }
        // One change cannot be written: the others are committed separately.
        for job in batch {
            let mut alone = [job];
            let result = self.commit(&mut alone);
            let [job] = alone;
            job.answer(result);
        }
    }

    /// Commits; after a file error, once more with the file reopened.
    fn commit(&mut self, batch: &mut [Box<dyn Job>]) -> Result<(), JournalError> {
        let result = self.commit_once(batch);
        match &result {
            Err(error) if self.failed.is_none() && self.store.note(error) => {
                if !self.reopen() {
                    return result;
                }
                let again = self.commit_once(batch);
                if again.as_ref().is_err_and(|error| self.store.note(error)) {
                    self.failed = Some(Instant::now());
                }
                again
            }
            _ => result,
        }
    }

    fn commit_once(&self, batch: &mut [Box<dyn Job>]) -> Result<(), JournalError> {
        self.store.write(|tx| {
            for job in batch {
                job.apply(tx)?;
            }
            Ok(())
        })
    }

    /// Reopens the file for a failed read, unless that was done or tried just now.
    fn reopen_for(&mut self, done: oneshot::Sender<()>) {
        if self.failed.is_none() && self.store.trouble().is_some() {
            self.reopen();
        }
        done.send(()).ok();
    }

    fn reopen(&mut self) -> bool {
        let reopened = self.store.reopen(wall_clock()).is_ok();
        self.failed = (!reopened).then(Instant::now);
        reopened
    }
}
