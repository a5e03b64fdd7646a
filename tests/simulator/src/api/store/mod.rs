//! Objects and their versions: what may be written, and what a write changes.

mod fields;
mod history;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use fields::{complete_secret, remove};

use super::{
    change::{Change, ChangeKind, Failure},
    derived::Derived,
    patch,
    resource::Resource,
    serving::Serving,
    watch::{Watch, Watches},
};
use crate::kernel::wall_clock;

/// Namespace and name.
pub type Key = (String, String);

/// One kind's objects and last changes.
#[derive(Default)]
pub(in crate::api) struct Table {
    pub(in crate::api) objects: BTreeMap<Key, Arc<Value>>,
    pub(in crate::api) history: VecDeque<Change>,
    /// The version up to which history was dropped.
    pub(in crate::api) dropped: u64,
}

/// A list that is read by pages.
#[derive(Clone)]
pub(in crate::api) struct Listed {
    /// The version that it shows.
    pub(in crate::api) version: u64,
    /// All of its objects.
    pub(in crate::api) objects: Arc<[Arc<Value>]>,
}

/// What a write is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum Part {
    /// Everything but the status, where that is written apart.
    Main,
    /// The status alone.
    Status,
}

/// The API server.
pub struct ApiServer {
    now: Duration,
    version: u64,
    rng: fastrand::Rng,
    pub(in crate::api) tables: BTreeMap<Resource, Table>,
    /// What was applied last, by object and manager.
    applied: BTreeMap<(Resource, Key, String), Value>,
    /// The newest lists that are read by pages, by number.
    pub(in crate::api) pages: BTreeMap<u64, Listed>,
    pub(in crate::api) derived: Derived,
    pub(in crate::api) watches: Watches,
    /// Changes that nobody has looked at yet.
    pub(in crate::api) changes: Vec<Change>,
    /// It does not answer.
    pub away: bool,
    /// What it serves and permits.
    pub(crate) serving: Serving,
    /// Requests that were answered, by verb and kind.
    pub counts: BTreeMap<(&'static str, &'static str), u64>,
}

/// What an object becomes by a change.
fn changed(object: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut object = object.clone();
    change(&mut object);
    object
}

impl ApiServer {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Duration::ZERO,
            version: 1,
            rng: fastrand::Rng::with_seed(seed ^ 0x5eed),
            tables: BTreeMap::new(),
            applied: BTreeMap::new(),
            pages: BTreeMap::new(),
            derived: Derived::default(),
            watches: Watches::default(),
            changes: Vec::new(),
            away: false,
            serving: Serving::default(),
            counts: BTreeMap::new(),
        }
    }

    /// What time it is.
    pub(crate) fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    pub(in crate::api) fn now(&self) -> Duration {
        self.now
    }

    /// The version of the last change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Reads an object.
    #[must_use]
    pub fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.tables.get(&resource)?.objects.get(&key).cloned()
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, resource: Resource) -> impl Iterator<Item = &Arc<Value>> {
        let table = self.tables.get(&resource);
        table.into_iter().flat_map(|table| table.objects.values())
    }

    /// The objects of a kind in a namespace whose names begin like this.
    pub(in crate::api) fn named(
        &self,
        resource: Resource,
        namespace: &str,
        prefix: &str,
    ) -> impl Iterator<Item = &Arc<Value>> {
        let first = (namespace.to_owned(), prefix.to_owned());
        let (namespace, prefix) = first.clone();
        let tables = self.tables.get(&resource).into_iter();
        let from = tables.flat_map(move |table| table.objects.range(first.clone()..));
        let named =
            from.take_while(move |((n, name), _)| *n == namespace && name.starts_with(&prefix));
        named.map(|(_, object)| object)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// There is one of this name.
    pub fn create(
        &mut self,
        resource: Resource,
        namespace: &str,
        mut object: Value,
    ) -> Result<Arc<Value>, Failure> {
        let meta = &mut object["metadata"];
        if meta["name"].is_null()
            && let Some(prefix) = meta["generateName"].as_str()
        {
            let suffix: String = (0..5).map(|_| self.rng.lowercase()).collect();
            meta["name"] = format!("{prefix}{suffix}").into();
        }
        let Some(name) = meta["name"].as_str().map(str::to_owned) else {
            return Err(Failure::new(
                422,
                "Invalid",
                "name or generateName is required",
            ));
        };
        let key = (namespace.to_owned(), name.clone());
        let exists = |table: &Table| table.objects.contains_key(&key);
        if self.tables.get(&resource).is_some_and(exists) {
            let message = format!(
                "{}.{} {name:?} already exists",
                resource.plural, resource.group
            );
            return Err(Failure::new(409, "AlreadyExists", message));
        }
        if resource.namespaced {
            meta["namespace"] = namespace.into();
        }
        meta["uid"] = self.uid().into();
        meta["creationTimestamp"] = self.timestamp().into();
        if resource.has_generation() {
            meta["generation"] = 1.into();
        }
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.into();
        if resource.status && resource.has_generation() {
            remove(&mut object, "status");
        }
        if resource.plural == "secrets" {
            complete_secret(&mut object);
        }
        Ok(self.put(resource, key, object, None))
    }

    /// Replaces an object, or its status.
    ///
    /// # Errors
    /// It is not there, or another version than the given one.
    pub(in crate::api) fn replace(
        &mut self,
        resource: Resource,
        key: &Key,
        part: Part,
        new: &Value,
    ) -> Result<Arc<Value>, Failure> {
        self.change(resource, key, part, |_| new.clone(), (new, false))
    }

    /// Merges a patch into an object, or into its status.
    ///
    /// # Errors
    /// As for a replacement.
    pub(in crate::api) fn merge(
        &mut self,
        resource: Resource,
        key: &Key,
        part: Part,
        body: &Value,
    ) -> Result<Arc<Value>, Failure> {
        self.change(
            resource,
            key,
            part,
            |old| changed(old, |object| patch::merge(object, body)),
            (body, true),
        )
    }

    /// Applies what a manager declares.
    ///
    /// # Errors
    /// As for a replacement.
    pub(in crate::api) fn apply(
        &mut self,
        resource: Resource,
        key: &Key,
        part: Part,
        manager: &str,
        body: &Value,
    ) -> Result<Arc<Value>, Failure> {
        let mut declared = body.clone();
        for field in ["apiVersion", "kind", "metadata"] {
            remove(&mut declared, field);
        }
        let id = (resource, key.clone(), format!("{manager}/{part:?}"));
        let before = self.applied.get(&id).cloned();
        let apply = |object: &mut Value| patch::apply(object, before.as_ref(), &declared);
        let applied = self.change(resource, key, part, |old| changed(old, apply), (body, true))?;
        self.applied.insert(id, declared);
        Ok(applied)
    }

    /// Writes an object for the world itself, which acts for many controllers of Kubernetes.
    pub fn modify(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Value>> {
        let key = (namespace.to_owned(), name.to_owned());
        let old = self.tables.get(&resource)?.objects.get(&key)?.clone();
        let new = changed(&old, change);
        Some(self.settle(resource, key, old, new))
    }

    fn change(
        &mut self,
        resource: Resource,
        key: &Key,
        part: Part,
        change: impl FnOnce(&Value) -> Value,
        (body, patches): (&Value, bool),
    ) -> Result<Arc<Value>, Failure> {
        let table = self.tables.get(&resource);
        let Some(old) = table.and_then(|table| table.objects.get(key)).cloned() else {
            return Err(Failure::not_found(&resource, &key.1));
        };
        for field in ["resourceVersion", "uid"] {
            let wanted = &body["metadata"][field];
            if wanted.is_null() || wanted == "" || *wanted == old["metadata"][field] {
                continue;
            }
            if field == "uid" && patches {
                return Err(Failure::new(
                    422,
                    "Invalid",
                    "metadata.uid: field is immutable",
                ));
            }
            return Err(Failure::conflict(&resource, &key.1));
        }
        let mut new = change(&old);
        let apart = resource.status;
        let from_old: &[&str] = match part {
            Part::Main if apart => &["status"],
            Part::Main => &[],
            Part::Status => &["spec", "metadata"],
        };
        for field in from_old {
            match old.get(*field) {
                Some(value) => new[*field] = value.clone(),
                None => remove(&mut new, field),
            }
        }
        for field in [
            "uid",
            "creationTimestamp",
            "name",
            "namespace",
            "deletionTimestamp",
        ] {
            match old["metadata"].get(field) {
                Some(value) => new["metadata"][field] = value.clone(),
                None => remove(&mut new["metadata"], field),
            }
        }
        Ok(self.settle(resource, key.clone(), old, new))
    }

    /// Stores a changed object; one that waited for its last finalizer is gone then.
    fn settle(
        &mut self,
        resource: Resource,
        key: Key,
        old: Arc<Value>,
        mut new: Value,
    ) -> Arc<Value> {
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        let is_empty = |value: &Value| match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        for field in ["annotations", "labels", "finalizers", "ownerReferences"] {
            if new["metadata"].get(field).is_some_and(is_empty) {
                remove(&mut new["metadata"], field);
            }
        }
        if new == *old {
            return old;
        }
        if resource.has_generation() && new["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or(1);
            new["metadata"]["generation"] = (generation + 1).into();
        }
        let ends = !new["metadata"]["deletionTimestamp"].is_null()
            && new["metadata"]["finalizers"].is_null()
            && resource.plural != "pods";
        if ends {
            return self.remove(resource, &key, new);
        }
        self.put(resource, key, new, Some(old))
    }

    /// Deletes an object: at once, or when its last finalizer is removed.
    ///
    /// # Errors
    /// It is not there, or a precondition does not hold.
    pub fn delete(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        options: &Value,
    ) -> Result<Arc<Value>, Failure> {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(old) = self.get(resource, namespace, name) else {
            return Err(Failure::not_found(&resource, name));
        };
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != old["metadata"][field] {
                let message = format!("the precondition {field} does not hold for {name:?}");
                return Err(Failure::new(409, "Conflict", message));
            }
        }
        let graceful = resource.plural == "pods"
            && options["gracePeriodSeconds"] != 0
            && !old["spec"]["nodeName"].is_null();
        let finalized = !old["metadata"]["finalizers"].is_null();
        if !(finalized || graceful) {
            return Ok(self.remove(resource, &key, Value::clone(&old)));
        }
        if !old["metadata"]["deletionTimestamp"].is_null() {
            return Ok(old);
        }
        let mut new = Value::clone(&old);
        let grace = if graceful { 30 } else { 0 };
        new["metadata"]["deletionTimestamp"] = self.timestamp().into();
        new["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        if resource.has_generation() {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or(1);
            new["metadata"]["generation"] = (generation + 1).into();
        }
        Ok(self.put(resource, key, new, Some(old)))
    }

    pub(in crate::api) fn watch(&mut self, watch: Watch) -> u64 {
        self.watches.add(watch)
    }

    fn timestamp(&self) -> String {
        let now = wall_clock(self.now);
        now.round(jiff::Unit::Second).unwrap_or(now).to_string()
    }

    fn uid(&mut self) -> String {
        let (a, b) = (self.rng.u64(..), self.rng.u64(..));
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}
