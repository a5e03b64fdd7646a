//! The one task that evaluates the checks of a dialect.
//!
//! Holds the queue, the deadlines, the state of each member and the tasks. The core decides, and is queried
//! again when a member is taken from the queue, so that a limit that was reached meanwhile holds (F10). The
//! differences between dialects are in [`Dialect`].

mod handover;
pub(super) mod queue;
mod results;
mod schedule;
mod status;
pub(super) mod status_schedule;
pub(super) mod status_writer;
mod tasks;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::checks::dispatch;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Context, dialect::Dialect};
use crate::store::{clock::Stopwatch, index::ChangeQueue, object::Key};
use queue::Queue;
use results::Done;
pub(super) use results::panicked;
use schedule::{Schedule, sleep_until};
use tasks::Tasks;

/// Resync interval of a check.
pub(super) const RESYNC: Duration = Duration::from_secs(60);
/// Maximum number of watch events that are applied before the next decision.
const BATCH: usize = 256;

/// A timer of the engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer<T> {
    /// The status of a check may be written again.
    Status(Key),
    /// The resync of a check, because its ownership changes with an installed CRD, which is not watched.
    Resync(Key),
    /// A timer of the dialect.
    Dialect(T),
}

/// All checks of a dialect, with the state of their members.
pub(super) struct CheckEngine<D: Dialect> {
    pub(super) context: Arc<Context>,
    pub(super) checks: BTreeMap<Key, D::Check>,
    pub(super) dialect: D,
    pub(super) schedule: Schedule<Key, Timer<D::Timer>>,
    /// The time of the next resync of each check.
    resync_at: BTreeMap<Key, Instant>,
    pub(super) queue: Queue,
    pub(super) items: dispatch::Items<Key>,
    /// Checks with members whose burst is settling before a live read (F13).
    settling: BTreeSet<Key>,
    /// The earliest end of a settling time.
    settled_at: Option<Instant>,
    /// The number of the last live read.
    reads: u64,
    /// The clock of the handover.
    started: Stopwatch,
    pub(super) sender: mpsc::UnboundedSender<D::WatchEvent>,
    pub(super) events: mpsc::UnboundedReceiver<D::WatchEvent>,
    pub(super) watches: JoinSet<()>,
    /// Ends the watches.
    pub(super) end: CancellationToken,
    pub(super) tasks: Tasks<Done<D>>,
}

// === impl CheckEngine ===

impl<D: Dialect> CheckEngine<D> {
    /// Creates an engine without checks; [`Self::run`] reads them.
    pub(super) fn new(context: Arc<Context>, dialect: D) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            context,
            checks: BTreeMap::new(),
            dialect,
            schedule: Schedule::default(),
            resync_at: BTreeMap::new(),
            queue: Queue::default(),
            items: dispatch::Items::default(),
            settling: BTreeSet::new(),
            settled_at: None,
            reads: 0,
            started: Stopwatch::start(),
            sender,
            events,
            watches: JoinSet::new(),
            end: CancellationToken::new(),
            tasks: Tasks::default(),
        }
    }

    /// Evaluates every check until `cancel`.
    pub(super) async fn run(mut self, inbox: &ChangeQueue, cancel: &CancellationToken) {
        for key in self.context.index.keys(D::CHECK) {
            D::refresh(&mut self, &key);
        }
        D::start(&mut self);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                () = self.step(inbox) => {}
            }
        }
        self.end.cancel();
        D::stop(&mut self);
        self.tasks.end().await;
        while self.watches.join_next().await.is_some() {}
    }

    /// Runs one round: starts due actions, then waits for the next event and applies it.
    pub(super) async fn step(&mut self, inbox: &ChangeQueue) {
        D::evaluate(self);
        while let Some(item) = self.queue.pop() {
            D::turn(self, item);
        }
        self.begin_reads();
        let next = self.next();
        let mut events = Vec::new();
        tokio::select! {
            (changes, since) = inbox.take_since() => {
                let began = Instant::now();
                D::apply(self, changes);
                self.context.metrics.observe_evaluation(began.elapsed(), since.elapsed());
            }
            _ = self.events.recv_many(&mut events, BATCH) => {
                for event in events {
                    D::handle_event(self, event);
                }
            }
            () = sleep_until(next) => self.fire(),
            Some(done) = self.tasks.join_next() => {
                if matches!(done, Done::Synced(..)) {
                    // Pending changes of the index are applied before any action is based on it.
                    D::apply(self, inbox.drain());
                }
                self.finish(done);
            }
        }
    }

    /// The time of the next timer or deadline.
    fn next(&self) -> Option<Instant> {
        let next = [
            self.schedule.next(),
            self.queue.next_retry(),
            self.settled_at,
        ];
        next.into_iter().flatten().min()
    }

    /// Fires all due timers and deadlines.
    fn fire(&mut self) {
        let now = Timestamp::now();
        while let Some((at, key)) = self.schedule.due_deadline(now) {
            let late = Duration::try_from(now.duration_since(at)).unwrap_or_default();
            self.context.metrics.observe_lateness(late);
            D::advance(self, &key, now);
        }
        let now = Instant::now();
        while let Some(timer) = self.schedule.due_timer(now) {
            match timer {
                Timer::Status(key) => self.write_status(&key),
                Timer::Resync(key) => {
                    self.resync_at.remove(&key);
                    D::resync(self, &key);
                }
                Timer::Dialect(timer) => D::fire(self, timer),
            }
        }
        for item in self.queue.due(now) {
            self.items.retry_due(&item);
            D::retry(self, &item);
        }
    }

    /// Schedules a resync of a check at this time, unless an earlier one is scheduled.
    pub(super) fn resync_at(&mut self, key: &Key, at: Instant) {
        if self.resync_at.get(key).is_some_and(|known| *known <= at) {
            return;
        }
        self.resync_at.insert(key.clone(), at);
        self.schedule.reset(at, Timer::Resync(key.clone()));
    }

    /// Ends the evaluation of a check. Returns its state.
    pub(super) fn forget_check(&mut self, key: &Key) -> Option<D::Check> {
        let check = self.checks.remove(key)?;
        self.schedule.arm(key, None);
        self.queue.forget(key);
        self.items.forget(key);
        Some(check)
    }
}
