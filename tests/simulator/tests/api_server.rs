//! The API server in memory against kube-apiserver: the same calls of the same client come to the same.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Pod, Secret},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        WatchEvent, WatchParams,
    },
    core::{ApiResource, GroupVersionKind},
};
use parking_lot::Mutex;
use rackhand_simulator::{
    api::connect,
    fleet::{Fleet, FleetSpec},
    kernel::{Kernel, World},
};
use rackhand_tests::cluster::{ControlPlane, Parts, apply, shipped};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";

/// What was seen, step by step.
#[derive(Default)]
struct Notes(Vec<(String, Value)>);

impl Notes {
    fn note(&mut self, step: &str, value: impl Into<Value>) {
        self.0.push((step.to_owned(), value.into()));
    }

    fn result<T: Serialize>(&mut self, step: &str, result: &Result<T, kube::Error>) {
        let value = match result {
            Ok(object) => normal(serde_json::to_value(object).unwrap()),
            Err(kube::Error::Api(status)) => {
                json!({ "code": status.code, "reason": status.reason })
            }
            Err(error) => panic!("{step}: {error}"),
        };
        self.note(step, value);
    }
}

/// Without what differs from run to run.
fn normal(mut object: Value) -> Value {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "selfLink",
        ] {
            meta.remove(field);
        }
        if let Some(at) = meta.get_mut("deletionTimestamp") {
            *at = "set".into();
        }
    }
    object
}

fn version<K: Resource>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_ref()
        .unwrap()
        .parse()
        .unwrap()
}

fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn dynamic(client: &Client, group: &str, kind: &str, namespaced: bool) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", kind));
    if namespaced {
        Api::namespaced_with(client.clone(), NAMESPACE, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

async fn calls(client: Client) -> Vec<(String, Value)> {
    let mut notes = Notes::default();
    objects(&client, &mut notes).await;
    deletion(&client, &mut notes).await;
    custom(&client, &mut notes).await;
    applies(&client, &mut notes).await;
    lists(&client, &mut notes).await;
    watches(&client, &mut notes).await;
    serving(&client, &mut notes).await;
    notes.0
}

/// A path that is not served is answered without naming an object (F12).
async fn serving(client: &Client, notes: &mut Notes) {
    let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
    notes.note("readyz", client.request_text(ready).await.unwrap());
    let unserved = dynamic(client, "rackhand.dev", "Unserved", true);
    let Err(kube::Error::Api(status)) = unserved.get("it").await else {
        panic!("a kind without a CRD is served");
    };
    let named = status
        .details
        .is_some_and(|details| !details.name.is_empty());
    notes.note(
        "unserved kind",
        json!({ "code": status.code, "named": named }),
    );
}

async fn objects(client: &Client, notes: &mut Notes) {
    let post = PostParams::default();
    let merge = PatchParams::default();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret: Secret = typed(json!({
        "metadata": { "name": "s1", "labels": { "a": "1" } }, "stringData": { "k": "value" },
    }));
    let created = secrets.create(&post, &secret).await;
    notes.note("secret data", json!(created.as_ref().unwrap().data));
    notes.result("create twice", &secrets.create(&post, &secret).await);
    notes.result("get missing", &secrets.get("none").await);
    notes.result(
        "patch missing",
        &secrets
            .patch("none", &merge, &Patch::Merge(json!({})))
            .await,
    );
    let created = created.unwrap();
    let label = json!({ "metadata": { "labels": { "b": "2" } } });
    let changed = secrets
        .patch("s1", &merge, &Patch::Merge(&label))
        .await
        .unwrap();
    notes.note("labels", json!(changed.labels()));
    notes.note(
        "a change has a new version",
        version(&changed) > version(&created),
    );
    let same = secrets
        .patch("s1", &merge, &Patch::Merge(&label))
        .await
        .unwrap();
    notes.note("no change, no version", version(&same) == version(&changed));
    let stale = json!({ "metadata": { "resourceVersion": created.resource_version(), "labels": { "c": "3" } } });
    notes.result(
        "stale patch",
        &secrets.patch("s1", &merge, &Patch::Merge(stale)).await,
    );
    let other = json!({ "metadata": { "uid": "11111111-1111-4111-8111-111111111111", "labels": { "c": "3" } } });
    notes.result(
        "patch of another uid",
        &secrets.patch("s1", &merge, &Patch::Merge(other)).await,
    );
    let gone = json!({ "metadata": { "labels": null } });
    let bare = secrets
        .patch("s1", &merge, &Patch::Merge(gone))
        .await
        .unwrap();
    notes.note("null removes", bare.meta().labels.is_none());
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease: Lease = typed(json!({
        "metadata": { "name": "l1" }, "spec": { "holderIdentity": "a", "leaseTransitions": 1 },
    }));
    let first = leases.create(&post, &lease).await.unwrap();
    let mut second = first.clone();
    second.spec.as_mut().unwrap().holder_identity = Some("b".into());
    notes.result("replace", &leases.replace("l1", &post, &second).await);
    notes.result("stale replace", &leases.replace("l1", &post, &second).await);
    notes.result("metadata", &leases.get_metadata("l1").await);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    notes.note(
        "no namespace",
        namespaces.get_opt("none").await.unwrap().is_none(),
    );
}

async fn deletion(client: &Client, notes: &mut Notes) {
    let post = PostParams::default();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret: Secret = typed(json!({
        "metadata": { "name": "s2", "finalizers": ["example.com/f"] },
    }));
    let created = secrets.create(&post, &secret).await.unwrap();
    let only = |uid: Option<String>, resource_version| DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version,
        }),
        ..DeleteParams::default()
    };
    let other = only(Some("11111111-1111-4111-8111-111111111111".into()), None);
    let other = secrets.delete("s2", &other).await.map(|_| ());
    notes.result("delete another uid", &other);
    let stale = secrets
        .delete("s2", &only(None, Some("1".into())))
        .await
        .map(|_| ());
    notes.result("delete another version", &stale);
    let right = only(created.uid(), created.resource_version());
    let deleted = secrets.delete("s2", &right).await.unwrap();
    notes.note(
        "deletion begins",
        normal(serde_json::to_value(deleted.left().unwrap()).unwrap()),
    );
    let again = secrets
        .delete("s2", &DeleteParams::default())
        .await
        .unwrap();
    notes.note("deleted twice", again.is_left());
    let free = json!({ "metadata": { "finalizers": null } });
    let last = secrets
        .patch("s2", &PatchParams::default(), &Patch::Merge(free))
        .await;
    notes.result("last finalizer", &last);
    notes.result("gone", &secrets.get("s2").await);
    let at_once = secrets
        .delete("s1", &DeleteParams::default())
        .await
        .unwrap();
    notes.note("deleted at once", at_once.is_right());
    notes.result(
        "delete missing",
        &secrets
            .delete("s1", &DeleteParams::default())
            .await
            .map(|_| ()),
    );
}

fn remediation() -> DynamicObject {
    typed(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
        "metadata": { "name": "p1", "annotations": { "remediation.medik8s.io/node-name": "n1" } },
        "spec": {}, "status": { "phase": "Running" },
    }))
}

async fn custom(client: &Client, notes: &mut Notes) {
    let merge = PatchParams::default();
    let all = dynamic(client, "rackhand.dev", "PowerRemediation", true);
    let created = all
        .create(&PostParams::default(), &remediation())
        .await
        .unwrap();
    notes.note("no status at first", created.data.get("status").is_none());
    notes.note("generation", json!(created.metadata.generation));
    let status = json!({ "status": { "phase": "Running" } });
    let main = all
        .patch("p1", &merge, &Patch::Merge(&status))
        .await
        .unwrap();
    notes.note(
        "status is not written with the object",
        main.data.get("status").is_none(),
    );
    notes.note(
        "and nothing is changed",
        version(&main) == version(&created),
    );
    let both = json!({ "metadata": { "labels": { "a": "1" } }, "status": { "phase": "Running" } });
    let changed = all
        .patch_status("p1", &merge, &Patch::Merge(&both))
        .await
        .unwrap();
    notes.note("status", changed.data["status"]["phase"].clone());
    notes.note("labels with the status", json!(changed.labels()));
    notes.note(
        "generation after status",
        json!(changed.metadata.generation),
    );
    let label = json!({ "metadata": { "annotations": { "a": "1" } } });
    let changed = all
        .patch("p1", &merge, &Patch::Merge(&label))
        .await
        .unwrap();
    notes.note(
        "generation after annotation",
        json!(changed.metadata.generation),
    );
    let finalizer = json!({ "metadata": { "finalizers": ["example.com/f"] } });
    all.patch("p1", &merge, &Patch::Merge(&finalizer))
        .await
        .unwrap();
    let deleted = all.delete("p1", &DeleteParams::default()).await.unwrap();
    notes.note(
        "generation after deletion",
        json!(deleted.left().unwrap().metadata.generation),
    );
    let free = json!({ "metadata": { "finalizers": [] } });
    all.patch("p1", &merge, &Patch::Merge(&free)).await.unwrap();
    notes.result("custom gone", &all.get("p1").await);
}

async fn applies(client: &Client, notes: &mut Notes) {
    let agents = dynamic(client, "rackhand.dev", "RackAgent", false);
    let agent: DynamicObject = typed(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "RackAgent", "metadata": { "name": "r1" },
        "spec": { "rack": "r1", "endpoint": "agent:7443" },
    }));
    agents.create(&PostParams::default(), &agent).await.unwrap();
    let apply = PatchParams::apply("tester").force();
    let condition = |status: &str| {
        json!([{
            "type": "Connected", "status": status, "reason": "R", "message": "m",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }])
    };
    for (step, status) in [
        (
            "apply",
            json!({ "rack": "r1", "hosts": 4, "conditions": condition("True") }),
        ),
        ("apply less", json!({ "conditions": condition("False") })),
    ] {
        let body = json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "RackAgent",
            "metadata": { "name": "r1" }, "status": status,
        });
        let applied = agents
            .patch_status("r1", &apply, &Patch::Apply(&body))
            .await;
        notes.note(step, applied.unwrap().data["status"].clone());
    }
    agents.delete("r1", &DeleteParams::default()).await.unwrap();
}

fn pod(name: &str, node: &str) -> Pod {
    typed(json!({
        "metadata": { "name": name, "labels": { "node": node } },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
    }))
}

async fn lists(client: &Client, notes: &mut Notes) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
        pods.create(&PostParams::default(), &pod(name, node))
            .await
            .unwrap();
    }
    let every: Api<Pod> = Api::all(client.clone());
    for (step, params) in [
        ("by node", ListParams::default().fields("spec.nodeName=n1")),
        ("by label", ListParams::default().labels("node=n2")),
        (
            "by labels",
            ListParams::default().labels("node in (n2,n3),node"),
        ),
        (
            "by either label",
            ListParams::default().labels("node in (n1,n2)"),
        ),
        ("by name", ListParams::default().fields("metadata.name=c")),
    ] {
        let found = every.list(&params).await.unwrap();
        let names: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
        notes.note(step, names);
    }
    let mut page = ListParams::default().limit(2);
    let first = pods.list(&page).await.unwrap();
    notes.note("first page", first.items.len());
    notes.note("remaining", json!(first.metadata.remaining_item_count));
    page = page.continue_token(&first.metadata.continue_.unwrap());
    let second = pods.list(&page).await.unwrap();
    notes.note("second page", second.items.len());
    notes.note(
        "of one version",
        first.metadata.resource_version == second.metadata.resource_version,
    );
    notes.note(
        "no third page",
        second
            .metadata
            .continue_
            .is_none_or(|token| token.is_empty()),
    );
    let bare = pods.list_metadata(&ListParams::default()).await.unwrap();
    let names: Vec<String> = bare.iter().map(ResourceExt::name_any).collect();
    notes.note("metadata of all", names);
    let ends = pods.delete("a", &DeleteParams::default()).await.unwrap();
    notes.note(
        "a pod that runs ends",
        json!(ends.left().unwrap().metadata.deletion_grace_period_seconds),
    );
    let now = DeleteParams::default().grace_period(0);
    for name in ["a", "b", "c"] {
        pods.delete(name, &now).await.unwrap();
    }
    notes.note(
        "no pod is left",
        pods.list(&ListParams::default()).await.unwrap().items.len(),
    );
}

async fn watches(client: &Client, notes: &mut Notes) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let from = secrets.list(&ListParams::default()).await.unwrap();
    let from = from.metadata.resource_version.unwrap();
    let params = WatchParams::default().labels("watched=yes").timeout(5);
    let watch = secrets.watch(&params, &from).await.unwrap();
    pin_mut!(watch);
    let secret = |watched: &str| -> Secret {
        typed(json!({ "metadata": { "name": "w", "labels": { "watched": watched } } }))
    };
    let merge = PatchParams::default();
    let set = |watched: &str| json!({ "metadata": { "labels": { "watched": watched } } });
    secrets
        .create(&PostParams::default(), &secret("no"))
        .await
        .unwrap();
    secrets
        .patch("w", &merge, &Patch::Merge(set("yes")))
        .await
        .unwrap();
    let more = json!({ "metadata": { "labels": { "more": "1" } } });
    secrets
        .patch("w", &merge, &Patch::Merge(more))
        .await
        .unwrap();
    secrets
        .patch("w", &merge, &Patch::Merge(set("no")))
        .await
        .unwrap();
    secrets
        .patch("w", &merge, &Patch::Merge(set("yes")))
        .await
        .unwrap();
    secrets.delete("w", &DeleteParams::default()).await.unwrap();
    let mut events = Vec::new();
    let mut last = 0;
    while let Some(event) = watch.try_next().await.unwrap() {
        let (kind, object) = match event {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error:?}"),
        };
        notes.note("versions rise", version(&object) > last);
        last = version(&object);
        events.push(kind);
        if events.len() == 5 {
            break;
        }
    }
    notes.note("events", events);
    // A watch from an earlier version tells what has happened since, and ends by its timeout.
    let params = WatchParams::default().labels("watched=yes").timeout(1);
    let watch = secrets.watch(&params, &from).await.unwrap();
    let replayed = watch
        .try_filter(|event| futures::future::ready(!matches!(event, WatchEvent::Bookmark(_))))
        .count()
        .await;
    notes.note("replayed", replayed);
}

fn simulated() -> Vec<(String, Value)> {
    let mut kernel = Kernel::new(World::new(1, Fleet::new(FleetSpec::of(0, 1, 0))));
    let noted = Arc::new(Mutex::new(None));
    let (simulation, result) = (kernel.simulation(), noted.clone());
    kernel.add(
        "client",
        Arc::new(move |process| {
            let (simulation, result) = (simulation.clone(), result.clone());
            async move {
                let notes = calls(connect(&simulation, process, None)).await;
                *result.lock() = Some(notes);
                std::future::pending().await
            }
            .boxed()
        }),
    );
    kernel.run_until(Duration::from_secs(60)).unwrap();
    noted.lock().take().expect("the calls do not end")
}

#[tokio::test]
async fn simulated_api_server_matches_kube_apiserver() {
    let dir = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(dir.path(), Parts::ApiOnly)
        .await
        .unwrap();
    let client = plane.client().await.unwrap();
    for object in shipped("kustomize/standalone").unwrap() {
        apply(&client, object).await.unwrap();
    }
    let simulated = std::thread::spawn(simulated).join().unwrap();
    let real = calls(client).await;
    let differences: Vec<_> = real
        .iter()
        .zip(&simulated)
        .filter(|(a, b)| a != b)
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(real.len(), simulated.len());
}
