mod evidence;

use axum::{
    Json, Router,
    extract::{Query, State},
    routing::get,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::{calls::MAX_CALLS, *};
use crate::store::api::CALL_TIMEOUT;

/// An API server that answers a list only when a permit is added, and has one object for each list so far.
#[derive(Clone)]
struct Server {
    /// Paths of the lists, as they begin.
    begun: mpsc::UnboundedSender<String>,
    lists: Arc<AtomicUsize>,
    let_go: Arc<Semaphore>,
}

impl Server {
    fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (begun, lists) = mpsc::unbounded_channel();
        let server = Self {
            begun,
            lists: Arc::default(),
            let_go: Arc::new(Semaphore::new(0)),
        };
        (server, lists)
    }

    /// Begins a list, and returns its number when it may be answered.
    async fn begin(&self, what: &str) -> usize {
        let number = self.lists.fetch_add(1, Ordering::SeqCst) + 1;
        self.begun.send(what.to_owned()).unwrap();
        self.let_go.acquire().await.unwrap().forget();
        number
    }

    async fn serve(self) -> WorkloadClient {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new()
            .route("/apis/storage.k8s.io/v1/volumeattachments", get(volumes))
            .route("/api/v1/pods", get(pods))
            .fallback(std::future::pending::<()>)
            .with_state(self);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        WorkloadClient::new(client)
    }
}

async fn volumes(State(server): State<Server>) -> Json<Value> {
    let number = server.begin("volumes").await;
    Json(json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachmentList",
        "metadata": { "resourceVersion": "1" },
        "items": [{
            "metadata": { "name": format!("v{number}") },
            "spec": { "attacher": "a", "nodeName": "n0", "source": {} },
        }],
    }))
}

type Parameters = Query<BTreeMap<String, String>>;

/// Each Node has one pod. A list of all has one page for each.
async fn pods(State(server): State<Server>, Query(parameters): Parameters) -> Json<Value> {
    let page = parameters.get("continue").map_or("0", String::as_str);
    let (node, next) = match parameters.get("fieldSelector") {
        Some(selected) => (selected.replace("spec.nodeName=", ""), ""),
        None if page == "0" => ("n0".into(), "1"),
        None => ("n1".into(), ""),
    };
    let what = match parameters.get("fieldSelector") {
        Some(_) => format!("pods of {node}"),
        None => format!("page {page} of {}", parameters["limit"]),
    };
    let number = server.begin(&what).await;
    Json(json!({
        "metadata": { "resourceVersion": "1", "continue": next },
        "items": [{
            "metadata": { "namespace": "shop", "name": format!("p{number}"), "uid": "u", "resourceVersion": "1" },
            "spec": { "nodeName": node, "containers": [] },
        }],
    }))
}

/// Lists the pods of a Node, and returns their names.
fn pods_of(
    client: &Arc<WorkloadClient>,
    node: &'static str,
) -> impl Future<Output = Vec<String>> + use<> {
    let client = client.clone();
    let listed = tokio::spawn(async move { client.pods(node).await.unwrap() });
    async move {
        let pods = listed.await.unwrap().into_iter();
        pods.map(|pod| pod.id.name).collect()
    }
}

#[tokio::test]
async fn f4_pods_of_hosts_that_drain_at_once_come_from_one_list() {
    let (server, mut lists) = Server::new();
    let let_go = server.let_go.clone();
    let client = Arc::new(server.serve().await);
    client.counted(3);
    // The first host is alone.
    let first = pods_of(&client, "n0");
    assert_eq!(lists.recv().await.unwrap(), "pods of n0");
    let second = pods_of(&client, "n1");
    assert_eq!(lists.recv().await.unwrap(), "page 0 of 500");
    // The list has begun, so it may lack pods that are bound from now on.
    let later: Vec<_> = (0..20)
        .map(|n| pods_of(&client, ["n0", "n2"][n % 2]))
        .collect();
    tokio::task::yield_now().await;
    let_go.add_permits(8);
    assert_eq!(first.await, ["p1"]);
    assert_eq!(second.await, ["p3"], "by the second page");
    for (n, one) in later.into_iter().enumerate() {
        let expected: &[&str] = [&["p4"][..], &[]][n % 2];
        assert_eq!(one.await, expected, "by another list");
    }
    let begun: Vec<_> = std::iter::from_fn(|| lists.try_recv().ok()).collect();
    let expected = ["page 1 of 500", "page 0 of 500", "page 1 of 500"];
    assert_eq!(begun, expected, "20 hosts are answered by one list");
    assert!(!client.pods.is_pending());
}

#[tokio::test]
async fn f4_volume_list_is_shared_only_by_callers_before_it_began() {
    let (server, mut lists) = Server::new();
    let let_go = server.let_go.clone();
    let client = Arc::new(server.serve().await);
    let ask = |node: &'static str| {
        let client = client.clone();
        tokio::spawn(async move {
            let (listed, _) = client.volumes.of(node).await.unwrap();
            listed.iter().map(|v| v.name.clone()).collect::<Vec<_>>()
        })
    };
    let first = ask("n0");
    assert_eq!(lists.recv().await.unwrap(), "volumes");
    // The first list has begun, so it may lack volumes that are attached from now on.
    let later: Vec<_> = (0..20).map(|_| ask("n0")).collect();
    let other = ask("n1");
    tokio::task::yield_now().await;
    let_go.add_permits(2);
    assert_eq!(first.await.unwrap(), ["v1"]);
    for one in later {
        assert_eq!(one.await.unwrap(), ["v2"]);
    }
    assert!(other.await.unwrap().is_empty());
    assert_eq!(lists.recv().await.unwrap(), "volumes");
    assert!(lists.try_recv().is_err(), "no third list");
    assert!(!client.volumes.is_pending());
}

#[tokio::test]
async fn f4_caller_that_gives_up_does_not_keep_others_from_the_list() {
    let (server, mut lists) = Server::new();
    let let_go = server.let_go.clone();
    let client = Arc::new(server.serve().await);
    let ask = || {
        let client = client.clone();
        tokio::spawn(async move { client.volumes.of("n0").await.unwrap().0.len() })
    };
    let given_up = ask();
    assert_eq!(lists.recv().await.unwrap(), "volumes");
    let kept = ask();
    tokio::task::yield_now().await;
    given_up.abort();
    // Nobody waits for the first list any more, and the second one does not wait for it either.
    assert_eq!(lists.recv().await.unwrap(), "volumes");
    let_go.add_permits(2);
    assert_eq!(kept.await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn queued_calls_to_silent_api_fail_with_the_first_timeout() {
    let (server, _lists) = Server::new();
    let client = Arc::new(server.serve().await);
    let start = tokio::time::Instant::now();
    let calls: Vec<_> = (0..MAX_CALLS * 40)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.node("n", &Mutex::default()).await })
        })
        .collect();
    for look in calls {
        assert!(look.await.unwrap().is_err());
    }
    assert!(start.elapsed() <= CALL_TIMEOUT * 3, "{:?}", start.elapsed());
    assert!(
        client.calls.acquire().await.is_ok(),
        "the next call queries the API again"
    );
}

#[tokio::test(start_paused = true)]
async fn f12_node_whose_name_no_node_can_have_is_absent_without_a_call() {
    let (server, _lists) = Server::new();
    let client = server.serve().await;
    for name in [" n", "n?fieldManager=x", "n/status", "../pods", "N"] {
        let read = client.node(name, &Mutex::default()).await.unwrap();
        assert!(read.found.is_none(), "{name}");
    }
}
