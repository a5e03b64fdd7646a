//! Checks of Machines: the common part of Cluster API and OpenShift.
//!
//! `events` takes changes one after the other and maps them to the fleets, `dispatch` and `results` pass what follows to
//! the bookkeeping of the engine, and `act` starts the calls. Here is what begins and ends the evaluation of a check. A
//! [`Fleet`](rackhand_core::checks::machines::Fleet) decides the action for a Machine; the differences are in
//! [`MachineDialect`].

mod act;
mod check_state;
mod clusters;
pub(super) mod dialect;
mod dispatch;
mod events;
mod foreign_remediations;
mod lookup;
mod orphans;
mod overlaps;
mod remediation_owners;
pub(super) mod remediation_source;
mod reports;
mod results;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use rackhand_core::checks::{
    dispatch::{Backlog, Visit},
    machines::can_close,
};

use super::{
    Context,
    conditions::stale_view,
    dialect::Dialect,
    engine::{EngineParts, RESYNC, queue::Item},
    remediations::{external_remediations::WatchEvent, withdrawal::Owner},
};
use crate::{
    clusters::sync::{Feed, SyncError},
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
        time_slice::beside,
    },
};
use check_state::CheckState;
use clusters::CheckClusters;
use dialect::{MachineDialect, Spec, Summary, Unread};
use foreign_remediations::ForeignRemediations;
use orphans::{OrphanSearch, OrphansDue};
use overlaps::Overlaps;
pub(crate) use overlaps::acting_message;
pub(super) use remediation_owners::RemediationOwners;
use remediation_source::RemediationSource;
use reports::{InvalidReports, UnreadableMachines};
use results::Done;

/// The engine, as checks of Machines see it.
type Parts<M> = EngineParts<Machines<M>>;

/// The checks of a MachineHealthCheck dialect, and what is known for them besides the index.
pub(super) struct Machines<M: MachineDialect> {
    checks: BTreeMap<Key, CheckState<M>>,
    clusters: CheckClusters,
    overlaps: Overlaps,
    remediations: ForeignRemediations,
    orphans: OrphanSearch,
    reports: InvalidReports,
    unreadable: UnreadableMachines,
    /// What is left to do before any member gets its turn.
    backlog: Backlog<Key, Change>,
}

impl<M: MachineDialect> Default for Machines<M> {
    fn default() -> Self {
        Self {
            checks: BTreeMap::new(),
            clusters: CheckClusters::default(),
            overlaps: Overlaps::default(),
            remediations: ForeignRemediations::default(),
            orphans: OrphanSearch::default(),
            reports: InvalidReports::default(),
            unreadable: UnreadableMachines::default(),
            backlog: Backlog::default(),
        }
    }
}

impl<M: MachineDialect> Dialect for Machines<M> {
    type Status = Summary;
    type WatchEvent = WatchEvent;
    type Timer = OrphansDue;
    type Done = Done;

    const CHECK: Kind = M::CHECK;

    fn start(&mut self, engine: &mut Parts<M>) {
        let external = self.remediations.known();
        self.orphans.examine_all(engine, external, |_| true);
    }

    fn stop(context: &Context) {
        watch_own_nodes::<M>(context, false);
    }

    fn resync(&mut self, engine: &mut Parts<M>, check: &Key) {
        self.orphans.forget(check);
        self.refresh(engine, check);
        if M::RESYNCS_MACHINES && self.checks.contains_key(check) {
            self.backlog.visit(Visit::ReconsiderAll, check.clone());
        }
    }

    fn apply(&mut self, engine: &mut Parts<M>, changes: BTreeSet<Change>) {
        // The connection is processed first; otherwise Nodes of an unreachable cluster would look deleted.
        for cluster in Change::workloads(&changes) {
            self.of_cluster(engine, cluster, |_, _, _| {});
            self.fill_waiting(engine, cluster);
        }
        self.backlog.apply(changes);
    }

    fn work(&mut self, engine: &mut Parts<M>) -> bool {
        let Some(work) = self.backlog.pop() else {
            return false;
        };
        self.work_on(engine, work);
        true
    }

    fn handle_event(&mut self, engine: &mut Parts<M>, event: WatchEvent) {
        match event {
            WatchEvent::Changed(kind, key) => {
                self.remediation_touched(engine, &RemediationSource::External(kind.clone()), &key);
                let seen = self.remediations.known().get(&kind, &key);
                if let Some(made) = seen.and_then(|seen| seen.made(M::OWNER, &kind, &key)) {
                    self.orphans.examine(engine, made);
                }
            }
            WatchEvent::Synced(kind) => self.remediations_listed(engine, &kind),
        }
    }

    fn advance(&mut self, _: &mut Parts<M>, check: &Key, _: Timestamp) {
        self.backlog.advance(check.clone());
    }

    fn fire(&mut self, engine: &mut Parts<M>, OrphansDue: OrphansDue) {
        self.orphans.examine_due(engine);
    }

    fn turn(&mut self, engine: &mut Parts<M>, item: Item) {
        self.process(engine, item);
    }

    fn retry(&mut self, engine: &mut Parts<M>, item: &Item) {
        self.remediation_changed(engine, item);
        self.reconsider(engine, item);
    }

    fn finish(&mut self, engine: &mut Parts<M>, done: Done) {
        match done {
            Done::Acted(item, result) => self.acted(engine, &item, result),
            Done::Shown(item, outcome, result) => self.shown(engine, &item, outcome, &result),
            Done::Template(check, result) => self.template_read(engine, &check, result),
            Done::Withdrawn(made, result) => self.withdrawn(engine, made, &result),
            Done::Report(check, result) => self.reported(engine, &check, result),
        }
    }

    fn settles(&self, check: &Key) -> bool {
        let state = self.checks.get(check);
        state.is_some_and(|state| can_close(&state.spec.rules, state.fleet.tally().expected))
    }

    fn reach(
        &self,
        context: &Arc<Context>,
        check: &Key,
    ) -> BoxFuture<'static, Result<(), SyncError>> {
        let Some(state) = self.checks.get(check) else {
            return Box::pin(async { Ok(()) });
        };
        let mut kinds = M::FEEDS.to_vec();
        let mut foreign = None;
        match &state.spec.source {
            RemediationSource::Nowhere => {}
            RemediationSource::Index(kind) => kinds.push(*kind),
            RemediationSource::External(kind) => foreign = Some(kind.clone()),
        }
        let objects = |kind| Feed::Objects(kind, check.namespace.clone());
        let mut feeds: Vec<Feed> = kinds.into_iter().map(objects).collect();
        feeds.push(Feed::Nodes(state.spec.cluster.clone()));
        let (context, external) = (context.clone(), self.remediations.known().clone());
        Box::pin(async move {
            context.syncs.reach(feeds).await?;
            match foreign {
                Some(kind) => external.reach(&context, &kind).await,
                None => Ok(()),
            }
        })
    }

    fn cleared(
        &mut self,
        engine: &mut Parts<M>,
        check: &Key,
        cleared: BTreeSet<Arc<str>>,
        changed: bool,
    ) {
        // Remediations of kinds outside the index may have been added or deleted.
        if let Some(state) = self.checks.get(check)
            && let RemediationSource::External(_) = &state.spec.source
        {
            self.backlog.visit(Visit::ReadRemediations, check.clone());
        }
        if changed {
            engine.status_due(check);
        }
        self.backlog.reconsider(check, cleared);
    }

    fn status(&mut self, engine: &Parts<M>, check: &Key) -> Option<Summary> {
        let state = self.checks.get_mut(check)?;
        if state.spec.dry_run || !state.fleet.is_whole() {
            return None;
        }
        let mut summary = state.summary();
        summary.failed = engine.members.not_created(check);
        summary.notices.overlapping = overlaps::message(&self.overlaps, check);
        summary.notices.stale = engine.members.read_failure(check).map(stale_view);
        Some(summary)
    }

    fn names(&self, check: &Key) -> usize {
        let state = self.checks.get(check);
        let names = state.map(|state| state.fleet.tally().expected);
        names.map_or(0, |names| usize::try_from(names).unwrap_or(usize::MAX))
    }

    async fn write_status(
        context: &Context,
        check: &Key,
        summary: &Summary,
    ) -> Result<(), ApiError> {
        M::write_status(context, check, summary).await
    }

    fn status_failed(&mut self, check: &Key) {
        if let Some(state) = self.checks.get_mut(check) {
            state.names_changed = true;
        }
    }
}

impl<M: MachineDialect> Machines<M> {
    /// Applies a change of a check or of its Cluster.
    fn refresh(&mut self, engine: &mut Parts<M>, key: &Key) {
        let context = engine.context.clone();
        let spec = M::read(&context, key);
        let check = lookup::check(&context.index, M::CHECK, key);
        if check.is_some() {
            engine.resync_in(RESYNC, key);
        }
        let cluster = check.and_then(|check| M::cluster_of(&context, key, &check));
        self.clusters.set(key, cluster);
        match spec {
            Ok(spec) => self.evaluate(engine, key, spec),
            Err(Unread::NotEvaluated) => self.drop_check(engine, key),
            Err(Unread::Invalid(reason, message)) => {
                self.drop_check(engine, key);
                if self.reports.begin(key) {
                    act::report_invalid(engine, key, reason, message);
                }
            }
        }
        // Examined before the watch of the kind ends, because remediations that the check covered may be
        // orphaned.
        let lost = !self.checks.contains_key(key);
        if lost {
            self.orphans.forget(key);
        }
        if lost || self.record_examined(engine, key) {
            let external = self.remediations.known();
            self.orphans.examine_all(engine, external, |made| {
                made.check() == *key || (lost && made.key.namespace == key.namespace)
            });
        }
        let sources = self.checks.values().map(|check| &check.spec.source);
        self.remediations
            .watch(sources, &context, &mut engine.watches);
        watch_own_nodes::<M>(&context, !self.clusters.is_empty());
    }

    /// Records the current state of a check and its Cluster. Returns whether its remediations may have become
    /// orphans since the last call.
    fn record_examined(&mut self, engine: &Parts<M>, key: &Key) -> bool {
        let index = &engine.context.index;
        let check = lookup::check(index, M::CHECK, key);
        let cluster = self.clusters.cluster(key);
        let cluster = cluster.and_then(|cluster| index.cluster(cluster));
        let cluster = cluster.as_ref().map(|entry| &*entry.object);
        self.orphans.record(key, check.as_deref(), cluster)
    }

    fn evaluate(&mut self, engine: &mut Parts<M>, key: &Key, spec: Spec<M>) {
        let context = engine.context.clone();
        let now = Timestamp::now();
        if !self.remediations.is_known(key, &spec.source) {
            // Without the remediations the limit is not known; the first list refreshes the check again.
            self.end_check(engine, key);
            return;
        }
        let before = self.checks.get(key).map(CheckState::precedence);
        let size = self.names(key);
        match self.checks.get_mut(key) {
            Some(check) if check.spec.looks_at_the_same(&spec) => {
                let external = self.remediations.known();
                let rules = spec.rules.clone();
                let template = check.spec.template != spec.template;
                check.spec = spec;
                let (spec, fleet) = (&check.spec, &mut check.fleet);
                let read = |machine: &str| {
                    let machine = Key::new(&key.namespace, machine);
                    let entry = lookup::machine(&context.index, M::MACHINE, &machine)?;
                    let view = entry.view.ok()?;
                    Some(CheckState::target_of(
                        spec, &context, external, &machine, &view,
                    ))
                };
                // Rules on other conditions read every Machine again.
                beside(size, || fleet.set_check(rules, now, read));
                fleet.set_cluster(spec.cluster_facts.clone(), now);
                if template {
                    check.template = Default::default();
                }
                // Another client may have changed the status.
                check.names_changed = true;
            }
            _ => {
                self.end_check(engine, key);
                let check = CheckState::new(&context, spec, now);
                let awaits_nodes = check.awaits_nodes;
                self.checks.insert(key.clone(), check);
                engine.begin_check(key);
                if !awaits_nodes {
                    self.backlog.fill(key.clone());
                }
                return;
            }
        }
        if before != self.checks.get(key).map(CheckState::precedence) {
            self.overlap_again(engine, key);
        }
        self.count(engine, key);
        engine.status_due(key);
        self.settle(engine, key);
    }

    fn drop_check(&mut self, engine: &mut Parts<M>, key: &Key) {
        self.remediations.forget(key);
        self.end_check(engine, key);
    }

    /// Ends the evaluation of a check, which may wait for its kind of remediations.
    fn end_check(&mut self, engine: &mut Parts<M>, key: &Key) {
        engine.context.metrics.remove_check(key);
        if self.checks.remove(key).is_none() {
            return;
        }
        engine.end_check(key);
        if M::OWNER == Owner::OpenShift {
            engine.context.metrics.openshift.remove_check(key);
        }
        self.overlap_again(engine, key);
    }
}

/// Watches the Nodes of this cluster while a check of the dialect is evaluated, if those are its Nodes.
fn watch_own_nodes<M: MachineDialect>(context: &Context, watch: bool) {
    if M::WATCHES_OWN_NODES {
        context.index.watch_own_nodes(M::CHECK, watch);
    }
}
