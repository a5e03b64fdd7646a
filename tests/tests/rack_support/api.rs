//! A minimal API server in memory, sufficient for one kubelet.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use super::SOON;

/// The server. Clones share it.
#[derive(Clone)]
pub(crate) struct Api {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Every object as it was written, with its key, in order.
    writes: Arc<Mutex<Vec<(String, Value)>>>,
    events: broadcast::Sender<Value>,
    changes: watch::Sender<u64>,
}

impl Api {
    pub(crate) fn new() -> Self {
        Self {
            objects: Arc::default(),
            writes: Arc::default(),
            events: broadcast::Sender::new(100),
            changes: watch::Sender::new(0),
        }
    }

    pub(crate) fn client(&self) -> kube::Client {
        let router = Router::new()
            .route("/api/v1/pods", get(pods_of_node))
            .route("/api/v1/nodes", axum::routing::post(create_node))
            .route("/api/v1/nodes/{name}", get(read).patch(change))
            .route("/api/v1/nodes/{name}/status", patch(change))
            .route(
                "/api/v1/namespaces/{ns}/pods/{name}",
                axum::routing::delete(remove),
            )
            .route("/api/v1/namespaces/{ns}/pods/{name}/status", patch(change))
            .route(
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
                axum::routing::post(create_lease),
            )
            .route(
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/{name}",
                patch(change),
            )
            .with_state(self.clone());
        kube::Client::new(router, "default")
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.objects.lock().get(key).cloned()
    }

    pub(crate) fn put(&self, key: &str, event: &str, object: &Value) {
        self.objects.lock().insert(key.to_owned(), object.clone());
        self.writes.lock().push((key.to_owned(), object.clone()));
        self.tell(event, object);
    }

    pub(crate) fn writes(&self) -> Vec<(String, Value)> {
        self.writes.lock().clone()
    }

    pub(crate) fn forget_writes(&self) {
        self.writes.lock().clear();
    }

    pub(crate) fn take(&self, key: &str) {
        let removed = self.objects.lock().remove(key);
        if let Some(object) = removed {
            self.tell("DELETED", &object);
        }
    }

    fn tell(&self, event: &str, object: &Value) {
        if object["kind"] == "Pod" {
            self.events
                .send(json!({"type": event, "object": object}))
                .ok();
        }
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        let reached = async {
            while !wanted(self) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(SOON, reached)
            .await
            .unwrap_or_else(|_| panic!("{what}: not seen"));
    }
}

fn no_such() -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "message": "not found"});
    (StatusCode::NOT_FOUND, Json(status)).into_response()
}

type Names = Path<BTreeMap<String, String>>;

async fn read(State(api): State<Api>, Path(names): Names) -> Response {
    api.get(&names["name"])
        .map_or_else(no_such, |object| Json(object).into_response())
}

async fn create_node(State(api): State<Api>, body: Bytes) -> Response {
    create(&api, "", &body)
}

async fn create_lease(State(api): State<Api>, body: Bytes) -> Response {
    create(&api, "lease/", &body)
}

fn create(api: &Api, prefix: &str, body: &Bytes) -> Response {
    let mut object: Value = serde_json::from_slice(body).unwrap();
    object["metadata"]["uid"] = json!("made");
    let key = format!("{prefix}{}", object["metadata"]["name"].as_str().unwrap());
    api.put(&key, "ADDED", &object);
    (StatusCode::CREATED, Json(object)).into_response()
}

/// A patch replaces the given fields below `spec` and `status`.
async fn change(
    State(api): State<Api>,
    Path(names): Names,
    uri: axum::http::Uri,
    body: Bytes,
) -> Response {
    let prefix = if uri.path().contains("/leases/") {
        "lease/"
    } else {
        ""
    };
    let key = format!("{prefix}{}", names["name"]);
    let Some(mut object) = api.get(&key) else {
        return no_such();
    };
    let patch: Value = serde_json::from_slice(&body).unwrap();
    for part in ["spec", "status"] {
        for (field, value) in patch[part].as_object().into_iter().flatten() {
            object[part][field] = value.clone();
        }
    }
    api.put(&key, "MODIFIED", &object);
    Json(object).into_response()
}

async fn remove(State(api): State<Api>, Path(names): Names, body: Bytes) -> Response {
    let options: Value = serde_json::from_slice(&body).unwrap();
    let Some(object) = api.get(&names["name"]) else {
        return no_such();
    };
    assert_eq!(options["gracePeriodSeconds"], 0);
    assert_eq!(options["preconditions"]["uid"], object["metadata"]["uid"]);
    api.take(&names["name"]);
    Json(object).into_response()
}

async fn pods_of_node(
    State(api): State<Api>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    assert_eq!(query["fieldSelector"], "spec.nodeName=n1");
    if query.contains_key("watch") {
        let events = tokio_stream(api.events.subscribe());
        return Body::from_stream(events).into_response();
    }
    let all = api.objects.lock();
    let items: Vec<_> = all
        .values()
        .filter(|object| object["kind"] == "Pod")
        .cloned()
        .collect();
    let list = json!({"kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "1"}, "items": items});
    Json(list).into_response()
}

fn tokio_stream(
    events: broadcast::Receiver<Value>,
) -> impl futures::Stream<Item = Result<String, std::convert::Infallible>> {
    futures::stream::unfold(events, async |mut events| {
        let event = events.recv().await.ok()?;
        Some((Ok(format!("{event}\n")), events))
    })
    .boxed()
}
