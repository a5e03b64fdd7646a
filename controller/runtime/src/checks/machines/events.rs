//! Work on many Machines, done piece by piece: changes of the index, mapped to the members that they affect, the first
//! reading of a fleet, and what follows for its members.

use std::sync::Arc;

use jiff::Timestamp;
use rackhand_core::checks::dispatch::{Visit, Work};

use super::{
    CheckState, Machines, Parts, dialect::MachineDialect, lookup,
    remediation_source::RemediationSource,
};
use crate::{
    checks::{
        engine::queue::{Item, MemberKey},
        facts,
        remediations::external_remediations::ExternalKind,
    },
    store::{
        index::Change,
        object::{Key, Kind},
    },
};

/// Machines that are read at once for a fleet.
const FILLED_AT_ONCE: usize = 8;
/// Machines that are evaluated at once.
const ADVANCED_AT_ONCE: usize = 64;
/// Machines that are visited at once.
const VISITED_AT_ONCE: usize = 16;

impl<M: MachineDialect> Machines<M> {
    /// Does one piece of work.
    pub(super) fn work_on(&mut self, engine: &mut Parts<M>, work: Work<Key, Change>) {
        match work {
            Work::Apply(change) => self.apply_change(engine, change),
            Work::Fill(check) => self.fill(engine, &check),
            Work::Advance(check) => self.advance_some(engine, &check),
            Work::Visit(visit, check, after) => self.visit(engine, visit, check, after.as_ref()),
            Work::Reconsider(item) => self.reconsider(engine, &item),
        }
    }

    /// Visits the next members of a check.
    fn visit(&mut self, engine: &mut Parts<M>, visit: Visit, check: Key, after: Option<&Arc<str>>) {
        let fleet = self.checks.get(&check).map(|state| &state.fleet);
        let members = match visit {
            Visit::ReadRemediations | Visit::ChooseActing | Visit::ReconsiderAll => {
                fleet.map(|fleet| fleet.machines_after(after, VISITED_AT_ONCE))
            }
            Visit::ReconsiderUnhealthy => {
                fleet.map(|fleet| fleet.unhealthy_after(after, VISITED_AT_ONCE))
            }
            Visit::ChooseActingAgain => {
                let after = after.map(|name| Key::new(&check.namespace, &**name));
                let overlaps = &self.overlaps;
                let machines = overlaps.machines_after(&check, after.as_ref(), VISITED_AT_ONCE);
                Some(
                    machines
                        .iter()
                        .map(|key| key.name.as_str().into())
                        .collect(),
                )
            }
        };
        let members = members.unwrap_or_default();
        let Some(last) = members.last().cloned() else {
            return;
        };
        for member in &members {
            let item = Item::new(&check, member);
            match visit {
                Visit::ReadRemediations => self.remediation_changed(engine, &item),
                Visit::ChooseActing | Visit::ChooseActingAgain => {
                    let among = self.clusters.siblings(&check);
                    self.overlap_among(engine, &item.key(), &among);
                }
                Visit::ReconsiderUnhealthy | Visit::ReconsiderAll => {
                    self.reconsider(engine, &item);
                }
            }
        }
        self.backlog.visit_after(visit, check, last);
    }

    fn apply_change(&mut self, engine: &mut Parts<M>, change: Change) {
        match change {
            Change::Object(kind, key) if kind == M::CHECK => self.refresh(engine, &key),
            Change::Object(Kind::Cluster, key) => {
                for check in self.clusters.checks(&key) {
                    self.refresh(engine, &check);
                }
            }
            Change::Object(kind, key) if kind == M::MACHINE => {
                self.machine_changed(engine, &key);
                self.orphans.examine_machine(engine, &key);
            }
            Change::Object(kind, key) if Kind::REMEDIATIONS.contains(&kind) => {
                self.remediation_touched(engine, &RemediationSource::Index(kind), &key);
                self.orphans.examine_machine(engine, &key);
            }
            Change::Node(cluster, node) => self.node_changed(engine, &cluster, &node),
            Change::Object(..) | Change::Workload(_) | Change::Agent(_) => {}
        }
    }

    /// Evaluates the next Machines of a check, because something has changed for all of them or their deadlines have
    /// passed, or acts on the result once all are evaluated (F13).
    fn advance_some(&mut self, engine: &mut Parts<M>, key: &Key) {
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        let (fleet, now) = (&mut check.fleet, Timestamp::now());
        let is_left =
            fleet.evaluate_some(now, ADVANCED_AT_ONCE) || fleet.advance_some(now, ADVANCED_AT_ONCE);
        match is_left {
            true => self.backlog.advance(key.clone()),
            false => self.settle(engine, key),
        }
    }

    /// Reads the next Machines of a check, or begins to act on it once all were read (F13).
    fn fill(&mut self, engine: &mut Parts<M>, key: &Key) {
        let Some(check) = self.checks.get_mut(key).filter(|c| !c.fleet.is_whole()) else {
            return;
        };
        if check.fill(engine, self.remediations.known(), key, FILLED_AT_ONCE) {
            self.backlog.fill(key.clone());
            return;
        }
        check.fleet.end_filling();
        let now = engine.now();
        for item in engine.members.resume_remediations(key, now) {
            self.remediation_changed(engine, &item);
        }
        self.overlap_all(key);
        self.count(engine, key);
        engine.status_due(key);
        self.settle(engine, key);
    }

    /// Begins to read the fleets that have waited for the first list of a cluster's Nodes, or for the reason why there is
    /// none.
    pub(super) fn fill_waiting(&mut self, engine: &Parts<M>, cluster: &Key) {
        if engine.context.index.is_connecting(cluster) {
            return;
        }
        for key in self.clusters.checks(cluster) {
            let check = self.checks.get_mut(&key);
            if check.is_some_and(|check| std::mem::take(&mut check.awaits_nodes)) {
                self.backlog.fill(key);
            }
        }
    }

    /// Changes each fleet of a cluster, after the connection of the cluster.
    pub(super) fn of_cluster(
        &mut self,
        engine: &mut Parts<M>,
        cluster: &Key,
        mut change: impl FnMut(&Key, &mut CheckState<M>, Timestamp),
    ) {
        let now = Timestamp::now();
        for key in self.clusters.checks(cluster) {
            if let Some(check) = self.checks.get_mut(&key) {
                let why = facts::unreachable(&engine.context.index, cluster, M::FEEDS);
                check.fleet.set_unreachable(why, now);
                change(&key, check, now);
                self.settle(engine, &key);
            }
        }
    }

    /// A Node has changed.
    pub(super) fn node_changed(&mut self, engine: &mut Parts<M>, cluster: &Key, node: &str) {
        let index = engine.context.index.clone();
        let machines = lookup::machines_of_node(&index, M::MACHINE, cluster, node);
        if machines.is_empty() {
            return;
        }
        let seen = facts::node(&index, cluster, Some(node));
        self.of_cluster(engine, cluster, |key, check, now| {
            for machine in machines.iter().filter(|m| m.namespace == key.namespace) {
                check.fleet.set_node(&machine.name, seen.clone(), now);
            }
        });
    }

    /// A Machine has changed.
    pub(super) fn machine_changed(&mut self, engine: &mut Parts<M>, key: &Key) {
        let context = engine.context.clone();
        let read = match lookup::machine(&context.index, M::MACHINE, key).map(|entry| entry.view) {
            Some(Err(error)) => {
                self.unreadable.report(key, error.to_string());
                None
            }
            view => {
                self.unreadable.remove(key);
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
                .filter(|m| check.spec.selector.matches(&m.meta.labels));
            let target = selected.map(|machine| {
                let why = facts::unreachable(&context.index, &check.spec.cluster, M::FEEDS);
                check.fleet.set_unreachable(why, now);
                let mut target = check.target(&context, self.remediations.known(), key, machine);
                let item = Item::new(&key_of_check, &machine.meta.name.as_str().into());
                target.remediation = engine.members.counted(&item, target.remediation);
                target
            });
            if !check.fleet.set_target(&key.name, target, now) {
                continue;
            }
            self.settle(engine, &key_of_check);
            touched.push(key_of_check);
        }
        self.overlap(engine, key, &touched);
    }

    /// Reads a remediation again for each check that may have created it.
    pub(super) fn remediation_touched(
        &mut self,
        engine: &mut Parts<M>,
        source: &RemediationSource,
        key: &Key,
    ) {
        for check in self.checks_in(&key.namespace) {
            let fits = |c: &CheckState<M>| c.spec.source == *source && c.fleet.contains(&key.name);
            if self.checks.get(&check).is_some_and(fits) {
                let item = Item::new(&check, &key.name.as_str().into());
                self.remediation_changed(engine, &item);
                if M::RESYNCS_MACHINES {
                    // Other fields of the remediation matter too, not only its existence.
                    self.reconsider(engine, &item);
                }
            }
        }
    }

    /// Reads the remediation of a member again.
    pub(super) fn remediation_changed(&mut self, engine: &mut Parts<M>, item: &Item) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = check.fleet.wanted(&item.member) else {
            return;
        };
        let (machine, uid) = (item.key(), wanted.uid.to_owned());
        let remediation =
            check
                .spec
                .remediation(&engine.context, self.remediations.known(), &machine, &uid);
        let remediation = engine.members.counted(item, remediation);
        check
            .fleet
            .set_remediation(&item.member, remediation, Timestamp::now());
        self.settle(engine, &item.check);
        if self.overlaps.knows(&machine) {
            self.overlap(engine, &machine, std::slice::from_ref(&item.check));
        }
    }

    /// The first list of a foreign kind of remediations is complete.
    pub(super) fn remediations_listed(&mut self, engine: &mut Parts<M>, kind: &ExternalKind) {
        for key in self.remediations.waiting_for(kind) {
            self.refresh(engine, &key);
        }
        // A new list may lack known remediations.
        let source = RemediationSource::External(kind.clone());
        let of_kind = |(_, c): &(&Key, &CheckState<M>)| c.spec.source == source;
        for (key, _) in self.checks.iter().filter(of_kind) {
            self.backlog.visit(Visit::ReadRemediations, key.clone());
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
