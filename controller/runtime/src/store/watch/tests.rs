use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use serde_json::json;
use tracing::Level;

use super::*;
use crate::store::{
    fake_api::{self, FakeRequest, failure},
    log_capture::LogCapture,
};

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

#[tokio::test(start_paused = true)]
async fn undiscovered_kind_is_logged_once() {
    for (state, level, told) in [
        ("", Level::INFO, "kind is not installed"),
        ("denied", Level::WARN, "cannot discover the kind"),
    ] {
        let log = LogCapture::start();
        let client = upgraded_server(Arc::new(Mutex::new(state)));
        let (index, cancel) = (Arc::new(Index::new(Vec::new())), CancellationToken::new());
        let (synced, _) = watch::channel(false);
        let (served, end) = (Arc::default(), cancel.clone());
        let watch = watch_kind(client, served, index, Kind::Cluster, None, synced, end);
        let task = tokio::spawn(watch);
        tokio::time::sleep(Duration::from_secs(300)).await;
        let lines = log.take(level);
        let count = lines.iter().filter(|line| line.contains(told)).count();
        assert_eq!(count, 1, "{state:?}: {lines:#?}");
        cancel.cancel();
        task.await.unwrap();
    }
}

#[test]
fn discovery_is_logged_again_when_its_result_changes() {
    let log = LogCapture::start();
    let mut discovery = DiscoveryLog::default();
    let not_served = |discovery: &mut DiscoveryLog| {
        discovery.not_served("group", "Kind");
        log.take(Level::INFO).len()
    };
    assert_eq!(not_served(&mut discovery), 1);
    assert_eq!(not_served(&mut discovery), 0);
    for (error, count) in [("a", 1), ("a", 0), ("b", 1), ("b", 0)] {
        discovery.failed("group", "Kind", error);
        assert_eq!(log.take(Level::WARN).len(), count, "{error}");
    }
    assert_eq!(not_served(&mut discovery), 1);
    discovery.found();
    assert_eq!(not_served(&mut discovery), 1);
}
