use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::store::{
    fake_api::{self, FakeRequest, failure},
    index::{Connection, Index},
};

/// The Nodes of the API server, and the number of reads; with `None` it does not answer.
#[derive(Default)]
struct Server {
    nodes: Option<BTreeSet<String>>,
    asked: Vec<String>,
}

struct Fixture {
    server: Arc<Mutex<Server>>,
    index: Arc<Index>,
    cluster: Key,
    cancel: CancellationToken,
}

fn machine(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" },
        "spec": { "clusterName": "c" },
        "status": { "nodeRef": { "name": node } },
    })
}

fn node(name: &str, version: u64) -> Node {
    let metadata = json!({ "name": name, "uid": name, "resourceVersion": version.to_string() });
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

// === impl Fixture ===

impl Fixture {
    fn start(nodes: Option<&[&str]>) -> Self {
        let server = Arc::new(Mutex::new(Server {
            nodes: nodes.map(|nodes| nodes.iter().map(|n| (*n).to_owned()).collect()),
            asked: vec![],
        }));
        let of_client = server.clone();
        let client = fake_api::client(move |asked: FakeRequest| {
            let server = of_client.clone();
            async move {
                let mut server = server.lock();
                let name = asked.path.rsplit('/').next().unwrap_or_default().to_owned();
                server.asked.push(name.clone());
                match &server.nodes {
                    None => failure(StatusCode::INTERNAL_SERVER_ERROR),
                    Some(nodes) if nodes.contains(&name) => (
                        StatusCode::OK,
                        json!({
                            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                            "metadata": { "name": name, "uid": name, "resourceVersion": "9" },
                        }),
                    ),
                    Some(_) => failure(StatusCode::NOT_FOUND),
                }
            }
        });
        let inbox = Arc::new(ChangeQueue::only(concerns));
        let index = Arc::new(Index::new(vec![inbox.clone()]));
        let (workloads, cluster) = (Arc::new(Workloads::default()), Key::new("ns", "c"));
        workloads.connect(&cluster, client);
        let cancel = CancellationToken::new();
        tokio::spawn(run(workloads, index.clone(), inbox, cancel.clone()));
        Self {
            server,
            index,
            cluster,
            cancel,
        }
    }

    fn put_machine(&self, name: &str, node: &str) {
        let machine = serde_json::from_value(machine(name, node)).unwrap();
        self.index.apply(Kind::Machine, machine);
    }

    /// Sleeps for one retry interval, in which nothing else happens.
    async fn wait(&self) {
        tokio::time::sleep(AGAIN + Duration::from_millis(1)).await;
    }

    fn asked(&self) -> usize {
        self.server.lock().asked.len()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn f12_node_missing_from_watch_is_absent_only_after_live_read() {
    let scene = Fixture::start(Some(&[]));
    scene.index.set_connection(&scene.cluster, Connection::Up);
    scene.put_machine("m", "n");
    assert!(!scene.index.is_absent(&scene.cluster, "n"));
    scene.wait().await;
    assert!(scene.index.is_absent(&scene.cluster, "n"));
    assert_eq!(scene.asked(), 1, "one read is enough");
    scene.index.apply_node(&scene.cluster, node("n", 3));
    assert!(
        !scene.index.is_absent(&scene.cluster, "n"),
        "the Node exists again"
    );
}

#[tokio::test(start_paused = true)]
async fn f12_existing_node_missing_from_lagging_watch_is_not_absent() {
    let scene = Fixture::start(Some(&["n"]));
    scene.index.set_connection(&scene.cluster, Connection::Up);
    scene.put_machine("m", "n");
    for _ in 0..3 {
        scene.wait().await;
        assert!(!scene.index.is_absent(&scene.cluster, "n"));
    }
    let asked = scene.asked();
    assert!(asked > 1, "the Node is read again until the watch shows it");
    scene.index.apply_node(&scene.cluster, node("n", 3));
    scene.wait().await;
    scene.wait().await;
    assert_eq!(scene.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn f12_failed_live_read_does_not_prove_absence() {
    let scene = Fixture::start(None);
    scene.index.set_connection(&scene.cluster, Connection::Up);
    scene.put_machine("m", "n");
    scene.wait().await;
    scene.wait().await;
    assert!(!scene.index.is_absent(&scene.cluster, "n"));
    scene.server.lock().nodes = Some(BTreeSet::new());
    scene.wait().await;
    assert!(scene.index.is_absent(&scene.cluster, "n"));
}

#[tokio::test(start_paused = true)]
async fn f12_relist_without_node_does_not_prove_absence() {
    let scene = Fixture::start(Some(&["n"]));
    scene.index.set_connection(&scene.cluster, Connection::Up);
    scene.index.apply_node(&scene.cluster, node("n", 3));
    scene.put_machine("m", "n");
    scene.index.retain_nodes(&scene.cluster, &BTreeSet::new());
    scene.wait().await;
    assert!(!scene.index.is_absent(&scene.cluster, "n"));
    assert!(scene.asked() > 0);
    scene.server.lock().nodes = Some(BTreeSet::new());
    scene.wait().await;
    assert!(scene.index.is_absent(&scene.cluster, "n"));
    let why = "its API does not answer".to_owned();
    scene
        .index
        .set_connection(&scene.cluster, Connection::Down(why));
    assert!(
        !scene.index.is_absent(&scene.cluster, "n"),
        "the Node may have returned unobserved"
    );
}
