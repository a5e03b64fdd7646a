//! The driver against an API server of a few lines: what is asked of it, how often, and what is not.

mod orphans;

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
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    checks::{self, Context, Ownership},
    config::HealthChecks,
    fake_api::{self, Asked, Leading, failure},
    index::{Connection, Inbox, Index},
    metrics::Metrics,
    object::{Key, Kind, Served},
    sync::{SyncError, Syncs},
};

const GROUP: &str = "machine.openshift.io/v1beta1";
const MARK: &str = "host.metal3.io/external-remediation";
const STRATEGY: &str = "machine.openshift.io/remediation-strategy";
const ENOUGH: Duration = Duration::from_secs(30);

/// What was asked, and how it is answered.
#[derive(Default)]
struct Told {
    objects: BTreeMap<String, Value>,
    /// Method and path of every write but of the Lease and Events.
    writes: Vec<String>,
    /// Path of every read.
    read: Vec<String>,
    /// `reason object` of every Event.
    events: Vec<String>,
    /// How many more deletes fail.
    failing: u32,
    /// What the question for OpenShift's own controllers is answered with.
    controllers: Option<StatusCode>,
    version: u64,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Told>>);

/// As the API server merges a patch.
fn merge(into: &mut Value, patch: &Value) {
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
        fake_api::client(move |asked: Asked| {
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

/// A driver at work.
struct World {
    server: Server,
    index: Arc<Index>,
    metrics: Arc<Metrics>,
    /// What live reads of the fleet come to, and how many there were.
    reads: Arc<Mutex<(Result<(), SyncError>, usize)>>,
    cancel: CancellationToken,
}

impl World {
    async fn start(objects: Vec<(Kind, Value)>) -> Self {
        let server = Server::default();
        let client = server.client();
        let inbox = Arc::new(Inbox::only(checks::concerns_openshift));
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
        index.set_connection(&Key::local(), Connection::Up);
        let Leading {
            writer,
            events,
            metrics,
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
            metrics: metrics.clone(),
            ownership: Arc::new(Ownership::of_openshift(HealthChecks::All)),
        });
        let world = Self {
            server,
            index,
            metrics,
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

    /// A version of an object, as the watch tells it and as the API server has it.
    fn tell(&self, kind: Kind, mut object: Value) {
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

    fn node(&self, name: &str, ready: &str, since: &str) {
        let object = json!({
            "metadata": { "name": name, "uid": name, "resourceVersion": since },
            "status": { "conditions": [
                { "type": "Ready", "status": ready, "lastTransitionTime": since },
            ]},
        });
        let node = serde_json::from_value(object).unwrap();
        self.index.apply_seen_node(&Key::local(), node);
    }

    async fn until(&self, what: &str, holds: impl Fn(&Told) -> bool) {
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

    /// Waits until a check shows these numbers, which is after everything that it has begun.
    async fn until_shown(&self, check: &str, expected: u32, healthy: u32) {
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

// === impl Told ===

impl Told {
    fn check(&self, name: &str) -> Value {
        let at = format!("/apis/{GROUP}/namespaces/ns/machinehealthchecks/{name}");
        self.objects.get(&at).cloned().unwrap_or_default()
    }

    /// How often this was written.
    fn wrote(&self, what: &str) -> usize {
        self.writes.iter().filter(|write| *write == what).count()
    }

    fn condition(&self, check: &str, type_: &str) -> Value {
        let check = self.check(check);
        let list = check["status"]["conditions"].as_array();
        let found = list.into_iter().flatten().find(|c| c["type"] == type_);
        found.cloned().unwrap_or_default()
    }
}

fn check(name: &str, annotations: &Value, spec: &Value) -> (Kind, Value) {
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

fn machine(name: &str, change: impl FnOnce(&mut Value)) -> (Kind, Value) {
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

fn failed(object: &mut Value) {
    object["status"] = json!({ "phase": "Failed", "errorMessage": "no host" });
}

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn a_machine_is_deleted_once_and_one_that_nobody_replaces_is_only_told_of() {
    let world = World::start(vec![
        machine("a", failed),
        machine("b", |object| {
            failed(object);
            object["metadata"]["ownerReferences"] = json!([]);
        }),
        machine("c", |_| {}),
        check("check", &json!({}), &json!({})),
    ])
    .await;
    world.node("c", "True", LONG_AGO);
    world.until_shown("check", 2, 1).await;
    let lately =
        "rackhand_check_unhealthy{namespace=\"ns\",check=\"check\",cause=\"machine_failure\"} 1";
    world
        .until("numbers", |_| {
            world.metrics.render().lines().any(|l| l == lately)
        })
        .await;
    world
        .until("Events", |told| {
            let has = |event: &str| told.events.iter().any(|e| e == event);
            has("MachineDeleted a") && has("DetectedUnhealthy a") && has("SkippedNoController b")
        })
        .await;
    let told = world.server.0.lock();
    assert_eq!(told.wrote("DELETE machines/a"), 1);
    assert_eq!(told.wrote("DELETE machines/b"), 0);
    assert_eq!(
        told.condition("check", "RemediationAllowed")["status"],
        "True"
    );
    drop(told);
    let text = world.metrics.render();
    for line in [
        "mapi_machinehealthcheck_remediation_success_total{name=\"check\",namespace=\"ns\"} 1",
        "mapi_machinehealthcheck_nodes_covered{name=\"check\",namespace=\"ns\"} 2",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    for histogram in [
        "health_evaluation_seconds",
        "health_event_to_verdict_seconds",
    ] {
        let line = format!("rackhand_{histogram}_count 0");
        assert!(!text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn a_delete_that_fails_is_told_of_and_tried_again() {
    let world = World::start(vec![machine("a", failed)]).await;
    world.server.0.lock().failing = 2;
    let (kind, object) = check("check", &json!({}), &json!({}));
    world.tell(kind, object);
    world.until_shown("check", 0, 0).await;
    world
        .until("Events", |told| {
            told.events.iter().any(|e| e == "MachineDeletionFailed a")
        })
        .await;
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 3);
}

#[tokio::test]
async fn f10_a_closed_limit_deletes_nothing_until_it_opens() {
    let world = World::start(vec![
        machine("a", failed),
        machine("b", |_| {}),
        check("check", &json!({}), &json!({ "maxUnhealthy": "40%" })),
    ])
    .await;
    world.node("b", "True", LONG_AGO);
    world.until_shown("check", 2, 1).await;
    world
        .until("it says so", |told| {
            told.condition("check", "RemediationAllowed")["reason"] == "TooManyUnhealthy"
                && told
                    .events
                    .iter()
                    .any(|e| e == "RemediationRestricted check")
        })
        .await;
    let closed = "mapi_machinehealthcheck_short_circuit{name=\"check\",namespace=\"ns\"} 1";
    assert!(world.metrics.render().lines().any(|l| l == closed));
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 0);
    let looks = world
        .server
        .0
        .lock()
        .wrote("PATCH machinehealthchecks/check");
    let (kind, object) = check("check", &json!({}), &json!({ "maxUnhealthy": "50%" }));
    world.tell(kind, object);
    world.until_shown("check", 1, 1).await;
    let told = world.server.0.lock();
    assert_eq!(told.wrote("DELETE machines/a"), 1);
    assert!(looks <= 3, "{looks} writes of a status that stands still");
}

#[tokio::test]
async fn a_deadline_fires_without_an_event_and_its_lateness_is_counted() {
    let world = World::start(vec![
        machine("a", |_| {}),
        check(
            "check",
            &json!({}),
            &json!({ "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "1s" }] }),
        ),
    ])
    .await;
    world.node("a", "Unknown", &jiff::Timestamp::now().to_string());
    world.until_shown("check", 0, 0).await;
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 1);
    let text = world.metrics.render();
    let none = "rackhand_deadline_lateness_seconds_count 0";
    assert!(!text.lines().any(|l| l == none), "{text}");
}

#[tokio::test]
async fn a_mark_is_set_and_its_host_is_asked_for_only_where_nobody_else_does() {
    let external = json!({ STRATEGY: "external-baremetal" });
    let world = World::start(vec![machine("a", |_| {})]).await;
    world.node("a", "Unknown", LONG_AGO);
    world.server.0.lock().controllers = Some(StatusCode::FORBIDDEN);
    let (kind, object) = check("check", &external, &json!({}));
    world.tell(kind, object);
    world
        .until("it is marked", |told| told.wrote("PATCH machines/a") == 1)
        .await;
    world
        .until("Events", |told| {
            told.events.iter().any(|e| e == "ExternalAnnotationAdded a")
        })
        .await;
    let at = format!("/apis/{GROUP}/namespaces/ns/machines/a");
    let marked = world.server.0.lock().objects[&at].clone();
    assert_eq!(marked["metadata"]["annotations"][MARK], "");
    // Whether OpenShift's own controllers run is not known: nobody is asked.
    let made = |told: &Told| told.writes.iter().filter(|w| w.starts_with("POST")).count();
    assert_eq!(made(&world.server.0.lock()), 0);
    world.server.0.lock().controllers = Some(StatusCode::NOT_FOUND);
    world.until("it is asked for", |told| made(told) == 1).await;
    let request = "/apis/rackhand.dev/v1alpha1/namespaces/ns/powerremediations/a";
    let mut request = world.server.0.lock().objects[request].clone();
    assert_eq!(request["spec"]["strategy"]["type"], "Reboot");
    // Its host came back: the mark goes first, and the request after it.
    world.node("a", "True", "2026-01-02T00:00:00Z");
    request["status"] = json!({ "phase": "Succeeded" });
    world.tell(Kind::PowerRemediation, request);
    world.until_shown("check", 1, 1).await;
    let told = world.server.0.lock();
    let place = |what: &str| told.writes.iter().rposition(|write| write == what);
    assert!(place("PATCH machines/a") < place("DELETE powerremediations/a"));
    assert!(place("DELETE powerremediations/a").is_some());
    assert!(told.objects[&at]["metadata"]["annotations"][MARK].is_null());
}

#[tokio::test]
async fn where_openshifts_own_controllers_run_a_host_is_left_to_them() {
    let world = World::start(vec![machine("a", |object| {
        object["metadata"]["annotations"][MARK] = "".into();
    })])
    .await;
    world.node("a", "Unknown", LONG_AGO);
    world.server.0.lock().controllers = Some(StatusCode::OK);
    let external = json!({ STRATEGY: "external-baremetal" });
    let (kind, object) = check("check", &external, &json!({}));
    world.tell(kind, object);
    world
        .until("it is said", |told| {
            told.events.iter().any(|e| e == "LeftToOpenShift a")
        })
        .await;
    let told = world.server.0.lock();
    assert!(
        told.writes.iter().all(|w| !w.starts_with("POST")),
        "{:?}",
        told.writes
    );
}

#[tokio::test]
async fn q12_of_two_checks_the_older_acts_until_it_is_paused() {
    let older = |annotations: &Value| {
        let (kind, mut object) = check("older", annotations, &json!({ "maxUnhealthy": 0 }));
        object["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z".into();
        (kind, object)
    };
    let world = World::start(vec![
        machine("a", failed),
        older(&json!({})),
        check("younger", &json!({}), &json!({})),
    ])
    .await;
    world
        .until("the younger says who acts", |told| {
            let said = told.condition("younger", "Overlapping");
            let words = said["message"].as_str().unwrap_or_default();
            words.starts_with("MachineHealthCheck older acts for a,")
        })
        .await;
    world.until_shown("older", 1, 0).await;
    // The older one acts, and its limit forbids it.
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 0);
    let (kind, mut object) = older(&json!({ "cluster.x-k8s.io/paused": "" }));
    let before = world.server.0.lock().check("older")["status"].clone();
    object["status"] = before.clone();
    world.tell(kind, object);
    world.until_shown("younger", 0, 0).await;
    let told = world.server.0.lock();
    assert_eq!(told.wrote("DELETE machines/a"), 1);
    assert!(told.condition("younger", "Overlapping").is_null());
    assert_eq!(
        told.check("older")["status"],
        before,
        "not a word while paused"
    );
}

#[tokio::test]
async fn a_condition_from_the_future_is_said_on_its_check_until_it_is_mended() {
    let world = World::start(vec![
        machine("a", |_| {}),
        machine("b", |_| {}),
        check("check", &json!({}), &json!({})),
        check(
            "paused",
            &json!({ "cluster.x-k8s.io/paused": "" }),
            &json!({}),
        ),
    ])
    .await;
    world.node("b", "True", LONG_AGO);
    world.node("a", "Unknown", "2120-01-01T00:00:00Z");
    let skew = |told: &Told| told.condition("check", "ClockSkew");
    world
        .until("it is said", |told| {
            let said = skew(told);
            let words = said["message"].as_str().unwrap_or_default();
            said["status"] == "True"
                && said["reason"] == "ConditionInFuture"
                && words.contains("a (Ready=Unknown on Node since 2120-01-01T00:00:00Z)")
        })
        .await;
    world
        .until("its Event", |told| {
            told.events.iter().any(|e| e == "ConditionInFuture check")
        })
        .await;
    world.node("a", "True", LONG_AGO);
    world.until_shown("check", 2, 2).await;
    world
        .until("it is taken back", |told| skew(told).is_null())
        .await;
    let told = world.server.0.lock();
    assert_eq!(told.wrote("DELETE machines/a"), 0);
    assert_eq!(told.wrote("PATCH machinehealthchecks/paused"), 0);
}

#[tokio::test]
async fn a_dry_run_counts_and_does_nothing() {
    let world = World::start(vec![
        machine("a", failed),
        check(
            "dry",
            &json!({ "rackhand.dev/dry-run": "true" }),
            &json!({}),
        ),
    ])
    .await;
    let shown = "rackhand_check_targets{namespace=\"ns\",check=\"dry\"} 1";
    world
        .until("its numbers", |_| {
            world.metrics.render().lines().any(|l| l == shown)
        })
        .await;
    let told = world.server.0.lock();
    assert!(
        told.writes.is_empty() && told.events.is_empty(),
        "{:?}",
        told.writes
    );
}

#[tokio::test]
async fn bad_objects_are_told_of_and_hold_up_nobody() {
    let near =
        json!({ "selector": { "matchExpressions": [{ "key": "pool", "operator": "Near" }] } });
    let world = World::start(vec![
        machine("a", failed),
        machine("bad", |object| {
            object["status"]["lastUpdated"] = "yesterday".into();
        }),
        check("unreadable", &json!({}), &near),
        check("unlimited", &json!({}), &json!({ "maxUnhealthy": "many" })),
    ])
    .await;
    world
        .until("the one that does not read says so", |told| {
            let said = told.condition("unreadable", "RemediationAllowed");
            let words = said["message"].as_str().unwrap_or_default();
            said["reason"] == "InvalidSpec" && words.contains("Near")
        })
        .await;
    world.until_shown("unlimited", 1, 0).await;
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 0);
    let (kind, object) = check("well", &json!({}), &json!({}));
    world.tell(kind, object);
    // Of those that select it "unlimited" is the first by name, and must not act.
    world
        .until("the other yields", |told| {
            !told.condition("well", "Overlapping").is_null()
        })
        .await;
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 0);
    let (kind, mut object) = check("unlimited", &json!({}), &json!({}));
    object["metadata"]["deletionTimestamp"] = LONG_AGO.into();
    world.tell(kind, object);
    world.until_shown("well", 0, 0).await;
    let told = world.server.0.lock();
    assert_eq!(told.wrote("DELETE machines/a"), 1);
    assert_eq!(told.wrote("PATCH machinehealthchecks/unreadable"), 1);
}

#[tokio::test]
async fn f13_while_the_fleet_cannot_be_read_live_no_machine_is_deleted_and_the_check_says_why() {
    let world = World::start(vec![
        machine("a", |_| {}),
        machine("b", |_| {}),
        check("check", &json!({}), &json!({})),
    ])
    .await;
    world.reads.lock().0 = Err(SyncError::Read("connection refused".into()));
    world.node("a", "True", LONG_AGO);
    world.node("b", "Unknown", LONG_AGO);
    world
        .until("the check says why", |told| {
            told.condition("check", "StaleView")["status"] == "True"
        })
        .await;
    let deleted = "DELETE machines/b";
    assert_eq!(world.server.0.lock().wrote(deleted), 0);
    world.reads.lock().0 = Ok(());
    world
        .until("it is deleted", |told| told.wrote(deleted) == 1)
        .await;
}

#[tokio::test]
async fn f13_a_burst_that_exceeds_the_limit_of_openshift_deletes_no_machine() {
    let world = World::start(vec![
        machine("a", |_| {}),
        machine("b", |_| {}),
        machine("c", |_| {}),
        check("check", &json!({}), &json!({ "maxUnhealthy": 1 })),
    ])
    .await;
    for name in ["a", "b", "c"] {
        world.node(name, "True", LONG_AGO);
    }
    world.until_shown("check", 3, 3).await;
    world.node("a", "Unknown", LONG_AGO);
    world.until_shown("check", 3, 2).await;
    world.node("b", "Unknown", LONG_AGO);
    world.until_shown("check", 3, 1).await;
    assert_eq!(world.reads.lock().1, 0, "the burst is let arrive");
    world.node("b", "True", "2026-01-02T00:00:00Z");
    let deleted = |name: &str| format!("DELETE machines/{name}");
    world
        .until("as many as the limit permits", |told| {
            told.wrote(&deleted("a")) == 1
        })
        .await;
    assert_eq!(world.server.0.lock().wrote(&deleted("b")), 0);
}
