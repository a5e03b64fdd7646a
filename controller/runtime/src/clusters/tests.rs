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

/// A workload API that answers probes while `answers` is set, and has no Nodes.
fn workload(answers: Arc<AtomicBool>) -> Client {
    client(move |request| {
        let answer = if answers.load(Ordering::Relaxed) && request.path == "/version" {
            let info = json!({
                "major": "1", "minor": "36", "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            });
            (StatusCode::OK, info)
        } else {
            failure(StatusCode::UNAUTHORIZED)
        };
        async move { answer }
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

    objects.change(SECRET, &json!({}));
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
