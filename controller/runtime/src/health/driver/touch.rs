//! From what has changed to the machines that it touches.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::health::RequestView;
use tokio_util::sync::CancellationToken;

use super::Driver;
use crate::{
    health::{
        facts,
        others::{News, OtherKind},
        queue::Item,
        source::Source,
        status::cluster_name,
        watched::{Spec, Unread, Watched},
        withdrawal::Dialect,
    },
    index::Change,
    object::{Key, Kind},
};

/// Time between two looks at a check of which nothing is heard.
const LOOK: Duration = Duration::from_secs(60);

impl Driver {
    /// Tells each fleet what it is about.
    pub(super) fn touch(&mut self, changes: BTreeSet<Change>) {
        // The connection first: Nodes of a cluster that is away would look deleted.
        for change in &changes {
            if let Change::Workload(cluster) = change {
                self.of_cluster(cluster, |_, _| {});
            }
        }
        for change in changes {
            match change {
                Change::Object(Kind::MachineHealthCheck, key) => self.refresh(&key),
                Change::Object(Kind::Cluster, key) => {
                    for check in self.of_cluster.get(&key).cloned().unwrap_or_default() {
                        self.refresh(&check);
                    }
                }
                Change::Object(Kind::Machine, key) => {
                    self.machine_touched(&key);
                    self.examine_machine(&key);
                }
                Change::Object(kind, key) if Kind::REQUESTS.contains(&kind) => {
                    self.request_touched(&Source::Index(kind), &key);
                    self.examine_machine(&key);
                }
                Change::Node(cluster, node) => self.node_touched(&cluster, &node),
                Change::Object(..) | Change::Workload(_) | Change::Agent => {}
            }
        }
    }

    /// Does something with each fleet of a cluster, whose connection it knows then.
    fn of_cluster(&mut self, cluster: &Key, mut change: impl FnMut(&mut Watched, Timestamp)) {
        let now = Timestamp::now();
        for key in self.of_cluster.get(cluster).cloned().unwrap_or_default() {
            if let Some(watched) = self.checks.get_mut(&key) {
                let why = facts::unreachable(&self.context.index, cluster);
                watched.fleet.set_unreachable(why, now);
                change(watched, now);
                self.settle(&key);
            }
        }
    }

    fn node_touched(&mut self, cluster: &Key, node: &str) {
        let index = self.context.index.clone();
        let machines = index.machines_of_node(cluster, node);
        if machines.is_empty() {
            return;
        }
        let seen = facts::node(&index, cluster, Some(node));
        self.of_cluster(cluster, |watched, now| {
            for machine in &machines {
                watched.fleet.set_node(&machine.name, seen.clone(), now);
            }
        });
    }

    fn machine_touched(&mut self, key: &Key) {
        let context = self.context.clone();
        let read = context.index.machine(key).and_then(|entry| {
            let view = entry.view.inspect_err(
                |error| tracing::warn!(%error, "a Machine cannot be read and is left out"),
            );
            view.ok()
        });
        let now = Timestamp::now();
        let mut touched = Vec::new();
        for check in self.checks_in(&key.namespace) {
            let Some(watched) = self.checks.get_mut(&check) else {
                continue;
            };
            let selected = read
                .as_ref()
                .filter(|m| watched.spec.selects(&m.meta.labels));
            match selected {
                Some(machine) => {
                    let why = facts::unreachable(&context.index, &watched.spec.cluster);
                    watched.fleet.set_unreachable(why, now);
                    let mut target = watched.spec.target(&context, &self.others, machine);
                    let item = Item::new(&check, &machine.meta.name.as_str().into());
                    if target.request == RequestView::None && self.creating.contains(&item) {
                        target.request = RequestView::Open;
                    }
                    watched.fleet.put(target, now);
                }
                None if watched.fleet.contains(&key.name) => watched.fleet.remove(&key.name, now),
                None => continue,
            }
            self.settle(&check);
            touched.push(check);
        }
        self.share(key, &touched);
    }

    fn request_touched(&mut self, source: &Source, key: &Key) {
        for check in self.checks_in(&key.namespace) {
            let fits = |w: &Watched| w.spec.source == *source && w.fleet.contains(&key.name);
            if self.checks.get(&check).is_some_and(fits) {
                self.request_changed(&Item::new(&check, &key.name.as_str().into()));
            }
        }
    }

    /// Reads the request of a machine again.
    pub(super) fn request_changed(&mut self, item: &Item) {
        let Some(watched) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = watched.fleet.wanted(&item.machine) else {
            return;
        };
        let uid = wanted.uid.to_owned();
        let spec = &watched.spec;
        let mut request = spec.request(&self.context, &self.others, &item.machine, &uid);
        if request == RequestView::None && self.creating.contains(item) {
            request = RequestView::Open;
        }
        let now = Timestamp::now();
        watched.fleet.set_request(&item.machine, request, now);
        self.settle(&item.check);
        let machine = item.key();
        if self.shared.knows(&machine) {
            self.share(&machine, std::slice::from_ref(&item.check));
        }
    }

    /// The checks of a namespace that are evaluated.
    fn checks_in(&self, namespace: &str) -> Vec<Key> {
        self.checks
            .range(Key::new(namespace, "")..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// A check, or its Cluster, has changed.
    pub(super) fn refresh(&mut self, key: &Key) {
        let spec = Spec::read(&self.context, key);
        let entry = self.context.index.check(key);
        if entry.is_some() {
            self.look_again(key, Instant::now() + LOOK);
        }
        let named = entry.and_then(|e| {
            let name = cluster_name(&e.object)?;
            Some(Key::new(&key.namespace, name))
        });
        self.rename(key, named);
        match spec {
            Ok(spec) => self.watch(key, spec),
            Err(Unread::NotOurs) => self.drop_check(key),
            Err(Unread::Invalid(reason, message)) => {
                self.drop_check(key);
                self.report(key, reason, message);
            }
        }
        // Before the watch of its kind of requests ends.
        self.examine_requests(|made| made.check().as_ref() == Some(key));
        self.tend_watches();
    }

    /// Keeps checks findable by their Cluster.
    fn rename(&mut self, key: &Key, named: Option<Key>) {
        let old = match &named {
            Some(cluster) => self.names.insert(key.clone(), cluster.clone()),
            None => self.names.remove(key),
        };
        if old == named {
            return;
        }
        if let Some(old) = old
            && let Some(checks) = self.of_cluster.get_mut(&old)
        {
            checks.remove(key);
            if checks.is_empty() {
                self.of_cluster.remove(&old);
            }
        }
        if let Some(cluster) = named {
            let checks = self.of_cluster.entry(cluster).or_default();
            checks.insert(key.clone());
        }
    }

    fn watch(&mut self, key: &Key, spec: Spec) {
        let context = self.context.clone();
        let now = Timestamp::now();
        if let Source::Other(kind) = &spec.source
            && !self.others.synced(kind)
        {
            // Without the requests the limit is not known; the first list brings it back here.
            let kind = kind.clone();
            self.drop_check(key);
            self.follow(&kind);
            self.waiting.insert(key.clone(), kind);
            return;
        }
        self.waiting.remove(key);
        let mut before = self.checks.get(key).map(Watched::precedence);
        match self.checks.get_mut(key) {
            Some(watched) if watched.spec.looks_at_the_same(&spec) => {
                let fleet = &mut watched.fleet;
                let others = &self.others;
                fleet.set_check(spec.rules.clone(), now, |machine| {
                    let name = Key::new(&key.namespace, machine);
                    let machine = context.index.machine(&name)?.view.ok()?;
                    Some(spec.target(&context, others, &machine))
                });
                fleet.set_cluster(spec.cluster_facts.clone(), now);
                if watched.spec.view.remediation_template != spec.view.remediation_template {
                    watched.shelf = Default::default();
                }
                watched.spec = spec;
            }
            _ => {
                before = None;
                self.drop_check(key);
                let watched = Watched::new(&context, &self.others, spec, now);
                self.checks.insert(key.clone(), watched);
                let creating = self.creating.iter().filter(|item| item.check == *key);
                for item in creating.cloned().collect::<Vec<_>>() {
                    self.request_changed(&item);
                }
            }
        }
        if let Some(watched) = self.checks.get_mut(key) {
            // Somebody else may have written into its status.
            watched.names = true;
        }
        match (before, self.checks.get(key).map(Watched::precedence)) {
            (None, _) => self.share_all(key),
            (before, now) if before != now => self.share_again(key),
            _ => {}
        }
        self.count(key);
        self.status_due(key);
        self.settle(key);
    }

    fn drop_check(&mut self, key: &Key) {
        self.context.metrics.forget_check(key);
        self.waiting.remove(key);
        let Some(watched) = self.checks.remove(key) else {
            return;
        };
        if let Some(at) = watched.armed {
            self.deadlines.remove(&(at, key.clone()));
        }
        let other = |item: &Item| item.check != *key;
        self.queue.forget(key);
        self.held.retain(other);
        self.parked.retain(other);
        self.acted.retain(|item, _| other(item));
        self.unmade.retain(|item, _| other(item));
        self.share_again(key);
    }

    /// Watches a kind of requests that others carry out.
    fn follow(&mut self, kind: &OtherKind) {
        if self.watching.contains_key(kind) {
            return;
        }
        let cancel = CancellationToken::new();
        self.watching.insert(kind.clone(), cancel.clone());
        let (others, context) = (self.others.clone(), self.context.clone());
        let (kind, news) = (kind.clone(), self.news.clone());
        self.watches
            .spawn(async move { others.watch(context, kind, news, cancel).await });
    }

    /// Ends the watches that no check needs any more.
    fn tend_watches(&mut self) {
        let of_check = |w: &Watched| match &w.spec.source {
            Source::Other(kind) => Some(kind.clone()),
            _ => None,
        };
        let mut needed: BTreeSet<OtherKind> = self.checks.values().filter_map(of_check).collect();
        needed.extend(self.waiting.values().cloned());
        let others = &self.others;
        self.watching.retain(|kind, cancel| {
            let keep = needed.contains(kind);
            if !keep {
                cancel.cancel();
                others.forget(kind);
            }
            keep
        });
    }

    /// Something about the requests that others carry out.
    pub(super) fn hear(&mut self, news: &News) {
        match news {
            News::Changed(kind, key) => {
                self.request_touched(&Source::Other(kind.clone()), key);
                let seen = self.others.get(kind, key);
                if let Some(made) = seen.and_then(|seen| seen.made(Dialect::ClusterApi, kind, key))
                {
                    self.examine(made);
                }
            }
            News::Synced(kind) => {
                let waiting = self.waiting.iter().filter(|(_, k)| *k == kind);
                let waiting: Vec<Key> = waiting.map(|(key, _)| key.clone()).collect();
                for key in waiting {
                    self.refresh(&key);
                }
                // A fresh list may lack what was known.
                let source = Source::Other(kind.clone());
                let of_kind = |(_, w): &(&Key, &Watched)| w.spec.source == source;
                let stale: Vec<Item> = self
                    .checks
                    .iter()
                    .filter(of_kind)
                    .flat_map(|(key, w)| w.fleet.machines().map(|m| Item::new(key, m)))
                    .collect();
                for item in stale {
                    self.request_changed(&item);
                }
            }
        }
    }

    /// Looks at a check again at that time, or earlier if it is to be looked at already.
    pub(super) fn look_again(&mut self, key: &Key, at: Instant) {
        if self.look_at.get(key).is_some_and(|known| *known <= at) {
            return;
        }
        if let Some(known) = self.look_at.insert(key.clone(), at) {
            self.looks.remove(&(known, key.clone()));
        }
        self.looks.insert((at, key.clone()));
    }
}
