//! NodeHealthChecks of medik8s. Their Nodes are in the management cluster, and their remediations may be of
//! any kind.
//!
//! The core decides for a whole check at once: a change marks the check as dirty, and it is evaluated before
//! the next member is processed. At most one action at a time is in flight for a Node.

mod actions;
mod dispatch;
mod evaluation;
mod events;
pub(super) mod facts;
mod leases;
mod metrics;
mod mhc_conflict;
mod rules;
mod status;
mod templates;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::views::{LabelSelector, NodeTemplateRef};
use rackhand_core::checks::nodes::{
    Action, Check, Disabled, Fleet, HeldLease, NodeCheckStatus, NodeRemediation, can_close,
};

pub(crate) use facts::{node as node_facts, remediation as remediation_of};
pub(crate) use leases::{held, lease_name, lease_of, maintenance_mark, release_lease};
pub(in crate::checks) use metrics::NodeMetrics;
pub(crate) use mhc_conflict::{Fact, OpenShift};
pub(crate) use rules::{
    check as rules_of, memory as memory_of, template, templates as templates_of,
};
pub(crate) use templates::{misnamed, name_of, not_found, usable};

use crate::{
    checks::{
        Context,
        dialect::Dialect,
        engine::{EngineParts, queue::Item, status_writer},
        remediations::external_remediations::{self, ExternalRemediations, KindWatches},
    },
    clusters::sync::{Feed, SyncError},
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
        time_slice::beside,
    },
};
use dispatch::Done;
use watches::WatchEvent;

/// A check that this controller evaluates.
pub(in crate::checks) struct NodeCheck {
    object: Arc<DynamicObject>,
    selector: LabelSelector,
    check: Arc<Check>,
    references: Arc<[NodeTemplateRef]>,
    fleet: Fleet,
    memory: NodeCheckStatus,
    /// Why the check is disabled by its templates, if it is; the outer `None` if they have not been read yet.
    disabled: Option<Option<Disabled>>,
    reading_templates: bool,
    /// Whether a template has changed while the templates were being read.
    read_again: bool,
    /// Nodes on which no remediation starts before this time, and why.
    blocked: BTreeMap<String, (Timestamp, String)>,
    /// Nodes whose remediation is due.
    due: BTreeSet<Arc<str>>,
    /// Actions by Node that the last evaluation has requested and that have not begun.
    actions: BTreeMap<Arc<str>, Vec<Action>>,
    dry_run: bool,
}

impl NodeCheck {
    /// How many Nodes an evaluation considers one by one.
    fn considered(&self) -> usize {
        self.fleet.considered().max(self.memory.nodes.len())
    }
}

/// Timers of this dialect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) enum Timer {
    /// Facts of OpenShift that are still unknown count as unreadable.
    Facts,
    /// The templates of a check are read again.
    Templates(Key),
}

/// The engine, as NodeHealthChecks see it.
type Parts = EngineParts<NodeHealthChecks>;

/// The NodeHealthChecks, and what is known for them besides the index.
#[derive(Default)]
pub(in crate::checks) struct NodeHealthChecks {
    checks: BTreeMap<Key, NodeCheck>,
    /// Checks that are evaluated again before the next member is processed.
    dirty: BTreeSet<Key>,
    /// Whether Leases and OpenShift's kinds are watched.
    watching: bool,
    nodes_known: bool,
    openshift: OpenShift,
    /// Remediations of all kinds of the checks' templates.
    external: Arc<ExternalRemediations<NodeRemediation>>,
    kinds: KindWatches,
    /// Kinds of templates that are watched.
    templates: KindWatches,
    /// The current Leases of Nodes, by name of the Lease.
    leases: BTreeMap<String, HeldLease>,
    /// One-shot actions that wait for an action in flight.
    pending: BTreeMap<Item, Vec<Action>>,
}

/// Whether a change may concern a NodeHealthCheck.
pub(crate) fn concerns(change: &Change) -> bool {
    match change {
        Change::Object(kind, _) => {
            matches!(kind, Kind::NodeHealthCheck | Kind::HostMaintenance)
        }
        Change::Node(cluster, _) | Change::Workload(cluster) => *cluster == Key::local(),
        Change::Agent(_) => false,
    }
}

impl Dialect for NodeHealthChecks {
    type Status = (Arc<DynamicObject>, NodeCheckStatus);
    type WatchEvent = WatchEvent;
    type Timer = Timer;
    type Done = Done;

    const CHECK: Kind = Kind::NodeHealthCheck;

    fn stop(context: &Context) {
        context.index.watch_own_nodes(Self::CHECK, false);
    }

    fn apply(&mut self, engine: &mut Parts, changes: BTreeSet<Change>) {
        let local = Key::local();
        // The connection is processed first; otherwise Nodes of an unreachable cluster would look deleted.
        if changes.contains(&Change::Workload(local.clone())) {
            self.read_connection(&engine.context.index);
        }
        beside(changes.len(), || {
            for change in changes {
                match change {
                    Change::Object(Kind::NodeHealthCheck, key) => self.refresh(engine, &key),
                    Change::Object(Kind::HostMaintenance, _) => self.evaluate_all(),
                    Change::Node(cluster, node) if cluster == local => {
                        self.node_changed(engine, &node);
                    }
                    _ => {}
                }
            }
        });
    }

    fn resync(&mut self, engine: &mut Parts, check: &Key) {
        self.refresh(engine, check);
    }

    fn handle_event(&mut self, engine: &mut Parts, event: WatchEvent) {
        match event {
            WatchEvent::Remediations(external_remediations::WatchEvent::Changed(kind, key)) => {
                self.remediation_changed(&kind, &key);
            }
            WatchEvent::Remediations(external_remediations::WatchEvent::Synced(_)) => {
                self.evaluate_all();
            }
            WatchEvent::Lease(name, lease) => self.put_lease(&name, lease),
            WatchEvent::LeaseGone(name) => self.remove_lease(&name),
            WatchEvent::Leases(keys) => self.keep_leases(&keys),
            WatchEvent::Template(of) => self.template_changed(engine, &of),
            WatchEvent::Fact(fact, object) => {
                self.update_openshift_facts(engine, |known| known.put(fact, *object));
            }
            WatchEvent::FactGone(fact, key) => {
                self.update_openshift_facts(engine, |known| known.remove(fact, key));
            }
            WatchEvent::Facts(fact, keys) => {
                self.update_openshift_facts(engine, |known| known.listed(fact, &keys));
            }
            WatchEvent::FactLost(fact, why) => {
                self.update_openshift_facts(engine, |known| known.lose(fact, why));
            }
            WatchEvent::FactNotServed(fact) => {
                let mut lost = None;
                self.update_openshift_facts(engine, |known| lost = known.not_served(fact));
                let index = &engine.context.index;
                index.set_lost_other(fact.label(), "", lost);
            }
        }
    }

    fn advance(&mut self, _: &mut Parts, check: &Key, _: Timestamp) {
        self.dirty.insert(check.clone());
    }

    fn fire(&mut self, engine: &mut Parts, timer: Timer) {
        match timer {
            Timer::Facts => self.facts_are_late(engine),
            Timer::Templates(check) => self.read_templates(engine, &check),
        }
    }

    fn evaluate(&mut self, engine: &mut Parts) {
        while let Some(check) = self.dirty.pop_first() {
            let nodes = self.checks.get(&check).map_or(0, NodeCheck::considered);
            beside(nodes, || self.evaluate_check(engine, &check));
        }
    }

    fn turn(&mut self, engine: &mut Parts, item: Item) {
        self.begin_actions(engine, &item);
    }

    fn retry(&mut self, _: &mut Parts, item: &Item) {
        self.dirty.insert(item.check.clone());
    }

    fn finish(&mut self, engine: &mut Parts, done: Done) {
        match done {
            Done::Templates(key, check, found) => self.templates_read(engine, &key, &check, found),
            Done::Acted(item, once, outcome, result) => {
                self.acted(engine, &item, once, *outcome, result);
            }
        }
    }

    fn settles(&self, check: &Key) -> bool {
        let state = self.checks.get(check);
        state.is_some_and(|state| can_close(state.check.limit, state.fleet.selected()))
    }

    fn reach(
        &self,
        context: &Arc<Context>,
        check: &Key,
    ) -> BoxFuture<'static, Result<(), SyncError>> {
        let kinds = self.checks.get(check).map(events::kinds_of);
        let (context, external) = (context.clone(), self.external.clone());
        Box::pin(async move {
            let feeds = vec![
                Feed::Objects(Self::CHECK, String::new()),
                Feed::Nodes(Key::local()),
            ];
            context.syncs.reach(feeds).await?;
            for kind in kinds.unwrap_or_default() {
                external.reach(&context, &kind).await?;
            }
            Ok(())
        })
    }

    fn cleared(&mut self, _: &mut Parts, check: &Key, _: BTreeSet<Arc<str>>, _: bool) {
        self.dirty.insert(check.clone());
    }

    fn status(&mut self, _: &Parts, check: &Key) -> Option<Self::Status> {
        let check = self.checks.get(check).filter(|check| !check.dry_run)?;
        let stale = status::differs(&check.object, &check.memory);
        stale.then(|| (check.object.clone(), check.memory.clone()))
    }

    fn names(&self, check: &Key) -> usize {
        self.checks
            .get(check)
            .map_or(0, |check| check.memory.nodes.len())
    }

    async fn write_status(
        context: &Context,
        check: &Key,
        (object, memory): &Self::Status,
    ) -> Result<(), ApiError> {
        let named = memory.nodes.len();
        let body = beside(named, || status::body(object, memory, Timestamp::now()));
        let written = status_writer::patch_check(context, Self::CHECK, check, body);
        written.await.map(drop)
    }
}

#[cfg(test)]
mod tests;
