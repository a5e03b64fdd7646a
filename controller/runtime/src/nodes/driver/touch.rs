//! Takes in what has changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::{
    names::{DRY_RUN_ANNOTATION, MEDIK8S_LEASE_NAMESPACE},
    views::{NodeHealthCheckView, NodeTemplateRef},
};
use rackhand_core::{
    handover::Handover,
    nodes::{Check, Fleet, Memory, RequestId},
};

use super::{Driver, KindWatch, Timer, Watched};
use crate::{
    checks::evaluates,
    nodes::{
        leases::lease_name,
        openshift::{Fact, OpenShift},
        rules, seen,
        seen::KnownNode,
        watches::{self, News, Requests},
    },
    object::Key,
    sync::object_name,
};

/// What is not known of OpenShift after this time cannot be read.
const LEARNS: Duration = Duration::from_secs(10);

/// The kind of remediations that a template makes, where they are made.
pub(super) fn requests_of(template: &NodeTemplateRef) -> Requests {
    Requests {
        api_version: template.api_version.clone(),
        kind: template.request_kind().to_owned(),
        namespace: template.namespace.clone(),
    }
}

/// The kind of a template, where it is.
fn templates_of(template: &NodeTemplateRef) -> Requests {
    Requests {
        api_version: template.api_version.clone(),
        kind: template.kind.clone(),
        namespace: template.namespace.clone(),
    }
}

/// The kinds of remediations that a check has or may have: those of its templates, and those that it
/// has made from others.
pub(super) fn kinds_of(watched: &Watched) -> BTreeSet<Requests> {
    let made = watched.memory.nodes.values().flat_map(|e| &e.tried);
    let made = made.map(|tried| Requests {
        api_version: tried.id.api_version.clone(),
        kind: tried.id.kind.clone(),
        namespace: tried.id.namespace.clone(),
    });
    watched
        .references
        .iter()
        .map(requests_of)
        .chain(made)
        .collect()
}

fn version(object: &DynamicObject) -> Option<u64> {
    object.metadata.resource_version.as_ref()?.parse().ok()
}

impl Driver {
    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Check(object) => self.put_check(*object),
            News::CheckGone(name) => {
                self.check_versions.remove(&name);
                self.objects.remove(&name);
                self.drop_check(&name);
            }
            News::Checks(keys) => {
                let gone = |name: &&String| !keys.contains(&Key::new("", name.as_str()));
                let gone: Vec<String> = self.objects.keys().filter(gone).cloned().collect();
                for name in gone {
                    self.check_versions.remove(&name);
                    self.objects.remove(&name);
                    self.drop_check(&name);
                }
            }
            News::Node(node) => self.put_node(node),
            News::NodeGone(name) => self.drop_node(&name),
            News::Nodes(keys) => {
                let gone = |name: &&String| !keys.contains(&Key::new("", name.as_str()));
                let gone: Vec<String> = self.nodes.keys().filter(gone).cloned().collect();
                for name in gone {
                    self.drop_node(&name);
                }
                self.nodes_known = true;
                self.dirty.extend(self.watched.keys().cloned());
            }
            News::Request(object) => self.put_request(&object),
            News::RequestGone(of, key) => self.drop_request(&id(&of, key)),
            News::RequestList(of, keys) => self.requests_listed(&of, &keys),
            News::Lease(name, lease) => {
                if self.leases.get(&name) != Some(&lease) {
                    self.leases.insert(name.clone(), lease);
                    self.lease_changed(&name);
                }
            }
            News::LeaseGone(name) => {
                if self.leases.remove(&name).is_some() {
                    self.lease_changed(&name);
                }
            }
            News::Leases(keys) => {
                let gone = |name: &&String| {
                    !keys.contains(&Key::new(MEDIK8S_LEASE_NAMESPACE, name.as_str()))
                };
                let gone: Vec<String> = self.leases.keys().filter(gone).cloned().collect();
                for name in gone {
                    self.leases.remove(&name);
                    self.lease_changed(&name);
                }
            }
            News::Template(of) => self.template_changed(&of),
            News::Fact(fact, object) => self.learn(|known| known.put(fact, *object)),
            News::FactGone(fact, key) => self.learn(|known| known.remove(fact, key)),
            News::Facts(fact, keys) => self.learn(|known| known.listed(fact, &keys)),
        }
    }

    /// The checks that have something in hand for the Node of a Lease look at it.
    fn lease_changed(&mut self, lease: &str) {
        for (name, watched) in &self.watched {
            let mut nodes = watched.memory.nodes.keys();
            if nodes.any(|node| lease_name(node) == lease) {
                self.dirty.insert(name.clone());
            }
        }
    }

    /// A template of a kind has come, changed or gone.
    fn template_changed(&mut self, of: &Requests) {
        let names = |watched: &&Watched| watched.references.iter().any(|r| templates_of(r) == *of);
        let checks = self.watched.iter().filter(|(_, w)| names(w));
        let checks: Vec<String> = checks.map(|(name, _)| name.clone()).collect();
        for check in checks {
            if let Some(watched) = self.watched.get_mut(&check) {
                watched.look_again = watched.looking;
            }
            self.look_at_templates(&check);
        }
    }

    /// Takes in what is said of the whole cluster.
    fn learn(&mut self, change: impl FnOnce(&mut OpenShift)) {
        let spared = self.openshift.spares_terminating();
        change(&mut self.openshift);
        self.dirty.extend(self.watched.keys().cloned());
        if self.openshift.spares_terminating() != spared {
            self.read_checks();
        }
    }

    /// Takes in a version of a check, from a watch or from the answer to a write.
    pub(super) fn put_check(&mut self, object: DynamicObject) {
        let name = object.metadata.name.clone().unwrap_or_default();
        if let Some(known) = self.objects.get(&name)
            && known.metadata.uid == object.metadata.uid
            && version(&object) < version(known)
        {
            return;
        }
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let versions = &self.check_versions;
        versions.put(name.clone(), uid, version(&object));
        let object = Arc::new(object);
        self.objects.insert(name.clone(), object);
        self.read_check(&name);
    }

    /// Reads every check again: whose they are has changed.
    pub(super) fn read_checks(&mut self) {
        let names: Vec<String> = self.objects.keys().cloned().collect();
        for name in names {
            self.read_check(&name);
        }
    }

    fn read_check(&mut self, name: &str) {
        // Before anybody has looked whose the CRD is, nobody knows.
        let (Some(object), Some(our_crd)) = (self.objects.get(name).cloned(), self.our_crd) else {
            return;
        };
        let view = match NodeHealthCheckView::from_dynamic(&object) {
            Ok(view) => view,
            Err(error) => {
                tracing::warn!(check = name, %error, "a health check cannot be evaluated");
                let message = format!("[remediation] it cannot be evaluated: {error}");
                let events = &self.context.events;
                events.send(&object, true, "Disabled", &message);
                self.drop_check(name);
                return;
            }
        };
        let ours = evaluates(self.context.mode, our_crd, &view.meta);
        if !ours || view.meta.is_deleting() {
            self.drop_check(name);
            return;
        }
        let spares = self.openshift.spares_terminating();
        let check = Arc::new(rules::check(&view, spares));
        let dry_run = view.meta.is_annotated_true(DRY_RUN_ANNOTATION);
        self.dirty.insert(name.to_owned());
        let mut memory = None;
        if let Some(watched) = self.watched.get_mut(name)
            && watched.check.uid == check.uid
        {
            watched.object = object.clone();
            watched.dry_run = dry_run;
            if watched.check == check && watched.selector == view.selector {
                return;
            }
            memory = Some(std::mem::take(&mut watched.memory));
        }
        let memory = memory.unwrap_or_else(|| rules::memory(&view));
        self.begin(object, &view, check, memory, dry_run);
    }

    /// Evaluates a check from now on, or by other rules.
    fn begin(
        &mut self,
        object: Arc<DynamicObject>,
        view: &NodeHealthCheckView,
        check: Arc<Check>,
        memory: Memory,
        dry_run: bool,
    ) {
        let name = view.meta.name.as_str();
        let now = Timestamp::now();
        let mut fleet = Fleet::new(Check::clone(&check), now);
        for node in self.nodes.values() {
            let selected = view.selector.matches(&node.labels);
            fleet.put_node(node.facts.clone(), selected, now);
        }
        for (request, _) in self.requests.values() {
            fleet.put_request(request.clone());
        }
        let old = self.watched.remove(name);
        if let Some(armed) = old.as_ref().and_then(|w| w.armed) {
            self.wakes.remove(&(armed, name.to_owned()));
        }
        let watched = Watched {
            object,
            selector: view.selector.clone(),
            check,
            references: rules::templates(view).into(),
            fleet,
            memory,
            dry_run,
            disabled: None,
            looking: false,
            look_again: false,
            blocked: BTreeMap::new(),
            due: BTreeSet::new(),
            handover: Handover::default(),
            read: 0,
            armed: None,
            writing: old.as_ref().is_some_and(|w| w.writing),
            not_before: old.as_ref().map_or_else(Instant::now, |w| w.not_before),
        };
        self.watched.insert(name.to_owned(), watched);
        if !self.nodes_watched {
            self.nodes_watched = true;
            let (context, news) = (self.context.clone(), self.news.clone());
            self.watches
                .spawn(watches::nodes(context, news, self.stop.clone()));
            let (context, news) = (self.context.clone(), self.news.clone());
            self.watches
                .spawn(watches::leases(context, news, self.stop.clone()));
            for fact in Fact::ALL {
                let (context, news) = (self.context.clone(), self.news.clone());
                self.watches
                    .spawn(watches::facts(context, fact, news, self.stop.clone()));
            }
            self.later(LEARNS, Timer::Facts);
        }
        self.watch_kinds();
        self.watch_templates();
        self.look_at_templates(name);
    }

    fn drop_check(&mut self, name: &str) {
        let Some(watched) = self.watched.remove(name) else {
            return;
        };
        if let Some(armed) = watched.armed {
            self.wakes.remove(&(armed, name.to_owned()));
        }
        self.pending.retain(|(check, _), _| check != name);
        self.watch_kinds();
        self.watch_templates();
    }

    /// Watches the kinds that checks name, and no others.
    fn watch_kinds(&mut self) {
        let wanted: BTreeSet<Requests> = self.watched.values().flat_map(kinds_of).collect();
        let unwanted = self.kinds.keys().filter(|kind| !wanted.contains(*kind));
        let unwanted: Vec<Requests> = unwanted.cloned().collect();
        for kind in unwanted {
            if let Some(watch) = self.kinds.remove(&kind) {
                watch.cancel.cancel();
            }
            self.retain_requests(&kind, &BTreeSet::new());
        }
        for kind in wanted {
            if self.kinds.contains_key(&kind) {
                continue;
            }
            let cancel = self.stop.child_token();
            let (context, news) = (self.context.clone(), self.news.clone());
            self.watches.spawn(watches::requests(
                context,
                kind.clone(),
                news,
                cancel.clone(),
            ));
            let watch = KindWatch {
                synced: false,
                versions: Arc::default(),
                cancel,
            };
            self.kinds.insert(kind, watch);
        }
    }

    /// Watches the kinds of templates that checks name, and no others.
    fn watch_templates(&mut self) {
        let references = self.watched.values().flat_map(|w| w.references.iter());
        let wanted: BTreeSet<Requests> = references.map(templates_of).collect();
        self.templates.retain(|of, cancel| {
            let keep = wanted.contains(of);
            if !keep {
                cancel.cancel();
            }
            keep
        });
        for of in wanted {
            if self.templates.contains_key(&of) {
                continue;
            }
            let cancel = self.stop.child_token();
            self.templates.insert(of.clone(), cancel.clone());
            let (context, news) = (self.context.clone(), self.news.clone());
            self.watches
                .spawn(watches::templates(context, of, news, cancel));
        }
    }

    fn put_node(&mut self, node: KnownNode) {
        let name = node.facts.name.clone();
        self.node_versions
            .put(name.clone(), &node.uid, node.version);
        if self.nodes.get(&name).is_some_and(|n| n.reads_as(&node)) {
            return;
        }
        let now = Timestamp::now();
        for (check, watched) in &mut self.watched {
            let selected = watched.selector.matches(&node.labels);
            if watched.fleet.put_node(node.facts.clone(), selected, now) {
                self.dirty.insert(check.clone());
            }
        }
        self.nodes.insert(name, node);
    }

    fn drop_node(&mut self, name: &str) {
        self.node_versions.remove(name);
        self.nodes.remove(name);
        let now = Timestamp::now();
        for watched in self.watched.values_mut() {
            watched.fleet.remove_node(name, now);
        }
        self.dirty.extend(self.watched.keys().cloned());
    }

    /// Takes in a version of a remediation, from a watch or from the answer to a write.
    pub(super) fn put_request(&mut self, object: &DynamicObject) {
        let request = seen::request(object, Timestamp::now());
        let new = version(object);
        if let Some(watch) = self.kinds.get(&kind_of(&request.id)) {
            let name = object_name(&request.id.namespace, &request.id.name);
            watch.versions.put(name, &request.uid, new);
        }
        let known = self.requests.get(&request.id);
        if known.is_some_and(|(old, at)| old.uid == request.uid && new < *at) {
            return;
        }
        for watched in self.watched.values_mut() {
            watched.fleet.put_request(request.clone());
        }
        self.requests.insert(request.id.clone(), (request, new));
        self.dirty.extend(self.watched.keys().cloned());
    }

    pub(super) fn drop_request(&mut self, id: &RequestId) {
        if let Some(watch) = self.kinds.get(&kind_of(id)) {
            let name = object_name(&id.namespace, &id.name);
            watch.versions.remove(&name);
        }
        if self.requests.remove(id).is_none() {
            return;
        }
        for watched in self.watched.values_mut() {
            watched.fleet.remove_request(id);
        }
        self.dirty.extend(self.watched.keys().cloned());
    }

    fn requests_listed(&mut self, of: &Requests, keys: &BTreeSet<Key>) {
        let Some(watch) = self.kinds.get_mut(of) else {
            return;
        };
        watch.synced = true;
        self.retain_requests(of, keys);
        self.dirty.extend(self.watched.keys().cloned());
    }

    fn retain_requests(&mut self, of: &Requests, keys: &BTreeSet<Key>) {
        let gone = self.requests.keys().filter(|id| {
            id.kind == of.kind
                && id.api_version == of.api_version
                && id.namespace == of.namespace
                && !keys.contains(&Key::new(&id.namespace, &id.name))
        });
        let gone: Vec<RequestId> = gone.cloned().collect();
        for id in gone {
            self.drop_request(&id);
        }
    }
}

/// The kind of a remediation, where it is.
fn kind_of(id: &RequestId) -> Requests {
    Requests {
        api_version: id.api_version.clone(),
        kind: id.kind.clone(),
        namespace: id.namespace.clone(),
    }
}

fn id(of: &Requests, key: Key) -> RequestId {
    RequestId {
        api_version: of.api_version.clone(),
        kind: of.kind.clone(),
        namespace: key.namespace,
        name: key.name,
    }
}
