//! Remediations of kinds that other controllers carry out.
//!
//! One watch per kind runs as long as a check uses it. Invariant: no remediation counts as absent before the
//! first list is complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource,
    core::{ApiResource, DynamicResourceScope},
    runtime::watcher::Event,
};
use parking_lot::RwLock;
use rackhand_api::views::TemplateRef;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    checks::Context,
    clusters::sync::{SyncError, View, live_listing, object_name, reach},
    store::{
        api::ApiError,
        index::Tombstones,
        object::{Key, typed_api},
        watch::{DiscoveryLog, WatchMonitor, events},
    },
};

/// Interval of discovery for a kind that is not served.
const RETRY: Duration = Duration::from_secs(10);

/// The stored part of a remediation.
pub(in crate::checks) trait ExternalRemediation:
    Clone + PartialEq + Send + Sync + 'static
{
    /// The parsed part of the object.
    type Wire: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static;

    fn read(object: &Self::Wire) -> Self;

    /// `metadata.uid`.
    fn uid(&self) -> &str;
}

/// A kind in the version that a template names, within one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) struct ExternalKind {
    pub(in crate::checks) namespace: String,
    pub(in crate::checks) api_version: String,
    pub(in crate::checks) kind: String,
}

/// The watched kinds, each with the token that ends its watch.
#[derive(Default)]
pub(in crate::checks) struct KindWatches(BTreeMap<ExternalKind, CancellationToken>);

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::checks) enum WatchEvent {
    /// The first list of the kind is complete.
    Synced(ExternalKind),
    /// A remediation was added, changed or deleted.
    Changed(ExternalKind, Key),
}

struct KindState<R> {
    synced: bool,
    /// The remediations, each with its resourceVersion as a number.
    remediations: BTreeMap<Key, (R, Option<u64>)>,
    deleted: Tombstones,
}

/// The remediations of all watched kinds.
pub(in crate::checks) struct ExternalRemediations<R> {
    known: RwLock<BTreeMap<ExternalKind, KindState<R>>>,
    moved: Notify,
}

/// A view of one kind for the comparison with a live read.
struct KindView<'a, R> {
    all: &'a ExternalRemediations<R>,
    kind: &'a ExternalKind,
}

// === impl ExternalKind ===

impl ExternalKind {
    pub(in crate::checks) fn of(namespace: &str, template: &TemplateRef) -> Self {
        Self {
            namespace: namespace.to_owned(),
            api_version: template.api_version.clone(),
            kind: template.remediation_kind().to_owned(),
        }
    }
}

// === impl KindWatches ===

impl KindWatches {
    /// Sets the kinds to watch. Ends all other watches and returns their kinds, and the kinds to begin
    /// watching, each with its cancellation token.
    pub(in crate::checks) fn keep(
        &mut self,
        mut wanted: BTreeSet<ExternalKind>,
        end: &CancellationToken,
    ) -> (Vec<ExternalKind>, Vec<(ExternalKind, CancellationToken)>) {
        let unwanted = self.0.extract_if(.., |kind, _| !wanted.remove(kind));
        let unwanted = unwanted.inspect(|(_, cancel)| cancel.cancel());
        let ended = unwanted.map(|(kind, _)| kind).collect();
        let begun = wanted.into_iter().map(|kind| (kind, end.child_token()));
        let begun: Vec<_> = begun.collect();
        self.0.extend(begun.iter().cloned());
        (ended, begun)
    }
}

// === impl KindState ===

impl<R> Default for KindState<R> {
    fn default() -> Self {
        Self {
            synced: false,
            remediations: BTreeMap::new(),
            deleted: Tombstones::default(),
        }
    }
}

// === impl ExternalRemediations ===

impl<R> Default for ExternalRemediations<R> {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
            moved: Notify::new(),
        }
    }
}

impl<R: ExternalRemediation> ExternalRemediations<R> {
    /// Whether the first list of a kind is complete.
    pub(in crate::checks) fn synced(&self, kind: &ExternalKind) -> bool {
        self.known.read().get(kind).is_some_and(|k| k.synced)
    }

    pub(in crate::checks) fn get(&self, kind: &ExternalKind, key: &Key) -> Option<R> {
        let known = self.known.read();
        let (seen, _) = known.get(kind)?.remediations.get(key)?;
        Some(seen.clone())
    }

    /// All known remediations.
    pub(in crate::checks) fn all(&self) -> Vec<(ExternalKind, Key, R)> {
        let known = self.known.read();
        let of_kind = |(kind, known): (&ExternalKind, &KindState<R>)| {
            let remediations = known.remediations.iter();
            let all =
                remediations.map(|(key, (seen, _))| (kind.clone(), key.clone(), seen.clone()));
            all.collect::<Vec<_>>()
        };
        known.iter().flat_map(of_kind).collect()
    }

    /// Applies a version of a remediation of a watched kind, from the watch or from the response to a write.
    /// Returns whether anything has changed.
    pub(in crate::checks) fn put(&self, kind: &ExternalKind, object: &R::Wire) -> bool {
        let (key, seen) = (key_of(object.meta()), R::read(object));
        let version = object.meta().resource_version.as_ref();
        let version = version.and_then(|v| v.parse().ok());
        let mut known = self.known.write();
        let Some(known) = known.get_mut(kind) else {
            return false;
        };
        let old = known.remediations.get(&key);
        let late = old.is_some_and(|(old, held)| old.uid() == seen.uid() && version < *held);
        if late || known.deleted.holds(Some(seen.uid())) {
            return false;
        }
        let changed = old.is_none_or(|(old, _)| *old != seen);
        known.remediations.insert(key, (seen, version));
        changed
    }

    /// Applies a deletion. Returns whether the remediation was known.
    pub(in crate::checks) fn remove(&self, kind: &ExternalKind, key: &Key) -> bool {
        let mut known = self.known.write();
        let Some(known) = known.get_mut(kind) else {
            return false;
        };
        let old = known.remediations.remove(key);
        if let Some((old, _)) = &old {
            known.deleted.put(old.uid());
        }
        old.is_some()
    }

    /// Waits until the known remediations of a kind have reached the state of the API server (F13).
    pub(in crate::checks) async fn reach(
        &self,
        context: &Context,
        kind: &ExternalKind,
    ) -> Result<(), SyncError> {
        let not_read = |error: ApiError| SyncError::Read(error.to_string());
        let served = &context.served;
        let found = served.resource_of(&context.client, &kind.api_version, &kind.kind);
        let Some(resource) = found.await.map_err(not_read)? else {
            // A kind that was never served has no objects.
            return match self.is_empty(kind) {
                true => Ok(()),
                false => Err(SyncError::Read(format!(
                    "{} is not served any more",
                    kind.kind
                ))),
            };
        };
        let listing = live_listing(&context.client, &resource, &kind.namespace).await;
        let what = format!("{}s in {}", kind.kind, kind.namespace);
        let view = KindView { all: self, kind };
        reach(&what, listing.map_err(not_read)?, &view).await
    }

    /// Drops and returns the remediations that a complete list does not contain.
    fn sync(&self, kind: &ExternalKind, listed: &BTreeSet<Key>) -> Vec<Key> {
        let mut known = self.known.write();
        let Some(known) = known.get_mut(kind) else {
            return Vec::new();
        };
        known.synced = true;
        let gone = known
            .remediations
            .extract_if(.., |key, _| !listed.contains(key));
        gone.map(|(key, _)| key).collect()
    }

    /// Drops a kind and returns its known remediations.
    pub(in crate::checks) fn forget(&self, kind: &ExternalKind) -> Vec<Key> {
        let known = self.known.write().remove(kind);
        let remediations = known.into_iter().flat_map(|known| known.remediations);
        remediations.map(|(key, _)| key).collect()
    }

    /// Starts to accept remediations of a kind.
    fn begin(&self, kind: &ExternalKind) {
        self.known.write().entry(kind.clone()).or_default();
    }

    /// Watches a kind until `cancel`.
    pub(in crate::checks) async fn watch(
        self: Arc<Self>,
        context: Arc<Context>,
        kind: ExternalKind,
        notify: impl Fn(WatchEvent) + Send + Sync,
        cancel: CancellationToken,
    ) {
        self.begin(&kind);
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.keep_watching(&context, &kind, &notify) => {}
        }
        let index = &context.index;
        index.set_lost_other(&kind.kind, &kind.namespace, None);
    }

    async fn keep_watching(
        &self,
        context: &Context,
        kind: &ExternalKind,
        notify: &(impl Fn(WatchEvent) + Send + Sync),
    ) {
        let mut monitor = WatchMonitor::default();
        let mut log = DiscoveryLog::default();
        loop {
            let served = &context.served;
            let found = served.resource_of(&context.client, &kind.api_version, &kind.kind);
            match found.await {
                Ok(Some(resource)) => {
                    log.found();
                    let (client, namespace) = (&context.client, &kind.namespace);
                    let objects = typed_api(client, &resource, namespace);
                    self.follow(context, kind, objects, notify, &mut monitor)
                        .await;
                }
                // A kind that was never served has no objects. The objects of a removed kind are unknown (F12).
                Ok(None) if self.is_empty(kind) => {
                    log.not_served(&kind.api_version, &kind.kind);
                    let index = &context.index;
                    index.set_lost_other(&kind.kind, &kind.namespace, None);
                    self.synced_to(kind, &BTreeSet::new(), notify);
                }
                Ok(None) => {
                    log.not_served(&kind.api_version, &kind.kind);
                    let why = format!(
                        "the API server does not serve {} any more; the remediations of this kind are known from before",
                        kind.api_version
                    );
                    self.lost(context, kind, why);
                }
                Err(error) => {
                    let why = error.to_string();
                    log.failed(&kind.api_version, &kind.kind, &why);
                    if monitor.interrupted() {
                        self.lost(context, kind, why);
                    }
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn synced_to(&self, kind: &ExternalKind, listed: &BTreeSet<Key>, notify: &impl Fn(WatchEvent)) {
        for key in self.sync(kind, listed) {
            notify(WatchEvent::Changed(kind.clone(), key));
        }
        notify(WatchEvent::Synced(kind.clone()));
        self.moved.notify_waiters();
    }

    fn is_empty(&self, kind: &ExternalKind) -> bool {
        let known = self.known.read();
        known
            .get(kind)
            .is_none_or(|known| known.remediations.is_empty())
    }

    /// Records that the known remediations of a kind are stale: no decision uses them before the kind is listed
    /// again.
    fn lost(&self, context: &Context, kind: &ExternalKind, why: String) {
        if let Some(known) = self.known.write().get_mut(kind) {
            known.synced = false;
        }
        let index = &context.index;
        index.set_lost_other(&kind.kind, &kind.namespace, Some(why));
    }

    async fn follow(
        &self,
        context: &Context,
        kind: &ExternalKind,
        objects: Api<R::Wire>,
        notify: &impl Fn(WatchEvent),
        monitor: &mut WatchMonitor,
    ) {
        let stream = events(objects);
        pin_mut!(stream);
        // Until a list counts as complete, it follows the changes.
        let mut listed = BTreeSet::new();
        let mut is_synced = false;
        let report = |changed: bool, key: Key| {
            if changed {
                notify(WatchEvent::Changed(kind.clone(), key));
            }
            self.moved.notify_waiters();
        };
        let synced = |listed: &mut BTreeSet<Key>| {
            let index = &context.index;
            index.set_lost_other(&kind.kind, &kind.namespace, None);
            self.synced_to(kind, &std::mem::take(listed), notify);
        };
        loop {
            let event = tokio::select! {
                () = monitor.settled() => {
                    is_synced = monitor.settle();
                    if is_synced {
                        synced(&mut listed);
                    }
                    continue;
                }
                event = stream.next() => event,
            };
            let Some(event) = event else { return };
            if event.is_ok() {
                monitor.progressed();
            }
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    is_synced = false;
                }
                Ok(Event::InitApply(object)) => {
                    let key = key_of(object.meta());
                    listed.insert(key.clone());
                    report(self.put(kind, &object), key);
                }
                Ok(Event::InitDone) => {
                    monitor.listed();
                    is_synced = monitor.settle();
                    if is_synced {
                        synced(&mut listed);
                    }
                }
                Ok(Event::Apply(object)) => {
                    let key = key_of(object.meta());
                    if !is_synced {
                        listed.insert(key.clone());
                    }
                    report(self.put(kind, &object), key);
                }
                Ok(Event::Delete(object)) => {
                    let key = key_of(object.meta());
                    listed.remove(&key);
                    report(self.remove(kind, &key), key);
                }
                Err(error) => {
                    tracing::warn!(kind = kind.kind, %error, "watch interrupted; resuming");
                    if monitor.failed(&error) {
                        context.served.forget_pinned(&kind.api_version, &kind.kind);
                        self.lost(context, kind, error.to_string());
                        return;
                    }
                }
            }
        }
    }
}

fn key_of(meta: &ObjectMeta) -> Key {
    Key::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

// === impl KindView ===

impl<R: ExternalRemediation> View for KindView<'_, R> {
    fn names(&self) -> Vec<String> {
        let known = self.all.known.read();
        let remediations = known.get(self.kind).map(|known| known.remediations.keys());
        let keys = remediations.into_iter().flatten();
        keys.map(|key| object_name(&key.namespace, &key.name))
            .collect()
    }

    fn version(&self, name: &str) -> Option<u64> {
        let known = self.all.known.read();
        let (_, version) = known.get(self.kind)?.remediations.get(&Key::parse(name))?;
        *version
    }

    fn is_deleted(&self, uid: &str) -> bool {
        let known = self.all.known.read();
        let of_kind = known.get(self.kind);
        of_kind.is_some_and(|known| known.deleted.holds(Some(uid)))
    }

    fn moved(&self) -> &Notify {
        &self.all.moved
    }
}

#[cfg(test)]
mod tests {
    use kube::{api::PartialObjectMeta, core::DynamicObject};

    use super::*;
    use crate::checks::machines::RemediationOwners;

    fn remediation(name: &str, version: &str) -> PartialObjectMeta<DynamicObject> {
        let meta = serde_json::json!({ "metadata": {
            "namespace": "ns", "name": name, "uid": name, "resourceVersion": version,
        }});
        serde_json::from_value(meta).unwrap()
    }

    #[test]
    fn external_kind_is_synced_after_first_list_and_drops_unlisted_objects() {
        let external = ExternalRemediations::<RemediationOwners>::default();
        let kind = ExternalKind {
            namespace: "ns".into(),
            api_version: "x.y/v1".into(),
            kind: "Other".into(),
        };
        assert!(!external.put(&kind, &remediation("a", "1")), "not watched");
        external.begin(&kind);
        assert!(!external.synced(&kind));
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        assert!(external.put(&kind, &remediation("a", "2")));
        assert!(!external.put(&kind, &remediation("a", "3")), "no change");
        assert!(external.put(&kind, &remediation("b", "4")));
        assert!(!external.synced(&kind));
        let listed = BTreeSet::from([b.clone()]);
        assert_eq!(external.sync(&kind, &listed), std::slice::from_ref(&a));
        assert!(external.synced(&kind));
        assert_eq!(external.get(&kind, &a), None);
        assert!(external.remove(&kind, &b));
        assert!(!external.remove(&kind, &b));
        assert!(
            !external.put(&kind, &remediation("b", "5")),
            "the answer to a write that comes after the end"
        );
        assert!(external.forget(&kind).is_empty());
        assert!(!external.synced(&kind));
    }

    #[test]
    fn older_resource_version_is_ignored() {
        let external = ExternalRemediations::<RemediationOwners>::default();
        let kind = ExternalKind {
            namespace: "ns".into(),
            api_version: "x.y/v1".into(),
            kind: "Other".into(),
        };
        external.begin(&kind);
        external.put(&kind, &remediation("a", "5"));
        external.put(&kind, &remediation("a", "3"));
        let view = KindView {
            all: &external,
            kind: &kind,
        };
        assert_eq!(view.version("ns/a"), Some(5));
    }
}
