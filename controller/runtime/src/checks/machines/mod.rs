//! Checks of Machines: the common part of Cluster API and OpenShift.
//!
//! Holds the state besides the index: the acting check of each Machine that several checks select,
//! remediations of foreign kinds, and remediations that are being withdrawn. A
//! [`Fleet`](rackhand_core::checks::machines::Fleet) decides the action for a Machine; the differences are in
//! [`MachineDialect`].

mod check_state;
mod checks;
pub(super) mod dialect;
mod dispatch;
mod events;
mod overlap;
mod overlaps;
mod request_owners;
pub(super) mod request_source;
mod results;
mod withdrawal;

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::Arc,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use rackhand_core::{
    checks::dispatch::Wanted,
    checks::machines::{Policy, Verdict},
};

use super::{
    Context,
    conditions::stale_view,
    dialect::{Dialect, Evaluated, Progress},
    engine::{
        CheckEngine,
        queue::{Item, MemberKey},
    },
    metrics::CheckCounts,
    remediations::{
        external_requests::{ExternalKind, ExternalRequests, KindWatches, WatchEvent},
        withdrawal::CreatedRemediation,
    },
};
use crate::{
    clusters::sync::{Feed, SyncError},
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
    },
};
use check_state::CheckState;
use dialect::{Effect, MachineDialect, Summary};
use overlaps::Overlaps;
pub(crate) use overlaps::acting_message;
pub(super) use request_owners::RequestOwners;
use request_source::RequestSource;
use results::Done;
use withdrawal::Examined;

/// State of the MachineHealthCheck dialects besides the index.
pub(super) struct Machines<M: MachineDialect> {
    /// Checks by the cluster that they name, including checks that cannot be evaluated.
    of_cluster: BTreeMap<Key, BTreeSet<Key>>,
    /// The cluster that each check names.
    clusters: BTreeMap<Key, Key>,
    overlaps: Overlaps,
    /// Machines that cannot be parsed, with the cause as logged last.
    unreadable: BTreeMap<Key, String>,
    external: Arc<ExternalRequests<RequestOwners>>,
    /// Checks that wait for the first list of their kind of remediations.
    waiting: BTreeMap<Key, ExternalKind>,
    /// Checks with a write in flight that reports why they are not evaluated, and whether they have changed since.
    reporting: BTreeMap<Key, bool>,
    /// Checks as they were when their remediations were examined last.
    examined: BTreeMap<Key, Examined>,
    /// UIDs of remediations that are being withdrawn.
    withdrawing: BTreeSet<String>,
    watching: KindWatches,
    of: PhantomData<fn() -> M>,
}

impl<M: MachineDialect> Default for Machines<M> {
    fn default() -> Self {
        Self {
            of_cluster: BTreeMap::new(),
            clusters: BTreeMap::new(),
            overlaps: Overlaps::default(),
            unreadable: BTreeMap::new(),
            external: Arc::default(),
            waiting: BTreeMap::new(),
            reporting: BTreeMap::new(),
            examined: BTreeMap::new(),
            withdrawing: BTreeSet::new(),
            watching: KindWatches::default(),
            of: PhantomData,
        }
    }
}

impl<M: MachineDialect> Evaluated for CheckState<M> {
    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn names(&self) -> usize {
        usize::try_from(self.fleet.tally().expected).unwrap_or(usize::MAX)
    }
}

impl<M: MachineDialect> Dialect for Machines<M> {
    type Check = CheckState<M>;
    type Summary = Summary;
    type WatchEvent = WatchEvent;
    /// A remediation that was not withdrawn is examined again.
    type Timer = CreatedRemediation;
    type Done = Done;

    const CHECK: Kind = M::CHECK;

    fn start(engine: &mut CheckEngine<Self>) {
        engine.examine_requests(|_| true);
    }

    fn stop(engine: &mut CheckEngine<Self>) {
        M::evaluates_some(&engine.context.index, false);
    }

    fn refresh(engine: &mut CheckEngine<Self>, check: &Key) {
        engine.refresh(check);
    }

    fn resync(engine: &mut CheckEngine<Self>, check: &Key) {
        engine.resync(check);
    }

    fn apply(engine: &mut CheckEngine<Self>, changes: BTreeSet<Change>) {
        engine.apply(changes);
    }

    fn handle_event(engine: &mut CheckEngine<Self>, event: WatchEvent) {
        engine.handle_event(&event);
    }

    fn advance(engine: &mut CheckEngine<Self>, check: &Key, now: Timestamp) {
        if let Some(state) = engine.checks.get_mut(check) {
            state.fleet.advance(now);
        }
        engine.settle(check);
    }

    fn fire(engine: &mut CheckEngine<Self>, made: CreatedRemediation) {
        engine.dialect.withdrawing.remove(&made.uid);
        engine.examine(made);
    }

    fn turn(engine: &mut CheckEngine<Self>, item: Item) {
        engine.turn(item);
    }

    fn retry(engine: &mut CheckEngine<Self>, item: &Item) {
        engine.request_changed(item);
        engine.reconsider(item);
    }

    fn finish(engine: &mut CheckEngine<Self>, done: Done) {
        engine.handle_result(done);
    }

    fn settles(check: &CheckState<M>) -> bool {
        check.spec.rules.can_close(check.fleet.tally().expected)
    }

    fn reach(engine: &CheckEngine<Self>, check: &Key) -> BoxFuture<'static, Result<(), SyncError>> {
        let Some(state) = engine.checks.get(check) else {
            return Box::pin(async { Ok(()) });
        };
        let mut kinds = M::FEEDS.to_vec();
        let mut foreign = None;
        match &state.spec.source {
            RequestSource::Nowhere => {}
            RequestSource::Index(kind) => kinds.push(*kind),
            RequestSource::External(kind) => foreign = Some(kind.clone()),
        }
        let objects = |kind| Feed::Objects(kind, check.namespace.clone());
        let mut feeds: Vec<Feed> = kinds.into_iter().map(objects).collect();
        feeds.push(Feed::Nodes(state.spec.cluster.clone()));
        let (context, external) = (engine.context.clone(), engine.dialect.external.clone());
        Box::pin(async move {
            context.syncs.reach(feeds).await?;
            match foreign {
                Some(kind) => external.reach(&context, &kind).await,
                None => Ok(()),
            }
        })
    }

    fn cleared(
        engine: &mut CheckEngine<Self>,
        check: &Key,
        cleared: BTreeSet<Arc<str>>,
        changed: bool,
    ) {
        // Remediations of kinds outside the index may have been added or deleted.
        if let Some(state) = engine.checks.get(check)
            && let RequestSource::External(_) = &state.spec.source
        {
            for item in &state.items(check) {
                engine.request_changed(item);
            }
        }
        if changed {
            engine.status_due(check);
        }
        for member in &cleared {
            engine.reconsider(&Item::new(check, member));
        }
    }

    fn summary(engine: &mut CheckEngine<Self>, check: &Key) -> Option<Summary> {
        let failed = engine.items.not_created(check);
        let overlapping = overlaps::message(&engine.dialect.overlaps, check);
        let state = engine.checks.get_mut(check)?;
        let mut summary = state.summary();
        summary.failed = failed;
        summary.notices.overlapping = overlapping;
        summary.notices.stale = state.progress.handover.failure().map(stale_view);
        Some(summary)
    }

    async fn write_status(
        context: &Context,
        check: &Key,
        summary: &Summary,
    ) -> Result<(), ApiError> {
        M::write_status(context, check, summary).await
    }

    fn status_failed(check: &mut CheckState<M>) {
        check.names_changed = true;
    }
}

impl<M: MachineDialect> CheckEngine<Machines<M>> {
    /// Applies changes of a fleet: enqueues members with an action, schedules the status and the next
    /// deadline.
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
            let counts = CheckCounts {
                targets: fleet.tally().expected,
                healthy: fleet.tally().healthy,
                counted: fleet.tally().not_healthy,
                allowed: fleet.gate().remediations_allowed,
                open: fleet.is_open(),
            };
            metrics.set_check(key, counts, fleet.causes());
            M::count(metrics, key, fleet.tally(), fleet.is_open());
        }
    }

    /// Enqueues a member if there may be an action for it.
    fn reconsider(&mut self, item: &Item) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = check.fleet.wanted(&item.member) else {
            check.progress.handover.withdraw(&item.member);
            return;
        };
        let (context, key) = (&self.context, item.key());
        let effect = M::effect(context, &check.spec, &key, &wanted);
        if !effect.as_ref().is_some_and(Effect::hands_over::<M>) {
            check.progress.handover.withdraw(&item.member);
        }
        let state = self.items.get(item);
        let complains = state.is_some_and(|state| state.not_created.is_some());
        if !check.progress.dry_run {
            let acts = !self.dialect.overlaps.yields(&item.check, &key);
            M::announce(context, &item.check, &check.spec, &key, &wanted, acts);
        }
        // A recovered Machine no longer waits for remediation.
        let stale = || {
            *wanted.verdict == Verdict::Healthy
                && !check.fleet.paused()
                && M::shows_stale(context, &key)
        };
        let shows = wanted.condition.is_some() || stale();
        let is_request = effect.as_ref().is_some_and(Effect::is_request);
        let member = Wanted {
            hands_over: false,
            effect,
            state,
        };
        if let Some(acts) = member.queued(shows) {
            self.queue.push(item.clone(), acts);
        }
        if complains && !is_request {
            self.complain(item, None);
        }
    }
}
