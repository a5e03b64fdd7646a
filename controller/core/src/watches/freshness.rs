//! Whether a view that watches keep has reached the state that a live list showed (F13).
//!
//! Owns the comparison of resourceVersions. Kubernetes numbers the versions of all objects of an API
//! server in one order. An idle watch gets a bookmark only about once a minute, so the version that a
//! watch has passed says too little; the objects themselves say it exactly.

use std::collections::{BTreeMap, BTreeSet};

/// An object in a live list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listed {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub version: u64,
}

/// All objects of one kind and scope, as one quorum read shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Listing {
    /// resourceVersion of the list; an object with a higher one changed after it.
    pub version: u64,
    /// The objects, by a name that is unique in the scope.
    pub objects: BTreeMap<String, Listed>,
}

/// What a view has yet to show before it has reached a [`Listing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Catchup {
    version: u64,
    /// Objects that the view lacks, or holds in an older version.
    missing: BTreeMap<String, Listed>,
    /// Objects that the view holds although they were gone.
    surplus: BTreeSet<String>,
}

// === impl Catchup ===

impl Catchup {
    /// Compares a listing with the names that the view holds now (`held`).
    pub fn new(listing: Listing, held: impl IntoIterator<Item = String>) -> Self {
        let surplus = held
            .into_iter()
            .filter(|name| !listing.objects.contains_key(name))
            .collect();
        Self {
            version: listing.version,
            missing: listing.objects,
            surplus,
        }
    }

    /// Compares with the view as it is now. Returns whether the view has reached the listing.
    ///
    /// `held`: the version in which the view holds an object. `is_deleted`: whether the watch has
    /// delivered the deletion of the object with that UID.
    pub fn advance(
        &mut self,
        held: impl Fn(&str) -> Option<u64>,
        is_deleted: impl Fn(&str) -> bool,
    ) -> bool {
        self.missing.retain(|name, listed| match held(name) {
            Some(version) => version < listed.version,
            None => !is_deleted(&listed.uid),
        });
        let version = self.version;
        self.surplus
            .retain(|name| held(name).is_some_and(|held| held <= version));
        self.behind() == 0
    }

    /// Adds all stored versions to `used`, for a model checker that renumbers versions.
    pub fn versions(&self, used: &mut BTreeSet<u64>) {
        used.insert(self.version);
        used.extend(self.missing.values().map(|listed| listed.version));
    }

    /// Replaces every version; `map` must keep their order.
    pub fn map_versions(&mut self, map: impl Fn(u64) -> u64) {
        self.version = map(self.version);
        for listed in self.missing.values_mut() {
            listed.version = map(listed.version);
        }
    }

    /// The number of objects by which the view is behind.
    pub fn behind(&self) -> usize {
        self.missing.len() + self.surplus.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(version: u64, objects: &[(&str, &str, u64)]) -> Listing {
        let listed = |(name, uid, version): &(&str, &str, u64)| {
            let (uid, version) = ((*uid).to_owned(), *version);
            ((*name).to_owned(), Listed { uid, version })
        };
        Listing {
            version,
            objects: objects.iter().map(listed).collect(),
        }
    }

    fn reached(listing: Listing, held: &[(&str, u64)], deleted: &[&str]) -> bool {
        let held: BTreeMap<String, u64> = held.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        Catchup::new(listing, held.keys().cloned())
            .advance(|name| held.get(name).copied(), |uid| deleted.contains(&uid))
    }

    #[test]
    fn f13_view_reaches_listing_once_objects_are_current_and_deletions_seen() {
        let list = || listing(10, &[("a", "ua", 3), ("b", "ub", 9)]);
        assert!(reached(list(), &[("a", 3), ("b", 9)], &[]));
        assert!(
            reached(list(), &[("a", 3), ("b", 12)], &[]),
            "changed since"
        );
        assert!(!reached(list(), &[("a", 3), ("b", 8)], &[]), "older");
        assert!(!reached(list(), &[("a", 3)], &[]), "not seen yet");
        assert!(reached(list(), &[("a", 3)], &["ub"]), "deleted since");
        assert!(
            !reached(list(), &[("a", 3)], &["earlier"]),
            "another object of the same name was deleted"
        );
        let more = |version| [("a", 3), ("b", 9), ("c", version)];
        assert!(!reached(list(), &more(10), &[]), "deletion not seen yet");
        assert!(reached(list(), &more(11), &[]), "created since");
    }

    #[test]
    fn f13_catchup_counts_each_object_that_is_still_behind() {
        let mut catchup = Catchup::new(
            listing(10, &[("a", "ua", 3), ("b", "ub", 9)]),
            ["a".to_owned(), "old".to_owned()],
        );
        let held = |name: &str| match name {
            "a" => Some(2),
            "old" => Some(1),
            _ => None,
        };
        assert!(!catchup.advance(held, |_| false));
        assert_eq!(catchup.behind(), 3);
        assert!(!catchup.advance(|name| (name == "a").then_some(3), |_| false));
        assert_eq!(catchup.behind(), 1);
        assert!(catchup.advance(|name| (name == "b").then_some(9), |_| false));
    }
}
