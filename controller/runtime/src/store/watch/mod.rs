//! Watches of the management cluster, one per kind, which fill the index.
//!
//! A malformed object or a kind that is not installed yet does not stop a watch.

mod discovery;
mod monitor;

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, task::Poll, time::Duration};

use futures::{Stream, StreamExt, pin_mut, stream};
use kube::{
    Api, Client, Resource,
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, DefaultBackoff, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use discovery::DiscoveryLog;
use monitor::is_path_gone;
pub(crate) use monitor::{WatchMonitor, is_forbidden, watch_words};

use crate::store::{
    api::words,
    index::Index,
    object::{Key, Kind, Served},
    time_slice::{beside, beside_all, beside_polls},
};

/// Interval of discovery for a kind that is not served.
const RETRY_MISSING: Duration = Duration::from_secs(10);
/// Pause before a lost watch is restarted.
const RETRY_LOST: Duration = Duration::from_secs(5);
/// Maximum pause between two starts of a failing watch. Only another failure shows that the watch still fails,
/// and that must be known within a minute (F12).
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Duration of a watch request in seconds, after which it is renewed from the same resourceVersion. A dead
/// connection without an error is detected a few seconds later.
const WATCH_LASTS: u32 = 60;

/// Objects in one page of a list: few enough that a large fleet is never completely in memory.
const PAGE: u32 = 100;

/// The events of a kind. A failed watch is resumed with backoff. If the API server refuses to resume it because
/// the history is gone, everything is listed again: the library would try to resume the watch forever.
pub(crate) fn events<K>(objects: Api<K>) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = watcher::Config::default()
        .timeout(WATCH_LASTS)
        .page_size(PAGE);
    let watches = stream::repeat_with(move || watcher::watcher(objects.clone(), config.clone()));
    watches
        .flat_map(|watch| {
            watch.scan(false, |is_expired, event| {
                let last = std::mem::replace(is_expired, is_expired_start(&event));
                std::future::ready((!last).then_some(event))
            })
        })
        .backoff(OnceFailed::default())
        .parse_beside()
}

/// A stream of events whose pages are parsed beside the other tasks.
trait ParseBeside<K>: Stream<Item = watcher::Result<Event<K>>> + Send + Sized {
    /// Polls beside the other tasks what may read a page of a list: one of large objects takes several slices.
    fn parse_beside(self) -> impl Stream<Item = watcher::Result<Event<K>>> + Send {
        let mut events = Box::pin(self);
        // Objects that are left of a page at most; `None` while nothing is listed.
        let mut left = Some(0);
        stream::poll_fn(move |context| {
            let polled = match left {
                Some(0) => beside_all(|| events.poll_next_unpin(context)),
                Some(_) | None => events.poll_next_unpin(context),
            };
            if let Poll::Ready(event) = &polled {
                left = match event {
                    Some(Ok(Event::InitApply(_))) => {
                        let others = left.filter(|left| *left > 0).unwrap_or(PAGE);
                        Some(others.saturating_sub(1))
                    }
                    Some(Ok(Event::Init) | Err(_)) => Some(0),
                    _ => None,
                };
            }
            polled
        })
    }
}

impl<K, S: Stream<Item = watcher::Result<Event<K>>> + Send> ParseBeside<K> for S {}

/// Whether a watch cannot be resumed from its resourceVersion.
fn is_expired_start<K>(event: &watcher::Result<Event<K>>) -> bool {
    match event {
        Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => status.code == 410,
        _ => false,
    }
}

/// The backoff of the library, reset only after a failure, because each reset computes the first delay again.
#[derive(Default)]
struct OnceFailed {
    backoff: DefaultBackoff,
    failed: bool,
}

impl Iterator for OnceFailed {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failed = true;
        self.backoff.next().map(|pause| pause.min(LONGEST_PAUSE))
    }
}

impl Backoff for OnceFailed {
    fn reset(&mut self) {
        if std::mem::take(&mut self.failed) {
            self.backoff.reset();
        }
    }
}

/// Watches one kind until `cancel`. `synced` becomes true once the first list is complete, or the kind is
/// known not to be served. The index shows whether the watch is lost.
pub(crate) async fn watch_kind(
    client: Client,
    served: Arc<Served>,
    index: Arc<Index>,
    kind: Kind,
    namespace: Option<String>,
    synced: watch::Sender<bool>,
    cancel: CancellationToken,
) {
    let mut log = DiscoveryLog::default();
    let mut monitor = WatchMonitor::default();
    loop {
        let resource = match served.find(&client, kind.group(), kind.kind()).await {
            Ok(Some(resource)) => {
                log.found();
                resource
            }
            Ok(None) => {
                log.not_served(kind.group(), kind.kind());
                let known = index.keys(kind).len();
                let why = no_longer_served(kind.group(), kind.kind(), known);
                index.set_lost_watch(kind, why);
                synced.send_replace(true);
                if pause(&cancel, RETRY_MISSING).await {
                    return;
                }
                continue;
            }
            Err(error) => {
                let why = words(&error);
                log.failed(kind.group(), kind.kind(), &why);
                if monitor.interrupted() {
                    index.set_lost_watch(kind, Some(why));
                }
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
        let objects: Api<DynamicObject> = match namespace {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        let stream = events(objects);
        pin_mut!(stream);
        let mut listed = BTreeSet::new();
        let lost = loop {
            let event = tokio::select! {
                () = cancel.cancelled() => return,
                () = monitor.settled() => {
                    if monitor.settle() {
                        index.set_lost_watch(kind, None);
                    }
                    continue;
                }
                event = next(kind, &mut stream) => event,
            };
            match event {
                Some(Ok(event)) => {
                    monitor.progressed();
                    match event {
                        Event::Init => {
                            let before = std::mem::take(&mut listed);
                            beside(before.len(), || drop(before));
                        }
                        Event::InitApply(object) => {
                            listed.insert(Key::of(&object));
                            apply(&index, kind, object);
                        }
                        Event::InitDone => {
                            let all = std::mem::take(&mut listed);
                            beside(all.len(), || index.retain(kind, &all));
                            beside(all.len(), || drop(all));
                            monitor.listed();
                            if monitor.settle() {
                                index.set_lost_watch(kind, None);
                            }
                            synced.send_replace(true);
                        }
                        Event::Apply(object) => apply(&index, kind, object),
                        Event::Delete(object) => index.deleted(kind, &object),
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!(kind = kind.kind(), %error, "watch interrupted; resuming");
                    if is_path_gone(&error) {
                        served.forget(kind.group(), kind.kind());
                    }
                    if monitor.failed(&error) {
                        break Some(error.to_string());
                    }
                }
                None => break None,
            }
        };
        if lost.is_some() {
            index.set_lost_watch(kind, lost);
            if pause(&cancel, RETRY_LOST).await {
                return;
            }
        }
    }
}

/// The next event of a kind. One object whose status names a whole fleet is parsed beside the other tasks.
async fn next<S: Stream + Unpin>(kind: Kind, events: &mut S) -> Option<S::Item> {
    match kind.names_fleet() {
        true => beside_polls(events.next()).await,
        false => events.next().await,
    }
}

fn apply(index: &Index, kind: Kind, object: DynamicObject) {
    match kind.names_fleet() {
        true => beside_all(|| index.apply(kind, object)),
        false => index.apply(kind, object),
    }
}

/// Why the objects of a kind that no version serves are unknown: they existed, and no watch has reported their
/// deletion (F12). `None` if no objects are known.
pub(crate) fn no_longer_served(group: &str, kind: &str, known: usize) -> Option<String> {
    (known > 0).then(|| {
        format!(
            "the API server serves no version of {kind} in group {group} any more; {known} objects are known from \
             before: install its CustomResourceDefinition again, or restart the controller if they are gone"
        )
    })
}

/// Sleeps. Returns whether `cancel` was triggered meanwhile.
pub(crate) async fn pause(cancel: &CancellationToken, time: Duration) -> bool {
    tokio::select! {
        () = cancel.cancelled() => true,
        () = tokio::time::sleep(time) => false,
    }
}

#[cfg(test)]
mod stalls;
#[cfg(test)]
mod tests;
