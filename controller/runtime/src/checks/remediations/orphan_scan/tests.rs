use std::sync::Arc;

use kube::core::GroupVersionKind;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::{
    checks::{CheckMetrics, Ownership},
    clusters::sync::Syncs,
    config::HealthChecks,
    leader::fixture::Leading,
    store::{
        fake_api::Objects,
        index::Index,
        object::{Kind, Served},
    },
};

const MACHINES: &str = "cluster.x-k8s.io/v1beta2";
const FOREIGN: &str = "/apis/x.y/v1/namespaces/ns/otherremediations/m";

/// An API server with a Machine, its Cluster and remediation kinds of two groups.
struct World {
    objects: Objects,
    context: Context,
}

fn check_path() -> String {
    format!("/apis/{MACHINES}/namespaces/ns/machinehealthchecks/check")
}

fn check() -> Value {
    json!({
        "apiVersion": MACHINES, "kind": "MachineHealthCheck",
        "metadata": { "name": "check", "namespace": "ns", "uid": "cu" },
        "spec": {
            "clusterName": "c",
            "selector": { "matchLabels": { "pool": "p" } },
            "remediation": { "templateRef": {
                "apiVersion": "x.y/v1", "kind": "OtherRemediationTemplate", "name": "t",
            }},
        },
    })
}

/// A remediation of the Machine, with metadata that identifies its creator.
fn remediation(api_version: &str, kind: &str, metadata: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": "m", "namespace": "ns", "uid": "r",
            "ownerReferences": [
                { "apiVersion": MACHINES, "kind": "Machine", "name": "m", "uid": "mu" },
            ],
        },
    });
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field.as_str()] = value.clone();
    }
    object
}

fn of_check() -> Value {
    json!({ "annotations": { "rackhand.dev/made-by": "MachineHealthCheck/check/cu" } })
}

impl World {
    async fn start() -> Self {
        let objects = Objects::default();
        let group = |name: &str, version: &str| {
            let version =
                json!({ "groupVersion": format!("{name}/{version}"), "version": version });
            json!({ "name": name, "versions": [version], "preferredVersion": version })
        };
        let groups = [
            group("x.y", "v1"),
            group("rackhand.dev", "v1alpha1"),
            group("apps.k8s.io", "v1"),
        ];
        objects.put("/apis", json!({ "kind": "APIGroupList", "groups": groups }));
        let served = |group: &str, kinds: &[&str]| {
            let resources = kinds.iter().map(|kind| {
                let plural = format!("{}s", kind.to_lowercase());
                json!({
                    "name": plural, "singularName": "", "kind": kind, "namespaced": true,
                    "verbs": ["list", "delete"],
                })
            });
            let resources: Vec<Value> = resources.collect();
            let list = json!({
                "kind": "APIResourceList", "groupVersion": group, "resources": resources,
            });
            objects.put(&format!("/apis/{group}"), list);
        };
        served(
            "x.y/v1",
            &[
                "Other",
                "OtherTemplate",
                "OtherRemediation",
                "OtherRemediationTemplate",
            ],
        );
        served(
            "rackhand.dev/v1alpha1",
            &["PowerRemediation", "PowerRemediationTemplate"],
        );
        let machine = objects.put(
            &format!("/apis/{MACHINES}/namespaces/ns/machines/m"),
            json!({
                "apiVersion": MACHINES, "kind": "Machine",
                "metadata": {
                    "name": "m", "namespace": "ns", "uid": "mu",
                    "labels": { "cluster.x-k8s.io/cluster-name": "c", "pool": "p" },
                },
                "spec": { "clusterName": "c" },
            }),
        );
        let cluster = json!({
            "apiVersion": MACHINES, "kind": "Cluster",
            "metadata": { "name": "c", "namespace": "ns", "uid": "c", "resourceVersion": "1" },
        });
        let index = Arc::new(Index::new(Vec::new()));
        for (kind, object) in [(Kind::Machine, machine), (Kind::Cluster, cluster)] {
            index.apply(kind, serde_json::from_value(object).unwrap());
        }
        let known = Served::default();
        for kind in [
            Kind::Machine,
            Kind::MachineHealthCheck,
            Kind::PowerRemediation,
        ] {
            let version = if kind.group() == "rackhand.dev" {
                "v1alpha1"
            } else {
                "v1beta2"
            };
            let gvk = GroupVersionKind::gvk(kind.group(), version, kind.kind());
            known.put(kind, ApiResource::from_gvk(&gvk));
        }
        let client = objects.client();
        let mut leading = Leading::start(&client).await;
        let context = Context {
            client,
            served: Arc::new(known),
            index,
            writer: leading.writer,
            events: leading.events,
            metrics: Arc::new(CheckMetrics::register(&mut leading.registry)),
            ownership: Arc::new(Ownership::knowing(HealthChecks::Auto, true)),
            syncs: Syncs::fixed(Arc::new(Mutex::new((Ok(()), 0)))),
        };
        Self { objects, context }
    }

    async fn scan(&self) -> bool {
        scan(&self.context, "ns", &mut BTreeSet::new())
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn f11_scan_withdraws_foreign_remediation_of_deleted_check() {
    let world = World::start().await;
    let made = remediation("x.y/v1", "OtherRemediation", &of_check());
    world.objects.put(FOREIGN, made);
    assert!(world.scan().await, "nothing is left undone");
    assert_eq!(world.objects.get(FOREIGN), None);
}

#[tokio::test]
async fn f12_scan_keeps_foreign_remediation_while_check_exists() {
    let world = World::start().await;
    world.objects.put(
        FOREIGN,
        remediation("x.y/v1", "OtherRemediation", &of_check()),
    );
    world.objects.put(&check_path(), check());
    assert!(!world.scan().await, "it is looked at again");
    assert!(world.objects.get(FOREIGN).is_some());
}

#[tokio::test]
async fn scan_leaves_a_remediation_that_names_no_check() {
    let world = World::start().await;
    let unnamed = remediation("x.y/v1", "OtherRemediation", &json!({}));
    world.objects.put(FOREIGN, unnamed);
    assert!(world.scan().await);
    assert!(world.objects.get(FOREIGN).is_some());
}
