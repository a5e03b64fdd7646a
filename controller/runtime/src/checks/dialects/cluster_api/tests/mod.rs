//! The engine with a fake API server, which records the requests, their number and their order.

mod handover;
mod orphans;
mod overlap;
mod stalls;
mod upstream;

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
    checks::{self, CheckMetrics, Context, Ownership, engine::queue::IN_FLIGHT},
    clusters::sync::{SyncError, Syncs},
    config::HealthChecks,
    leader::fixture::Leading,
    store::{
        fake_api::{self, FakeRequest, failure},
        index::{ChangeQueue, Connection, Index},
        metrics::render,
        object::{Key, Kind, Served},
        time_slice::beside_all,
    },
};

const MACHINES: &str = "cluster.x-k8s.io/v1beta2";
const REMEDIATIONS: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const ENOUGH: Duration = Duration::from_secs(30);

/// Recorded requests, and how the fake API server answers.
#[derive(Default)]
struct RecordedEvent {
    /// Created remediations, and the number of attempts to create each.
    made: Vec<String>,
    tried: BTreeMap<String, u32>,
    /// The template of each created remediation.
    from: BTreeMap<String, String>,
    /// Number of status writes by object.
    written: BTreeMap<String, u32>,
    /// The last written status by object.
    said: BTreeMap<String, Value>,
    /// Additional checks, and Machines that differ from the others.
    others: BTreeMap<String, Value>,
    /// The last written metadata of checks.
    metadata: BTreeMap<String, Value>,
    /// Names of deleted checks.
    gone: Vec<String>,
    deleted: Vec<String>,
    /// Paths of objects that were read one by one.
    read: Vec<String>,
    templates: u32,
    /// The remediation whose creation fails, and the number of further failures.
    failing: Option<(String, u32)>,
    /// Creations of remediations are not answered while this is set.
    closed: bool,
    lease: Option<Value>,
    version: u64,
    /// The limit of the check.
    limit: String,
    /// Reasons of all sent Events.
    events: Vec<String>,
    /// Number of further status writes with `OwnerRemediated` that are rejected.
    refusing: u32,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<RecordedEvent>>);

// === impl Server ===

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        fake_api::client(move |asked: FakeRequest| {
            let server = server.clone();
            async move {
                while asked.method == Method::POST
                    && asked.path.ends_with("/metal3remediations")
                    && server.0.lock().closed
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                beside_all(|| server.answer(&asked.method, &asked.path, asked.body))
            }
        })
    }

    fn answer(&self, method: &Method, path: &str, mut body: Value) -> (StatusCode, Value) {
        let mut told = self.0.lock();
        told.version += 1;
        let version = told.version.to_string();
        let last = path.rsplit('/').next().unwrap_or_default().to_owned();
        body["metadata"]["resourceVersion"] = version.clone().into();
        if path.ends_with("/events") {
            let reason = body["reason"].as_str().unwrap_or_default().to_owned();
            told.events.push(reason);
            return (StatusCode::CREATED, body);
        }
        if path.contains("/leases") {
            if *method == Method::GET {
                return match told.lease.clone() {
                    Some(lease) => (StatusCode::OK, lease),
                    None => failure(StatusCode::NOT_FOUND),
                };
            }
            told.lease = Some(body.clone());
            return (StatusCode::OK, body);
        }
        if path == format!("/apis/{REMEDIATIONS}") {
            let resource = |kind: &str, name: &str| json!({ "name": name, "kind": kind, "namespaced": true, "singularName": "", "verbs": ["get"] });
            return (
                StatusCode::OK,
                json!({ "kind": "APIResourceList", "groupVersion": REMEDIATIONS, "resources": [
                    resource("Metal3Remediation", "metal3remediations"),
                    resource("Metal3RemediationTemplate", "metal3remediationtemplates"),
                ]}),
            );
        }
        if path.contains("/metal3remediationtemplates/") {
            told.templates += 1;
            return (
                StatusCode::OK,
                json!({
                    "apiVersion": REMEDIATIONS, "kind": "Metal3RemediationTemplate",
                    "metadata": { "name": last, "namespace": "ns" },
                    "spec": { "template": { "spec": {} } },
                }),
            );
        }
        if *method == Method::POST && path.ends_with("/metal3remediations") {
            let name = body["metadata"]["name"].as_str().unwrap().to_owned();
            *told.tried.entry(name.clone()).or_default() += 1;
            if let Some((failing, left)) = &mut told.failing
                && *failing == name
                && *left > 0
            {
                *left -= 1;
                return failure(StatusCode::INTERNAL_SERVER_ERROR);
            }
            body["metadata"]["uid"] = format!("of-{name}").into();
            let from = &body["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"];
            let from = from.as_str().unwrap_or_default().to_owned();
            told.from.insert(name.clone(), from);
            told.made.push(name);
            return (StatusCode::CREATED, body);
        }
        if told.refusing > 0 && body["status"].to_string().contains("OwnerRemediated") {
            told.refusing -= 1;
            return failure(StatusCode::INTERNAL_SERVER_ERROR);
        }
        if *method == Method::PATCH && path.ends_with("/status") {
            let mut parts = path.rsplit('/').skip(1);
            let name = parts.next().unwrap_or_default().to_owned();
            *told.written.entry(name.clone()).or_default() += 1;
            told.said.insert(name.clone(), body["status"].clone());
            let mut object = match (told.others.get(&name), parts.next()) {
                (Some(other), _) => other.clone(),
                (None, Some("machines")) => machine(&name, 1),
                (None, _) => check(&told.limit, 1),
            };
            object["metadata"]["resourceVersion"] = version.into();
            if let (Some(status), Some(new)) = (
                object["status"].as_object_mut(),
                body["status"].as_object().cloned(),
            ) {
                status.extend(new);
            }
            return (StatusCode::OK, object);
        }
        if *method == Method::DELETE {
            told.deleted.push(last);
            return (
                StatusCode::OK,
                json!({ "kind": "Status", "status": "Success" }),
            );
        }
        if *method == Method::GET && told.gone.contains(&last) {
            return failure(StatusCode::NOT_FOUND);
        }
        if *method == Method::GET && path.ends_with("/machinehealthchecks") {
            let mut checks = BTreeMap::from([("check".to_owned(), check(&told.limit, 1))]);
            let is_check = |object: &Value| object["kind"] == "MachineHealthCheck";
            let others = told.others.iter().filter(|(_, object)| is_check(object));
            checks.extend(others.map(|(name, object)| (name.clone(), object.clone())));
            checks.retain(|name, _| !told.gone.contains(name));
            let items: Vec<Value> = checks.into_values().collect();
            return (
                StatusCode::OK,
                json!({ "metadata": { "resourceVersion": version }, "items": items }),
            );
        }
        for (resource, object) in [
            ("/machinehealthchecks/", check(&told.limit, 1)),
            ("/machines/", machine(&last, 1)),
        ] {
            if *method == Method::GET && path.contains(resource) {
                told.read.push(path.to_owned());
                return (
                    StatusCode::OK,
                    told.others.get(&last).cloned().unwrap_or(object),
                );
            }
        }
        if *method == Method::PATCH && path.contains("/machinehealthchecks/") {
            told.metadata.insert(last.clone(), body["metadata"].clone());
            let mut object = told.others.get(&last).cloned().unwrap_or_default();
            for (field, value) in body["metadata"].as_object().into_iter().flatten() {
                object["metadata"][field] = value.clone();
            }
            return (StatusCode::OK, object);
        }
        (StatusCode::OK, body)
    }
}

fn machine(name: &str, version: u64) -> Value {
    json!({
        "apiVersion": MACHINES, "kind": "Machine",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "cluster.x-k8s.io/cluster-name": "c", "pool": "p" },
        },
        "spec": { "clusterName": "c" },
        "status": { "nodeRef": { "name": format!("node-{name}") } },
    })
}

fn check(limit: &str, version: u64) -> Value {
    let rule = |status: &str| json!({ "type": "Ready", "status": status, "timeoutSeconds": 60 });
    json!({
        "apiVersion": MACHINES, "kind": "MachineHealthCheck",
        "metadata": {
            "name": "check", "namespace": "ns", "uid": "check", "generation": 1,
            "resourceVersion": version.to_string(),
            "labels": { "cluster.x-k8s.io/cluster-name": "c" },
            "ownerReferences": [
                { "apiVersion": MACHINES, "kind": "Cluster", "name": "c", "uid": "cluster" },
            ],
        },
        "spec": {
            "clusterName": "c",
            "selector": { "matchLabels": { "pool": "p" } },
            "checks": { "unhealthyNodeConditions": [rule("Unknown"), rule("False")] },
            "remediation": {
                "triggerIf": { "unhealthyLessThanOrEqualTo": limit },
                "templateRef": {
                    "apiVersion": REMEDIATIONS, "kind": "Metal3RemediationTemplate", "name": "t",
                },
            },
        },
        "status": {},
    })
}

fn node(machine: &str, ready: &str) -> Value {
    json!({
        "metadata": { "name": format!("node-{machine}"), "uid": machine },
        "status": { "conditions": [
            { "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ]},
    })
}

/// A running engine with a cluster of healthy Machines.
struct World {
    server: Server,
    index: Arc<Index>,
    registry: Registry,
    /// The result of live reads of the fleet, and their number.
    reads: Arc<Mutex<(Result<(), SyncError>, usize)>>,
    cancel: CancellationToken,
}

fn name(i: usize) -> String {
    format!("m-{i:03}")
}

impl World {
    async fn start(machines: usize, limit: &str) -> Self {
        let server = Server::default();
        server.0.lock().limit = limit.to_owned();
        let client = server.client();
        let inbox = Arc::<ChangeQueue>::default();
        let index = Arc::new(Index::new(vec![inbox.clone()]));
        let cluster = Key::new("ns", "c");
        let ready = |kind: &str| json!({ "type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let object = json!({
            "apiVersion": MACHINES, "kind": "Cluster",
            "metadata": { "name": "c", "namespace": "ns", "uid": "cluster", "resourceVersion": "1" },
            "status": { "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")] },
        });
        index.apply(Kind::Cluster, serde_json::from_value(object).unwrap());
        for i in 0..machines {
            let object = serde_json::from_value(machine(&name(i), 1)).unwrap();
            index.apply(Kind::Machine, object);
            index.apply_seen_node(
                &cluster,
                serde_json::from_value(node(&name(i), "True")).unwrap(),
            );
        }
        index.set_connection(&cluster, Connection::Up);
        let object = serde_json::from_value(check(limit, 1)).unwrap();
        index.apply(Kind::MachineHealthCheck, object);

        let Leading {
            writer,
            events,
            mut registry,
            cancel,
        } = Leading::start(&client).await;
        let served = Arc::new(Served::default());
        for kind in [Kind::Machine, Kind::MachineHealthCheck] {
            let gvk = GroupVersionKind::gvk(kind.group(), "v1beta2", kind.kind());
            served.put(kind, ApiResource::from_gvk(&gvk));
        }
        let reads = Arc::new(Mutex::new((Ok(()), 0)));
        let context = Arc::new(Context {
            syncs: Syncs::fixed(reads.clone()),
            client,
            served,
            index: index.clone(),
            writer,
            events,
            metrics: Arc::new(CheckMetrics::register(&mut registry)),
            ownership: Arc::new(Ownership::new(HealthChecks::All, None)),
        });
        let stop = cancel.clone();
        tokio::spawn(async move { checks::run_cluster_api(context, inbox, stop).await });
        Self {
            server,
            index,
            registry,
            reads,
            cancel,
        }
    }

    fn recover(&self, i: usize) {
        let node = serde_json::from_value(node(&name(i), "True")).unwrap();
        self.index.apply_seen_node(&Key::new("ns", "c"), node);
    }

    fn fail(&self, i: usize) {
        let node = serde_json::from_value(node(&name(i), "Unknown")).unwrap();
        self.index.apply_seen_node(&Key::new("ns", "c"), node);
    }

    /// Fails a Machine: its Node is not Ready since this time.
    fn fail_since(&self, i: usize, since: &str) {
        let mut node = node(&name(i), "Unknown");
        node["status"]["conditions"][0]["lastTransitionTime"] = since.into();
        let node = serde_json::from_value(node).unwrap();
        self.index.apply_seen_node(&Key::new("ns", "c"), node);
    }

    async fn until(&self, what: &str, holds: impl Fn(&RecordedEvent) -> bool) {
        let start = Instant::now();
        while !holds(&self.server.0.lock()) {
            assert!(
                start.elapsed() < ENOUGH,
                "{what}: {:?}",
                self.server.0.lock().made
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[tokio::test]
async fn burst_creates_each_remediation_once_despite_one_failure() {
    let world = World::start(300, "100%").await;
    world
        .until("all Machines are reported healthy", |told| {
            told.written.len() == 301
        })
        .await;
    world.server.0.lock().failing = Some((name(7), 2));
    for i in 0..200 {
        world.fail(i);
    }
    world
        .until("the others", |told| told.made.len() == 199)
        .await;
    world.until("the last", |told| told.made.len() == 200).await;
    world
        .until("conditions", |told| {
            (0..200).all(|i| told.written.get(&name(i)).is_some_and(|n| *n >= 2))
        })
        .await;
    let told = world.server.0.lock();
    assert_eq!(
        told.made.last(),
        Some(&name(7)),
        "only the failed creation was delayed"
    );
    assert_eq!(told.tried.get(&name(7)), Some(&3));
    assert_eq!(told.tried.values().sum::<u32>(), 202);
    assert!(
        told.templates <= 5,
        "{} reads of one template",
        told.templates
    );
    let statuses = told.written.get("check").copied().unwrap_or_default();
    assert!(statuses <= 30, "{statuses} writes of one status");
    drop(told);
    let text = render(&world.registry);
    let line =
        "rackhand_check_unhealthy{namespace=\"ns\",check=\"check\",cause=\"node_condition\"} 200";
    assert!(text.lines().any(|l| l == line), "{text}");
}

#[tokio::test]
async fn f10_queued_remediations_are_not_created_once_limit_closes() {
    let world = World::start(200, "50%").await;
    world
        .until("all Machines are reported healthy", |told| {
            told.written.len() == 201
        })
        .await;
    world.server.0.lock().closed = true;
    for i in 0..95 {
        world.fail(i);
    }
    // The remediations in flight wait for the API server.
    world
        .until("the template is read", |told| told.templates > 0)
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    for i in 95..120 {
        world.fail(i);
    }
    let closed = "rackhand_check_limit_reached{namespace=\"ns\",check=\"check\"} 1";
    world
        .until("the gate is closed", |_| {
            render(&world.registry).lines().any(|l| l == closed)
        })
        .await;
    world.server.0.lock().closed = false;
    world
        .until("conditions", |told| {
            (0..120).all(|i| told.written.get(&name(i)).is_some_and(|n| *n >= 2))
        })
        .await;
    let told = world.server.0.lock();
    assert!(told.made.len() <= IN_FLIGHT, "{} requests", told.made.len());
    assert!(
        told.tried.values().all(|tries| *tries == 1),
        "{:?}",
        told.tried
    );
}
