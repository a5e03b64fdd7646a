//! Requests of kinds that other controllers carry out.
//!
//! Owns a watch per such kind, as long as a check names it. Must never say that there is no request
//! before the first list has told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, pin_mut};
use kube::{
    Api,
    api::PartialObjectMeta,
    core::{ApiResource, DynamicObject},
    runtime::watcher::Event,
};
use parking_lot::RwLock;
use rackhand_api::{names::MADE_BY_ANNOTATION, views::TemplateRef};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    Context,
    withdrawal::{Made, Owner},
};
use crate::{
    api::ApiError,
    index::Gone,
    object::Key,
    sync::{SyncError, View, live_listing, object_name, reach},
    watch::{events, pause},
};

/// How long to wait before a kind that is not served is looked for again.
const RETRY: Duration = Duration::from_secs(10);

type Meta = PartialObjectMeta<DynamicObject>;

/// A kind of requests in the version that a template names, in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExternalKind {
    pub(super) namespace: String,
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// A request, as far as it matters whose it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) uid: String,
    /// Kind, name and UID of its owners.
    pub(super) owners: Vec<(String, String, String)>,
    pub(super) deleting: bool,
    /// Which check made it, as its annotation says.
    pub(super) made_by: Option<String>,
    /// The number of its resourceVersion.
    pub(super) version: Option<u64>,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// All requests of the kind are known now.
    Synced(ExternalKind),
    /// One has come, changed or gone.
    Changed(ExternalKind, Key),
}

#[derive(Default)]
struct Known {
    synced: bool,
    requests: BTreeMap<Key, Seen>,
    deleted: Gone,
}

/// What is known of such requests.
#[derive(Default)]
pub(super) struct ExternalRequests {
    known: RwLock<BTreeMap<ExternalKind, Known>>,
    moved: Notify,
}

/// What is known of one kind, to be compared with a live read.
struct KindView<'a> {
    all: &'a ExternalRequests,
    kind: &'a ExternalKind,
}

// === impl ExternalKind ===

impl ExternalKind {
    pub(super) fn of(namespace: &str, template: &TemplateRef) -> Self {
        Self {
            namespace: namespace.to_owned(),
            api_version: template.api_version.clone(),
            kind: template.request_kind().to_owned(),
        }
    }
}

// === impl Seen ===

impl Seen {
    /// `None`: no check made it, or it is being deleted already. Which Machine it is for is told by its
    /// owners, so that it may be asked about in either dialect.
    pub(super) fn made(&self, owner: Owner, kind: &ExternalKind, key: &Key) -> Option<Made> {
        let made_by = self.made_by.as_ref().filter(|_| !self.deleting)?;
        let kind = (kind.api_version.as_str(), kind.kind.as_str());
        let owners = self.owners.iter().map(|(_, _, uid)| uid.clone()).collect();
        Made::of(owner, kind, key.clone(), &self.uid, owners, made_by)
    }
}

// === impl ExternalRequests ===

impl ExternalRequests {
    /// Whether all of them are known.
    pub(super) fn synced(&self, kind: &ExternalKind) -> bool {
        self.known.read().get(kind).is_some_and(|k| k.synced)
    }

    pub(super) fn get(&self, kind: &ExternalKind, key: &Key) -> Option<Seen> {
        self.known.read().get(kind)?.requests.get(key).cloned()
    }

    /// Those that a check made and nobody deletes yet.
    pub(super) fn made(&self, owner: Owner) -> Vec<Made> {
        let known = self.known.read();
        let all = known
            .iter()
            .flat_map(|(kind, known)| known.requests.iter().map(move |seen| (kind, seen)));
        all.filter_map(|(kind, (key, seen))| seen.made(owner, kind, key))
            .collect()
    }

    /// Takes in a version of a request; `None`: it is gone. Returns whether that is news.
    pub(super) fn put(&self, kind: &ExternalKind, key: Key, seen: Option<Seen>) -> bool {
        let mut known = self.known.write();
        let requests = &mut known.entry(kind.clone()).or_default().requests;
        match seen {
            Some(seen) => {
                let version = seen.version;
                let new = seen.clone();
                let old = requests.insert(key, seen);
                old.map(|old| Seen { version, ..old }) != Some(new)
            }
            None => requests.remove(&key).is_some(),
        }
    }

    /// Waits until what is known of a kind has reached the state of the API server (F13).
    pub(super) async fn reach(
        &self,
        context: &Context,
        kind: &ExternalKind,
    ) -> Result<(), SyncError> {
        let not_read = |error: ApiError| SyncError::Read(error.to_string());
        let served = &context.served;
        let found = served.resource_of(&context.client, &kind.api_version, &kind.kind);
        // What is not served has no objects.
        let Some(resource) = found.await.map_err(not_read)? else {
            return Ok(());
        };
        let listing = live_listing(&context.client, &resource, &kind.namespace).await;
        let what = format!("{}s in {}", kind.kind, kind.namespace);
        reach(
            &what,
            listing.map_err(not_read)?,
            &KindView { all: self, kind },
        )
        .await
    }

    fn sync(&self, kind: &ExternalKind, listed: &BTreeSet<Key>) {
        let mut known = self.known.write();
        let known = known.entry(kind.clone()).or_default();
        known.requests.retain(|key, _| listed.contains(key));
        known.synced = true;
    }

    pub(super) fn forget(&self, kind: &ExternalKind) {
        self.known.write().remove(kind);
    }

    /// Keeps a kind fresh until `cancel`.
    pub(super) async fn watch(
        self: Arc<Self>,
        context: Arc<Context>,
        kind: ExternalKind,
        news: mpsc::UnboundedSender<News>,
        cancel: CancellationToken,
    ) {
        loop {
            let found = context
                .served
                .resource_of(&context.client, &kind.api_version, &kind.kind)
                .await;
            match found {
                Ok(Some(resource)) => {
                    tokio::select! {
                        () = cancel.cancelled() => return,
                        () = self.follow(&context, &kind, &resource, &news) => {}
                    }
                }
                // What is not served has no objects.
                Ok(None) => {
                    self.sync(&kind, &BTreeSet::new());
                    news.send(News::Synced(kind.clone())).ok();
                }
                Err(error) => tracing::warn!(%error, "cannot ask for the kind"),
            }
            if pause(&cancel, RETRY).await {
                return;
            }
        }
    }

    async fn follow(
        &self,
        context: &Context,
        kind: &ExternalKind,
        resource: &ApiResource,
        news: &mpsc::UnboundedSender<News>,
    ) {
        // Names and owners only, not whole objects.
        let objects: Api<Meta> =
            Api::namespaced_with(context.client.clone(), &kind.namespace, resource);
        let stream = events(objects);
        pin_mut!(stream);
        let mut listed = BTreeSet::new();
        let tell = |object: &Meta, gone: bool| {
            let (key, seen) = seen(object);
            if gone && let Some(known) = self.known.write().get_mut(kind) {
                known.deleted.put(&seen.uid);
            }
            if self.put(kind, key.clone(), (!gone).then_some(seen)) {
                news.send(News::Changed(kind.clone(), key)).ok();
            }
            self.moved.notify_waiters();
        };
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(seen(&object).0);
                    tell(&object, false);
                }
                Ok(Event::InitDone) => {
                    self.sync(kind, &listed);
                    news.send(News::Synced(kind.clone())).ok();
                    self.moved.notify_waiters();
                }
                Ok(Event::Apply(object)) => tell(&object, false),
                Ok(Event::Delete(object)) => tell(&object, true),
                Err(error) => {
                    tracing::warn!(kind = kind.kind, %error, "watch interrupted; it is taken up again");
                }
            }
        }
    }
}

fn seen(object: &Meta) -> (Key, Seen) {
    let meta = &object.metadata;
    let owners = meta.owner_references.iter().flatten();
    let key = Key::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    );
    let seen = Seen {
        uid: meta.uid.clone().unwrap_or_default(),
        owners: owners
            .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
            .collect(),
        deleting: meta.deletion_timestamp.is_some(),
        made_by: meta
            .annotations
            .as_ref()
            .and_then(|a| a.get(MADE_BY_ANNOTATION).cloned()),
        version: meta.resource_version.as_ref().and_then(|v| v.parse().ok()),
    };
    (key, seen)
}

// === impl KindView ===

impl View for KindView<'_> {
    fn names(&self) -> Vec<String> {
        let known = self.all.known.read();
        let requests = known.get(self.kind).map(|known| known.requests.keys());
        let keys = requests.into_iter().flatten();
        keys.map(|key| object_name(&key.namespace, &key.name))
            .collect()
    }

    fn version(&self, name: &str) -> Option<u64> {
        self.all.get(self.kind, &Key::parse(name))?.version
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
    use super::*;

    #[test]
    fn nothing_is_known_before_the_first_list_and_gone_is_what_a_later_one_does_not_name() {
        let external = ExternalRequests::default();
        let kind = ExternalKind {
            namespace: "ns".into(),
            api_version: "x.y/v1".into(),
            kind: "Other".into(),
        };
        assert!(!external.synced(&kind));
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        assert!(external.put(&kind, a.clone(), Some(Seen::default())));
        assert!(
            !external.put(&kind, a.clone(), Some(Seen::default())),
            "no news"
        );
        assert!(external.put(&kind, b.clone(), Some(Seen::default())));
        assert!(!external.synced(&kind));
        external.sync(&kind, &BTreeSet::from([b.clone()]));
        assert!(external.synced(&kind));
        assert_eq!(external.get(&kind, &a), None);
        assert!(external.put(&kind, b, None));
        external.forget(&kind);
        assert!(!external.synced(&kind));
    }
}
