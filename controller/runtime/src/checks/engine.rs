//! The one task that evaluates the checks of a dialect.
//!
//! Owns what is under way. Decides nothing: a [`Fleet`](rackhand_core::health::Fleet) says what a
//! Machine wants, and is queried again when it is carried out, so that a gate that closed meanwhile
//! stays closed (F10). What differs between dialects is in [`Dialect`].

mod checks;
mod dispatch;
mod events;
mod handover;
mod overlap;
mod results;
mod withdrawal;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::health::Verdict;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Context,
    check_state::CheckState,
    dialect::{Dialect, Effect},
    external_requests::{ExternalKind, ExternalRequests, News},
    item_state::{Items, Phase},
    overlap::Overlaps,
    queue::{Item, Queue},
    schedule::{Schedule, sleep_until},
    tasks::Tasks,
    withdrawal::Made,
};
use crate::{clock::Stopwatch, index::Inbox, object::Key};
use results::{Done, Work};

/// Something to do at a time although nothing happens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The status of a check may be written.
    Status(Key),
    /// A check is read again although it has not changed: whose it is changes with an installation, of
    /// which no watch tells.
    Resync(Key),
    /// A request that was not withdrawn is examined again.
    Withdraw(Made),
}

/// Every check of a dialect, and what is under way for them.
pub(super) struct Engine<D: Dialect> {
    context: Arc<Context>,
    checks: BTreeMap<Key, CheckState<D>>,
    /// Checks by the cluster that they name, those included that cannot be evaluated.
    of_cluster: BTreeMap<Key, BTreeSet<Key>>,
    /// The cluster that each of them names.
    clusters: BTreeMap<Key, Key>,
    schedule: Schedule<Key, Timer>,
    /// When each check is read again.
    resync_at: BTreeMap<Key, Instant>,
    queue: Queue,
    items: Items,
    /// Checks with members that wait to be handed over (F13).
    settling: BTreeSet<Key>,
    /// When one of them is due.
    settled_at: Option<Instant>,
    /// The number of the last live read.
    reads: u64,
    /// From when the time of handing over is counted.
    started: Stopwatch,
    overlaps: Overlaps,
    /// Machines that cannot be read, and why, as logged last.
    unreadable: BTreeMap<Key, String>,
    external: Arc<ExternalRequests>,
    /// Checks that wait until the requests of their kind are known.
    waiting: BTreeMap<Key, ExternalKind>,
    /// Checks on which it is being reported why they are not evaluated, and whether they have changed
    /// since.
    reporting: BTreeMap<Key, bool>,
    /// Requests that are being withdrawn, by UID.
    withdrawing: BTreeSet<String>,
    watching: BTreeMap<ExternalKind, CancellationToken>,
    watches: JoinSet<()>,
    news: mpsc::UnboundedSender<News>,
    tasks: Tasks<Work, Done>,
}

// === impl Engine ===

impl<D: Dialect> Engine<D> {
    /// With nothing known yet; [`Self::run`] reads everything.
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            checks: BTreeMap::new(),
            of_cluster: BTreeMap::new(),
            clusters: BTreeMap::new(),
            schedule: Schedule::default(),
            resync_at: BTreeMap::new(),
            queue: Queue::default(),
            items: Items::default(),
            settling: BTreeSet::new(),
            settled_at: None,
            reads: 0,
            started: Stopwatch::start(),
            overlaps: Overlaps::default(),
            unreadable: BTreeMap::new(),
            external: Arc::default(),
            waiting: BTreeMap::new(),
            reporting: BTreeMap::new(),
            withdrawing: BTreeSet::new(),
            watching: BTreeMap::new(),
            watches: JoinSet::new(),
            news: mpsc::unbounded_channel().0,
            tasks: Tasks::default(),
        }
    }

    /// Evaluates every check until `cancel`.
    pub(super) async fn run(mut self, inbox: &Inbox, cancel: &CancellationToken) {
        let (news, mut heard) = mpsc::unbounded_channel();
        self.news = news;
        for key in self.context.index.keys(D::CHECK) {
            self.refresh(&key);
        }
        self.examine_requests(|_| true);
        loop {
            self.dispatch();
            self.begin_reads();
            let next = self.next();
            tokio::select! {
                () = cancel.cancelled() => break,
                (changes, since) = inbox.take_since() => {
                    let began = Instant::now();
                    self.apply(changes);
                    self.context.metrics.evaluated(began.elapsed(), since.elapsed());
                }
                Some(news) = heard.recv() => self.hear(&news),
                () = sleep_until(next) => self.fire(),
                Some(done) = self.tasks.join_next() => {
                    if matches!(done, Ok(Done::Synced(..))) {
                        // What the index has reached is taken in before anybody acts on it.
                        self.apply(inbox.drain());
                    }
                    match done {
                        Ok(done) => self.finish(done),
                        Err(work) => self.lost(work),
                    }
                }
            }
        }
        for watching in self.watching.values() {
            watching.cancel();
        }
        D::evaluates_some(&self.context.index, false);
        self.tasks.end().await;
        while self.watches.join_next().await.is_some() {}
    }

    /// When there is something to do although nothing happens.
    fn next(&self) -> Option<Instant> {
        let next = [
            self.schedule.next(),
            self.queue.next_retry(),
            self.settled_at,
        ];
        next.into_iter().flatten().min()
    }

    /// Does what is due.
    fn fire(&mut self) {
        let now = Timestamp::now();
        while let Some((at, key)) = self.schedule.due_deadline(now) {
            let late = Duration::try_from(now.duration_since(at)).unwrap_or_default();
            self.context.metrics.deadline_lateness(late);
            if let Some(check) = self.checks.get_mut(&key) {
                check.fleet.advance(now);
            }
            self.settle(&key);
        }
        let now = Instant::now();
        while let Some(timer) = self.schedule.due_timer(now) {
            match timer {
                Timer::Status(key) => self.write_status(&key),
                Timer::Resync(key) => self.resync(&key),
                Timer::Withdraw(made) => {
                    self.withdrawing.remove(&made.uid);
                    self.examine(made);
                }
            }
        }
        for item in self.queue.due(now) {
            if self.queue.is_running(&item) {
                continue;
            }
            if self.items.phase(&item) != Phase::AwaitingTemplate {
                self.items.set_phase(&item, Phase::Ready);
            }
            self.request_changed(&item);
            self.reconsider(&item);
        }
    }

    /// Takes over what has changed in a fleet: who wants something, what the status says, when the
    /// next deadline is.
    fn settle(&mut self, key: &Key) {
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        let turn = check.fleet.take();
        check.names_changed |= turn.targets;
        self.schedule.arm(key, check.fleet.next_deadline());
        if turn.counts {
            self.count(key);
            self.status_due(key);
        }
        for machine in &turn.machines {
            self.reconsider(&Item::new(key, machine));
        }
    }

    fn count(&self, key: &Key) {
        if let Some(check) = self.checks.get(key) {
            let fleet = &check.fleet;
            let metrics = &self.context.metrics;
            metrics.check(key, fleet.tally(), fleet.is_open(), fleet.causes());
            D::count(metrics, key, fleet.tally(), fleet.is_open());
        }
    }

    fn status_due(&mut self, key: &Key) {
        if let Some(check) = self.checks.get_mut(key) {
            let at = check.pace.request();
            self.status_at(key, at);
        }
    }

    fn status_at(&mut self, key: &Key, at: Option<Instant>) {
        if let Some(at) = at {
            self.schedule.set(at, Timer::Status(key.clone()));
        }
    }

    /// Puts a member into the queue if there may be something to do for it.
    fn reconsider(&mut self, item: &Item) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = check.fleet.wanted(&item.member) else {
            check.handover.withdraw(&item.member);
            return;
        };
        let (context, key) = (&self.context, item.key());
        let effect = D::effect(context, &check.spec, &key, &wanted);
        if !effect.as_ref().is_some_and(Effect::hands_over::<D>) {
            check.handover.withdraw(&item.member);
        }
        let (mut held, mut unreported, mut complains) = (false, false, false);
        if let Some(state) = self.items.get(item) {
            (held, unreported) = (state.is_held(), state.unreported.is_some());
            complains = state.not_created.is_some();
        }
        if !check.spec.dry_run {
            let acts = !self.overlaps.yields(item);
            D::announce(context, &item.check, &check.spec, &key, &wanted, acts);
        }
        // A recovered Machine waits for nobody any more.
        let stale = || {
            *wanted.verdict == Verdict::Healthy
                && !check.fleet.paused()
                && D::shows_stale(context, &key)
        };
        let acts = effect.is_some() && !held;
        if acts || wanted.condition.is_some() || unreported || stale() {
            self.queue.push(item.clone(), acts);
        }
        if complains && !effect.as_ref().is_some_and(Effect::is_request) {
            self.complain(item, None);
        }
    }
}
