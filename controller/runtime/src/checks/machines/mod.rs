//! Checks of Machines: the common part of Cluster API and OpenShift.
//!
//! `backlog` takes changes one after the other, `events` and `checks` map them to the fleets, `dispatch` and
//! `results` pass what follows to the bookkeeping of the engine, and `act` starts the calls. A
//! [`Fleet`](rackhand_core::checks::machines::Fleet) decides the action for a Machine; the differences are in
//! [`MachineDialect`].

mod act;
mod backlog;
mod check_state;
mod checks;
mod clusters;
pub(super) mod dialect;
mod dispatch;
mod events;
mod foreign_remediations;
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
    dispatch::{Backlog, Work},
    machines::DialectRules,
};

use super::{
    Context,
    conditions::stale_view,
    dialect::Dialect,
    engine::{EngineParts, queue::Item},
    remediations::external_remediations::WatchEvent,
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
use clusters::CheckClusters;
use dialect::{MachineDialect, Summary};
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
        M::evaluates_some(&context.index, false);
    }

    fn resync(&mut self, engine: &mut Parts<M>, check: &Key) {
        self.orphans.forget(check);
        self.refresh(engine, check);
        if M::RESYNCS_MACHINES
            && let Some(state) = self.checks.get(check)
        {
            let items = state.items(check);
            self.backlog.extend(items.map(Work::Reconsider));
        }
    }

    fn apply(&mut self, engine: &mut Parts<M>, changes: BTreeSet<Change>) {
        // The connection is processed first; otherwise Nodes of an unreachable cluster would look deleted.
        for change in &changes {
            if let Change::Workload(cluster) = change {
                self.of_cluster(engine, cluster, |_, _, _| {});
            }
        }
        self.backlog.extend(changes.into_iter().map(Work::Apply));
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
        self.backlog.push(Work::Advance(check.clone()));
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
        state.is_some_and(|state| state.spec.rules.can_close(state.fleet.tally().expected))
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
            let items = state.items(check);
            self.backlog.extend(items.map(Work::ReadRemediation));
        }
        if changed {
            engine.status_due(check);
        }
        let cleared = cleared.iter().map(|member| Item::new(check, member));
        self.backlog.extend(cleared.map(Work::Reconsider));
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
