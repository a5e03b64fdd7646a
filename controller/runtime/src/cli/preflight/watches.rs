//! The lists and watches of the controller, tried with the rights of the caller.

use futures::{StreamExt, stream};
use kube::{
    Api,
    api::{DynamicObject, WatchParams},
    core::ApiResource,
};
use rackhand_core::preflight::{WatchFacts, WatchTrial};
use serde::de::DeserializeOwned;

use super::{CONCURRENT, Gatherer};
use crate::store::{
    api::{ApiError, call},
    object::{Kind, api, list},
};

/// The API server ends the watch after this time, in seconds, if this program does not.
const WATCH_SECONDS: u32 = 5;

impl Gatherer<'_> {
    /// Lists every kind into the index, and watches it. A kind that is not served, or of which that is not known, is
    /// in the facts about kinds.
    pub(super) async fn watches(&self) -> Vec<WatchFacts> {
        let tried = Kind::ALL.into_iter().map(|kind| async move {
            let found = self.served.find(&self.client, kind.group(), kind.kind());
            let resource = found.await.ok().flatten()?;
            Some(WatchFacts {
                kind: format!("{}.{}", kind.kind(), kind.group()),
                cluster: None,
                trial: self.watched(kind, &resource).await,
            })
        });
        let tried = stream::iter(tried).buffered(CONCURRENT);
        let tried: Vec<Option<WatchFacts>> = tried.collect().await;
        tried.into_iter().flatten().collect()
    }

    async fn watched(&self, kind: Kind, resource: &ApiResource) -> WatchTrial {
        let namespace = self.config.namespace.as_deref().unwrap_or_default();
        let namespace = if kind.namespaced() { namespace } else { "" };
        match list(&self.client, resource, namespace, kind.kind()).await {
            Err(error) => return list_failed(&error),
            Ok(objects) => {
                for object in objects {
                    self.index.apply(kind, object);
                }
            }
        }
        let objects: Api<DynamicObject> = api(&self.client, resource, namespace);
        watch(kind.kind(), &objects).await
    }
}

/// What it means that a list fails.
pub(super) fn list_failed(error: &ApiError) -> WatchTrial {
    match error.is_forbidden() {
        true => WatchTrial::Forbidden("list"),
        false => WatchTrial::NotListed(error.to_string()),
    }
}

/// Begins a watch of objects that can be listed. The API server answers it at once, whatever there is to watch.
pub(super) async fn watch<K>(what: &str, objects: &Api<K>) -> WatchTrial
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    // No object has this name, so that none is sent.
    let params = WatchParams::default()
        .timeout(WATCH_SECONDS)
        .fields("metadata.name=.preflight");
    match call(what, objects.watch(&params, "0")).await {
        Ok(_) => WatchTrial::Watched,
        Err(error) if error.is_forbidden() => WatchTrial::Forbidden("watch"),
        Err(error) => WatchTrial::NotWatched(error.to_string()),
    }
}
