//! Nodes and Leases that several remediations ask for at the same time.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::*;
use crate::store::fake_api::{FakeRequest, client, failure};

/// How lists fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Not at all.
    None,
    /// They are refused with this status.
    Refused(StatusCode),
    /// The first page is there, and the others have expired.
    Expired,
}

/// An API server with Nodes and their Leases, one in each page of a list.
struct Cluster {
    nodes: Mutex<BTreeSet<String>>,
    /// The labels of the Nodes that have another one than their name.
    labels: Mutex<BTreeMap<String, &'static str>>,
    /// The Nodes as they were when their last list began.
    listed: Mutex<Vec<String>>,
    fault: Mutex<Fault>,
    /// Lets the first pages of lists of Nodes be answered.
    gate: Semaphore,
    /// The calls, as `list nodes`, `page nodes` and `get nodes a`.
    asked: Mutex<Vec<String>>,
}

// === impl Cluster ===

impl Cluster {
    fn of(nodes: &[&str]) -> (Arc<Self>, WorkloadClient) {
        let cluster = Arc::new(Self {
            nodes: Mutex::new(nodes.iter().map(|name| (*name).to_owned()).collect()),
            labels: Mutex::default(),
            listed: Mutex::default(),
            fault: Mutex::new(Fault::None),
            gate: Semaphore::new(1000),
            asked: Mutex::default(),
        });
        let of_client = cluster.clone();
        let api = client(move |asked| {
            let cluster = of_client.clone();
            async move { cluster.answer(&asked).await }
        });
        let client = WorkloadClient::new(api);
        client.counted(nodes.len());
        (cluster, client)
    }

    async fn answer(&self, asked: &FakeRequest) -> (StatusCode, Value) {
        let kind = ["nodes", "leases"][usize::from(asked.path.contains("/leases"))];
        let last = asked.path.rsplit('/').next().unwrap();
        let next = asked
            .query
            .split('&')
            .find_map(|p| p.strip_prefix("continue="));
        if last != kind {
            self.asked.lock().push(format!("get {kind} {last}"));
            return match self.nodes.lock().contains(last) {
                true => (StatusCode::OK, self.object(kind, last)),
                false => absent(last),
            };
        }
        if let Some(selected) = selected(&asked.query) {
            self.asked
                .lock()
                .push(format!("select {}", selected.join(",")));
            let nodes = self.nodes.lock();
            let has_label = |name: &&String| selected.contains(&self.label(name));
            let items = nodes.iter().filter(has_label);
            let items: Vec<Value> = items.map(|name| self.object(kind, name)).collect();
            assert!(!asked.query.contains("limit="), "{}", asked.query);
            let list = json!({ "metadata": { "resourceVersion": "9" }, "items": items });
            return (StatusCode::OK, list);
        }
        let verb = ["list", "page"][usize::from(next.is_some())];
        self.asked.lock().push(format!("{verb} {kind}"));
        let all: Vec<String> = self.nodes.lock().iter().cloned().collect();
        let all = match (kind, next) {
            ("nodes", None) => {
                self.listed.lock().clone_from(&all);
                self.gate.acquire().await.unwrap().forget();
                all
            }
            ("nodes", _) => self.listed.lock().clone(),
            _ => all,
        };
        let fault = *self.fault.lock();
        match (fault, next) {
            (Fault::Refused(status), _) => return failure(status),
            (Fault::Expired, Some(_)) => return failure(StatusCode::GONE),
            _ => {}
        }
        let place: usize = next.map_or(0, |next| next.parse().unwrap());
        let next = match place + 1 < all.len() {
            true => (place + 1).to_string(),
            false => String::new(),
        };
        let items: Vec<Value> = (all.get(place).iter())
            .map(|name| self.object(kind, name))
            .collect();
        let list =
            json!({ "metadata": { "resourceVersion": "9", "continue": next }, "items": items });
        (StatusCode::OK, list)
    }

    fn label(&self, name: &str) -> String {
        let labels = self.labels.lock();
        labels
            .get(name)
            .map_or_else(|| name.to_owned(), ToString::to_string)
    }

    fn object(&self, kind: &str, name: &str) -> Value {
        match kind {
            "nodes" => json!({ "metadata": {
                "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
                "labels": { "kubernetes.io/hostname": self.label(name) },
            }}),
            _ => json!({
                "metadata": { "name": name, "namespace": "kube-node-lease" },
                "spec": { "renewTime": format!("2026-01-01T00:00:0{}.000000Z", name.len()), "leaseDurationSeconds": 40 },
            }),
        }
    }

    /// The calls since the last question, sorted.
    fn calls(&self) -> Vec<String> {
        let mut calls = std::mem::take(&mut *self.asked.lock());
        calls.sort();
        calls
    }
}

/// The values of a selector by hostname.
fn selected(query: &str) -> Option<Vec<String>> {
    let selector = query
        .split('&')
        .find_map(|p| p.strip_prefix("labelSelector="))?;
    let list = selector
        .strip_prefix("kubernetes.io%2Fhostname+in+%28")
        .and_then(|rest| rest.strip_suffix("%29"));
    let list = list.unwrap_or_else(|| panic!("{selector}"));
    Some(list.split("%2C").map(str::to_owned).collect())
}

fn absent(name: &str) -> (StatusCode, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not found", "reason": "NotFound",
        "code": 404, "details": { "name": name, "kind": "nodes" },
    });
    (StatusCode::NOT_FOUND, status)
}

/// The UID of each of these Nodes, and whether it has a Lease, asked for at the same time.
async fn ask(
    client: &WorkloadClient,
    names: &[&str],
) -> Vec<Result<Option<(String, bool)>, String>> {
    let memory = &Mutex::default();
    let all = names.iter().map(|name| async move {
        let read = client.node(name, memory).await;
        let read = read.map_err(|error| error.to_string())?;
        Ok(read
            .found
            .map(|(node, lease)| (node.uid().unwrap(), lease.is_some())))
    });
    join_all(all).await
}

fn found(name: &str) -> Result<Option<(String, bool)>, String> {
    Ok(Some((format!("uid-{name}"), true)))
}

#[tokio::test]
async fn f12_nodes_and_leases_that_many_ask_for_come_from_one_list() {
    let (cluster, client) = Cluster::of(&["a", "b", "c"]);
    // Who asks alone waits for no list.
    assert_eq!(ask(&client, &["a"]).await, [found("a")]);
    assert_eq!(cluster.calls(), ["get leases a", "get nodes a"]);
    // The first one may be read alone; all others share a list or two.
    let gone = ["x0", "x1", "x2", "x3", "x4"];
    let names: Vec<&str> = ["b", "c", "a"].into_iter().chain(gone).collect();
    let read = ask(&client, &names).await;
    assert_eq!(read[..3], ["b", "c", "a"].map(found));
    assert!(read[3..].iter().all(|read| *read == Ok(None)), "{read:?}");
    let calls = cluster.calls();
    let count = |call: &str| calls.iter().filter(|one| *one == call).count();
    for kind in ["nodes", "leases"] {
        let lists = count(&format!("list {kind}"));
        assert!((1..=2).contains(&lists), "{calls:?}");
        assert_eq!(count(&format!("page {kind}")), 2 * lists, "{calls:?}");
    }
    let mut gets = calls.iter().filter(|call| call.starts_with("get "));
    assert!(gets.all(|call| call.ends_with(" b")), "{calls:?}");
}

#[tokio::test]
async fn f12_nodes_that_are_asked_for_at_once_are_selected_by_label() {
    let (cluster, client) = Cluster::of(&["a", "b", "c", "d", "e"]);
    client.served_by("1", "34");
    cluster.labels.lock().extend([
        ("c".to_owned(), "c.hall"),
        // It is not asked for, whatever it says that it is.
        ("e".to_owned(), "b"),
    ]);
    assert_eq!(ask(&client, &["a"]).await, [found("a")]);
    cluster.calls();
    let names = ["b", "c", "d", "x"];
    let expected = [found("b"), found("c"), found("d"), Ok(None)];
    assert_eq!(ask(&client, &names).await, expected);
    // What the selector does not find is read: its label is another one, or it is absent.
    let calls = cluster.calls();
    let has = |calls: &[String], call: &str| calls.iter().any(|one| one == call);
    let selected = |calls: &[String]| -> String {
        let selects = calls.iter().filter_map(|call| call.strip_prefix("select "));
        selects.collect::<Vec<_>>().join(",")
    };
    assert!(selected(&calls).ends_with("c,d,x"), "{calls:?}");
    assert!(
        has(&calls, "get nodes c") && has(&calls, "get nodes x"),
        "{calls:?}"
    );
    assert!(!has(&calls, "get nodes d"), "{calls:?}");
    // The label of c is known now. That of d, which has changed, is seen by the next reading.
    cluster.labels.lock().insert("d".to_owned(), "d.hall");
    assert_eq!(ask(&client, &names[..3]).await, expected[..3]);
    let calls = cluster.calls();
    assert!(selected(&calls).ends_with("c.hall,d"), "{calls:?}");
    assert!(
        has(&calls, "get nodes d") && !has(&calls, "get nodes c"),
        "{calls:?}"
    );
    // One that no selector can name is never selected.
    cluster.labels.lock().insert("d".to_owned(), "d),a in (e");
    ask(&client, &names[..3]).await;
    cluster.calls();
    cluster.nodes.lock().remove("b");
    let read = ask(&client, &names[..3]).await;
    assert_eq!(read, [Ok(None), found("c"), found("d")]);
    let calls = cluster.calls();
    assert!(
        has(&calls, "get nodes d") && has(&calls, "get nodes b"),
        "{calls:?}"
    );
    let selected = selected(&calls);
    assert!(
        !selected.split(',').any(|value| value.starts_with('d')),
        "{calls:?}"
    );
}

#[tokio::test]
async fn f12_node_list_does_not_answer_who_asks_after_it_began() {
    let (cluster, client) = Cluster::of(&["a", "b"]);
    ask(&client, &["a"]).await;
    cluster.gate.forget_permits(1000);
    let early = ask(&client, &["b", "a", "x"]);
    let late = async {
        while !cluster.asked.lock().contains(&"list nodes".to_owned()) {
            tokio::task::yield_now().await;
        }
        // It registers while the list runs, which does not show it.
        cluster.nodes.lock().insert("new".into());
        let asked = ask(&client, &["new"]);
        let let_go = async { cluster.gate.add_permits(1000) };
        tokio::join!(asked, let_go).0
    };
    let (early, late) = tokio::join!(early, late);
    assert_eq!(early, [found("b"), found("a"), Ok(None)]);
    assert_eq!(late, [found("new")]);
}

#[tokio::test]
async fn f12_incomplete_list_of_nodes_proves_no_absence() {
    let (cluster, client) = Cluster::of(&["a", "b", "c"]);
    *cluster.fault.lock() = Fault::Expired;
    ask(&client, &["a"]).await;
    let read = ask(&client, &["b", "c", "x"]).await;
    assert_eq!(read, [found("b"), found("c"), Ok(None)]);
    let calls = cluster.calls();
    let has = |call: &str| calls.contains(&call.to_owned());
    assert!(has("list nodes") && has("page nodes"), "{calls:?}");
    assert!(
        has("get nodes b") && has("get nodes c") && has("get nodes x"),
        "{calls:?}"
    );
}

#[tokio::test]
async fn l1_who_may_not_list_reads_each_node_for_a_minute() {
    let (cluster, client) = Cluster::of(&["a", "b", "c"]);
    *cluster.fault.lock() = Fault::Refused(StatusCode::FORBIDDEN);
    ask(&client, &["a"]).await;
    let read = ask(&client, &["b", "c", "a"]).await;
    assert_eq!(read, [found("b"), found("c"), found("a")]);
    let calls = cluster.calls();
    assert!(calls.contains(&"list nodes".to_owned()), "{calls:?}");
    let read = ask(&client, &["a", "b", "c"]).await;
    assert_eq!(read, ["a", "b", "c"].map(found));
    let calls = cluster.calls();
    assert_eq!(calls.len(), 6, "{calls:?}");
    assert!(
        calls.iter().all(|call| call.starts_with("get ")),
        "{calls:?}"
    );
}

#[tokio::test]
async fn busy_api_server_is_not_asked_again_for_each_caller() {
    let (cluster, client) = Cluster::of(&["a", "b", "c"]);
    *cluster.fault.lock() = Fault::Refused(StatusCode::TOO_MANY_REQUESTS);
    ask(&client, &["a"]).await;
    cluster.calls();
    let read = ask(&client, &["b", "c", "a"]).await;
    // The first one may be read alone.
    assert!(read[1].is_err() && read[2].is_err(), "{read:?}");
    let calls = cluster.calls();
    let lists = calls.iter().filter(|call| *call == "list nodes");
    assert_eq!(lists.count(), 1, "{calls:?}");
    let mut gets = calls.iter().filter(|call| call.starts_with("get "));
    assert!(gets.all(|call| call.ends_with(" b")), "{calls:?}");
}
