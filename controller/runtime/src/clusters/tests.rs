use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::store::fake_api::{Objects, client, failure};

/// A cluster without a Cluster object stays connected while a [`RetainedConnection`] exists.
#[tokio::test]
async fn kept_cluster_stays_connected_without_cluster_object() {
    let key = Key::new("ns", "c");
    let asked = Arc::new(Notify::new());
    let seen = asked.clone();
    // A read of the kubeconfig Secret proves that a connection is being made.
    let management = client(move |request| {
        if request.path.ends_with("/secrets/c-kubeconfig") {
            seen.notify_one();
        }
        async { failure(StatusCode::NOT_FOUND) }
    });
    let index = Arc::new(Index::new(Vec::new()));
    let (workloads, stop) = (Arc::new(Workloads::default()), CancellationToken::new());
    let inbox = Arc::<ChangeQueue>::default();
    let running = workloads
        .clone()
        .run(management, index.clone(), inbox, stop.clone());
    let running = tokio::spawn(running);
    let (first, second) = (
        workloads.keep_for(key.clone()),
        workloads.keep_for(key.clone()),
    );
    asked.notified().await;
    drop(first);
    assert_eq!(workloads.kept.users.lock().get(&key), Some(&1));
    drop(second);
    while !index.is_connecting(&key) {
        tokio::task::yield_now().await;
    }
    assert!(workloads.kept.users.lock().is_empty());
    stop.cancel();
    running.await.unwrap();
}

/// A workload API that answers probes while `answers` is set, and has no Nodes and no change.
fn workload(answers: Arc<AtomicBool>) -> Client {
    client(move |request| {
        let answer = if answers.load(Ordering::Relaxed) && request.path == "/version" {
            let info = json!({
                "major": "1", "minor": "36", "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            });
            (StatusCode::OK, info)
        } else if request.path == "/version" {
            failure(StatusCode::UNAUTHORIZED)
        } else {
            let list = json!({
                "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "7" }, "items": [],
            });
            (StatusCode::OK, list)
        };
        async move {
            if request.watches {
                std::future::pending::<()>().await;
            }
            answer
        }
    })
}

/// A read with each probe would be 100 requests a second to the management API at 1,000 clusters.
#[tokio::test(start_paused = true)]
async fn kubeconfig_is_read_again_each_minute_and_when_a_probe_fails() {
    const SECRET: &str = "/api/v1/namespaces/ns/secrets/c-kubeconfig";
    let (key, objects) = (Key::new("ns", "c"), Objects::default());
    let kubeconfig = ByteString(b"a kubeconfig".to_vec());
    objects.put(SECRET, json!({ "data": { "value": kubeconfig } }));
    let answers = Arc::new(AtomicBool::new(true));
    let connections = Arc::new(Mutex::new(0));
    let (answering, made) = (answers.clone(), connections.clone());
    let connector: WorkloadConnector = Arc::new(move |_| {
        *made.lock() += 1;
        let client = workload(answering.clone());
        async move { Ok(client) }.boxed()
    });
    let (workloads, stop) = (
        Arc::new(Workloads::new(connector)),
        CancellationToken::new(),
    );
    let _kept = workloads.keep_for(key.clone());
    let (index, inbox) = (Arc::new(Index::new(Vec::new())), Arc::default());
    let running = tokio::spawn(workloads.run(objects.client(), index, inbox, stop.clone()));
    let reads = || std::mem::take(&mut *objects.reads.lock()).len();

    sleep(Duration::from_secs(55)).await;
    assert_eq!(reads(), 1, "read to connect");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(reads(), 1, "read after a minute");
    assert_eq!(*connections.lock(), 1);

    // Other clients write metadata of Secrets, even each minute.
    objects.change(
        SECRET,
        &json!({ "metadata": { "labels": { "seen": "1" } } }),
    );
    sleep(Duration::from_secs(70)).await;
    assert_eq!(*connections.lock(), 1, "the kubeconfig is the same");

    let changed = ByteString(b"another kubeconfig".to_vec());
    objects.change(SECRET, &json!({ "data": { "value": changed } }));
    sleep(Duration::from_secs(70)).await;
    assert_eq!(
        *connections.lock(),
        2,
        "a changed kubeconfig is used within a minute"
    );

    reads();
    answers.store(false, Ordering::Relaxed);
    sleep(PROBE_INTERVAL).await;
    assert_eq!(reads(), 1, "read as soon as a probe fails");
    stop.cancel();
    running.await.unwrap();
}

/// The rights that an API server grants, and how long each page of a list takes. It answers `/version` always and at once.
#[derive(Default)]
struct Rights {
    list: AtomicBool,
    watch: AtomicBool,
    page_takes: Mutex<Duration>,
}

impl Rights {
    fn set(&self, list: bool, watch: bool) {
        self.list.store(list, Ordering::Relaxed);
        self.watch.store(watch, Ordering::Relaxed);
    }
}

fn guarded(rights: Arc<Rights>, refusal: StatusCode) -> Client {
    let answering = workload(Arc::new(AtomicBool::new(true)));
    client(move |request| {
        let (rights, answering) = (rights.clone(), answering.clone());
        async move {
            if request.path == "/version" {
                let info = answering.apiserver_version().await.unwrap();
                return (StatusCode::OK, serde_json::to_value(info).unwrap());
            }
            let may = match request.watches {
                true => &rights.watch,
                false => &rights.list,
            };
            if !may.load(Ordering::Relaxed) {
                return failure(refusal);
            }
            if request.watches {
                // A watch that continues until its timeout, even if the rights are revoked.
                sleep(Duration::from_secs(30)).await;
                let mark = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "resourceVersion": "8" } });
                return (
                    StatusCode::OK,
                    json!({ "type": "BOOKMARK", "object": mark }),
                );
            }
            let page_takes = *rights.page_takes.lock();
            sleep(page_takes).await;
            if !page_takes.is_zero() && !request.query.contains("continue=") {
                let page = json!({
                    "kind": "NodeList", "apiVersion": "v1", "items": [{ "metadata": { "name": "n1" } }],
                    "metadata": { "resourceVersion": "7", "continue": "n1" },
                });
                return (StatusCode::OK, page);
            }
            let list = json!({
                "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "7" }, "items": [],
            });
            (StatusCode::OK, list)
        }
    })
}

/// `/version` answers after the right to watch Nodes was taken away, so that a probe shows nothing.
#[tokio::test(start_paused = true)]
async fn f12_nodes_are_unknown_within_a_minute_after_their_watch_is_refused() {
    for (list, refusal) in [
        (false, StatusCode::FORBIDDEN),
        (true, StatusCode::FORBIDDEN),
        (false, StatusCode::UNAUTHORIZED),
        // The same for a watch that keeps failing for another cause.
        (false, StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        let rights = Arc::new(Rights::default());
        rights.set(true, true);
        let key = Key::new("ns", "c");
        let objects = Objects::default();
        let kubeconfig = ByteString(b"a kubeconfig".to_vec());
        objects.put(
            "/api/v1/namespaces/ns/secrets/c-kubeconfig",
            json!({ "data": { "value": kubeconfig } }),
        );
        let of_cluster = rights.clone();
        let connector: WorkloadConnector = Arc::new(move |_| {
            let client = guarded(of_cluster.clone(), refusal);
            async move { Ok(client) }.boxed()
        });
        let (workloads, stop) = (
            Arc::new(Workloads::new(connector)),
            CancellationToken::new(),
        );
        let _kept = workloads.keep_for(key.clone());
        let index = Arc::new(Index::new(Vec::new()));
        let running = workloads.run(
            objects.client(),
            index.clone(),
            Arc::default(),
            stop.clone(),
        );
        let running = tokio::spawn(running);
        let why = || match index.connection(&key) {
            Connection::Up => None,
            Connection::Down(why) => Some(why),
        };
        sleep(Duration::from_secs(100)).await;
        assert_eq!(why(), None, "{refusal}");

        rights.set(list, false);
        sleep(Duration::from_secs(60)).await;
        for second in 0..60 {
            let said = why().unwrap_or_else(|| panic!("{refusal}, list {list}: up at {second} s"));
            assert!(said.contains("its Nodes cannot be watched"), "{said}");
            sleep(Duration::from_secs(1)).await;
        }
        rights.set(true, true);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(why(), None, "{refusal}: the right is back");
        stop.cancel();
        running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn missing_right_to_own_nodes_is_said_in_words_with_what_to_apply() {
    let rights = Arc::new(Rights::default());
    rights.set(true, false);
    let management = guarded(rights, StatusCode::FORBIDDEN);
    let index = Arc::new(Index::new(Vec::new()));
    index.watch_own_nodes(Kind::HostMaintenance, true);
    let (workloads, stop) = (Arc::new(Workloads::default()), CancellationToken::new());
    let running = workloads.run(management, index.clone(), Arc::default(), stop.clone());
    let running = tokio::spawn(running);
    sleep(Duration::from_secs(60)).await;
    let Connection::Down(why) = index.connection(&Key::local()) else {
        panic!("it is connected");
    };
    assert!(why.contains("its Nodes cannot be watched"), "{why}");
    assert!(why.contains("apply deploy/kustomize/nodes"), "{why}");
    assert!(!why.contains("Status {"), "{why}");
    stop.cancel();
    running.await.unwrap();
}

/// A list that hangs is no error, and probes are answered on another connection.
#[tokio::test(start_paused = true)]
async fn f12_nodes_whose_first_list_hangs_are_unknown_within_a_minute() {
    let rights = Arc::new(Rights::default());
    rights.set(true, true);
    *rights.page_takes.lock() = Duration::from_secs(3600);
    let management = guarded(rights.clone(), StatusCode::FORBIDDEN);
    let index = Arc::new(Index::new(Vec::new()));
    index.watch_own_nodes(Kind::HostMaintenance, true);
    let (workloads, stop) = (Arc::new(Workloads::default()), CancellationToken::new());
    let running = workloads.run(management, index.clone(), Arc::default(), stop.clone());
    let running = tokio::spawn(running);
    let key = Key::local();
    sleep(Duration::from_secs(29)).await;
    assert!(index.is_connecting(&key), "it may be slow");
    sleep(Duration::from_secs(2)).await;
    for second in 31..120 {
        let Connection::Down(why) = index.connection(&key) else {
            panic!("up at {second} s");
        };
        assert_eq!(why, "its Nodes were not listed: no progress for 30 s");
        sleep(Duration::from_secs(1)).await;
    }
    // Two pages take longer than the limit, and each is progress.
    *rights.page_takes.lock() = Duration::from_secs(20);
    sleep(Duration::from_secs(120)).await;
    assert!(matches!(index.connection(&key), Connection::Up));
    stop.cancel();
    running.await.unwrap();
}
