//! The one task that looks at the checks of OpenShift, and what is under way for them.
//!
//! Owns when to look: after changes, a burst of them at one time, and at the nearest deadline. What
//! waits for its turn is looked up in the last look when its turn comes (F10).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::health::{ExternalStep, OpenShiftAction, Verdict};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        Context,
        others::{News, OtherKind, Others},
        queue::{Item, Queue},
        recipe::Unusable,
        source::Source,
    },
    act::{Job, Outcome},
    look::{Act, Look, Read, Spec},
    status::{self, Shown},
};
use crate::{api::ApiError, index::Inbox, object::Key};

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
}

enum Done {
    Acted(Item, Result<Outcome, ApiError>),
    Status(Key, Result<(), ApiError>),
}

enum UnderWay {
    Machine(Item),
    Status(Key),
}

/// The checks, and what is under way.
pub(super) struct Driver {
    context: Arc<Context>,
    checks: BTreeMap<Key, Looked>,
    /// Checks whose numbers are shown.
    counted: BTreeSet<Key>,
    /// Something has changed since the last look.
    changed: bool,
    not_before: Instant,
    /// The nearest deadline.
    wake_at: Option<Timestamp>,
    queue: Queue,
    /// Machines whose last action failed, or is not ours: they wait for their time.
    held: BTreeSet<Item>,
    /// Machines whose request is being made, or may have been made by a call without an answer.
    creating: BTreeSet<Item>,
    unmade: BTreeMap<Item, Unusable>,
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
            not_before: Instant::now(),
            wake_at: None,
            queue: Queue::default(),
            held: BTreeSet::new(),
            creating: BTreeSet::new(),
            unmade: BTreeMap::new(),
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
                _ = inbox.take() => self.changed = true,
                Some(_) = heard.recv() => self.changed = true,
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
            self.later.values().min().copied(),
            some.then(|| self.not_before + LOOK),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn fire(&mut self) {
        let now = Instant::now();
        for item in self.queue.due(now) {
            self.held.remove(&item);
            self.creating.remove(&item);
        }
        self.later.retain(|_, at| *at > now);
        self.not_before = now + PACE;
        self.changed = false;
        self.look();
        self.dispatch();
    }

    /// Looks at every check.
    fn look(&mut self) {
        let (context, now) = (self.context.clone(), Timestamp::now());
        self.checks.clear();
        self.wake_at = None;
        let (mut counted, mut unread, mut kinds) =
            (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        let mut ours = false;
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
            let looked = spec.look(&context, &self.others, &self.creating, &key, now);
            counted.insert(key.clone());
            unread.extend(looked.unread.iter().cloned());
            self.wake_at = self.wake_at.into_iter().chain(looked.plan.wake_at).min();
            self.tell(&key, &spec, &looked);
            self.show(&key, &spec, &looked, now);
            let acts = looked.acts;
            self.checks.insert(key, Looked { spec, acts });
        }
        context.index.look_at_own_nodes(ours);
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
        self.follow(kinds);
        let checks = &self.checks;
        let wants = |item: &Item| {
            let looked = checks.get(&item.check);
            looked.is_some_and(|l| l.acts.contains_key(&item.machine))
        };
        self.unmade.retain(|item, _| wants(item));
    }

    /// Numbers and Events.
    fn tell(&self, key: &Key, spec: &Spec, looked: &Look) {
        let (context, plan) = (&self.context, &looked.plan);
        let causes = looked.causes();
        let metrics = &context.metrics;
        metrics.check(key, &looked.tally(), plan.open, causes.into_iter());
        metrics.mapi().check(key, plan.expected, plan.open);
        if spec.dry_run {
            for (machine, act) in &looked.acts {
                tracing::info!(check = %key, machine = &**machine, ?act, "dry run: not done");
            }
            return;
        }
        if !plan.open {
            let events = &context.events;
            events.send(&spec.object, true, "RemediationRestricted", &plan.message);
        }
        let say = |machine: &str, warning: bool, reason: &str, message: &str| {
            let key = Key::new(&key.namespace, machine);
            if let Some(entry) = context.index.openshift_machine(&key) {
                context.events.send(&entry.object, warning, reason, message);
            }
        };
        for (machine, verdict) in &plan.verdicts {
            if let Verdict::Unhealthy { causes } = verdict {
                let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
                let message = format!("MachineHealthCheck {key}: {}", causes.join("; "));
                say(machine, false, "DetectedUnhealthy", &message);
            }
        }
        for (machine, act) in &looked.acts {
            match act {
                Act::Plan(OpenShiftAction::SkipNoController { .. }) => {
                    let message = "Machine has no controller that would replace it; not remediated";
                    say(machine, false, "SkippedNoController", message);
                }
                Act::Plan(OpenShiftAction::ReportForeignRequest { .. }) => {
                    if let Some(Unusable { reason, why }) = act.in_the_way() {
                        say(machine, true, reason, &why);
                    }
                }
                Act::Mark(ExternalStep::Blocked, ..) => {
                    let message = "Its host did not come back, and the Machine cannot be replaced by \
                                   itself: see its PowerRemediation, and take the annotation \
                                   host.metal3.io/external-remediation off when it is settled";
                    say(machine, true, "CannotBeRemediated", message);
                }
                _ => {}
            }
        }
    }

    /// Writes the status where it says something else.
    fn show(&mut self, key: &Key, spec: &Spec, looked: &Look, now: Timestamp) {
        if spec.dry_run {
            return;
        }
        let plan = &looked.plan;
        let failed = self
            .unmade
            .iter()
            .find(|(item, _)| item.check == *key && looked.acts.contains_key(&item.machine));
        let failed = failed.map(|(_, why)| why.clone());
        let foreign = || looked.acts.values().find_map(Act::in_the_way);
        let shown = Shown {
            expected: plan.expected,
            healthy: plan.healthy,
            allowed: plan.remediations_allowed,
            open: plan.open,
            message: plan.message.clone(),
            failed: failed.or_else(foreign),
        };
        if let Some(body) = status::patch(&spec.object, &spec.view, &shown, now) {
            self.write(key, body);
        }
    }

    fn write(&mut self, key: &Key, body: serde_json::Value) {
        if self.later.contains_key(key) || !self.writing.insert(key.clone()) {
            return;
        }
        let (context, check) = (self.context.clone(), key.clone());
        let task = async move {
            let written = status::write(&context, &check, body).await;
            Done::Status(check, written)
        };
        let id = self.tasks.spawn(task).id();
        self.under_way.insert(id, UnderWay::Status(key.clone()));
    }

    /// Gives every Machine its turn for which there is room.
    fn dispatch(&mut self) {
        for (key, looked) in &self.checks {
            for machine in looked.acts.keys().filter(|_| !looked.spec.dry_run) {
                let item = Item::new(key, machine);
                if !self.held.contains(&item) {
                    self.queue.push(item, true);
                }
            }
        }
        while let Some(item) = self.queue.pop() {
            self.turn(item);
        }
    }

    fn turn(&mut self, item: Item) {
        let Some(looked) = self.checks.get(&item.check) else {
            return;
        };
        let Some(act) = looked.acts.get(&item.machine).filter(|act| act.is_done()) else {
            return;
        };
        if self.held.contains(&item) {
            return;
        }
        let key = item.key();
        let spec = &looked.spec;
        let job = Job {
            context: self.context.clone(),
            item: item.clone(),
            act: act.clone(),
            view: spec.view.clone(),
            rules: spec.rules.clone(),
            request: spec.source.uid(&self.context, &self.others, &key),
        };
        if act.creates() {
            self.creating.insert(item.clone());
        }
        self.queue.begin(item.clone());
        let of_task = item.clone();
        let id = self
            .tasks
            .spawn(async move { Done::Acted(of_task, job.run().await) })
            .id();
        self.under_way.insert(id, UnderWay::Machine(item));
    }

    fn finish(&mut self, done: Done) {
        match done {
            Done::Acted(item, result) => self.acted(&item, result),
            Done::Status(check, result) => self.written(check, result),
        }
    }

    fn acted(&mut self, item: &Item, result: Result<Outcome, ApiError>) {
        let now = Instant::now();
        self.queue.end(item);
        // What was asked for is done, or is asked for anew by the next look.
        if let Some(looked) = self.checks.get_mut(&item.check) {
            looked.acts.remove(&item.machine);
        }
        self.changed = true;
        if matches!(result, Err(ApiError::Timeout { .. })) {
            self.queue.unanswered(now);
        } else {
            self.queue.answered();
        }
        match result {
            Ok(Outcome::Done) => {
                self.queue.succeeded(item);
                self.unmade.remove(item);
                self.creating.remove(item);
            }
            Ok(Outcome::NotRequested(why)) => {
                self.queue.succeeded(item);
                self.creating.remove(item);
                self.unmade.insert(item.clone(), why);
                self.held.insert(item.clone());
                self.queue.later(item, now + TRY_AGAIN);
            }
            Ok(Outcome::LeftToOpenShift) => {
                self.queue.succeeded(item);
                self.creating.remove(item);
                self.held.insert(item.clone());
                self.queue.later(item, now + LOOK);
            }
            Err(error) => {
                // Somebody else wrote to the same object: the watch brings it back here.
                if !error.is_conflict() {
                    tracing::warn!(check = %item.check, machine = &*item.machine, %error, "action failed; trying again");
                }
                self.held.insert(item.clone());
                self.queue.failed(item, now);
            }
        }
    }

    fn written(&mut self, check: Key, result: Result<(), ApiError>) {
        self.writing.remove(&check);
        self.changed = true;
        if let Err(error) = result {
            tracing::warn!(%check, %error, "the status of a health check was not written; trying again");
            self.later.insert(check, Instant::now() + TRY_AGAIN);
        }
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

// === impl Act ===

impl Act {
    /// It is more than words.
    fn is_done(&self) -> bool {
        !matches!(
            self,
            Self::Plan(
                OpenShiftAction::SkipNoController { .. }
                    | OpenShiftAction::ReportForeignRequest { .. }
            ) | Self::Mark(ExternalStep::Blocked | ExternalStep::Nothing, ..)
        )
    }

    /// Somebody else's request keeps this one from being made.
    fn in_the_way(&self) -> Option<Unusable> {
        let Self::Plan(OpenShiftAction::ReportForeignRequest { machine, owner }) = self else {
            return None;
        };
        Some(Unusable {
            reason: "RemediationRequestCreationFailed",
            why: format!("a request {machine} exists and belongs to {owner}; delete it"),
        })
    }

    /// A request may be there from when it is begun.
    fn creates(&self) -> bool {
        matches!(
            self,
            Self::Plan(OpenShiftAction::CreateRequest { .. })
                | Self::Mark(ExternalStep::Request, ..)
        )
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        None => std::future::pending().await,
        Some(at) => tokio::time::sleep_until(at.into()).await,
    }
}
