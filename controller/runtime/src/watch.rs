//! One watch per kind of the management cluster, into the index.
//!
//! Owns keeping the index fresh. Must never stop for one bad object, or for a kind that is not
//! installed (yet).

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, pin_mut, stream};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, DefaultBackoff, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
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
const WATCH_LASTS: u32 = 60;

/// Objects in one answer to a list: few enough that a large fleet is never in memory whole.
const PAGE: u32 = 100;

/// Time in which heartbeats gather.
const GATHER: Duration = Duration::from_millis(100);
/// News that come as quickly as they are read follow each other within less.
const AT_ONCE: Duration = Duration::from_millis(1);

/// What is told of a kind; a watch that fails is taken up again.
pub(crate) fn events<K>(objects: Api<K>) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = watcher::Config::default()
        .timeout(WATCH_LASTS)
        .page_size(PAGE);
    watcher::watcher(objects, config).backoff(OnceFailed::default())
}

/// The same of a kind that tells something all the time, as Nodes do with their heartbeats. What comes
/// within [`GATHER`] of the last news is taken together: to be woken for each costs several times as
/// much as to read it. News after a silence are told at once.
pub(crate) fn gathered<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Send,
{
    stream::unfold(
        (Box::pin(events), false),
        |(mut events, mut gathers)| async move {
            let event = loop {
                if !gathers {
                    break events.next().await;
                }
                match timeout(AT_ONCE, events.next()).await {
                    Ok(event) => break event,
                    // Nobody is woken meanwhile.
                    Err(_) => sleep(GATHER).await,
                }
                gathers = false;
            }?;
            let gathers = matches!(event, Ok(Event::Apply(_) | Event::Delete(_)));
            Some((event, (events, gathers)))
        },
    )
}

/// The library's backoff, which computes its first wait anew at each event, if a watch has failed.
#[derive(Default)]
struct OnceFailed {
    backoff: DefaultBackoff,
    failed: bool,
}

impl Iterator for OnceFailed {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failed = true;
        self.backoff.next()
    }
}

impl Backoff for OnceFailed {
    fn reset(&mut self) {
        if std::mem::take(&mut self.failed) {
            self.backoff.reset();
        }
    }
}

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
        let stream = events(objects);
        pin_mut!(stream);
        let mut listed = BTreeSet::new();
        loop {
            let event = tokio::select! {
                () = cancel.cancelled() => return,
                event = stream.next() => event,
            };
            match event {
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitApply(Slim(object)))) => {
                    listed.insert(Key::of(&object));
                    index.apply(kind, object);
                }
                Some(Ok(Event::InitDone)) => {
                    index.retain(kind, &listed);
                    synced.send_replace(true);
                }
                Some(Ok(Event::Apply(Slim(object)))) => index.apply(kind, object),
                Some(Ok(Event::Delete(Slim(object)))) => index.deleted(kind, &object),
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::Node;
    use tokio::{sync::mpsc, time::Instant};
    use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};

    use super::*;

    type Item = watcher::Result<Event<Node>>;

    fn heartbeat() -> Item {
        Ok(Event::Apply(Node::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn news_after_a_silence_are_told_at_once_and_those_that_follow_together() {
        let (told, heard) = mpsc::unbounded_channel::<Item>();
        let stream = gathered(UnboundedReceiverStream::new(heard));
        pin_mut!(stream);
        let start = Instant::now();
        told.send(heartbeat()).unwrap();
        assert!(stream.next().await.is_some());
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(timeout(2 * AT_ONCE, stream.next()).await.is_err());
        for _ in 0..3 {
            told.send(heartbeat()).unwrap();
        }
        for _ in 0..3 {
            assert!(stream.next().await.is_some());
            assert_eq!(
                start.elapsed(),
                AT_ONCE + GATHER,
                "what has come is told together"
            );
        }
        drop(told);
        assert!(stream.next().await.is_none());
    }

    // As those of a connection, which reads the next when the one before was taken.
    #[tokio::test(start_paused = true)]
    async fn news_that_somebody_else_has_to_fetch_do_not_wait_each() {
        let (told, heard) = mpsc::channel::<Item>(1);
        let fetching = tokio::spawn(async move {
            for _ in 0..1000 {
                told.send(heartbeat()).await.unwrap();
            }
        });
        let stream = gathered(ReceiverStream::new(heard));
        let start = Instant::now();
        assert_eq!(stream.count().await, 1000);
        assert_eq!(start.elapsed(), Duration::ZERO);
        fetching.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_not_held_up() {
        let (told, heard) = mpsc::unbounded_channel::<Item>();
        let stream = gathered(UnboundedReceiverStream::new(heard));
        pin_mut!(stream);
        let start = Instant::now();
        for event in [
            Event::Init,
            Event::InitApply(Node::default()),
            Event::InitDone,
        ] {
            told.send(Ok(event)).unwrap();
            assert!(stream.next().await.is_some());
            assert!(stream.next().now_or_never().is_none());
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
