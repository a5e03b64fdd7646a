use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{Json, Router, extract::State, routing::get};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::*;

/// An API server that answers a list only when a permit is added.
#[derive(Clone)]
struct Server {
    lists: Arc<AtomicUsize>,
    begun: mpsc::UnboundedSender<usize>,
    let_go: Arc<Semaphore>,
}

async fn list(State(server): State<Server>) -> Json<Value> {
    let number = server.lists.fetch_add(1, Ordering::SeqCst) + 1;
    server.begun.send(number).unwrap();
    server.let_go.acquire().await.unwrap().forget();
    Json(json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachmentList",
        "metadata": { "resourceVersion": "1" },
        "items": [{
            "metadata": { "name": format!("v{number}") },
            "spec": { "attacher": "a", "nodeName": "n", "source": {} },
        }],
    }))
}

async fn serve(server: Server) -> Client {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new()
        .route("/apis/storage.k8s.io/v1/volumeattachments", get(list))
        .fallback(std::future::pending::<()>)
        .with_state(server);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap()
}

#[tokio::test]
async fn f4_volume_list_is_shared_only_by_callers_before_it_began() {
    let (begun, mut lists) = mpsc::unbounded_channel();
    let let_go = Arc::new(Semaphore::new(0));
    let server = Server {
        lists: Arc::default(),
        begun,
        let_go: let_go.clone(),
    };
    let client = Arc::new(WorkloadClient::new(serve(server).await));
    let ask = || {
        let client = client.clone();
        tokio::spawn(async move {
            let listed = client.volumes().await.unwrap();
            listed.iter().map(|v| v.name.clone()).collect::<Vec<_>>()
        })
    };
    let first = ask();
    assert_eq!(lists.recv().await, Some(1));
    // The first list has begun, so it may lack volumes that are attached from now on.
    let later: Vec<_> = (0..20).map(|_| ask()).collect();
    tokio::task::yield_now().await;
    let_go.add_permits(2);
    assert_eq!(first.await.unwrap(), ["v1"]);
    for one in later {
        assert_eq!(one.await.unwrap(), ["v2"]);
    }
    assert_eq!(lists.recv().await, Some(2));
    assert!(lists.try_recv().is_err(), "no third list");
    assert!(client.next.lock().is_none(), "no list is pending");
}

#[tokio::test(start_paused = true)]
async fn queued_calls_to_silent_api_fail_with_the_first_timeout() {
    let (begun, _lists) = mpsc::unbounded_channel();
    let server = Server {
        lists: Arc::default(),
        begun,
        let_go: Arc::new(Semaphore::new(0)),
    };
    let client = Arc::new(WorkloadClient::new(serve(server).await));
    let start = tokio::time::Instant::now();
    let calls: Vec<_> = (0..MAX_CALLS * 40)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.node("n".into(), "n", &Mutex::default()).await })
        })
        .collect();
    for look in calls {
        assert!(look.await.unwrap().is_err());
    }
    assert!(start.elapsed() <= CALL_TIMEOUT * 3, "{:?}", start.elapsed());
    assert!(
        client.acquire().await.is_ok(),
        "the next call queries the API again"
    );
}
