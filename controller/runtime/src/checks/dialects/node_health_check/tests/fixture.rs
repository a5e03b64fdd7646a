//! A fake API server, and an engine that a test runs round by round.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{Method, StatusCode};
use kube::{
    Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    checks::{
        CheckMetrics, Context, Ownership,
        dialect::Dialect,
        dialects::node_health_check::{NodeHealthChecks, concerns, watches::WatchEvent},
        engine::CheckEngine,
    },
    clusters::{Workloads, sync::Syncs},
    config::HealthChecks,
    leader::fixture::Leading,
    store::{
        fake_api::{self, FakeRequest, failure},
        index::{ChangeQueue, Connection, Index},
        object::{Key, Kind, Served},
        time_slice::beside_all,
    },
};

pub(super) const ENOUGH: Duration = Duration::from_secs(30);
/// Longer than the minimum interval of status writes.
pub(super) const QUIET: Duration = Duration::from_millis(450);
pub(super) const TEMPLATES: &str = "/apis/x.y/v1/namespaces/ns/xremediationtemplates/";
pub(super) const REMEDIATIONS: &str = "/apis/x.y/v1/namespaces/ns/xremediations";
pub(super) const OPENSHIFT_CHECKS: &str = "/apis/machine.openshift.io/v1beta1/machinehealthchecks";
pub(super) const OPENSHIFT_CHECKS_OF_NS: &str =
    "/apis/machine.openshift.io/v1beta1/namespaces/ns/machinehealthchecks";
/// The ends of paths that name a collection.
const LISTED: [&str; 4] = [
    "/xremediations",
    "/xremediationtemplates",
    "/leases",
    "/machinehealthchecks",
];
pub(super) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases";

/// Recorded requests, and how the fake API server answers.
#[derive(Default)]
pub(super) struct RecordedEvent {
    /// Method and path of every write in order, without Events and status.
    pub(super) writes: Vec<String>,
    pub(super) statuses: Vec<Value>,
    pub(super) nodes: BTreeMap<String, Value>,
    /// All other objects by path.
    pub(super) objects: BTreeMap<String, Value>,
    pub(super) version: u64,
    /// Number of further creations that are rejected, and their status code.
    pub(super) refusing: (u32, u16),
    /// Creations of remediations are not answered while this is set.
    pub(super) closed: bool,
    /// Number of lists of Nodes.
    pub(super) node_lists: u32,
    pub(super) checks: BTreeMap<String, Value>,
    /// Whether the group of OpenShift's MachineHealthChecks is served.
    pub(super) openshift: bool,
    /// The answer to requests below a path, and to watches that are open there.
    pub(super) outages: BTreeMap<String, Outage>,
}

/// Why a path has no usable answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    Denied,
    NotServed,
    NotReady,
}

#[derive(Clone, Default)]
pub(super) struct Server(pub(super) Arc<Mutex<RecordedEvent>>);

pub(super) fn resources(version: &str, kinds: &[(&str, &str, bool)]) -> Value {
    let resource = |(kind, name, namespaced): &(&str, &str, bool)| {
        json!({
            "name": name, "kind": kind, "namespaced": namespaced, "singularName": "",
            "verbs": ["get", "list", "watch"],
        })
    };
    let list: Vec<Value> = kinds.iter().map(resource).collect();
    json!({ "kind": "APIResourceList", "groupVersion": version, "resources": list })
}

// === impl Server ===

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        fake_api::client(move |asked: FakeRequest| {
            let server = server.clone();
            async move {
                // The test applies changes itself, so that a watch ends only by an outage.
                while asked.watches && server.outage(&asked.path).is_none() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                let held = |told: &RecordedEvent| {
                    told.closed && asked.method == Method::POST && asked.path == REMEDIATIONS
                };
                while held(&server.0.lock()) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                beside_all(|| server.answer(&asked.method, &asked.path, asked.body))
            }
        })
    }

    fn outage(&self, path: &str) -> Option<Outage> {
        let told = self.0.lock();
        let mut outages = told.outages.iter();
        let found = outages.find(|(below, _)| path.starts_with(*below))?;
        Some(*found.1)
    }

    fn answer(&self, method: &Method, path: &str, mut body: Value) -> (StatusCode, Value) {
        match self.outage(path) {
            None => {}
            Some(Outage::Denied) => return failure(StatusCode::FORBIDDEN),
            Some(Outage::NotReady) => return failure(StatusCode::SERVICE_UNAVAILABLE),
            // Without details, which would name an object.
            Some(Outage::NotServed) => return (StatusCode::NOT_FOUND, json!("404 page not found")),
        }
        let mut told = self.0.lock();
        let ok = |value: Value| (StatusCode::OK, value);
        let group = |name: &str, version: &str| {
            let version =
                json!({ "groupVersion": format!("{name}/{version}"), "version": version });
            json!({ "name": name, "versions": [version], "preferredVersion": version })
        };
        match path {
            "/apis" => {
                let mut groups = vec![
                    group("remediation.medik8s.io", "v1alpha1"),
                    group("x.y", "v1"),
                ];
                if told.openshift {
                    groups.push(group("machine.openshift.io", "v1beta1"));
                }
                return ok(json!({ "kind": "APIGroupList", "groups": groups }));
            }
            "/apis/machine.openshift.io/v1beta1" if told.openshift => {
                let kinds = [("MachineHealthCheck", "machinehealthchecks", true)];
                return ok(resources("machine.openshift.io/v1beta1", &kinds));
            }
            "/apis/x.y/v1" => {
                let kinds = [
                    ("XRemediation", "xremediations", true),
                    ("XRemediationTemplate", "xremediationtemplates", true),
                ];
                return ok(resources("x.y/v1", &kinds));
            }
            "/apis/remediation.medik8s.io/v1alpha1" => {
                let kinds = [("NodeHealthCheck", "nodehealthchecks", false)];
                return ok(resources("remediation.medik8s.io/v1alpha1", &kinds));
            }
            "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks" => {
                let items: Vec<Value> = told.checks.values().cloned().collect();
                return ok(
                    json!({ "kind": "NodeHealthCheckList", "metadata": { "resourceVersion": "1" }, "items": items }),
                );
            }
            "/api/v1/nodes" => {
                told.node_lists += 1;
                let items: Vec<Value> = told.nodes.values().cloned().collect();
                return ok(
                    json!({ "kind": "NodeList", "metadata": { "resourceVersion": "1" }, "items": items }),
                );
            }
            _ => {}
        }
        if *method == Method::GET {
            if LISTED.iter().any(|list| path.ends_with(list)) {
                let prefix = format!(
                    "{}/",
                    path.replace(OPENSHIFT_CHECKS, OPENSHIFT_CHECKS_OF_NS)
                );
                let items = told.objects.iter().filter(|(p, _)| p.starts_with(&prefix));
                let items: Vec<Value> = items.map(|(_, o)| o.clone()).collect();
                return ok(
                    json!({ "kind": "List", "metadata": { "resourceVersion": "1" }, "items": items }),
                );
            }
            return told
                .objects
                .get(path)
                .map_or_else(|| failure(StatusCode::NOT_FOUND), |o| ok(o.clone()));
        }
        told.version += 1;
        let version = told.version.to_string();
        if path.ends_with("/status") {
            told.statuses.push(body["status"].clone());
            let name = path.rsplit('/').nth(1).unwrap_or_default();
            let known = told.checks.get(name).cloned();
            let mut check = known.unwrap_or_else(|| check(name, &json!({})));
            check["metadata"]["resourceVersion"] = version.into();
            check["status"] = body["status"].take();
            return ok(check);
        }
        if path.contains("/events") {
            return ok(body);
        }
        if path.contains("/namespaces/ns/leases") {
            body["metadata"]["resourceVersion"] = version.into();
            let at = match path.ends_with("leases") {
                true => format!("{path}/l"),
                false => path.to_owned(),
            };
            told.objects.insert(at, body.clone());
            return ok(body);
        }
        told.writes.push(format!("{method} {path}"));
        if *method == Method::DELETE {
            told.objects.remove(path);
            return ok(json!({ "kind": "Status", "status": "Success" }));
        }
        if path == REMEDIATIONS && told.refusing.0 > 0 {
            told.refusing.0 -= 1;
            return failure(StatusCode::from_u16(told.refusing.1).unwrap());
        }
        let name = body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let at = match *method {
            Method::POST => format!("{path}/{name}"),
            _ => path.to_owned(),
        };
        body["metadata"]["resourceVersion"] = version.clone().into();
        body["metadata"]["uid"] = format!("uid-{name}-{version}").into();
        body["metadata"]["creationTimestamp"] = jiff::Timestamp::now().to_string().into();
        told.objects.insert(at, body.clone());
        ok(body)
    }

    pub(super) fn count(&self, what: &str) -> usize {
        let told = self.0.lock();
        told.writes.iter().filter(|write| *write == what).count()
    }

    pub(super) fn created(&self) -> usize {
        self.count(&format!("POST {REMEDIATIONS}"))
    }
}

pub(super) fn check(name: &str, more: &Value) -> Value {
    let mut spec = json!({
        "selector": { "matchLabels": { "pool": "p" } }, "minHealthy": 0,
        "unhealthyConditions": [{ "type": "Ready", "status": "False", "duration": "1s" }],
        "remediationTemplate": {
            "apiVersion": "x.y/v1", "kind": "XRemediationTemplate", "namespace": "ns", "name": "t",
        },
    });
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
        "metadata": { "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "1" },
        "spec": spec,
    })
}

pub(super) fn node(name: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": name, "resourceVersion": "1", "labels": { "pool": "p" },
        },
        "status": { "conditions": [
            { "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ]},
    })
}

/// An engine with its fake API server.
pub(super) struct Fixture {
    pub(super) server: Server,
    pub(super) engine: CheckEngine<NodeHealthChecks>,
    pub(super) index: Arc<Index>,
    pub(super) inbox: Arc<ChangeQueue>,
    cancel: CancellationToken,
}

impl Fixture {
    /// An engine without a check, on a cluster with these Nodes.
    pub(super) async fn new(nodes: &[(&str, &str)]) -> Self {
        let rig = Self::unconnected().await;
        for (name, ready) in nodes {
            rig.put_node(name, ready);
        }
        rig.connect();
        rig
    }

    /// An engine without a check, on a cluster whose Nodes are not known.
    pub(super) async fn unconnected() -> Self {
        let server = Server::default();
        let template = json!({
            "apiVersion": "x.y/v1", "kind": "XRemediationTemplate",
            "metadata": { "name": "t", "namespace": "ns" },
            "spec": { "template": { "spec": {} } },
        });
        let at = format!("{TEMPLATES}t");
        server.0.lock().objects.insert(at, template);
        let client = server.client();
        let Leading {
            writer,
            events,
            mut registry,
            cancel,
        } = Leading::start(&client).await;
        let inbox = Arc::new(ChangeQueue::only(concerns));
        let index = Arc::new(Index::new(vec![inbox.clone()]));
        let served = Arc::new(Served::default());
        let kind = Kind::NodeHealthCheck;
        let gvk = GroupVersionKind::gvk(kind.group(), "v1alpha1", kind.kind());
        served.put(kind, ApiResource::from_gvk(&gvk));
        let workloads = Arc::new(Workloads::default());
        workloads.connect(&Key::local(), client.clone());
        let (syncs, reading) = Syncs::new(
            client.clone(),
            served.clone(),
            workloads,
            index.clone(),
            cancel.clone(),
        );
        tokio::spawn(reading);
        let context = Arc::new(Context {
            client,
            served,
            index: index.clone(),
            writer,
            events,
            metrics: Arc::new(CheckMetrics::register(&mut registry)),
            ownership: Arc::new(Ownership::of_nodes(HealthChecks::All)),
            syncs,
        });
        Self {
            server,
            engine: CheckEngine::new(context, NodeHealthChecks::default()),
            index,
            inbox,
            cancel,
        }
    }

    /// Completes the first list of Nodes.
    pub(super) fn connect(&self) {
        self.index.set_connection(&Key::local(), Connection::Up);
    }

    pub(super) async fn with_check(nodes: &[(&str, &str)]) -> Self {
        let rig = Self::new(nodes).await;
        rig.put_check("c", &json!({}));
        rig
    }

    pub(super) fn put_check(&self, name: &str, more: &Value) {
        let object = check(name, more);
        let told = &self.server.0;
        told.lock().checks.insert(name.to_owned(), object.clone());
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.index.apply(Kind::NodeHealthCheck, object);
    }

    pub(super) fn put_node(&self, name: &str, ready: &str) {
        let value = node(name, ready);
        let told = &self.server.0;
        told.lock().nodes.insert(name.to_owned(), value.clone());
        let node = serde_json::from_value(value).unwrap();
        self.index.apply_seen_node(&Key::local(), node);
    }

    /// Runs one round of the engine.
    pub(super) async fn turn(&mut self) {
        self.engine.step(&self.inbox).await;
    }

    /// Reports an event of a watch.
    pub(super) fn handle_event(&mut self, event: WatchEvent) {
        let CheckEngine { dialect, parts, .. } = &mut self.engine;
        dialect.handle_event(parts, event);
    }

    pub(super) async fn until(&mut self, what: &str, holds: impl Fn(&Server) -> bool) {
        let deadline = tokio::time::Instant::now() + ENOUGH;
        while !holds(&self.server) {
            let late = tokio::time::Instant::now() > deadline;
            assert!(!late, "{what}: {:?}", self.server.0.lock().writes);
            // The condition may become true while the engine waits for a response.
            timeout(QUIET / 20, self.turn()).await.ok();
        }
    }

    /// Runs the engine until it is idle, except for requests that the server does not answer.
    pub(super) async fn settle(&mut self) {
        let deadline = tokio::time::Instant::now() + ENOUGH;
        loop {
            let quiet = timeout(QUIET, self.turn()).await.is_err();
            if quiet && (self.engine.parts.is_idle() || self.server.0.lock().closed) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "the engine does not become idle"
            );
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
