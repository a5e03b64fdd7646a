//! Machines that several checks select, and which check acts for each.
//!
//! Owns the result; [`acting`](crate::checks::machines::acting) chooses the acting check. A machine that only one
//! check selects, the usual case, has no entry here.

use std::collections::{BTreeMap, BTreeSet};

/// The checks that select one machine, and the acting one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Claimed<K: Ord> {
    checks: BTreeSet<K>,
    acting: Option<K>,
}

/// All machines that several checks select. `K` is the key of a check, and of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Overlaps<K: Ord> {
    by_machine: BTreeMap<K, Claimed<K>>,
    by_check: BTreeMap<K, BTreeSet<K>>,
}

impl<K: Ord> Default for Overlaps<K> {
    fn default() -> Self {
        Self {
            by_machine: BTreeMap::new(),
            by_check: BTreeMap::new(),
        }
    }
}

// === impl Overlaps ===

impl<K: Ord + Clone> Overlaps<K> {
    /// Sets which checks select a machine, and which of them acts. Returns the checks for which this is
    /// a change: they evaluate the machine again.
    pub fn set(&mut self, machine: &K, checks: BTreeSet<K>, acting: Option<K>) -> BTreeSet<K> {
        let alone = checks.len() < 2;
        let old = self.by_machine.remove(machine);
        let (before, acted) =
            old.map_or_else(|| (BTreeSet::new(), None), |old| (old.checks, old.acting));
        if alone && before.is_empty() {
            return BTreeSet::new();
        }
        for check in &before {
            if let Some(machines) = self.by_check.get_mut(check) {
                machines.remove(machine);
                if machines.is_empty() {
                    self.by_check.remove(check);
                }
            }
        }
        let same = before == checks && acted == acting;
        let touched = if same {
            BTreeSet::new()
        } else {
            before.union(&checks).cloned().collect()
        };
        if !alone {
            for check in &checks {
                let machines = self.by_check.entry(check.clone()).or_default();
                machines.insert(machine.clone());
            }
            let claimed = Claimed { checks, acting };
            self.by_machine.insert(machine.clone(), claimed);
        }
        touched
    }

    /// Whether several checks select a machine.
    pub fn knows(&self, machine: &K) -> bool {
        self.by_machine.contains_key(machine)
    }

    /// The checks of a machine that several select.
    pub fn checks(&self, machine: &K) -> Option<&BTreeSet<K>> {
        Some(&self.by_machine.get(machine)?.checks)
    }

    /// Whether a check other than this one acts for the machine.
    pub fn yields(&self, check: &K, machine: &K) -> bool {
        if !self.by_check.contains_key(check) {
            return false;
        }
        let claimed = self.by_machine.get(machine);
        claimed.is_some_and(|c| c.acting.as_ref().is_some_and(|acting| acting != check))
    }

    /// The machines of a check that other checks select too.
    pub fn machines(&self, check: &K) -> Vec<K> {
        let machines = self.by_check.get(check).into_iter().flatten();
        machines.cloned().collect()
    }

    /// The other checks that act for machines of this one, each with those machines.
    pub fn acting_for(&self, check: &K) -> BTreeMap<&K, Vec<&K>> {
        let mut by_acting: BTreeMap<&K, Vec<&K>> = BTreeMap::new();
        for machine in self.by_check.get(check).into_iter().flatten() {
            let claimed = self.by_machine.get(machine);
            let acting = claimed.and_then(|c| c.acting.as_ref());
            if let Some(acting) = acting.filter(|acting| *acting != check) {
                by_acting.entry(acting).or_default().push(machine);
            }
        }
        by_acting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Overlaps = super::Overlaps<&'static str>;

    fn keys(names: &[&'static str]) -> BTreeSet<&'static str> {
        names.iter().copied().collect()
    }

    fn yields(shared: &Overlaps, check: &'static str, machine: &'static str) -> bool {
        shared.yields(&check, &machine)
    }

    #[test]
    fn overlap_is_kept_for_several_checks_and_set_returns_affected_checks() {
        let mut shared = Overlaps::default();
        let acting = Some;
        assert!(shared.set(&"m", keys(&["a"]), acting("a")).is_empty());
        assert!(!shared.knows(&"m"));
        let touched = shared.set(&"m", keys(&["a", "b"]), acting("a"));
        assert_eq!(touched, keys(&["a", "b"]));
        assert!(shared.set(&"m", keys(&["a", "b"]), acting("a")).is_empty());
        assert!(yields(&shared, "b", "m") && !yields(&shared, "a", "m"));
        assert!(!yields(&shared, "b", "other"));
        let touched = shared.set(&"m", keys(&["a", "b"]), acting("b"));
        assert_eq!(touched, keys(&["a", "b"]));
        assert!(yields(&shared, "a", "m") && !yields(&shared, "b", "m"));
        let touched = shared.set(&"m", keys(&["a"]), acting("a"));
        assert_eq!(touched, keys(&["a", "b"]));
        assert!(!yields(&shared, "a", "m") && !shared.knows(&"m"));
        assert!(shared.by_check.is_empty());
    }

    #[test]
    fn no_check_yields_without_an_acting_check() {
        let mut shared = Overlaps::default();
        shared.set(&"m", keys(&["a", "b"]), None);
        assert!(!yields(&shared, "a", "m") && !yields(&shared, "b", "m"));
        assert!(shared.acting_for(&"a").is_empty());
    }
}
