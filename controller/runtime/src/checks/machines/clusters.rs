//! The cluster that each check names, whether or not the check can be evaluated.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::object::Key;

/// Checks by cluster, and back.
#[derive(Default)]
pub(super) struct CheckClusters {
    by_cluster: BTreeMap<Key, BTreeSet<Key>>,
    by_check: BTreeMap<Key, Key>,
}

// === impl CheckClusters ===

impl CheckClusters {
    /// Sets the cluster that a check names.
    pub(super) fn set(&mut self, check: &Key, cluster: Option<Key>) {
        let old = match &cluster {
            Some(cluster) => self.by_check.insert(check.clone(), cluster.clone()),
            None => self.by_check.remove(check),
        };
        if old == cluster {
            return;
        }
        if let Some(old) = old
            && let Some(checks) = self.by_cluster.get_mut(&old)
        {
            checks.remove(check);
            if checks.is_empty() {
                self.by_cluster.remove(&old);
            }
        }
        if let Some(cluster) = cluster {
            let checks = self.by_cluster.entry(cluster).or_default();
            checks.insert(check.clone());
        }
    }

    /// Whether no check names a cluster.
    pub(super) fn is_empty(&self) -> bool {
        self.by_cluster.is_empty()
    }

    /// The cluster that a check names.
    pub(super) fn cluster(&self, check: &Key) -> Option<&Key> {
        self.by_check.get(check)
    }

    /// The checks of a cluster.
    pub(super) fn checks(&self, cluster: &Key) -> BTreeSet<Key> {
        self.by_cluster.get(cluster).cloned().unwrap_or_default()
    }

    /// A check and those of the same cluster: only they can select the same Machines.
    pub(super) fn siblings(&self, check: &Key) -> BTreeSet<Key> {
        let cluster = self.by_check.get(check);
        let mut siblings = cluster
            .map(|cluster| self.checks(cluster))
            .unwrap_or_default();
        siblings.insert(check.clone());
        siblings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_the_checks_of_the_cluster_that_is_named_last() {
        let key = |name: &str| Key::new("ns", name);
        let mut clusters = CheckClusters::default();
        clusters.set(&key("a"), Some(key("one")));
        clusters.set(&key("b"), Some(key("one")));
        clusters.set(&key("c"), Some(key("two")));
        assert_eq!(clusters.siblings(&key("a")), [key("a"), key("b")].into());
        clusters.set(&key("b"), Some(key("two")));
        assert_eq!(clusters.siblings(&key("c")), [key("b"), key("c")].into());
        assert_eq!(clusters.cluster(&key("b")), Some(&key("two")));
        for check in ["a", "b", "c"] {
            clusters.set(&key(check), None);
        }
        assert!(clusters.is_empty());
        assert_eq!(clusters.siblings(&key("a")), [key("a")].into());
    }
}
