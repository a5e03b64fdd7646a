//! Versions: each change gets one, and is kept for watches for a while.

use std::sync::Arc;

use serde_json::Value;

use super::{ApiServer, Change, ChangeKind, Key, Resource};

/// How much history is kept of each kind; an older watch must list again.
const HISTORY: usize = 1000;

impl ApiServer {
    pub(super) fn put(
        &mut self,
        resource: Resource,
        key: Key,
        mut object: Value,
        before: Option<Arc<Value>>,
    ) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        let table = self.tables.entry(resource).or_default();
        table.objects.insert(key, object.clone());
        let kind = match before {
            Some(_) => ChangeKind::Modified,
            None => ChangeKind::Added,
        };
        self.record(resource, kind, object.clone(), before);
        object
    }

    pub(super) fn remove(
        &mut self,
        resource: Resource,
        key: &Key,
        mut object: Value,
    ) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        let table = self.tables.entry(resource).or_default();
        let before = table.objects.remove(key);
        let first = (resource, key.clone(), String::new());
        let applied = self.applied.range(first..).map(|(id, _)| id);
        let applied = applied.take_while(|(r, k, _)| *r == resource && k == key);
        for id in applied.cloned().collect::<Vec<_>>() {
            self.applied.remove(&id);
        }
        self.record(resource, ChangeKind::Deleted, object.clone(), before);
        object
    }

    fn record(
        &mut self,
        resource: Resource,
        kind: ChangeKind,
        object: Arc<Value>,
        before: Option<Arc<Value>>,
    ) {
        let change = Change {
            resource,
            kind,
            object,
            before,
            version: self.version,
        };
        self.derived.apply(&change);
        let table = self.tables.entry(resource).or_default();
        table.history.push_back(change.clone());
        if table.history.len() > HISTORY
            && let Some(dropped) = table.history.pop_front()
        {
            table.dropped = dropped.version;
        }
        self.changes.push(change);
    }

    /// Forgets all history, as etcd's compaction does: watches that are behind must list again.
    pub fn compact(&mut self) {
        for table in self.tables.values_mut() {
            table.dropped = self.version;
            table.history.clear();
        }
    }

    /// The changes since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }
}
