//! The one task that evaluates the checks of a dialect.
//!
//! Receives events, lets timers and deadlines fire, starts the live reads and the status writes. The core does
//! the bookkeeping ([`rackhand_core::checks::dispatch`]) and decides, and is queried again when a member is taken from the
//! queue, so that a limit that was reached meanwhile holds (F10). The differences between dialects are in [`Dialect`].

mod handover;
mod parts;
pub(super) mod queue;
mod status;
pub(super) mod status_writer;
mod tasks;
mod watches;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::checks::dispatch::LiveRead;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Context, dialect::Dialect};
use crate::{
    clusters::sync::SyncError,
    store::{
        api::ApiError,
        index::{Change, ChangeQueue},
        object::Key,
        time_slice::TimeSlice,
    },
};
pub(super) use parts::EngineParts;
use tasks::Tasks;
pub(super) use watches::Watches;

/// Resync interval of a check.
pub(super) const RESYNC: Duration = Duration::from_secs(60);
/// Maximum number of watch events that are applied before the next decision.
const BATCH: usize = 256;

/// A timer of the engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer<T> {
    /// The status of a check may be written again.
    Status(Key),
    /// The resync of a check, because its ownership changes with an installed CRD, which is not watched.
    Resync(Key),
    /// A timer of the dialect.
    Dialect(T),
}

/// The result of a task.
enum Done<D: Dialect> {
    Status(Key, Result<(), ApiError>),
    Synced(LiveRead<Key>, Result<(), SyncError>),
    Dialect(D::Done),
}

/// All checks of a dialect, and what is due for them.
pub(super) struct CheckEngine<D: Dialect> {
    pub(super) dialect: D,
    pub(super) parts: EngineParts<D>,
    pub(super) events: mpsc::UnboundedReceiver<D::WatchEvent>,
}

// === impl CheckEngine ===

impl<D: Dialect> CheckEngine<D> {
    /// Creates an engine without checks; [`Self::run`] reads them.
    pub(super) fn new(context: Arc<Context>, dialect: D) -> Self {
        let (watches, events) = Watches::new();
        Self {
            dialect,
            parts: EngineParts::new(context, watches),
            events,
        }
    }

    /// Evaluates every check until `cancel`.
    pub(super) async fn run(mut self, inbox: &ChangeQueue, cancel: &CancellationToken) {
        let checks = self.parts.context.index.keys(D::CHECK).into_iter();
        let checks = checks.map(|key| Change::Object(D::CHECK, key)).collect();
        self.dialect.apply(&mut self.parts, checks);
        self.dialect.start(&mut self.parts);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                () = self.step(inbox) => {}
            }
        }
        self.parts.watches.cancel();
        D::stop(&self.parts.context);
        self.parts.tasks.end().await;
        self.parts.watches.ended().await;
    }

    /// Runs one round: starts due actions, then waits for the next event and applies it.
    pub(super) async fn step(&mut self, inbox: &ChangeQueue) {
        self.dialect.evaluate(&mut self.parts);
        let mut slice = TimeSlice::begin();
        self.work_off(&mut slice).await;
        while let Some(item) = self.parts.members.pop() {
            self.dialect.turn(&mut self.parts, item);
            self.work_off(&mut slice).await;
            slice.pause_if_over().await;
        }
        self.begin_reads();
        let next = self.next();
        let mut events = Vec::new();
        tokio::select! {
            (changes, since) = inbox.take_since() => {
                let began = Instant::now();
                self.dialect.apply(&mut self.parts, changes);
                self.work_off(&mut slice).await;
                let metrics = &self.parts.context.metrics;
                metrics.observe_evaluation(began.elapsed(), since.elapsed());
            }
            _ = self.events.recv_many(&mut events, BATCH) => {
                for event in events {
                    self.dialect.handle_event(&mut self.parts, event);
                }
            }
            () = sleep_until(next) => self.fire(),
            Some(done) = self.parts.tasks.join_next() => {
                if matches!(done, Done::Synced(..)) {
                    // Pending changes of the index are applied before any action is based on it.
                    self.dialect.apply(&mut self.parts, inbox.drain());
                    self.work_off(&mut slice).await;
                }
                self.finish(done);
            }
        }
    }

    /// Does all work that is left, in short slices.
    async fn work_off(&mut self, slice: &mut TimeSlice) {
        while self.dialect.work(&mut self.parts) {
            slice.pause_if_over().await;
        }
    }

    /// The time of the next timer, deadline or retry.
    fn next(&self) -> Option<Instant> {
        let now = self.parts.now();
        let timer = self.parts.schedule.next(Timestamp::now(), now);
        let next = timer.into_iter().chain(self.parts.members.next_due()).min();
        next.map(|at| Instant::now() + at.saturating_sub(now))
    }

    /// Fires all due timers and deadlines.
    fn fire(&mut self) {
        let wall = Timestamp::now();
        while let Some((at, key)) = self.parts.schedule.due_deadline(wall) {
            let late = Duration::try_from(wall.duration_since(at)).unwrap_or_default();
            self.parts.context.metrics.observe_lateness(late);
            self.dialect.advance(&mut self.parts, &key, wall);
        }
        let now = self.parts.now();
        while let Some(timer) = self.parts.schedule.due_timer(now) {
            match timer {
                Timer::Status(key) => self.write_status(&key),
                Timer::Resync(key) => self.dialect.resync(&mut self.parts, &key),
                Timer::Dialect(timer) => self.dialect.fire(&mut self.parts, timer),
            }
        }
        for item in self.parts.members.due(now) {
            self.dialect.retry(&mut self.parts, &item);
        }
    }

    /// A task has ended.
    fn finish(&mut self, done: Done<D>) {
        match done {
            Done::Status(check, result) => self.status_ended(&check, &result),
            Done::Synced(read, result) => self.read_ended(&read, result),
            Done::Dialect(done) => self.dialect.finish(&mut self.parts, done),
        }
    }
}

/// The error of a task that panicked.
pub(super) fn panicked() -> ApiError {
    ApiError::other("a task", "it panicked")
}

/// Sleeps until this time; for ever if nothing is due.
async fn sleep_until(at: Option<Instant>) {
    match at {
        None => std::future::pending().await,
        Some(at) => tokio::time::sleep_until(at.into()).await,
    }
}
