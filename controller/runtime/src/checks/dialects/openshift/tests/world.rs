//! A fake API server with a running engine.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{Method, StatusCode};
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    checks::{self, CheckMetrics, Context, Ownership},
    clusters::sync::{SyncError, Syncs},
    config::HealthChecks,
    leader::fixture::Leading,
    store::{
        fake_api::{self, FakeRequest, failure},
        index::{ChangeQueue, Connection, Index},
        object::{Key, Kind, Served},
    },
};

pub(super) const GROUP: &str = "machine.openshift.io/v1beta1";
pub(super) const MARK: &str = "host.metal3.io/external-remediation";
pub(super) const STRATEGY: &str = "machine.openshift.io/remediation-strategy";
pub(super) const ENOUGH: Duration = Duration::from_secs(30);

/// Recorded requests, and how the fake API server answers.
#[derive(Default)]
pub(super) struct RecordedEvent {
    pub(super) objects: BTreeMap<String, Value>,
    /// Method and path of every write, except of the Lease and of Events.
    pub(super) writes: Vec<String>,
    /// Path of every read.
    pub(super) read: Vec<String>,
    /// `reason object` of every Event.
    pub(super) events: Vec<String>,
    /// Number of further deletions that fail.
    pub(super) failing: u32,
    /// Status code of reads of OpenShift's own Deployment.
    pub(super) controllers: Option<StatusCode>,
    pub(super) version: u64,
}

#[derive(Clone, Default)]
pub(super) struct Server(pub(super) Arc<Mutex<RecordedEvent>>);

/// Merges a patch like the API server.
pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}

// === impl Server ===

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        fake_api::client(move |asked: FakeRequest| {
            let server = server.clone();
            async move { server.answer(&asked.method, &asked.path, asked.body) }
        })
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let mut told = self.0.lock();
        if path.ends_with("/events") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let about = if body["regarding"].is_null() {
                &body["involvedObject"]
            } else {
                &body["regarding"]
            };
            let event = format!("{} {}", text(&body["reason"]), text(&about["name"]));
            told.events.push(event);
            return (StatusCode::CREATED, body);
        }
        if path.contains("/deployments/") {
            return match told.controllers {
                Some(StatusCode::OK) => (StatusCode::OK, json!({ "metadata": { "name": "d" } })),
                Some(code) => failure(code),
                None => failure(StatusCode::NOT_FOUND),
            };
        }
        let path = path.trim_end_matches("/status");
        told.version += 1;
        let version = told.version.to_string();
        if *method != Method::GET && !path.contains("/leases") {
            let end = path.rsplit('/').take(2).collect::<Vec<_>>();
            let end: Vec<&str> = end.into_iter().rev().collect();
            told.writes.push(format!("{method} {}", end.join("/")));
        }
        if *method == Method::GET {
            told.read.push(path.to_owned());
        }
        match *method {
            Method::GET => match told.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None if path.ends_with("/machinehealthchecks") => {
                    let within = format!("{path}/");
                    let listed = told.objects.iter();
                    let listed = listed.filter(|(at, _)| at.starts_with(&within));
                    let items: Vec<&Value> = listed.map(|(_, object)| object).collect();
                    let metadata = json!({ "resourceVersion": version });
                    (
                        StatusCode::OK,
                        json!({ "metadata": metadata, "items": items }),
                    )
                }
                None => failure(StatusCode::NOT_FOUND),
            },
            Method::DELETE if told.failing > 0 => {
                told.failing -= 1;
                failure(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Method::DELETE => {
                told.objects.remove(path);
                (
                    StatusCode::OK,
                    json!({ "kind": "Status", "status": "Success" }),
                )
            }
            _ => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let at = match *method {
                    Method::POST => format!("{path}/{name}"),
                    _ => path.to_owned(),
                };
                let mut object = told.objects.get(&at).cloned().unwrap_or_default();
                merge(&mut object, &body);
                if object["metadata"]["uid"].is_null() {
                    object["metadata"]["uid"] = at.clone().into();
                }
                object["metadata"]["resourceVersion"] = version.into();
                told.objects.insert(at, object.clone());
                (StatusCode::OK, object)
            }
        }
    }
}

/// A running engine.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) index: Arc<Index>,
    pub(super) registry: Registry,
    /// The result of live reads of the fleet, and their number.
    pub(super) reads: Arc<Mutex<(Result<(), SyncError>, usize)>>,
    pub(super) cancel: CancellationToken,
}

impl World {
    pub(super) async fn start(objects: Vec<(Kind, Value)>) -> Self {
        let world = Self::start_unconnected(objects).await;
        world.connect(Connection::Up);
        world
    }

    /// The first list of Nodes is complete, or fails.
    pub(super) fn connect(&self, connection: Connection) {
        self.index.set_connection(&Key::local(), connection);
    }

    /// Starts before the Nodes were listed.
    pub(super) async fn start_unconnected(objects: Vec<(Kind, Value)>) -> Self {
        let server = Server::default();
        let client = server.client();
        let inbox = Arc::new(ChangeQueue::only(checks::concerns_openshift));
        let index = Arc::new(Index::new(vec![inbox.clone()]));
        let served = Arc::new(Served::default());
        for (kind, version) in [
            (Kind::OpenShiftMachine, "v1beta1"),
            (Kind::OpenShiftCheck, "v1beta1"),
            (Kind::PowerRemediation, "v1alpha1"),
        ] {
            let gvk = GroupVersionKind::gvk(kind.group(), version, kind.kind());
            served.put(kind, ApiResource::from_gvk(&gvk));
        }
        let Leading {
            writer,
            events,
            mut registry,
            cancel,
        } = Leading::start(&client).await;
        let reads = Arc::new(Mutex::new((Ok(()), 0)));
        let context = Arc::new(Context {
            syncs: Syncs::fixed(reads.clone()),
            client,
            served,
            index: index.clone(),
            writer,
            events,
            metrics: Arc::new(CheckMetrics::register(&mut registry)),
            ownership: Arc::new(Ownership::of_openshift(HealthChecks::All)),
        });
        let world = Self {
            server,
            index,
            registry,
            reads,
            cancel,
        };
        for (kind, object) in objects {
            world.tell(kind, object);
        }
        let stop = world.cancel.clone();
        tokio::spawn(async move { checks::run_openshift(context, inbox, stop).await });
        world
    }

    /// Applies a version of an object to the index and the API server.
    pub(super) fn tell(&self, kind: Kind, mut object: Value) {
        let plural = match kind {
            Kind::OpenShiftMachine => "machines",
            Kind::OpenShiftCheck => "machinehealthchecks",
            _ => "powerremediations",
        };
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let at = format!(
            "/apis/{}/namespaces/ns/{plural}/{name}",
            object["apiVersion"].as_str().unwrap()
        );
        let mut told = self.server.0.lock();
        told.version += 1;
        object["metadata"]["resourceVersion"] = told.version.to_string().into();
        told.objects.insert(at, object.clone());
        drop(told);
        self.index
            .apply(kind, serde_json::from_value(object).unwrap());
    }

    pub(super) fn node(&self, name: &str, ready: &str, since: &str) {
        let object = json!({
            "metadata": { "name": name, "uid": name, "resourceVersion": since },
            "status": { "conditions": [
                { "type": "Ready", "status": ready, "lastTransitionTime": since },
            ]},
        });
        let node = serde_json::from_value(object).unwrap();
        self.index.apply_seen_node(&Key::local(), node);
    }

    pub(super) async fn until(&self, what: &str, holds: impl Fn(&RecordedEvent) -> bool) {
        let start = Instant::now();
        while !holds(&self.server.0.lock()) {
            let told = self.server.0.lock();
            assert!(
                start.elapsed() < ENOUGH,
                "{what}: {:?} {:?} {:?}",
                told.writes,
                told.events,
                told.objects
            );
            drop(told);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the status of a check has these counts, which is written after all its actions have ended.
    pub(super) async fn until_shown(&self, check: &str, expected: u32, healthy: u32) {
        self.until("what a check shows", |told| {
            let status = &told.check(check)["status"];
            status["expectedMachines"] == expected && status["currentHealthy"] == healthy
        })
        .await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

// === impl RecordedEvent ===

impl RecordedEvent {
    pub(super) fn check(&self, name: &str) -> Value {
        let at = format!("/apis/{GROUP}/namespaces/ns/machinehealthchecks/{name}");
        self.objects.get(&at).cloned().unwrap_or_default()
    }

    /// Number of writes with this method and path.
    pub(super) fn wrote(&self, what: &str) -> usize {
        self.writes.iter().filter(|write| *write == what).count()
    }

    pub(super) fn condition(&self, check: &str, type_: &str) -> Value {
        let check = self.check(check);
        let list = check["status"]["conditions"].as_array();
        let found = list.into_iter().flatten().find(|c| c["type"] == type_);
        found.cloned().unwrap_or_default()
    }
}

pub(super) fn check(name: &str, annotations: &Value, spec: &Value) -> (Kind, Value) {
    let mut object = json!({
        "apiVersion": GROUP, "kind": "MachineHealthCheck",
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "selector": { "matchLabels": { "pool": "p" } },
            "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "60s" }],
        },
    });
    merge(&mut object["spec"], spec);
    (Kind::OpenShiftCheck, object)
}

pub(super) fn machine(name: &str, change: impl FnOnce(&mut Value)) -> (Kind, Value) {
    let mut object = json!({
        "apiVersion": GROUP, "kind": "Machine",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "labels": { "pool": "p" },
            "annotations": {},
            "ownerReferences": [{
                "apiVersion": GROUP, "kind": "MachineSet", "name": "s", "uid": "s", "controller": true,
            }],
        },
        "status": { "phase": "Running", "nodeRef": { "kind": "Node", "name": name } },
    });
    change(&mut object);
    (Kind::OpenShiftMachine, object)
}

pub(super) fn failed(object: &mut Value) {
    object["status"] = json!({ "phase": "Failed", "errorMessage": "no host" });
}

pub(super) const LONG_AGO: &str = "2026-01-01T00:00:00Z";
