//! The one task that owns every fleet.
//!
//! Owns what is under way. Decides nothing: a [`Fleet`](rackhand_core::health::Fleet) says what a
//! machine wants, and is asked again at the moment in which it is carried out, so that a gate that
//! closed meanwhile stays closed (F10).

mod carry;
mod handover;
mod share;
mod touch;
mod withdraw;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_api::names::conditions::EXTERNALLY_REMEDIATED;
use rackhand_core::health::{Action, Verdict};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Context,
    actions::Acted,
    others::{News, OtherKind, Others},
    queue::{Item, Queue},
    recipe::Unusable,
    shared::Shared,
    watched::Watched,
    withdrawal::Made,
};
use crate::{clock::Stopwatch, index::Inbox, object::Key};
use carry::{Done, UnderWay};

/// Every check, and what is under way for them.
pub(super) struct Driver {
    context: Arc<Context>,
    checks: BTreeMap<Key, Watched>,
    /// Checks by the Cluster that they name, those included that cannot be evaluated.
    of_cluster: BTreeMap<Key, BTreeSet<Key>>,
    /// The Cluster that each of them names.
    names: BTreeMap<Key, Key>,
    deadlines: BTreeSet<(Timestamp, Key)>,
    /// When the status of a check may be written.
    statuses: BTreeSet<(Instant, Key)>,
    /// When a check is to be read again although it has not changed: whose it is changes with an
    /// installation, of which no watch tells.
    looks: BTreeSet<(Instant, Key)>,
    look_at: BTreeMap<Key, Instant>,
    queue: Queue,
    /// Machines whose request is being made, or may have been made by a call without an answer: it
    /// counts as there until the index says otherwise (F10).
    creating: BTreeSet<Item>,
    /// Machines whose last action failed: they wait for their time.
    held: BTreeSet<Item>,
    /// Why their request, which is due, was not made.
    unmade: BTreeMap<Item, Unusable>,
    /// Machines that wait for their check's recipe.
    parked: BTreeSet<Item>,
    /// What came of an action, until the Machine shows it.
    acted: BTreeMap<Item, Acted>,
    /// Checks with machines that wait to be handed over (F13).
    settling: BTreeSet<Key>,
    /// When one of them is due.
    settled_at: Option<Instant>,
    /// The number of the last live read.
    reads: u64,
    /// From when the time of handing over is counted.
    started: Stopwatch,
    /// Machines that several checks select.
    shared: Shared,
    others: Arc<Others>,
    /// Checks that wait until the requests of their kind are known.
    waiting: BTreeMap<Key, OtherKind>,
    /// Requests that are being withdrawn, by UID, and when to look at one again.
    withdrawing: BTreeSet<String>,
    withdraw_again: BTreeSet<(Instant, Made)>,
    watching: BTreeMap<OtherKind, CancellationToken>,
    watches: JoinSet<()>,
    news: mpsc::UnboundedSender<News>,
    tasks: JoinSet<Done>,
    under_way: HashMap<tokio::task::Id, UnderWay>,
}

// === impl Driver ===

impl Driver {
    /// With nothing known yet; [`Self::run`] reads everything anew.
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            checks: BTreeMap::new(),
            of_cluster: BTreeMap::new(),
            names: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            statuses: BTreeSet::new(),
            looks: BTreeSet::new(),
            look_at: BTreeMap::new(),
            queue: Queue::default(),
            creating: BTreeSet::new(),
            held: BTreeSet::new(),
            unmade: BTreeMap::new(),
            parked: BTreeSet::new(),
            acted: BTreeMap::new(),
            settling: BTreeSet::new(),
            settled_at: None,
            reads: 0,
            started: Stopwatch::start(),
            shared: Shared::default(),
            others: Arc::default(),
            waiting: BTreeMap::new(),
            withdrawing: BTreeSet::new(),
            withdraw_again: BTreeSet::new(),
            watching: BTreeMap::new(),
            watches: JoinSet::new(),
            news: mpsc::unbounded_channel().0,
            tasks: JoinSet::new(),
            under_way: HashMap::new(),
        }
    }

    pub(super) async fn run(mut self, inbox: &Inbox, cancel: &CancellationToken) {
        let (news, mut heard) = mpsc::unbounded_channel();
        self.news = news;
        for (key, _) in self.context.index.checks() {
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
                    self.touch(changes);
                    self.context.metrics.evaluated(began.elapsed(), since.elapsed());
                }
                Some(news) = heard.recv() => self.hear(&news),
                () = sleep_until(next) => self.fire(),
                Some(done) = self.tasks.join_next_with_id() => match done {
                    Ok((id, done)) => {
                        self.under_way.remove(&id);
                        if matches!(done, Done::Synced(..)) {
                            // What the index has reached is taken in before anybody acts on it.
                            self.touch(inbox.drain());
                        }
                        self.finish(done);
                    }
                    Err(error) => {
                        tracing::error!(%error, "a task of the health checks ended badly");
                        if let Some(lost) = self.under_way.remove(&error.id()) {
                            self.lost(lost);
                        }
                    }
                },
            }
        }
        for watching in self.watching.values() {
            watching.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
        while self.watches.join_next().await.is_some() {}
    }

    /// When there is something to do although nothing happens.
    fn next(&self) -> Option<Instant> {
        let now = Timestamp::now();
        let deadline = self.deadlines.first().map(|(at, _)| {
            let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            // Clocks are set: no sleep is so long that nobody notices.
            Instant::now() + left.min(Duration::from_secs(60))
        });
        [
            deadline,
            self.statuses.first().map(|(at, _)| *at),
            self.looks.first().map(|(at, _)| *at),
            self.withdraw_again.first().map(|(at, _)| *at),
            self.queue.next_retry(),
            self.settled_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due.
    fn fire(&mut self) {
        let now = Timestamp::now();
        while let Some((at, _)) = self.deadlines.first()
            && *at <= now
        {
            let Some((at, key)) = self.deadlines.pop_first() else {
                break;
            };
            let late = Duration::try_from(now.duration_since(at)).unwrap_or_default();
            self.context.metrics.deadline_lateness(late);
            if let Some(watched) = self.checks.get_mut(&key) {
                watched.armed = None;
                watched.fleet.advance(now);
            }
            self.settle(&key);
        }
        let now = Instant::now();
        while let Some((at, _)) = self.statuses.first()
            && *at <= now
        {
            if let Some((_, key)) = self.statuses.pop_first() {
                self.write_status(&key);
            }
        }
        while let Some((at, _)) = self.looks.first()
            && *at <= now
        {
            if let Some((_, key)) = self.looks.pop_first() {
                self.look_at.remove(&key);
                self.refresh(&key);
            }
        }
        self.withdraw_due(now);
        for item in self.queue.due(now) {
            self.held.remove(&item);
            self.creating.remove(&item);
            self.request_changed(&item);
            self.reconsider(&item);
        }
    }

    /// Takes over what has changed in a fleet: who wants something, what the status says, when the
    /// next deadline is.
    fn settle(&mut self, key: &Key) {
        let Some(watched) = self.checks.get_mut(key) else {
            return;
        };
        let turn = watched.fleet.take();
        watched.names |= turn.targets;
        let next = watched.fleet.next_deadline();
        if next != watched.armed {
            if let Some(old) = watched.armed {
                self.deadlines.remove(&(old, key.clone()));
            }
            self.deadlines.extend(next.map(|at| (at, key.clone())));
            watched.armed = next;
        }
        if turn.counts {
            self.count(key);
            self.status_due(key);
        }
        for machine in &turn.machines {
            self.reconsider(&Item::new(key, machine));
        }
    }

    fn count(&self, key: &Key) {
        if let Some(watched) = self.checks.get(key) {
            let fleet = &watched.fleet;
            let metrics = &self.context.metrics;
            metrics.check(key, fleet.tally(), fleet.is_open(), fleet.causes());
        }
    }

    fn status_due(&mut self, key: &Key) {
        if let Some(watched) = self.checks.get_mut(key) {
            let pace = &mut watched.pace;
            if !pace.due && !pace.writing {
                self.statuses.insert((pace.not_before, key.clone()));
            }
            pace.due = true;
        }
    }

    /// Puts a machine into the queue if there may be something to do for it.
    fn reconsider(&mut self, item: &Item) {
        let Some(watched) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = watched.fleet.wanted(&item.machine) else {
            watched.handover.withdraw(&item.machine);
            return;
        };
        let acts = wanted.action.is_some() && !self.held.contains(item);
        if !wanted.action.as_ref().is_some_and(Action::hands_over) {
            watched.handover.withdraw(&item.machine);
        }
        // A recovered Machine waits for nobody any more.
        let waits = || {
            *wanted.verdict == Verdict::Healthy
                && !watched.fleet.paused()
                && self
                    .context
                    .index
                    .machine_mentions(&item.key(), EXTERNALLY_REMEDIATED)
        };
        if acts || wanted.condition.is_some() || self.acted.contains_key(item) || waits() {
            self.queue.push(item.clone(), acts);
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        None => std::future::pending().await,
        Some(at) => tokio::time::sleep_until(at.into()).await,
    }
}

#[cfg(test)]
mod tests;
