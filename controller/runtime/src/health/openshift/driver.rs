//! The one task that looks at the checks of OpenShift, and what is under way for them.
//!
//! Owns when to look: after changes, a burst of them at one time, and at the nearest deadline. What
//! waits for its turn is looked up in the last look when its turn comes (F10).

mod handover;
mod tell;
mod turn;
mod withdraw;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::health::clock_skew;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        Context,
        others::{News, OtherKind, Others},
        queue::{Item, Queue},
        recipe::Unusable,
        shown::Asides,
        source::Source,
        withdrawal::Made,
    },
    act::{Act, Outcome},
    look::{Read, Spec, share},
    status,
};
use crate::{api::ApiError, clock::Stopwatch, index::Inbox, object::Key, sync::SyncError};
use handover::Waiting;

/// Time between two looks, however many changes come.
const PACE: Duration = Duration::from_millis(100);
/// Time between two looks of which nothing but an installation is the reason: whose checks these
/// are, of which no watch tells.
const LOOK: Duration = Duration::from_secs(60);
/// When to try again what could not be requested: a missing template sends no event when it comes.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// No sleep is so long that nobody notices when clocks are set.
const LONGEST: Duration = Duration::from_secs(60);

/// A check of the last look.
struct Looked {
    spec: Spec,
    acts: BTreeMap<Arc<str>, Act>,
    expected: u32,
}

enum Done {
    Acted(Item, Result<Outcome, ApiError>),
    Status(Key, Result<(), ApiError>),
    Synced(Key, u64, Result<(), SyncError>),
    Withdrawn(Made, Result<bool, ApiError>),
}

enum UnderWay {
    Machine(Item),
    Status(Key),
    Sync(Key, u64),
    Withdrawal(Made),
}

/// The checks, and what is under way.
pub(super) struct Driver {
    context: Arc<Context>,
    checks: BTreeMap<Key, Looked>,
    /// Checks whose numbers are shown.
    counted: BTreeSet<Key>,
    /// Something has changed since the last look.
    changed: bool,
    /// Since when an event waits for a look.
    event: Option<Instant>,
    not_before: Instant,
    /// The nearest deadline.
    wake_at: Option<Timestamp>,
    queue: Queue,
    /// Machines whose last action failed, or is not ours: they wait for their time.
    held: BTreeSet<Item>,
    /// Machines whose request is being made, or may have been made by a call without an answer.
    creating: BTreeSet<Item>,
    unmade: BTreeMap<Item, Unusable>,
    /// The Machines of each check that wait to be handed over (F13).
    handovers: BTreeMap<Key, Waiting>,
    /// When one of them is due.
    settled_at: Option<Instant>,
    /// The number of the last live read.
    reads: u64,
    /// From when the time of handing over is counted.
    started: Stopwatch,
    /// Requests that are being withdrawn, by UID, and when to look at one again.
    withdrawing: BTreeSet<String>,
    withdraw_again: BTreeSet<(Instant, Made)>,
    writing: BTreeSet<Key>,
    /// Statuses that were not written, and when to try again.
    later: BTreeMap<Key, Instant>,
    /// Machines that do not read, as told last.
    unread: BTreeMap<Key, String>,
    others: Arc<Others>,
    watching: BTreeMap<OtherKind, CancellationToken>,
    watches: JoinSet<()>,
    news: mpsc::UnboundedSender<News>,
    tasks: JoinSet<Done>,
    under_way: HashMap<tokio::task::Id, UnderWay>,
}

// === impl Driver ===

impl Driver {
    /// With nothing known yet; [`Self::run`] looks at everything.
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            checks: BTreeMap::new(),
            counted: BTreeSet::new(),
            changed: true,
            event: None,
            not_before: Instant::now(),
            wake_at: None,
            queue: Queue::default(),
            held: BTreeSet::new(),
            creating: BTreeSet::new(),
            unmade: BTreeMap::new(),
            handovers: BTreeMap::new(),
            settled_at: None,
            reads: 0,
            started: Stopwatch::start(),
            withdrawing: BTreeSet::new(),
            withdraw_again: BTreeSet::new(),
            writing: BTreeSet::new(),
            later: BTreeMap::new(),
            unread: BTreeMap::new(),
            others: Arc::default(),
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
        loop {
            let next = self.next();
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = inbox.take() => self.hear(),
                Some(_) = heard.recv() => self.hear(),
                () = sleep_until(next) => self.fire(),
                Some(done) = self.tasks.join_next_with_id() => match done {
                    Ok((id, done)) => {
                        self.under_way.remove(&id);
                        self.finish(done);
                    }
                    Err(error) => {
                        tracing::error!(%error, "a task of OpenShift's health checks ended badly");
                        let why = || ApiError::other("a task", "it ended badly");
                        match self.under_way.remove(&error.id()) {
                            Some(UnderWay::Machine(item)) => self.acted(&item, Err(why())),
                            Some(UnderWay::Status(check)) => self.written(check, Err(why())),
                            Some(UnderWay::Sync(check, read)) => {
                                let why = SyncError::Read("the read ended badly".into());
                                self.synced(&check, read, Err(why));
                            }
                            Some(UnderWay::Withdrawal(made)) => self.withdrawn(made, &Err(why())),
                            None => {}
                        }
                    }
                },
            }
        }
        for watching in self.watching.values() {
            watching.cancel();
        }
        self.context.index.look_at_own_nodes(false);
        while self.tasks.join_next().await.is_some() {}
        while self.watches.join_next().await.is_some() {}
    }

    /// When to look although nothing happens.
    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        let deadline = self.wake_at.map(|at| {
            let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            (now + left.min(LONGEST)).max(self.not_before)
        });
        let some = !self.context.index.openshift_checks().is_empty();
        [
            self.changed.then_some(self.not_before),
            deadline,
            self.queue.next_retry(),
            self.settled_at,
            self.withdraw_again.first().map(|(at, _)| *at),
            self.later.values().min().copied(),
            some.then(|| self.not_before + LOOK),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn hear(&mut self) {
        self.changed = true;
        self.event.get_or_insert_with(Instant::now);
    }

    fn fire(&mut self) {
        let now = Instant::now();
        let late = self.wake_at.map(|at| Timestamp::now().duration_since(at));
        if let Some(late) = late.and_then(|late| Duration::try_from(late).ok()) {
            self.context.metrics.deadline_lateness(late);
        }
        for item in self.queue.due(now) {
            self.held.remove(&item);
            self.creating.remove(&item);
        }
        self.later.retain(|_, at| *at > now);
        self.not_before = now + PACE;
        self.changed = false;
        // Before the watch of a kind of requests ends that no check names any more.
        self.examine_requests(now);
        self.look();
        self.settle();
        if let Some(event) = self.event.take() {
            let metrics = &self.context.metrics;
            metrics.evaluated(now.elapsed(), event.elapsed());
        }
        self.dispatch();
        self.begin_reads();
    }

    /// The checks that are evaluated.
    fn read(&mut self, now: Timestamp) -> Vec<(Key, Spec)> {
        let context = self.context.clone();
        let (mut specs, mut kinds, mut ours) = (Vec::new(), BTreeSet::new(), false);
        for (key, entry) in context.index.openshift_checks() {
            let spec = match Spec::read(&context, &key, &entry) {
                Read::NotOurs => continue,
                Read::Paused => {
                    ours = true;
                    continue;
                }
                Read::Invalid(why) => {
                    if let Some(body) = status::invalid(&entry.object, &why, now) {
                        let events = &context.events;
                        events.send(&entry.object, true, "InvalidSpec", &why);
                        self.write(&key, body);
                    }
                    continue;
                }
                Read::Spec(spec) => spec,
            };
            ours = true;
            if let Source::Other(kind) = &spec.source {
                kinds.insert(kind.clone());
                if !self.others.synced(kind) {
                    // Without the requests the limit is not known; the first list brings it back.
                    continue;
                }
            }
            specs.push((key, spec));
        }
        context.index.look_at_own_nodes(ours);
        self.follow(kinds);
        specs
    }

    /// Looks at every check.
    fn look(&mut self) {
        let (context, now) = (self.context.clone(), Timestamp::now());
        self.checks.clear();
        self.wake_at = None;
        let (mut counted, mut unread) = (BTreeSet::new(), BTreeMap::new());
        let specs = self.read(now);
        let shared = share(&context, &self.others, &specs);
        for (key, spec) in specs {
            let mut looked = spec.look(&context, &self.others, &self.creating, &key, now);
            let own = |machine: &Arc<str>| !shared.yields(&Item::new(&key, machine));
            looked.acts.retain(|machine, _| own(machine));
            counted.insert(key.clone());
            unread.extend(looked.unread.iter().cloned());
            self.wake_at = self.wake_at.into_iter().chain(looked.plan.wake_at).min();
            let asides = Asides {
                shared: shared.words(&key),
                ahead: clock_skew(&looked.plan.ahead),
                stale: self.stale(&key),
            };
            self.tell(&key, &spec, &looked, &asides);
            self.show(&key, &spec, &looked, asides, now);
            let expected = looked.plan.expected;
            let acts = looked.acts;
            self.checks.insert(
                key,
                Looked {
                    spec,
                    acts,
                    expected,
                },
            );
        }
        for (key, why) in unread
            .iter()
            .filter(|(k, why)| self.unread.get(*k) != Some(*why))
        {
            tracing::warn!(machine = %key, why, "a Machine of OpenShift cannot be read and is left out");
        }
        self.unread = unread;
        for gone in self.counted.difference(&counted) {
            context.metrics.forget_check(gone);
            context.metrics.mapi().forget(gone);
        }
        self.counted = counted;
        let checks = &self.checks;
        let wants = |item: &Item| {
            let looked = checks.get(&item.check);
            looked.is_some_and(|l| l.acts.contains_key(&item.machine))
        };
        self.unmade.retain(|item, _| wants(item));
    }

    /// Watches the kinds of requests that others carry out, as long as a check names them.
    fn follow(&mut self, kinds: BTreeSet<OtherKind>) {
        let others = &self.others;
        self.watching.retain(|kind, cancel| {
            let keep = kinds.contains(kind);
            if !keep {
                cancel.cancel();
                others.forget(kind);
            }
            keep
        });
        for kind in kinds {
            if self.watching.contains_key(&kind) {
                continue;
            }
            let cancel = CancellationToken::new();
            self.watching.insert(kind.clone(), cancel.clone());
            let (others, context) = (self.others.clone(), self.context.clone());
            let news = self.news.clone();
            self.watches
                .spawn(async move { others.watch(context, kind, news, cancel).await });
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
