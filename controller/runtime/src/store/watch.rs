//! Watches of the management cluster, one per kind, which fill the index.
//!
//! A malformed object or a kind that is not installed yet does not stop a watch.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

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
use rackhand_core::watches::watch_health::{WatchFailure, WatchHealth};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::store::{
    api::{is_not_served, words},
    index::Index,
    object::{Key, Kind, Served},
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
}

/// Whether a watch cannot be resumed from its resourceVersion.
fn is_expired_start<K>(event: &watcher::Result<Event<K>>) -> bool {
    match event {
        Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => status.code == 410,
        _ => false,
    }
}

/// Whether the API server no longer serves the version of the watch.
fn is_path_gone(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => is_not_served(error),
        _ => false,
    }
}

/// Classifies the failure of a watch.
fn watch_failure(error: &watcher::Error) -> WatchFailure {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    };
    let is_cut = matches!(
        error,
        watcher::Error::WatchFailed(kube::Error::ReadEvents(_) | kube::Error::HyperError(_))
    );
    if is_cut {
        return WatchFailure::Cut;
    }
    let is_denied = status.is_some_and(|status| matches!(status.code, 401 | 403));
    match is_denied || is_path_gone(error) {
        true => WatchFailure::Refused,
        false => WatchFailure::Interrupted,
    }
}

/// Monitor of one watch: whether it feeds its view, by the clock of this process.
pub(crate) struct WatchMonitor {
    began: Instant,
    health: WatchHealth,
}

impl Default for WatchMonitor {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            health: WatchHealth::default(),
        }
    }
}

impl WatchMonitor {
    pub(crate) fn listed(&mut self) {
        self.health.listed(self.began.elapsed());
    }

    pub(crate) fn progressed(&mut self) {
        self.health.progressed();
    }

    /// Records a failure. Returns whether the watch is lost and must be restarted.
    pub(crate) fn failed(&mut self, error: &watcher::Error) -> bool {
        let failure = watch_failure(error);
        self.health.failed(failure, self.began.elapsed())
    }

    fn interrupted(&mut self) -> bool {
        let failure = WatchFailure::Interrupted;
        self.health.failed(failure, self.began.elapsed())
    }

    pub(crate) fn is_fed(&self) -> bool {
        self.health.is_fed(self.began.elapsed())
    }

    /// Completes once [`Self::is_fed`] may have become true by itself.
    pub(crate) async fn settled(&self) {
        match self.health.wait(self.began.elapsed()) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
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
    let mut is_told = false;
    let mut monitor = WatchMonitor::default();
    loop {
        let resource = match served.find(&client, kind.group(), kind.kind()).await {
            Ok(Some(resource)) => {
                is_told = false;
                resource
            }
            Ok(None) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::info!(
                        kind = kind.kind(),
                        group = kind.group(),
                        "kind is not installed; it is looked for again, and watched once it is"
                    );
                }
                index.set_lost_watch(kind, no_longer_served(&index, kind));
                synced.send_replace(true);
                if pause(&cancel, RETRY_MISSING).await {
                    return;
                }
                continue;
            }
            Err(error) => {
                let why = words(&error);
                tracing::warn!(kind = kind.kind(), error = why, "cannot discover the kind");
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
                    index.set_lost_watch(kind, None);
                    continue;
                }
                event = stream.next() => event,
            };
            match event {
                Some(Ok(event)) => {
                    monitor.progressed();
                    match event {
                        Event::Init => listed.clear(),
                        Event::InitApply(object) => {
                            listed.insert(Key::of(&object));
                            index.apply(kind, object);
                        }
                        Event::InitDone => {
                            index.retain(kind, &listed);
                            monitor.listed();
                            if monitor.is_fed() {
                                index.set_lost_watch(kind, None);
                            }
                            synced.send_replace(true);
                        }
                        Event::Apply(object) => index.apply(kind, object),
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

/// Why the objects of a kind that no version serves are unknown: they existed, and no watch has reported their
/// deletion (F12). `None` if the index has no such objects.
fn no_longer_served(index: &Index, kind: Kind) -> Option<String> {
    let known = index.keys(kind).len();
    (known > 0).then(|| {
        format!(
            "the API server serves no version of {} in group {} any more; {known} objects are known from before: \
             install its CustomResourceDefinition again, or restart the controller if they are gone",
            kind.kind(),
            kind.group()
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
mod tests {
    use http::StatusCode;
    use k8s_openapi::api::core::v1::Node;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::store::fake_api::{self, FakeRequest, failure};

    #[tokio::test(start_paused = true)]
    async fn l1_watch_that_cannot_be_resumed_lists_again() {
        for (refusal, after) in [
            (StatusCode::GONE, ["list", "listed"]),
            // It may be resumed later.
            (StatusCode::INTERNAL_SERVER_ERROR, ["refused", "refused"]),
        ] {
            let client = fake_api::client(move |asked: FakeRequest| async move {
                match asked.watches {
                    true => failure(refusal),
                    false => {
                        let list = json!({
                            "kind": "NodeList", "apiVersion": "v1",
                            "metadata": { "resourceVersion": "7" }, "items": [],
                        });
                        (StatusCode::OK, list)
                    }
                }
            });
            let shown = events(Api::<Node>::all(client)).map(|event| match event {
                Ok(Event::Init) => "list",
                Ok(Event::InitDone) => "listed",
                Ok(other) => panic!("{other:?}"),
                Err(_) => "refused",
            });
            let shown: Vec<&str> = shown.take(5).collect().await;
            let expected = [&["list", "listed", "refused"][..], &after].concat();
            assert_eq!(shown, expected, "{refusal}");
        }
    }

    /// An API server that serves the group of Clusters in one version at a time. It denies all reads while
    /// `version` is `denied`, and serves no version while `version` is empty.
    fn upgraded_server(version: Arc<Mutex<&'static str>>) -> Client {
        fake_api::client(move |asked: FakeRequest| {
            let version = *version.lock();
            async move {
                if version.is_empty() && asked.path == "/apis" {
                    return (
                        StatusCode::OK,
                        json!({ "kind": "APIGroupList", "groups": [] }),
                    );
                }
                if version == "denied" {
                    return failure(StatusCode::FORBIDDEN);
                }
                let served = format!("/apis/cluster.x-k8s.io/{version}");
                let object = |name: &str| {
                    json!({
                        "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster",
                        "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" },
                    })
                };
                let found = match asked.path.as_str() {
                    "/apis" => {
                        let of = json!({ "groupVersion": format!("cluster.x-k8s.io/{version}"), "version": version });
                        let group = json!({ "name": "cluster.x-k8s.io", "versions": [of], "preferredVersion": of });
                        json!({ "kind": "APIGroupList", "groups": [group] })
                    }
                    path if path == served => json!({
                        "kind": "APIResourceList", "groupVersion": format!("cluster.x-k8s.io/{version}"),
                        "resources": [{ "name": "clusters", "singularName": "", "namespaced": true, "kind": "Cluster",
                            "verbs": ["list", "watch"] }],
                    }),
                    path if path == format!("{served}/clusters") && !asked.watches => json!({
                        "kind": "ClusterList", "apiVersion": format!("cluster.x-k8s.io/{version}"),
                        "metadata": { "resourceVersion": "7" }, "items": [object(version)],
                    }),
                    path if path == format!("{served}/clusters") => {
                        return failure(StatusCode::GATEWAY_TIMEOUT);
                    }
                    // The response for a path that is not served: no Status with details.
                    _ => return (StatusCode::NOT_FOUND, json!("404 page not found")),
                };
                (StatusCode::OK, found)
            }
        })
    }

    /// A watch of Clusters, synced by a server with this version.
    async fn synced_watch(
        version: &Arc<Mutex<&'static str>>,
    ) -> (Arc<Index>, CancellationToken, tokio::task::JoinHandle<()>) {
        let index = Arc::new(Index::new(Vec::new()));
        let (synced, mut is_synced) = watch::channel(false);
        let cancel = CancellationToken::new();
        let task = tokio::spawn(watch_kind(
            upgraded_server(version.clone()),
            Arc::default(),
            index.clone(),
            Kind::Cluster,
            None,
            synced,
            cancel.clone(),
        ));
        is_synced.wait_for(|synced| *synced).await.unwrap();
        (index, cancel, task)
    }

    /// Objects that were seen before stay in the index as stale: neither absent nor known.
    #[tokio::test(start_paused = true)]
    async fn f12_kind_that_is_refused_or_gone_is_unknown_within_a_minute() {
        for (state, told) in [("denied", "403"), ("", "serves no version of Cluster")] {
            let version = Arc::new(Mutex::new("v1beta1"));
            let (index, cancel, task) = synced_watch(&version).await;
            let lost = || index.lost_watch(&[Kind::Machine, Kind::Cluster]);
            assert_eq!(lost(), None);
            *version.lock() = state;
            tokio::time::sleep(Duration::from_secs(60)).await;
            let why = lost().unwrap_or_else(|| panic!("{state:?}: it counts as watched"));
            assert!(why.contains(told) || state == "denied", "{why}");
            assert_eq!(index.lost_watches().len(), 1);
            assert!(index.cluster(&Key::new("ns", "v1beta1")).is_some());
            *version.lock() = "v1beta1";
            // The fake server does not keep a watch open, so that it is lost again and again.
            let mut seconds = 0;
            while lost().is_some() {
                seconds += 1;
                assert!(seconds < 60, "{state:?}: it is served again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            cancel.cancel();
            task.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn f12_watch_goes_on_in_another_version_once_its_own_is_not_served() {
        let version = Arc::new(Mutex::new("v1beta1"));
        let (index, cancel, task) = synced_watch(&version).await;
        let holds = |name: &str| index.cluster(&Key::new("ns", name)).is_some();
        assert!(holds("v1beta1"));
        *version.lock() = "v1beta2";
        while !holds("v1beta2") {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(
            !holds("v1beta1"),
            "the list of the new version replaces the old one"
        );
        cancel.cancel();
        task.await.unwrap();
    }
}
