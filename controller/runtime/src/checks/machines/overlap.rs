//! The acting check of a Machine that several checks select, determined whenever it may change.

use std::collections::BTreeSet;

use rackhand_core::checks::machines::{Claim, acting};

use super::{CheckEngine, CheckState, Machines, dialect::MachineDialect};
use crate::{checks::engine::queue::Item, store::object::Key};

impl<M: MachineDialect> CheckEngine<Machines<M>> {
    /// The checks of the same cluster: only they can select the same Machines.
    fn siblings(&self, check: &Key) -> BTreeSet<Key> {
        let cluster = self.dialect.clusters.get(check);
        let known = cluster.and_then(|cluster| self.dialect.of_cluster.get(cluster));
        let mut siblings = known.cloned().unwrap_or_default();
        siblings.insert(check.clone());
        siblings
    }

    /// Updates the acting check of a Machine after these checks have selected or deselected it, or its
    /// remediation was created or deleted.
    pub(super) fn overlap(&mut self, machine: &Key, checks: &[Key]) {
        let mut among = BTreeSet::new();
        for check in checks {
            among.extend(self.siblings(check));
        }
        self.overlap_among(machine, &among);
    }

    fn overlap_among(&mut self, machine: &Key, among: &BTreeSet<Key>) {
        let known = self.dialect.overlaps.checks(machine);
        if among.len() < 2 && known.is_none() {
            return;
        }
        // A deleted check no longer names a Cluster, and the remaining checks are known here.
        let all: BTreeSet<&Key> = among.iter().chain(known.into_iter().flatten()).collect();
        let claims: Vec<(&Key, Claim)> = all
            .into_iter()
            .filter(|key| key.namespace == machine.namespace)
            .filter_map(|key| Some((key, self.checks.get(key)?)))
            .filter(|(_, check)| check.fleet.contains(&machine.name))
            .map(|(key, check)| (key, self.claim(&key.name, check, machine)))
            .collect();
        let (keys, claims): (Vec<&Key>, Vec<Claim>) = claims.into_iter().unzip();
        let acts = acting(&claims).and_then(|place| keys.get(place).map(|key| (*key).clone()));
        let checks = keys.into_iter().cloned().collect();
        for check in self.dialect.overlaps.set(machine, checks, acts) {
            self.status_due(&check);
            self.reconsider(&Item::new(&check, &machine.name.as_str().into()));
        }
    }

    /// Updates the overlaps of a check when its evaluation begins.
    pub(super) fn overlap_all(&mut self, check: &Key) {
        let among = self.siblings(check);
        if among.len() < 2 {
            return;
        }
        let machines = self
            .checks
            .get(check)
            .into_iter()
            .flat_map(|check| check.fleet.machines());
        let machines: Vec<Key> = machines
            .map(|machine| Key::new(&check.namespace, &**machine))
            .collect();
        for machine in &machines {
            self.overlap_among(machine, &among);
        }
    }

    /// Updates the overlaps of a check that starts or stops to act, or is deleted.
    pub(super) fn overlap_again(&mut self, check: &Key) {
        let among = self.siblings(check);
        for machine in self.dialect.overlaps.machines(check) {
            self.overlap_among(&machine, &among);
        }
    }

    /// The claim of a check for one of its Machines, by which the acting check is chosen.
    fn claim(&self, name: &str, check: &CheckState<M>, machine: &Key) -> Claim {
        let (able, created) = check.precedence();
        Claim {
            created,
            name: name.to_owned(),
            able,
            requested: check.fleet.is_requested(&machine.name)
                || M::is_marked(&self.context, &check.spec, machine),
        }
    }
}
