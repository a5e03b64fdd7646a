//! Machines that several checks select, and which check acts for each.
//!
//! Owns the result; [`acting`](crate::checks::machines::acting) chooses the acting check. A machine that only one
//! check selects, the usual case, has no entry here.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::checks::machines::{Claim, acting};

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
    /// Chooses the acting check of a machine again, after a check has begun or ceased to select it or to act, or
    /// after its remediation was created or deleted. `among`: the checks that may select it, besides those known
    /// here; `claim`: the claim of a check that does. Returns the checks for which the result is a change: they
    /// evaluate the machine again.
    pub fn update(
        &mut self,
        machine: &K,
        among: &BTreeSet<K>,
        claim: impl Fn(&K) -> Option<Claim>,
    ) -> BTreeSet<K> {
        let known = self.by_machine.get(machine).map(|known| &known.checks);
        if among.len() < 2 && known.is_none() {
            return BTreeSet::new();
        }
        let all: BTreeSet<&K> = among.iter().chain(known.into_iter().flatten()).collect();
        let claims = all
            .into_iter()
            .filter_map(|key| Some((key.clone(), claim(key)?)));
        let (checks, claims): (Vec<K>, Vec<Claim>) = claims.unzip();
        let acts = acting(&claims).and_then(|place| checks.get(place).cloned());
        self.set(machine, checks.into_iter().collect(), acts)
    }

    /// Sets which checks select a machine, and which of them acts. Returns the checks for which this is a change.
    fn set(&mut self, machine: &K, checks: BTreeSet<K>, acting: Option<K>) -> BTreeSet<K> {
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
        self.machines_after(check, None, usize::MAX)
    }

    /// Number of machines of a check that other checks select too.
    pub fn count(&self, check: &K) -> usize {
        self.by_check.get(check).map_or(0, BTreeSet::len)
    }

    /// At most so many of the machines of a check that other checks select too, after this machine.
    pub fn machines_after(&self, check: &K, machine: Option<&K>, most: usize) -> Vec<K> {
        let after = machine.map_or(Bound::Unbounded, Bound::Excluded);
        let machines = self.by_check.get(check).into_iter();
        let later = machines.flat_map(|all| all.range((after, Bound::Unbounded)));
        later.take(most).cloned().collect()
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
    fn oldest_able_check_acts_and_a_check_that_is_gone_is_forgotten() {
        let mut shared = Overlaps::default();
        let claim = |name: &str, able: bool| Claim {
            created: None,
            name: name.to_owned(),
            able,
            has_remediation: false,
        };
        let both = keys(&["a", "b"]);
        let touched = shared.update(&"m", &both, |check| Some(claim(check, *check != "a")));
        assert_eq!(touched, both);
        assert!(yields(&shared, "a", "m"));
        // Nobody names a deleted check any more, but it is known here.
        let only_a = |check: &&str| (*check == "a").then(|| claim(check, true));
        assert_eq!(shared.update(&"m", &keys(&["a"]), only_a), both);
        assert!(!shared.knows(&"m") && !yields(&shared, "a", "m"));
        assert!(shared.update(&"m", &keys(&["a"]), only_a).is_empty());
    }

    #[test]
    fn no_check_yields_without_an_acting_check() {
        let mut shared = Overlaps::default();
        shared.set(&"m", keys(&["a", "b"]), None);
        assert!(!yields(&shared, "a", "m") && !yields(&shared, "b", "m"));
        assert!(shared.acting_for(&"a").is_empty());
    }
}
