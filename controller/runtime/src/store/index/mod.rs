//! Index of all observed objects by name.
//!
//! Holds the latest version of each object and announces changes to consumers. Synchronous: never awaits,
//! calls an API, or decides anything.

mod change_queue;
mod hosts;
mod lost_watches;
mod machines;
mod nodes;
mod objects;
mod openshift;
mod reads;
mod remediations;
mod table;
mod tombstones;
mod trim;
mod workloads;

use std::{collections::BTreeSet, iter, sync::Arc};

use kube::api::DynamicObject;
use parking_lot::RwLock;
use tokio::sync::Notify;

pub(crate) use change_queue::{Change, ChangeQueue};
pub(crate) use hosts::HostLink;
use lost_watches::LostWatches;
use nodes::ClusterNodes;
pub(crate) use nodes::{Connection, LabelledNode, SeenNode};
use objects::{CheckView, Objects};
pub(crate) use table::Entry;
pub(crate) use tombstones::Tombstones;

use crate::store::object::{Key, Kind};

#[derive(Default)]
struct Inner {
    objects: Objects,
    nodes: ClusterNodes,
    tombstones: Tombstones,
    lost_watches: LostWatches,
}

/// Objects that are read at once where a large kind is read in pages.
const PAGE: usize = 64;

/// Index of objects of the management cluster and of Nodes of workload clusters.
///
/// A change is announced under the lock that applies it, so that a consumer that observes a state of the
/// index finds every change up to that state in its queue.
pub(crate) struct Index {
    inner: RwLock<Inner>,
    inboxes: Vec<Arc<ChangeQueue>>,
    /// Wakes tasks that wait until the index has reached a state.
    moved: Notify,
}

impl Index {
    pub(crate) fn new(inboxes: Vec<Arc<ChangeQueue>>) -> Self {
        Self {
            inner: RwLock::default(),
            inboxes,
            moved: Notify::new(),
        }
    }

    /// Queues a change for every consumer.
    pub(crate) fn announce(&self, change: &Change) {
        for inbox in self.inboxes.iter().filter(|inbox| inbox.wants(change)) {
            inbox.push(change.clone());
        }
    }

    /// Applies a version of an object, from a watch or from the response to a write. A version older than the
    /// known one is ignored.
    pub(crate) fn apply(&self, kind: Kind, object: DynamicObject) {
        self.apply_shared(kind, object);
    }

    /// Like [`Index::apply`]; returns this version as the index keeps it, so that who remembers it needs no copy.
    pub(crate) fn apply_shared(&self, kind: Kind, mut object: DynamicObject) -> Arc<DynamicObject> {
        trim::trim(kind, &mut object);
        let object = Arc::new(object);
        self.put(kind, object.clone());
        object
    }

    fn put(&self, kind: Kind, object: Arc<DynamicObject>) {
        let key = Key::of(&object);
        let check = CheckView::parse(kind, &object);
        let mut inner = self.inner.write();
        if inner.tombstones.holds(object.metadata.uid.as_deref()) {
            return;
        }
        let taken = inner.objects.put(kind, &key, object, check);
        if taken {
            self.announce(&Change::Object(kind, key));
        }
        self.moved.notify_waiters();
    }

    /// Applies the deletion of an object, as reported by a watch.
    pub(crate) fn deleted(&self, kind: Kind, object: &DynamicObject) {
        if let Some(uid) = &object.metadata.uid {
            self.inner.write().tombstones.put(uid);
        }
        self.delete(kind, &Key::of(object));
    }

    pub(crate) fn delete(&self, kind: Kind, key: &Key) {
        let mut inner = self.inner.write();
        let Inner { objects, nodes, .. } = &mut *inner;
        objects.remove(kind, key);
        if matches!(kind, Kind::Machine | Kind::OpenShiftMachine) {
            nodes.prune_absent(|cluster, node| objects.names_node(cluster, node));
        }
        self.announce(&Change::Object(kind, key.clone()));
        self.moved.notify_waiters();
    }

    /// Deletes the objects of a kind that a new list does not contain.
    pub(crate) fn retain(&self, kind: Kind, listed: &BTreeSet<Key>) {
        for key in self.keys_in_pages(kind) {
            if !listed.contains(&key) {
                self.delete(kind, &key);
            }
        }
    }

    /// The names of all objects of a kind.
    pub(crate) fn keys(&self, kind: Kind) -> Vec<Key> {
        self.inner.read().objects.keys(kind)
    }

    /// The names of all objects of a kind, in their order. They are read a few at a time, so that no writer waits
    /// long: an object that comes or goes meanwhile is there or not.
    pub(crate) fn keys_in_pages(&self, kind: Kind) -> impl Iterator<Item = Key> + use<'_> {
        in_pages(move |after: Option<&Key>| self.keys_after(kind, after, PAGE))
    }

    /// At most `most` names after `after` of objects of a kind, in their order.
    pub(crate) fn keys_after(&self, kind: Kind, after: Option<&Key>, most: usize) -> Vec<Key> {
        self.inner.read().objects.keys_after(kind, after, most)
    }

    /// The resourceVersion of an object in the index.
    pub(crate) fn version_of(&self, kind: Kind, key: &Key) -> Option<String> {
        self.inner.read().objects.version(kind, key)
    }

    /// Whether a watch has recently reported the deletion of the object with this UID.
    pub(crate) fn is_deleted(&self, uid: &str) -> bool {
        self.inner.read().tombstones.holds(Some(uid))
    }

    /// Notified after each change, including changes that are not announced.
    pub(crate) fn moved(&self) -> &Notify {
        &self.moved
    }
}

/// Items of pages, each of which follows the last item of the one before.
fn in_pages<T: Clone>(mut page_after: impl FnMut(Option<&T>) -> Vec<T>) -> impl Iterator<Item = T> {
    let mut page = Vec::new().into_iter();
    let mut last: Option<T> = None;
    iter::from_fn(move || {
        if page.len() == 0 {
            page = page_after(last.as_ref()).into_iter();
        }
        let next: T = page.next()?;
        if page.len() == 0 {
            last = Some(next.clone());
        }
        Some(next)
    })
}

#[cfg(test)]
mod tests;
