//! Finds out which of several checks acts for a machine, whenever that may be another one.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rackhand_core::health::{Claim, acting};

use super::Driver;
use crate::{
    health::{queue::Item, watched::Watched},
    object::Key,
};

impl Driver {
    /// The checks that name this one's Cluster: only they can select the same machines.
    fn siblings(&self, check: &Key) -> BTreeSet<Key> {
        let cluster = self.names.get(check);
        let known = cluster.and_then(|cluster| self.of_cluster.get(cluster));
        let mut siblings = known.cloned().unwrap_or_default();
        siblings.insert(check.clone());
        siblings
    }

    /// A machine has come to these checks, left them, or has a request or none any more.
    pub(super) fn share(&mut self, machine: &Key, checks: &[Key]) {
        let mut among = BTreeSet::new();
        for check in checks {
            among.extend(self.siblings(check));
        }
        self.share_among(machine, &among);
    }

    fn share_among(&mut self, machine: &Key, among: &BTreeSet<Key>) {
        let known = self.shared.checks(machine);
        if among.len() < 2 && known.is_none() {
            return;
        }
        // A check that is gone names no Cluster any more, and those that stay are known here.
        let all: BTreeSet<&Key> = among.iter().chain(known.into_iter().flatten()).collect();
        let claims: Vec<(&Key, Claim)> = all
            .into_iter()
            .filter_map(|key| Some((key, self.checks.get(key)?)))
            .filter(|(_, watched)| watched.fleet.contains(&machine.name))
            .map(|(key, watched)| (key, watched.claim(&key.name, &machine.name)))
            .collect();
        let (keys, claims): (Vec<&Key>, Vec<Claim>) = claims.into_iter().unzip();
        let acts = acting(&claims).and_then(|place| keys.get(place).map(|key| (*key).clone()));
        let checks = keys.into_iter().cloned().collect();
        for check in self.shared.set(machine, checks, acts) {
            self.status_due(&check);
            self.reconsider(&Item::new(&check, &machine.name.as_str().into()));
        }
    }

    /// A check is evaluated from now on.
    pub(super) fn share_all(&mut self, check: &Key) {
        let among = self.siblings(check);
        if among.len() < 2 {
            return;
        }
        let machines = self
            .checks
            .get(check)
            .into_iter()
            .flat_map(|w| w.fleet.machines());
        let machines: Vec<Key> = machines
            .map(|machine| Key::new(&check.namespace, &**machine))
            .collect();
        for machine in &machines {
            self.share_among(machine, &among);
        }
    }

    /// A check can act now, or cannot any more, or is gone.
    pub(super) fn share_again(&mut self, check: &Key) {
        let among = self.siblings(check);
        for machine in self.shared.machines(check) {
            self.share_among(&machine, &among);
        }
    }
}

// === impl Watched ===

impl Watched {
    /// What this check brings forward for one of its machines.
    fn claim(&self, name: &str, machine: &str) -> Claim {
        let (able, created) = self.precedence();
        Claim {
            created,
            name: name.to_owned(),
            able,
            requested: self.fleet.is_requested(machine),
        }
    }

    /// What decides about all of its machines: whether it can act, and how old it is.
    pub(super) fn precedence(&self) -> (bool, Option<Timestamp>) {
        let able = !self.fleet.paused() && !self.spec.dry_run;
        (able, self.spec.view.meta.created)
    }
}
