//! Handlers of the changes that affect checks.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::{
    names::{DRY_RUN_ANNOTATION, MEDIK8S_LEASE_NAMESPACE},
    views::{NodeHealthCheckView, NodeTemplateRef},
};
use rackhand_core::checks::nodes::{Check, Fleet, NodeCheckStatus};
use tokio_util::sync::CancellationToken;

use super::{
    NodeCheck, NodeHealthChecks, Timer, facts,
    leases::lease_name,
    mhc_conflict::{Fact, OpenShift},
    rules,
    watches::{self, Find, Watch, WatchEvent},
};
use crate::{
    checks::{
        dialect::Progress,
        engine::{self, CheckEngine, RESYNC},
        facts::unreachable,
        remediations::external_requests::{self, ExternalKind},
    },
    store::{
        index::{Change, Index},
        object::{Key, Kind},
    },
};

/// Time after which unknown facts of OpenShift count as unreadable.
const LEARNS: Duration = Duration::from_secs(10);

/// Whether the Nodes and the checks themselves are watched, so that the index is current.
fn is_watched(index: &Index) -> bool {
    unreachable(index, &Key::local(), &[Kind::NodeHealthCheck]).is_none()
}

/// The kind and namespace of remediations from a template.
fn requests_of(template: &NodeTemplateRef) -> ExternalKind {
    ExternalKind {
        api_version: template.api_version.clone(),
        kind: template.request_kind().to_owned(),
        namespace: template.namespace.clone(),
    }
}

/// The kind and namespace of a template.
pub(super) fn templates_of(template: &NodeTemplateRef) -> ExternalKind {
    ExternalKind {
        api_version: template.api_version.clone(),
        kind: template.kind.clone(),
        namespace: template.namespace.clone(),
    }
}

/// The kinds of a check's remediations: the kinds of its templates, and the kinds of remediations created from
/// earlier templates.
pub(super) fn kinds_of(check: &NodeCheck) -> BTreeSet<ExternalKind> {
    let made = check.memory.nodes.values().flat_map(|e| &e.tried);
    let made = made.map(|tried| facts::kind_of(&tried.id));
    check
        .references
        .iter()
        .map(requests_of)
        .chain(made)
        .collect()
}

impl CheckEngine<NodeHealthChecks> {
    /// Applies changes of the index.
    pub(super) fn apply(&mut self, changes: BTreeSet<Change>) {
        let local = Key::local();
        // The connection is processed first; otherwise Nodes of an unreachable cluster would look deleted.
        if changes.contains(&Change::Workload(local.clone())) {
            self.dialect.nodes_known = is_watched(&self.context.index);
            self.evaluate_all();
        }
        for change in changes {
            match change {
                Change::Object(Kind::NodeHealthCheck, key) => self.refresh(&key),
                Change::Node(cluster, node) if cluster == local => self.node_changed(&node),
                _ => {}
            }
        }
    }

    pub(super) fn handle_event(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Requests(external_requests::WatchEvent::Changed(kind, key)) => {
                self.request_changed(&kind, &key);
            }
            WatchEvent::Requests(external_requests::WatchEvent::Synced(_)) => self.evaluate_all(),
            WatchEvent::Lease(name, lease) => {
                let leases = &mut self.dialect.leases;
                if leases.get(&name) != Some(&lease) {
                    leases.insert(name.clone(), lease);
                    self.lease_changed(&name);
                }
            }
            WatchEvent::LeaseGone(name) => {
                if self.dialect.leases.remove(&name).is_some() {
                    self.lease_changed(&name);
                }
            }
            WatchEvent::Leases(keys) => {
                let gone = |name: &&String| {
                    !keys.contains(&Key::new(MEDIK8S_LEASE_NAMESPACE, name.as_str()))
                };
                let known = self.dialect.leases.keys();
                let gone: Vec<String> = known.filter(gone).cloned().collect();
                for name in gone {
                    self.handle_event(WatchEvent::LeaseGone(name));
                }
            }
            WatchEvent::Template(of) => self.template_changed(&of),
            WatchEvent::Fact(fact, object) => {
                self.update_openshift_facts(|known| known.put(fact, *object));
            }
            WatchEvent::FactGone(fact, key) => {
                self.update_openshift_facts(|known| known.remove(fact, key));
            }
            WatchEvent::Facts(fact, keys) => {
                self.update_openshift_facts(|known| known.listed(fact, &keys));
            }
            WatchEvent::FactLost(fact, why) => {
                self.update_openshift_facts(|known| known.lose(fact, why));
            }
            WatchEvent::FactNotServed(fact) => {
                let mut lost = None;
                self.update_openshift_facts(|known| lost = known.not_served(fact));
                let index = &self.context.index;
                index.set_lost_other(fact.label(), "", lost);
            }
        }
    }

    /// Marks the checks that are remediating the Node of a Lease for evaluation.
    fn lease_changed(&mut self, lease: &str) {
        for (key, check) in &self.checks {
            let mut nodes = check.memory.nodes.keys();
            if nodes.any(|node| lease_name(node) == lease) {
                self.dialect.dirty.insert(key.clone());
            }
        }
    }

    /// A template of a kind was added, changed or deleted.
    fn template_changed(&mut self, of: &ExternalKind) {
        let names = |check: &&NodeCheck| check.references.iter().any(|r| templates_of(r) == *of);
        let checks = self.checks.iter().filter(|(_, check)| names(check));
        let checks: Vec<Key> = checks.map(|(key, _)| key.clone()).collect();
        for key in checks {
            if let Some(check) = self.checks.get_mut(&key) {
                check.read_again = check.reading_templates;
            }
            self.read_templates(&key);
        }
    }

    /// Applies a change of facts about the whole cluster.
    fn update_openshift_facts(&mut self, change: impl FnOnce(&mut OpenShift)) {
        let spared = self.dialect.openshift.spares_terminating();
        change(&mut self.dialect.openshift);
        self.evaluate_all();
        if self.dialect.openshift.spares_terminating() != spared {
            for key in self.context.index.keys(Kind::NodeHealthCheck) {
                self.refresh(&key);
            }
        }
    }

    pub(super) fn facts_are_late(&mut self) {
        if !self.dialect.openshift.is_known() {
            for (fact, why) in self.dialect.openshift.give_up() {
                let index = &self.context.index;
                index.set_lost_other(fact.label(), "", Some(why));
            }
            self.evaluate_all();
        }
    }

    fn node_changed(&mut self, name: &str) {
        let now = Timestamp::now();
        let seen = self.context.index.seen_node(&Key::local(), name);
        let Some(seen) = seen else {
            for check in self.checks.values_mut() {
                check.fleet.remove_node(name, now);
            }
            self.evaluate_all();
            return;
        };
        let node = Arc::new(facts::node(&seen));
        for (key, check) in &mut self.checks {
            let selected = check.selector.matches(kube::ResourceExt::labels(&*seen));
            if check.fleet.put_node(node.clone(), selected, now) {
                self.dialect.dirty.insert(key.clone());
            }
        }
    }

    /// A remediation was added, changed or deleted.
    pub(super) fn request_changed(&mut self, kind: &ExternalKind, key: &Key) {
        let request = self.dialect.external.get(kind, key);
        let id = facts::id_of(kind, key);
        for check in self.checks.values_mut() {
            match &request {
                Some(request) => check.fleet.put_request(request.clone()),
                None => check.fleet.remove_request(&id),
            }
        }
        self.evaluate_all();
    }

    /// A check was added, changed or deleted.
    pub(super) fn refresh(&mut self, key: &Key) {
        let Some(entry) = self.context.index.node_check(key) else {
            self.drop_check(key);
            return;
        };
        let object = entry.object;
        let view = match entry.view {
            Ok(view) => view,
            Err(error) => {
                tracing::warn!(check = %key, %error, "a health check cannot be evaluated");
                let message = format!("[remediation] it cannot be evaluated: {error}");
                let events = &self.context.events;
                events.send(&object, true, "Disabled", &message);
                self.drop_check(key);
                return;
            }
        };
        // The ownership of a check changes with an installed CRD, which is not watched.
        self.resync_at(key, Instant::now() + RESYNC);
        if !self.context.ownership.evaluates(&view.meta) || view.meta.is_deleting() {
            self.drop_check(key);
            return;
        }
        let spares = self.dialect.openshift.spares_terminating();
        let check = Arc::new(rules::check(&view, spares));
        let dry_run = view.meta.is_annotated_true(DRY_RUN_ANNOTATION);
        self.dialect.dirty.insert(key.clone());
        let mut memory = None;
        if let Some(known) = self.checks.get_mut(key)
            && known.check.uid == check.uid
        {
            known.object = object.clone();
            known.progress.dry_run = dry_run;
            if known.check == check && known.selector == view.selector {
                return;
            }
            memory = Some(std::mem::take(&mut known.memory));
        }
        let memory = memory.unwrap_or_else(|| rules::memory(&view));
        self.begin(key, object, &view, check, memory, dry_run);
    }

    /// Starts the evaluation of a check, or changes its rules.
    fn begin(
        &mut self,
        key: &Key,
        object: Arc<DynamicObject>,
        view: &NodeHealthCheckView,
        check: Arc<Check>,
        memory: NodeCheckStatus,
        dry_run: bool,
    ) {
        let now = Timestamp::now();
        let mut fleet = Fleet::new(Check::clone(&check), now);
        let (index, local) = (&self.context.index, Key::local());
        for name in index.node_names(&local) {
            if let Some(seen) = index.seen_node(&local, &name) {
                let selected = view.selector.matches(kube::ResourceExt::labels(&*seen));
                fleet.put_node(Arc::new(facts::node(&seen)), selected, now);
            }
        }
        for (_, _, request) in self.dialect.external.all() {
            fleet.put_request(request);
        }
        self.schedule.arm(key, None);
        let references: Arc<[NodeTemplateRef]> = rules::templates(view).into();
        let (mut pace, mut actions, mut disabled) = Default::default();
        if let Some(old) = self.checks.remove(key) {
            (pace, actions) = (old.progress.pace, old.actions);
            // The result for the same templates counts until they are read again.
            if old.references == references {
                disabled = old.disabled;
            }
        }
        let check = NodeCheck {
            object,
            selector: view.selector.clone(),
            check,
            references,
            fleet,
            memory,
            disabled,
            reading_templates: false,
            read_again: false,
            blocked: Default::default(),
            due: BTreeSet::new(),
            actions,
            progress: Progress {
                pace,
                dry_run,
                ..Progress::default()
            },
        };
        self.checks.insert(key.clone(), check);
        self.watch_cluster();
        self.watch_kinds();
        self.read_templates(key);
    }

    fn drop_check(&mut self, key: &Key) {
        self.context.metrics.remove_check(key);
        if self.forget_check(key).is_none() {
            return;
        }
        self.dialect.pending.retain(|item, _| item.check != *key);
        self.watch_kinds();
    }

    /// Starts the watches that all checks need, once there is a check.
    fn watch_cluster(&mut self) {
        if std::mem::replace(&mut self.dialect.watching, true) {
            return;
        }
        let index = &self.context.index;
        index.watch_own_nodes(Kind::NodeHealthCheck, true);
        self.dialect.nodes_known = is_watched(index);
        let (context, sender) = (self.context.clone(), self.sender.clone());
        let end = self.end.clone();
        self.watches.spawn(watches::leases(context, sender, end));
        for fact in Fact::ALL {
            let watch = self.watch(Find::Fact(fact), self.end.clone());
            self.watches.spawn(watch.run());
        }
        let late = engine::Timer::Dialect(Timer::Facts);
        self.schedule.set(Instant::now() + LEARNS, late);
    }

    /// Watches exactly the kinds of remediations and templates that checks name.
    fn watch_kinds(&mut self) {
        let wanted = self.checks.values().flat_map(kinds_of).collect();
        let (ended, begun) = self.dialect.kinds.keep(wanted, &self.end);
        for kind in &ended {
            for key in self.dialect.external.forget(kind) {
                self.request_changed(kind, &key);
            }
        }
        for (kind, cancel) in begun {
            let (external, context) = (self.dialect.external.clone(), self.context.clone());
            let sender = self.sender.clone();
            let notify = move |changed| drop(sender.send(WatchEvent::Requests(changed)));
            self.watches
                .spawn(external.watch(context, kind, notify, cancel));
        }
        let checks = self.checks.values();
        let wanted = checks.flat_map(|check| check.references.iter().map(templates_of));
        let wanted = wanted.collect();
        let (_, begun) = self.dialect.templates.keep(wanted, &self.end);
        for (of, cancel) in begun {
            let watch = self.watch(Find::Version(of), cancel);
            self.watches.spawn(watch.run());
        }
    }

    fn watch(&self, find: Find, cancel: CancellationToken) -> Watch {
        Watch {
            context: self.context.clone(),
            find,
            sender: self.sender.clone(),
            cancel,
        }
    }
}
