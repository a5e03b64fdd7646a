//! Mapping of changes to the members that they affect.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    CheckEngine, CheckState, Machines, dialect::MachineDialect, request_source::RequestSource,
};
use crate::{
    checks::{
        engine::queue::{Item, MemberKey},
        facts,
        remediations::external_requests::WatchEvent,
    },
    store::{
        index::Change,
        object::{Key, Kind},
    },
};

impl<M: MachineDialect> CheckEngine<Machines<M>> {
    /// Applies changes to each fleet.
    pub(super) fn apply(&mut self, changes: BTreeSet<Change>) {
        // The connection is processed first; otherwise Nodes of an unreachable cluster would look deleted.
        for change in &changes {
            if let Change::Workload(cluster) = change {
                self.of_cluster(cluster, |_, _, _| {});
            }
        }
        for change in changes {
            match change {
                Change::Object(kind, key) if kind == M::CHECK => self.refresh(&key),
                Change::Object(Kind::Cluster, key) => {
                    for check in self
                        .dialect
                        .of_cluster
                        .get(&key)
                        .cloned()
                        .unwrap_or_default()
                    {
                        self.refresh(&check);
                    }
                }
                Change::Object(kind, key) if kind == M::MACHINE => {
                    self.machine_changed(&key);
                    self.examine_machine(&key);
                }
                Change::Object(kind, key) if Kind::REMEDIATIONS.contains(&kind) => {
                    self.request_touched(&RequestSource::Index(kind), &key);
                    self.examine_machine(&key);
                }
                Change::Node(cluster, node) => self.node_changed(&cluster, &node),
                Change::Object(..) | Change::Workload(_) | Change::Agent(_) => {}
            }
        }
    }

    /// Changes each fleet of a cluster, after the connection of the cluster.
    fn of_cluster(
        &mut self,
        cluster: &Key,
        mut change: impl FnMut(&Key, &mut CheckState<M>, Timestamp),
    ) {
        let now = Timestamp::now();
        for key in self
            .dialect
            .of_cluster
            .get(cluster)
            .cloned()
            .unwrap_or_default()
        {
            if let Some(check) = self.checks.get_mut(&key) {
                let why = facts::unreachable(&self.context.index, cluster, M::FEEDS);
                check.fleet.set_unreachable(why, now);
                change(&key, check, now);
                self.settle(&key);
            }
        }
    }

    fn node_changed(&mut self, cluster: &Key, node: &str) {
        let index = self.context.index.clone();
        let machines = M::machines_of_node(&index, cluster, node);
        if machines.is_empty() {
            return;
        }
        let seen = facts::node(&index, cluster, Some(node));
        self.of_cluster(cluster, |key, check, now| {
            for machine in machines.iter().filter(|m| m.namespace == key.namespace) {
                check.fleet.set_node(&machine.name, seen.clone(), now);
            }
        });
    }

    pub(super) fn machine_changed(&mut self, key: &Key) {
        let context = self.context.clone();
        let read = match M::machine(&context.index, key).map(|entry| entry.view) {
            Some(Err(error)) => {
                self.unreadable(key, error.to_string());
                None
            }
            view => {
                self.dialect.unreadable.remove(key);
                view.and_then(Result::ok)
            }
        };
        let now = Timestamp::now();
        let mut touched = Vec::new();
        for key_of_check in self.checks_in(&key.namespace) {
            let Some(check) = self.checks.get_mut(&key_of_check) else {
                continue;
            };
            let selected = read
                .as_ref()
                .filter(|m| M::selects(&check.spec, &m.meta.labels));
            match selected {
                Some(machine) => {
                    let why = facts::unreachable(&context.index, &check.spec.cluster, M::FEEDS);
                    check.fleet.set_unreachable(why, now);
                    let mut target = check.target(&context, &self.dialect.external, key, machine);
                    let item = Item::new(&key_of_check, &machine.meta.name.as_str().into());
                    target.request = self.items.phase(&item).counted(target.request);
                    check.fleet.put(target, now);
                }
                None if check.fleet.contains(&key.name) => check.fleet.remove(&key.name, now),
                None => continue,
            }
            self.settle(&key_of_check);
            touched.push(key_of_check);
        }
        self.overlap(key, &touched);
    }

    /// Logs once why a Machine cannot be read.
    fn unreadable(&mut self, key: &Key, why: String) {
        if self.dialect.unreadable.get(key) != Some(&why) {
            tracing::warn!(machine = %key, why, "a Machine cannot be read and is left out");
            self.dialect.unreadable.insert(key.clone(), why);
        }
    }

    fn request_touched(&mut self, source: &RequestSource, key: &Key) {
        for check in self.checks_in(&key.namespace) {
            let fits = |c: &CheckState<M>| c.spec.source == *source && c.fleet.contains(&key.name);
            if self.checks.get(&check).is_some_and(fits) {
                let item = Item::new(&check, &key.name.as_str().into());
                self.request_changed(&item);
                if M::RESYNCS_MACHINES {
                    // Other fields of the remediation matter too, not only its existence.
                    self.reconsider(&item);
                }
            }
        }
    }

    /// Reads the remediation of a member again.
    pub(super) fn request_changed(&mut self, item: &Item) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = check.fleet.wanted(&item.member) else {
            return;
        };
        let (machine, uid) = (item.key(), wanted.uid.to_owned());
        let request = check
            .spec
            .request(&self.context, &self.dialect.external, &machine, &uid);
        let request = self.items.phase(item).counted(request);
        check
            .fleet
            .set_request(&item.member, request, Timestamp::now());
        self.settle(&item.check);
        if self.dialect.overlaps.knows(&machine) {
            self.overlap(&machine, std::slice::from_ref(&item.check));
        }
    }

    /// Applies an event about remediations of foreign kinds.
    pub(super) fn handle_event(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Changed(kind, key) => {
                self.request_touched(&RequestSource::External(kind.clone()), key);
                let seen = self.dialect.external.get(kind, key);
                if let Some(made) = seen.and_then(|seen| seen.made(M::OWNER, kind, key)) {
                    self.examine(made);
                }
            }
            WatchEvent::Synced(kind) => {
                let waiting = self.dialect.waiting.iter().filter(|(_, k)| *k == kind);
                let waiting: Vec<Key> = waiting.map(|(key, _)| key.clone()).collect();
                for key in waiting {
                    self.refresh(&key);
                }
                // A new list may lack known remediations.
                let source = RequestSource::External(kind.clone());
                let of_kind = |(_, c): &(&Key, &CheckState<M>)| c.spec.source == source;
                let stale: Vec<Item> = self
                    .checks
                    .iter()
                    .filter(of_kind)
                    .flat_map(|(key, c)| c.items(key))
                    .collect();
                for item in stale {
                    self.request_changed(&item);
                }
            }
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
}
