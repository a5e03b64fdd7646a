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
    Action, Check, Disabled, Fleet, HeldLease, NodeCheckStatus, Request, can_close,
};

pub(crate) use facts::{node as node_facts, request as request_of};
pub(crate) use leases::{held, lease_name};
pub(in crate::checks) use metrics::NodeMetrics;
pub(crate) use mhc_conflict::{Fact, OpenShift};
pub(crate) use rules::{
    check as rules_of, memory as memory_of, template, templates as templates_of,
};
pub(crate) use templates::{misnamed, name_of, not_found, usable};

use crate::{
    checks::{
        Context,
        dialect::{Dialect, Evaluated, Progress},
        engine::{CheckEngine, queue::Item, status_writer},
        remediations::external_requests::{ExternalRequests, KindWatches},
    },
    clusters::sync::{Feed, SyncError},
    store::{
        api::ApiError,
        index::Change,
        object::{Key, Kind},
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
    progress: Progress,
}

/// Timers of this dialect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) enum Timer {
    /// Facts of OpenShift that are still unknown count as unreadable.
    Facts,
    /// The templates of a check are read again.
    Templates(Key),
}

/// State of the dialect besides the index.
#[derive(Default)]
pub(in crate::checks) struct NodeHealthChecks {
    /// Checks that are evaluated again before the next member is processed.
    dirty: BTreeSet<Key>,
    /// Whether Leases and OpenShift's kinds are watched.
    watching: bool,
    nodes_known: bool,
    openshift: OpenShift,
    /// Remediations of all kinds of the checks' templates.
    external: Arc<ExternalRequests<Request>>,
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
        Change::Object(kind, _) => *kind == Kind::NodeHealthCheck,
        Change::Node(cluster, _) | Change::Workload(cluster) => *cluster == Key::local(),
        Change::Agent(_) => false,
    }
}

impl Evaluated for NodeCheck {
    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    fn names(&self) -> usize {
        self.memory.nodes.len()
    }
}

impl Dialect for NodeHealthChecks {
    type Check = NodeCheck;
    type Summary = (Arc<DynamicObject>, NodeCheckStatus);
    type WatchEvent = WatchEvent;
    type Timer = Timer;
    type Done = Done;

    const CHECK: Kind = Kind::NodeHealthCheck;

    fn stop(engine: &mut CheckEngine<Self>) {
        let index = &engine.context.index;
        index.watch_own_nodes(Self::CHECK, false);
    }

    fn refresh(engine: &mut CheckEngine<Self>, check: &Key) {
        engine.refresh(check);
    }

    fn resync(engine: &mut CheckEngine<Self>, check: &Key) {
        engine.refresh(check);
    }

    fn apply(engine: &mut CheckEngine<Self>, changes: BTreeSet<Change>) {
        engine.apply(changes);
    }

    fn handle_event(engine: &mut CheckEngine<Self>, event: WatchEvent) {
        engine.handle_event(event);
    }

    fn advance(engine: &mut CheckEngine<Self>, check: &Key, _: Timestamp) {
        engine.dialect.dirty.insert(check.clone());
    }

    fn fire(engine: &mut CheckEngine<Self>, timer: Timer) {
        match timer {
            Timer::Facts => engine.facts_are_late(),
            Timer::Templates(check) => engine.read_templates(&check),
        }
    }

    fn evaluate(engine: &mut CheckEngine<Self>) {
        while let Some(check) = engine.dialect.dirty.pop_first() {
            engine.evaluate(&check);
        }
    }

    fn turn(engine: &mut CheckEngine<Self>, item: Item) {
        engine.turn(&item);
    }

    fn retry(engine: &mut CheckEngine<Self>, item: &Item) {
        engine.dialect.dirty.insert(item.check.clone());
    }

    fn finish(engine: &mut CheckEngine<Self>, done: Done) {
        engine.handle_result(done);
    }

    fn settles(check: &NodeCheck) -> bool {
        can_close(check.check.limit, check.fleet.selected())
    }

    fn reach(engine: &CheckEngine<Self>, check: &Key) -> BoxFuture<'static, Result<(), SyncError>> {
        let kinds = engine.checks.get(check).map(events::kinds_of);
        let (context, external) = (engine.context.clone(), engine.dialect.external.clone());
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

    fn cleared(engine: &mut CheckEngine<Self>, check: &Key, _: BTreeSet<Arc<str>>, _: bool) {
        engine.dialect.dirty.insert(check.clone());
    }

    fn summary(engine: &mut CheckEngine<Self>, check: &Key) -> Option<Self::Summary> {
        let check = engine.checks.get(check)?;
        let stale = status::differs(&check.object, &check.memory);
        stale.then(|| (check.object.clone(), check.memory.clone()))
    }

    async fn write_status(
        context: &Context,
        check: &Key,
        (object, memory): &Self::Summary,
    ) -> Result<(), ApiError> {
        let body = status::body(object, memory, Timestamp::now());
        let written = status_writer::patch_check(context, Self::CHECK, check, body);
        written.await.map(drop)
    }
}

#[cfg(test)]
mod tests;
