use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::*;
use crate::store::{
    fake_api::{self, FakeRequest, failure},
    index::Index,
    object::{Key, Kind},
};

fn machine(name: &str, uid: &str, version: u64) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": { "name": name, "namespace": "ns", "uid": uid, "resourceVersion": version.to_string() },
        "spec": { "clusterName": "c" },
    })
}

/// The feeds of an index, read live from `client`.
fn feeds(index: &Arc<Index>, client: &Client) -> Feeds {
    let served = Served::default();
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "cluster.x-k8s.io",
        "v1beta2",
        "Machine",
    ));
    served.put(Kind::Machine, resource);
    let workloads = Workloads::default();
    workloads.connect(&Key::new("ns", "c"), client.clone());
    Feeds {
        client: client.clone(),
        served: Arc::new(served),
        workloads: Arc::new(workloads),
        index: index.clone(),
    }
}

/// An API server that answers every list with these items.
fn lists(version: u64, items: Value) -> Client {
    fake_api::client(move |asked: FakeRequest| {
        assert!(!asked.watches);
        let items = items.clone();
        async move {
            let metadata = json!({ "resourceVersion": version.to_string() });
            let kind = "PartialObjectMetadataList";
            (
                StatusCode::OK,
                json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items }),
            )
        }
    })
}

fn apply(index: &Index, value: Value) {
    index.apply(Kind::Machine, serde_json::from_value(value).unwrap());
}

#[tokio::test(start_paused = true)]
async fn f13_sync_round_ends_once_watch_reaches_live_list() {
    let index = Arc::new(Index::new(vec![]));
    apply(&index, machine("old", "uo", 2));
    apply(&index, machine("a", "ua", 3));
    let client = lists(10, json!([machine("a", "ua", 9), machine("b", "ub", 4)]));
    let feeds = feeds(&index, &client);
    let feed = Feed::Objects(Kind::Machine, "ns".into());
    let round = feeds.round(&feed);
    tokio::pin!(round);
    let step = Duration::from_millis(10);
    assert!(timeout(step, &mut round).await.is_err());
    apply(&index, machine("b", "ub", 4));
    assert!(timeout(step, &mut round).await.is_err());
    index.delete(Kind::Machine, &Key::new("ns", "old"));
    assert!(timeout(step, &mut round).await.is_err());
    apply(&index, machine("a", "ua", 9));
    assert!(timeout(step, &mut round).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn f13_live_list_with_null_items_is_empty() {
    let index = Arc::new(Index::new(vec![]));
    let client = lists(10, Value::Null);
    let feed = Feed::Objects(Kind::Machine, "ns".into());
    assert!(feeds(&index, &client).round(&feed).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn f13_heartbeats_advance_observed_version_of_node() {
    let index = Arc::new(Index::new(vec![]));
    let cluster = Key::new("ns", "c");
    let node = |version: &str| -> Node {
        let metadata = json!({ "name": "n", "uid": "u", "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    };
    index.apply_node(&cluster, node("3"));
    let client = lists(10, json!([node("9")]));
    let feeds = feeds(&index, &client);
    let feed = Feed::Nodes(cluster.clone());
    let round = feeds.round(&feed);
    tokio::pin!(round);
    let step = Duration::from_millis(10);
    assert!(timeout(step, &mut round).await.is_err());
    index.apply_node(&cluster, node("9"));
    assert!(timeout(step, &mut round).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn f13_sync_reports_lagging_watch_and_unreachable_api() {
    let index = Arc::new(Index::new(vec![]));
    let feed = Feed::Objects(Kind::Machine, "ns".into());
    let client = lists(10, json!([machine("a", "ua", 9)]));
    let behind = feeds(&index, &client).round(&feed).await.unwrap_err();
    assert_eq!(
        behind.to_string(),
        "the watch of Machines in ns is behind by 1 objects"
    );
    let away = fake_api::client(|_| async { failure(StatusCode::SERVICE_UNAVAILABLE) });
    let error = feeds(&index, &away).round(&feed).await.unwrap_err();
    assert!(matches!(error, SyncError::Read(_)), "{error}");
    let nodes = Feed::Nodes(Key::new("ns", "other"));
    let error = feeds(&index, &client).round(&nodes).await.unwrap_err();
    let why = "the API server was not read: cluster ns/other is not connected";
    assert_eq!(error.to_string(), why);
}

#[tokio::test(start_paused = true)]
async fn f12_live_read_of_a_kind_that_is_not_served_any_more_is_no_empty_list() {
    let index = Arc::new(Index::new(vec![]));
    // It is ready, and serves no group.
    let client = fake_api::client(|asked: FakeRequest| async move {
        match asked.path.as_str() {
            "/readyz" => (StatusCode::OK, json!("ok")),
            "/apis" => (
                StatusCode::OK,
                json!({ "kind": "APIGroupList", "groups": [] }),
            ),
            _ => (StatusCode::NOT_FOUND, json!("404 page not found")),
        }
    });
    let feeds = || Feeds {
        served: Arc::default(),
        ..feeds(&index, &client)
    };
    let feed = Feed::Objects(Kind::Machine, "ns".into());
    feeds().round(&feed).await.unwrap();
    apply(&index, machine("a", "ua", 3));
    let told = async || feeds().round(&feed).await.unwrap_err().to_string();
    let error = told().await;
    assert!(error.contains("serves no version of Machine"), "{error}");
    index.set_lost_watch(Kind::Machine, Some("denied".into()));
    let error = told().await;
    assert!(
        error.contains("Machines cannot be watched: denied"),
        "{error}"
    );
}

#[tokio::test]
async fn f13_uninitialized_cluster_needs_no_node_sync() {
    let index = Arc::new(Index::new(Vec::new()));
    let client = lists(1, json!([]));
    let nodes = Feed::Nodes(Key::new("ns", "new"));
    let cluster = |version: u64, initialized: &str| {
        let value = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {
                "name": "new", "namespace": "ns", "uid": "c",
                "resourceVersion": version.to_string(),
            },
            "status": { "conditions": [{ "type": "ControlPlaneInitialized", "status": initialized }] },
        });
        index.apply(Kind::Cluster, serde_json::from_value(value).unwrap());
    };
    cluster(1, "False");
    feeds(&index, &client).round(&nodes).await.unwrap();
    cluster(2, "True");
    let error = feeds(&index, &client).round(&nodes).await.unwrap_err();
    assert!(error.to_string().contains("not connected"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn f13_requests_during_sync_round_share_the_next_round() {
    let (rounds, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, opened) = (rounds.clone(), gate.clone());
    let round = move |_| -> BoxFuture<'static, _> {
        let (counted, opened) = (counted.clone(), opened.clone());
        Box::pin(async move {
            counted.fetch_add(1, Ordering::SeqCst);
            opened.notified().await;
            Ok(())
        })
    };
    let cancel = CancellationToken::new();
    let (syncs, running) = Syncs::with(Arc::new(round), cancel.clone());
    let running = tokio::spawn(running);
    let feed = || vec![Feed::Nodes(Key::new("ns", "c"))];
    let spawn = || {
        let (syncs, feed) = (syncs.clone(), feed());
        tokio::spawn(async move { syncs.reach(feed).await })
    };
    let first = spawn();
    let pause = || tokio::time::sleep(Duration::from_millis(1));
    pause().await;
    let later = [spawn(), spawn(), spawn()];
    pause().await;
    assert_eq!(rounds.load(Ordering::SeqCst), 1);
    gate.notify_one();
    first.await.unwrap().unwrap();
    pause().await;
    assert_eq!(rounds.load(Ordering::SeqCst), 2);
    assert!(later.iter().all(|waits| !waits.is_finished()));
    gate.notify_one();
    for waits in later {
        waits.await.unwrap().unwrap();
    }
    assert_eq!(rounds.load(Ordering::SeqCst), 2);
    cancel.cancel();
    running.await.unwrap();
    let error = syncs.reach(feed()).await.unwrap_err();
    assert!(error.to_string().contains("stopping"), "{error}");
}
