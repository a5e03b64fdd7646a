//! The objects of one kind, by name.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::views::ViewError;

use crate::store::object::Key;

/// An object and its parsed view.
pub(crate) struct Entry<V> {
    pub(crate) object: Arc<DynamicObject>,
    pub(crate) view: Result<Arc<V>, ViewError>,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            view: self.view.clone(),
        }
    }
}

/// Objects with their views, by key. An object that cannot be parsed is kept with the error.
pub(super) struct Table<V, K = Key>(BTreeMap<K, Entry<V>>);

impl<V, K> Default for Table<V, K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V, K: Ord + Clone> Table<V, K> {
    /// Puts a version of an object, unless a later one is known. Returns whether it was put.
    pub(super) fn put(
        &mut self,
        key: &K,
        object: Arc<DynamicObject>,
        read: impl FnOnce(&DynamicObject) -> Result<V, ViewError>,
    ) -> bool {
        let old = self.0.get(key);
        if old.is_some_and(|old| is_older(object.as_ref(), old.object.as_ref())) {
            return false;
        }
        let view = read(&object).map(Arc::new);
        self.0.insert(key.clone(), Entry { object, view });
        true
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<Entry<V>> {
        self.0.remove(key)
    }

    pub(super) fn get(&self, key: &K) -> Option<&Entry<V>> {
        self.0.get(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    /// At most `most` keys after `after`, in their order.
    pub(super) fn keys_after(&self, after: Option<&K>, most: usize) -> Vec<K> {
        keys_after(&self.0, after, most)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<V>> {
        self.0.values()
    }

    /// Copies of all entries, ordered by key.
    pub(super) fn all(&self) -> Vec<(K, Entry<V>)> {
        let entries = self.0.iter();
        entries.map(|(k, e)| (k.clone(), e.clone())).collect()
    }

    /// The resourceVersion of an object.
    pub(super) fn version(&self, key: &K) -> Option<String> {
        self.0.get(key)?.object.metadata.resource_version.clone()
    }
}

impl<V> Table<V> {
    /// Copies of the entries of a namespace, ordered by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<(Key, Entry<V>)> {
        let from = self.0.range(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace)
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect()
    }
}

/// At most `most` keys of a map after `after`, in their order.
pub(super) fn keys_after<K: Ord + Clone, V>(
    map: &BTreeMap<K, V>,
    after: Option<&K>,
    most: usize,
) -> Vec<K> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let later = map.range((from, Bound::Unbounded));
    later.take(most).map(|(key, _)| key.clone()).collect()
}

/// Whether the resourceVersion `new` is smaller than `old`: the API server assigns them in increasing order.
pub(super) fn is_less(new: Option<&str>, old: Option<&str>) -> bool {
    let number = |version: Option<&str>| version.and_then(|v| v.parse::<u64>().ok());
    number(new)
        .zip(number(old))
        .is_some_and(|(new, old)| new < old)
}

/// Whether `new` is an older version of the same object than `old`.
fn is_older<K: ResourceExt>(new: &K, old: &K) -> bool {
    new.uid() == old.uid()
        && is_less(
            new.resource_version().as_deref(),
            old.resource_version().as_deref(),
        )
}
