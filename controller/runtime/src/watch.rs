//! One watch per kind of the management cluster, into the index.
//!
//! Owns keeping the index fresh. Must never stop for one bad object, or for a kind that is not
//! installed (yet).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    api::words,
    index::Index,
    object::{Key, Kind, Served, Slim},
};

/// How long to wait before a kind that is not served is looked for again.
const RETRY_MISSING: Duration = Duration::from_secs(10);
/// Seconds after which a watch is asked for anew, from where it was; a connection that is dead and does
/// not say so is noticed a few seconds later.
pub(crate) const WATCH_LASTS: u32 = 60;

/// Objects in one answer to a list: few enough that a large fleet is never in memory whole.
pub(crate) const PAGE: u32 = 100;

/// Keeps one kind fresh until `cancel`. `synced` turns true once it is known, or known to be
/// missing.
pub(crate) async fn watch_kind(
    client: Client,
    served: Arc<Served>,
    index: Arc<Index>,
    kind: Kind,
    namespace: Option<String>,
    synced: watch::Sender<bool>,
    cancel: CancellationToken,
) {
    loop {
        let resource = match served.find(&client, kind.group(), kind.kind()).await {
            Ok(Some(resource)) => resource,
            Ok(None) => {
                tracing::info!(
                    kind = kind.kind(),
                    group = kind.group(),
                    "kind is not installed; looking again later"
                );
                synced.send_replace(true);
                if pause(&cancel, RETRY_MISSING).await {
                    return;
                }
                continue;
            }
            Err(error) => {
                tracing::warn!(
                    kind = kind.kind(),
                    error = words(&error),
                    "cannot ask for the kind"
                );
                if pause(&cancel, Duration::from_secs(1)).await {
                    return;
                }
                continue;
            }
        };
        let namespace = namespace
            .as_deref()
            .filter(|_| kind.namespaced())
            .unwrap_or_default();
        let objects: Api<Slim> = match namespace {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        let config = watcher::Config::default()
            .timeout(WATCH_LASTS)
            .page_size(PAGE);
        let stream = watcher(objects, config).default_backoff();
        pin_mut!(stream);
        let mut listed = BTreeSet::new();
        loop {
            let event = tokio::select! {
                () = cancel.cancelled() => return,
                event = stream.next() => event,
            };
            match event {
                Some(Ok(watcher::Event::Init)) => listed.clear(),
                Some(Ok(watcher::Event::InitApply(Slim(object)))) => {
                    listed.insert(Key::of(&object));
                    index.apply(kind, object);
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    index.retain(kind, &listed);
                    synced.send_replace(true);
                }
                Some(Ok(watcher::Event::Apply(Slim(object)))) => index.apply(kind, object),
                Some(Ok(watcher::Event::Delete(Slim(object)))) => {
                    index.delete(kind, &Key::of(&object));
                }
                Some(Err(error)) => {
                    tracing::warn!(kind = kind.kind(), %error, "watch interrupted; it is taken up again");
                }
                None => break,
            }
        }
    }
}

/// Waits; true: cancelled meanwhile.
pub(crate) async fn pause(cancel: &CancellationToken, time: Duration) -> bool {
    tokio::select! {
        () = cancel.cancelled() => true,
        () = tokio::time::sleep(time) => false,
    }
}
