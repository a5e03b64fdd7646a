//! A minimal API server for tests.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A request that the fake API server has received.
pub(crate) struct FakeRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) watches: bool,
    pub(crate) body: Value,
}

/// A client of an API server that answers with this function.
pub(crate) fn client<A, F>(answer: A) -> Client
where
    A: Fn(FakeRequest) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = (StatusCode, Value)> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let asked = FakeRequest {
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                watches: parts.uri.query().is_some_and(|q| q.contains("watch=")),
                method: parts.method,
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            let (status, answer) = answer(asked).await;
            let body = Body::from(answer.to_string().into_bytes());
            let response = Response::builder().status(status).body(body)?;
            Ok::<_, tower::BoxError>(response)
        }
    });
    Client::new(service, "ns")
}

/// Objects by path, with the conflict detection of an API server: a write with an old version is rejected.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    inner: Arc<Mutex<BTreeMap<String, Value>>>,
    version: Arc<AtomicU64>,
    /// Paths of all reads, in order.
    pub(crate) reads: Arc<Mutex<Vec<String>>>,
}

impl Objects {
    /// Stores an object in a new version, and returns it as stored.
    pub(crate) fn put(&self, path: &str, mut object: Value) -> Value {
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        self.inner.lock().insert(path.to_owned(), object.clone());
        object
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.inner.lock().get(path).cloned()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.inner.lock().remove(path);
    }

    /// Merges a patch into an object, which gets a new version.
    pub(crate) fn change(&self, path: &str, patch: &Value) -> Value {
        let mut object = self.get(path).unwrap();
        merge(&mut object, patch);
        self.put(path, object)
    }

    pub(crate) fn client(&self) -> Client {
        let objects = self.clone();
        client(move |asked| {
            let answer = objects.answer(&asked);
            async move { answer }
        })
    }

    fn answer(&self, asked: &FakeRequest) -> (StatusCode, Value) {
        let path = asked.path.trim_end_matches("/status");
        let there = self.get(path);
        let wanted = asked.body.pointer(match asked.method {
            Method::DELETE => "/preconditions/resourceVersion",
            _ => "/metadata/resourceVersion",
        });
        let stale = wanted.is_some_and(|v| {
            there
                .as_ref()
                .is_some_and(|o| o.pointer("/metadata/resourceVersion") != Some(v))
        });
        match (&asked.method, there) {
            (&Method::GET, there) => {
                self.reads.lock().push(path.to_owned());
                match there {
                    Some(object) => (StatusCode::OK, object),
                    None => self.list(path),
                }
            }
            (&Method::POST, _) => {
                let name = asked.body.pointer("/metadata/name").and_then(Value::as_str);
                let path = format!("{path}/{}", name.unwrap_or("generated"));
                if name.is_some() && self.get(&path).is_some() {
                    return failure(StatusCode::CONFLICT);
                }
                (StatusCode::CREATED, self.put(&path, asked.body.clone()))
            }
            (_, None) => failure(StatusCode::NOT_FOUND),
            (_, Some(_)) if stale => failure(StatusCode::CONFLICT),
            (&Method::PUT, Some(_)) => (StatusCode::OK, self.put(path, asked.body.clone())),
            (&Method::PATCH, Some(_)) => (StatusCode::OK, self.change(path, &asked.body)),
            (_, Some(object)) => {
                self.remove(path);
                (StatusCode::OK, object)
            }
        }
    }

    /// Lists the objects below a collection path; any other path without objects is answered with 404.
    fn list(&self, path: &str) -> (StatusCode, Value) {
        let inner = self.inner.lock();
        let below = inner.iter().filter(|(at, _)| {
            at.strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'))
        });
        let items: Vec<Value> = below.map(|(_, object)| object.clone()).collect();
        // `/apis/group/version/kinds` and `/apis/group/version/namespaces/name/kinds`
        let is_collection = path.starts_with("/apis/") && [5, 7].contains(&path.split('/').count());
        if items.is_empty() && !is_collection {
            return failure(StatusCode::NOT_FOUND);
        }
        let version = self.version.load(Ordering::Relaxed).to_string();
        let list = json!({
            "apiVersion": "v1", "kind": "List",
            "metadata": { "resourceVersion": version }, "items": items,
        });
        (StatusCode::OK, list)
    }
}

fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut object[name.as_str()], value);
        }
    }
}

/// An error response with this status code.
pub(crate) fn failure(code: StatusCode) -> (StatusCode, Value) {
    let reason = match code {
        StatusCode::CONFLICT => "AlreadyExists",
        StatusCode::NOT_FOUND => "NotFound",
        _ => "",
    };
    let mut status = json!({
        "kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason, "message": "no",
    });
    if code == StatusCode::NOT_FOUND {
        status["details"] = json!({ "name": "it", "kind": "objects" });
    }
    (code, status)
}
