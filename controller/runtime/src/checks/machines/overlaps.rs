//! Machines that several checks select, and which check acts for each.
//!
//! Owns what was found out; `rackhand_core::health::acting` chooses. Machines that one check selects,
//! as nearly all do, cost nothing here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{checks::queue::Item, store::object::Key};

/// How many machines are named; the rest is a number.
const NAMED: usize = 10;

/// What is known of one machine.
struct Claimed {
    checks: BTreeSet<Key>,
    acting: Option<Key>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Overlaps {
    by_machine: BTreeMap<Key, Claimed>,
    by_check: BTreeMap<Key, BTreeSet<Arc<str>>>,
}

// === impl Overlaps ===

impl Overlaps {
    /// Takes over which checks select a machine, and which of them acts. Returns the checks for which
    /// something is otherwise now: they look at the machine again.
    pub(super) fn set(
        &mut self,
        machine: &Key,
        checks: BTreeSet<Key>,
        acting: Option<Key>,
    ) -> BTreeSet<Key> {
        let alone = checks.len() < 2;
        let old = self.by_machine.remove(machine);
        let (before, acted) = old.map_or_else(Default::default, |old| (old.checks, old.acting));
        if alone && before.is_empty() {
            return BTreeSet::new();
        }
        let name: Arc<str> = machine.name.as_str().into();
        for check in &before {
            if let Some(machines) = self.by_check.get_mut(check) {
                machines.remove(&name);
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
                machines.insert(name.clone());
            }
            let claimed = Claimed { checks, acting };
            self.by_machine.insert(machine.clone(), claimed);
        }
        touched
    }

    /// Whether several checks select a machine.
    pub(super) fn knows(&self, machine: &Key) -> bool {
        self.by_machine.contains_key(machine)
    }

    /// The checks of a machine that several select.
    pub(super) fn checks(&self, machine: &Key) -> Option<&BTreeSet<Key>> {
        Some(&self.by_machine.get(machine)?.checks)
    }

    /// Whether another check than this one acts for its machine.
    pub(super) fn yields(&self, item: &Item) -> bool {
        if !self.by_check.contains_key(&item.check) {
            return false;
        }
        let claimed = self.by_machine.get(&item.key());
        claimed.is_some_and(|c| {
            c.acting
                .as_ref()
                .is_some_and(|acting| *acting != item.check)
        })
    }

    /// The machines of a check that others select too.
    pub(super) fn machines(&self, check: &Key) -> Vec<Key> {
        let machines = self.by_check.get(check).into_iter().flatten();
        machines
            .map(|machine| Key::new(&check.namespace, &**machine))
            .collect()
    }

    /// Which checks act for which of its machines, in words; `None`: none does.
    pub(super) fn message(&self, check: &Key) -> Option<String> {
        let mut by_acting: BTreeMap<&Key, Vec<&str>> = BTreeMap::new();
        for machine in self.by_check.get(check)? {
            let key = Key::new(&check.namespace, &**machine);
            let acting = self.by_machine.get(&key).and_then(|c| c.acting.as_ref());
            if let Some(acting) = acting.filter(|acting| *acting != check) {
                by_acting.entry(acting).or_default().push(machine);
            }
        }
        let words: Vec<String> = by_acting
            .iter()
            .map(|(acting, machines)| acting_message(&acting.name, machines))
            .collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// That a check acts for these machines.
pub(crate) fn acting_message(acting: &str, machines: &[&str]) -> String {
    let named: Vec<&str> = machines.iter().take(NAMED).copied().collect();
    let more = match machines.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "MachineHealthCheck {acting} acts for {}{more}, which this check selects too and only counts",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    fn keys(names: &[&str]) -> BTreeSet<Key> {
        names.iter().map(|name| key(name)).collect()
    }

    fn yields(shared: &Overlaps, check: &str, machine: &str) -> bool {
        shared.yields(&Item::new(&key(check), &machine.into()))
    }

    #[test]
    fn only_machines_of_several_checks_are_kept_and_changes_are_told_to_those_they_concern() {
        let mut shared = Overlaps::default();
        let acting = |name| Some(key(name));
        assert!(shared.set(&key("m"), keys(&["a"]), acting("a")).is_empty());
        assert!(!shared.knows(&key("m")));
        let touched = shared.set(&key("m"), keys(&["a", "b"]), acting("a"));
        assert_eq!(touched, keys(&["a", "b"]));
        assert!(
            shared
                .set(&key("m"), keys(&["a", "b"]), acting("a"))
                .is_empty()
        );
        assert!(yields(&shared, "b", "m") && !yields(&shared, "a", "m"));
        assert!(!yields(&shared, "b", "other"));
        let touched = shared.set(&key("m"), keys(&["a", "b"]), acting("b"));
        assert_eq!(touched, keys(&["a", "b"]));
        assert!(yields(&shared, "a", "m") && !yields(&shared, "b", "m"));
        let touched = shared.set(&key("m"), keys(&["a"]), acting("a"));
        assert_eq!(touched, keys(&["a", "b"]));
        assert!(!yields(&shared, "a", "m") && !shared.knows(&key("m")));
        assert!(shared.by_check.is_empty());
    }

    #[test]
    fn where_none_can_act_none_yields() {
        let mut shared = Overlaps::default();
        shared.set(&key("m"), keys(&["a", "b"]), None);
        assert!(!yields(&shared, "a", "m") && !yields(&shared, "b", "m"));
        assert_eq!(shared.message(&key("a")), None);
    }

    #[test]
    fn a_check_says_who_acts_for_which_of_its_machines() {
        let mut shared = Overlaps::default();
        for i in 0..12 {
            let machine = key(&format!("m{i:02}"));
            shared.set(&machine, keys(&["a", "b"]), Some(key("a")));
        }
        shared.set(&key("x"), keys(&["b", "c"]), Some(key("c")));
        assert_eq!(shared.message(&key("a")), None);
        assert_eq!(
            shared.message(&key("b")).unwrap(),
            "MachineHealthCheck a acts for m00, m01, m02, m03, m04, m05, m06, m07, m08, m09 and 2 \
             more, which this check selects too and only counts; MachineHealthCheck c acts for x, \
             which this check selects too and only counts"
        );
        assert_eq!(shared.machines(&key("c")), [key("x")]);
    }
}
