//! Which versions of objects the driver has taken in, to be compared with a live read (F13).

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::sync::View;

/// How many ends of objects are remembered.
const ENDS: usize = 1000;

#[derive(Default)]
struct Held {
    /// UID and version, by name.
    objects: BTreeMap<String, (String, Option<u64>)>,
    /// UIDs of objects whose end was taken in lately.
    ended: VecDeque<String>,
}

/// The objects of one kind and scope.
#[derive(Default)]
pub(super) struct Versions {
    held: Mutex<Held>,
    moved: Notify,
}

// === impl Versions ===

impl Versions {
    /// A version was taken in. Older ones than the one that is held change nothing.
    pub(super) fn put(&self, name: String, uid: &str, version: Option<u64>) {
        let mut held = self.held.lock();
        let known = held.objects.get(&name).filter(|(known, _)| known == uid);
        if known.is_none_or(|(_, known)| *known <= version) {
            held.objects.insert(name, (uid.to_owned(), version));
        }
        drop(held);
        self.moved.notify_waiters();
    }

    /// The end of an object was taken in.
    pub(super) fn remove(&self, name: &str) {
        let mut held = self.held.lock();
        if let Some((uid, _)) = held.objects.remove(name) {
            held.ended.push_back(uid);
            if held.ended.len() > ENDS {
                held.ended.pop_front();
            }
        }
        drop(held);
        self.moved.notify_waiters();
    }
}

impl View for Versions {
    fn names(&self) -> Vec<String> {
        self.held.lock().objects.keys().cloned().collect()
    }

    fn version(&self, name: &str) -> Option<u64> {
        self.held.lock().objects.get(name)?.1
    }

    fn is_deleted(&self, uid: &str) -> bool {
        self.held.lock().ended.iter().any(|ended| ended == uid)
    }

    fn moved(&self) -> &Notify {
        &self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_changes_nothing_and_an_end_is_remembered() {
        let versions = Versions::default();
        versions.put("a".into(), "ua", Some(5));
        versions.put("a".into(), "ua", Some(3));
        assert_eq!(versions.version("a"), Some(5));
        versions.put("a".into(), "another", Some(4));
        assert_eq!(
            versions.version("a"),
            Some(4),
            "another object of that name"
        );
        versions.put("b".into(), "ub", Some(6));
        versions.remove("a");
        assert_eq!(
            (versions.names(), versions.version("a")),
            (vec!["b".to_owned()], None)
        );
        assert!(versions.is_deleted("another") && !versions.is_deleted("ub"));
    }
}
