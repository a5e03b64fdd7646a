//! Handlers of the changes that affect checks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::{
    names::{DRY_RUN_ANNOTATION, MEDIK8S_LEASE_NAMESPACE},
    views::{NodeHealthCheckView, NodeTemplateRef},
};
use rackhand_core::checks::nodes::{Check, Fleet, HeldLease, NodeCheckStatus};
use tokio_util::sync::CancellationToken;

use super::{
    NodeCheck, NodeHealthChecks, Parts, Timer, facts,
    leases::node_of_lease,
    mhc_conflict::{Fact, OpenShift},
    rules,
    watches::{self, Find, Watch, WatchEvent},
};
use crate::{
    checks::{
        engine::RESYNC, facts::unreachable, remediations::external_remediations::ExternalKind,
    },
    store::{
        index::Index,
        object::{Key, Kind},
        time_slice::beside_all,
    },
};

/// Time after which unknown facts of OpenShift count as unreadable.
const LEARNS: Duration = Duration::from_secs(10);

/// Whether the Nodes and the checks themselves are watched, so that the index is current.
fn is_watched(index: &Index) -> bool {
    unreachable(index, &Key::local(), &[Kind::NodeHealthCheck]).is_none()
}

/// The kind and namespace of remediations from a template.
fn kind_of(template: &NodeTemplateRef) -> ExternalKind {
    ExternalKind {
        api_version: template.api_version.clone(),
        kind: template.remediation_kind().to_owned(),
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
    check.references.iter().map(kind_of).chain(made).collect()
}

fn is_dry_run(view: &NodeHealthCheckView) -> bool {
    view.meta.is_annotated_true(DRY_RUN_ANNOTATION)
}

impl NodeHealthChecks {
    /// Reads whether the Nodes and the checks are watched.
    pub(super) fn read_connection(&mut self, index: &Index) {
        self.nodes_known = is_watched(index);
        self.evaluate_all();
    }

    /// A Lease has changed or is new.
    pub(super) fn put_lease(&mut self, name: &str, lease: HeldLease) {
        if self.leases.get(name) != Some(&lease) {
            self.leases.insert(name.to_owned(), lease);
            self.lease_changed(name);
        }
    }

    /// A Lease is gone.
    pub(super) fn remove_lease(&mut self, name: &str) {
        if self.leases.remove(name).is_some() {
            self.lease_changed(name);
        }
    }

    /// These are all Leases.
    pub(super) fn keep_leases(&mut self, keys: &BTreeSet<Key>) {
        let gone = |name: &&String| {
            let key = Key::new(MEDIK8S_LEASE_NAMESPACE, name.as_str());
            !keys.contains(&key)
        };
        let gone: Vec<String> = self.leases.keys().filter(gone).cloned().collect();
        for name in gone {
            self.remove_lease(&name);
        }
    }

    /// Marks the checks that are remediating the Node of a Lease for evaluation.
    fn lease_changed(&mut self, lease: &str) {
        let Some(node) = node_of_lease(lease) else {
            return;
        };
        for (key, check) in &self.checks {
            if check.memory.nodes.contains_key(node) {
                self.dirty.insert(key.clone());
            }
        }
    }

    /// A template of a kind was added, changed or deleted.
    pub(super) fn template_changed(&mut self, engine: &mut Parts, of: &ExternalKind) {
        let names = |check: &&NodeCheck| check.references.iter().any(|r| templates_of(r) == *of);
        let checks = self.checks.iter().filter(|(_, check)| names(check));
        let checks: Vec<Key> = checks.map(|(key, _)| key.clone()).collect();
        for key in checks {
            if let Some(check) = self.checks.get_mut(&key) {
                check.read_again = check.reading_templates;
            }
            self.read_templates(engine, &key);
        }
    }

    /// Applies a change of facts about the whole cluster.
    pub(super) fn update_openshift_facts(
        &mut self,
        engine: &mut Parts,
        change: impl FnOnce(&mut OpenShift),
    ) {
        let spared = self.openshift.spares_terminating();
        change(&mut self.openshift);
        self.evaluate_all();
        if self.openshift.spares_terminating() != spared {
            for key in engine.context.index.keys(Kind::NodeHealthCheck) {
                self.refresh(engine, &key);
            }
        }
    }

    /// Facts that are still unknown count as unreadable.
    pub(super) fn facts_are_late(&mut self, engine: &Parts) {
        if !self.openshift.is_known() {
            for (fact, why) in self.openshift.give_up() {
                let index = &engine.context.index;
                index.set_lost_other(fact.label(), "", Some(why));
            }
            self.evaluate_all();
        }
    }

    /// A Node was added, changed or deleted.
    pub(super) fn node_changed(&mut self, engine: &Parts, name: &str) {
        let now = Timestamp::now();
        let seen = engine.context.index.seen_node(&Key::local(), name);
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
                self.dirty.insert(key.clone());
            }
        }
    }

    /// A remediation was added, changed or deleted.
    pub(super) fn remediation_changed(&mut self, kind: &ExternalKind, key: &Key) {
        let remediation = self.external.get(kind, key);
        let id = facts::id_of(kind, key);
        for check in self.checks.values_mut() {
            match &remediation {
                Some(remediation) => check.fleet.put_remediation(remediation.clone()),
                None => check.fleet.remove_remediation(&id),
            }
        }
        self.evaluate_all();
    }

    /// A check was added, changed or deleted.
    pub(super) fn refresh(&mut self, engine: &mut Parts, key: &Key) {
        let Some(entry) = engine.context.index.node_check(key) else {
            self.drop_check(engine, key);
            return;
        };
        let object = entry.object;
        let view = match entry.view {
            Ok(view) => view,
            Err(error) => {
                tracing::warn!(check = %key, %error, "a health check cannot be evaluated");
                let message = format!("[remediation] it cannot be evaluated: {error}");
                let events = &engine.context.events;
                events.send(&object, true, "Disabled", &message);
                self.drop_check(engine, key);
                return;
            }
        };
        // The ownership of a check changes with an installed CRD, which is not watched.
        engine.resync_in(RESYNC, key);
        if !engine.context.ownership.evaluates(&view.meta) || view.meta.is_deleting() {
            self.drop_check(engine, key);
            return;
        }
        let spares = self.openshift.spares_terminating();
        let check = Arc::new(rules::check(&view, spares));
        self.dirty.insert(key.clone());
        let mut memory = None;
        if let Some(known) = self.checks.get_mut(key)
            && known.check.uid == check.uid
        {
            known.object = object.clone();
            known.dry_run = is_dry_run(&view);
            if known.check == check && known.selector == view.selector {
                return;
            }
            memory = Some(std::mem::take(&mut known.memory));
        }
        let memory = memory.unwrap_or_else(|| rules::memory(&view));
        self.begin(engine, key, object, &view, check, memory);
    }

    /// Starts the evaluation of a check, or changes its rules.
    fn begin(
        &mut self,
        engine: &mut Parts,
        key: &Key,
        object: Arc<DynamicObject>,
        view: &NodeHealthCheckView,
        check: Arc<Check>,
        memory: NodeCheckStatus,
    ) {
        let now = Timestamp::now();
        let mut fleet = Fleet::new(Check::clone(&check), now);
        let (index, local) = (&engine.context.index, Key::local());
        beside_all(|| {
            for name in index.node_names_in_pages(&local) {
                if let Some(seen) = index.seen_node(&local, &name) {
                    let selected = view.selector.matches(kube::ResourceExt::labels(&*seen));
                    fleet.put_node(Arc::new(facts::node(&seen)), selected, now);
                }
            }
            for (_, _, remediation) in self.external.all() {
                fleet.put_remediation(remediation);
            }
        });
        engine.arm(key, None);
        let references: Arc<[NodeTemplateRef]> = rules::templates(view).into();
        let (mut actions, mut disabled) = Default::default();
        if let Some(old) = self.checks.remove(key) {
            actions = old.actions;
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
            dry_run: is_dry_run(view),
        };
        self.checks.insert(key.clone(), check);
        engine.begin_check(key);
        self.watch_cluster(engine);
        self.watch_kinds(engine);
        self.read_templates(engine, key);
    }

    fn drop_check(&mut self, engine: &mut Parts, key: &Key) {
        engine.context.metrics.remove_check(key);
        if self.checks.remove(key).is_none() {
            return;
        }
        engine.end_check(key);
        self.pending.retain(|item, _| item.check != *key);
        self.watch_kinds(engine);
    }

    /// Starts the watches that all checks need, once there is a check.
    fn watch_cluster(&mut self, engine: &mut Parts) {
        if std::mem::replace(&mut self.watching, true) {
            return;
        }
        let index = &engine.context.index;
        index.watch_own_nodes(Kind::NodeHealthCheck, true);
        self.nodes_known = is_watched(index);
        let (context, sender) = (engine.context.clone(), engine.watches.sender());
        let end = engine.watches.end_token().clone();
        let leases = watches::leases(context, sender, end.clone());
        engine.watches.spawn(leases);
        for fact in Fact::ALL {
            watch(engine, Find::Fact(fact), end.clone());
        }
        let late = engine.now() + LEARNS;
        engine.set_timer(late, Timer::Facts);
    }

    /// Watches exactly the kinds of remediations and templates that checks name.
    fn watch_kinds(&mut self, engine: &mut Parts) {
        let wanted = self.checks.values().flat_map(kinds_of).collect();
        let (ended, begun) = self.kinds.keep(wanted, engine.watches.end_token());
        for kind in &ended {
            for key in self.external.forget(kind) {
                self.remediation_changed(kind, &key);
            }
        }
        for (kind, cancel) in begun {
            let (external, context) = (self.external.clone(), engine.context.clone());
            let sender = engine.watches.sender();
            let notify = move |changed| drop(sender.send(WatchEvent::Remediations(changed)));
            let watch = external.watch(context, kind, notify, cancel);
            engine.watches.spawn(watch);
        }
        let checks = self.checks.values();
        let wanted = checks.flat_map(|check| check.references.iter().map(templates_of));
        let wanted = wanted.collect();
        let (_, begun) = self.templates.keep(wanted, engine.watches.end_token());
        for (of, cancel) in begun {
            watch(engine, Find::Version(of), cancel);
        }
    }
}

/// Starts the watch of one kind.
fn watch(engine: &mut Parts, find: Find, cancel: CancellationToken) {
    let watch = Watch {
        context: engine.context.clone(),
        find,
        sender: engine.watches.sender(),
        cancel,
    };
    engine.watches.spawn(watch.run());
}
