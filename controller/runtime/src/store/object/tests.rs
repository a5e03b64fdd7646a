//! Tests of discovery, against API servers that serve a group in several versions or are not ready.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::StatusCode;
use serde_json::{Value, json};

use super::*;
use crate::store::fake_api::{self, FakeRequest, failure};

/// A group with its versions, the preferred one first, each with its kinds.
type Groups = &'static [(
    &'static str,
    &'static [(&'static str, &'static [&'static str])],
)];

/// OpenShift prefers a version that has none of the kinds of interest; two infrastructure providers share a group.
const GROUPS: Groups = &[
    (
        "machine.openshift.io",
        &[
            ("v1", &["ControlPlaneMachineSet"]),
            ("v1beta1", &["Machine", "MachineHealthCheck"]),
        ],
    ),
    (
        "infrastructure.cluster.x-k8s.io",
        &[
            ("v1beta2", &["AWSMachine", "Metal3Machine"]),
            ("v1beta1", &["Metal3Machine", "Metal3Remediation"]),
            ("v1alpha5", &["Metal3Remediation"]),
        ],
    ),
];

fn discovery_of(groups: Groups, path: &str) -> (StatusCode, Value) {
    if path == "/apis" {
        let entry = |(name, versions): &(&str, &[(&str, &[&str])])| {
            let version = |version: &str| json!({ "groupVersion": format!("{name}/{version}"), "version": version });
            let all: Vec<Value> = versions.iter().map(|(v, _)| version(v)).collect();
            json!({ "name": name, "versions": all, "preferredVersion": all[0] })
        };
        let groups: Vec<Value> = groups.iter().map(entry).collect();
        return (
            StatusCode::OK,
            json!({ "kind": "APIGroupList", "groups": groups }),
        );
    }
    for (name, versions) in groups {
        for (version, kinds) in *versions {
            if path == format!("/apis/{name}/{version}") {
                let resource = |kind: &&str| {
                    json!({
                        "name": format!("{}s", kind.to_lowercase()), "singularName": "", "namespaced": true,
                        "kind": kind, "verbs": ["get", "list", "watch"],
                    })
                };
                let resources: Vec<Value> = kinds.iter().map(resource).collect();
                let list = json!({
                    "kind": "APIResourceList", "groupVersion": format!("{name}/{version}"), "resources": resources,
                });
                return (StatusCode::OK, list);
            }
        }
    }
    failure(StatusCode::NOT_FOUND)
}

#[tokio::test]
async fn f12_kind_is_found_in_every_version_of_its_group() {
    let client =
        fake_api::client(|asked: FakeRequest| async move { discovery_of(GROUPS, &asked.path) });
    let served = Served::default();
    for (group, kind, version) in [
        ("machine.openshift.io", "Machine", Some("v1beta1")),
        (
            "machine.openshift.io",
            "MachineHealthCheck",
            Some("v1beta1"),
        ),
        ("machine.openshift.io", "ControlPlaneMachineSet", Some("v1")),
        (
            "infrastructure.cluster.x-k8s.io",
            "Metal3Machine",
            Some("v1beta2"),
        ),
        (
            "infrastructure.cluster.x-k8s.io",
            "Metal3Remediation",
            Some("v1beta1"),
        ),
        ("infrastructure.cluster.x-k8s.io", "Other", None),
        ("remediation.medik8s.io", "NodeHealthCheck", None),
    ] {
        let found = served.find(&client, group, kind).await.unwrap();
        let found = found.map(|resource| resource.version);
        assert_eq!(found.as_deref(), version, "{kind}");
    }
}

#[tokio::test]
async fn f12_kind_is_not_absent_while_the_api_server_is_not_ready() {
    // The first requests meet an API server that does not list its CRDs yet.
    let probes = Arc::new(AtomicUsize::new(0));
    let client = {
        let probes = probes.clone();
        fake_api::client(move |asked: FakeRequest| {
            let probes = probes.clone();
            async move {
                let ready = match asked.path.as_str() {
                    "/readyz" => probes.fetch_add(1, Ordering::Relaxed) >= 2,
                    _ => probes.load(Ordering::Relaxed) > 2,
                };
                match (asked.path.as_str(), ready) {
                    ("/readyz", true) => (StatusCode::OK, json!("ok")),
                    ("/readyz", false) => failure(StatusCode::INTERNAL_SERVER_ERROR),
                    (path, true) => discovery_of(GROUPS, path),
                    (path, false) => discovery_of(&[], path),
                }
            }
        })
    };
    let served = Served::default();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let found = served
            .find(&client, "machine.openshift.io", "Machine")
            .await;
        answers.push(found.map(|found| found.is_some()).map_err(|e| words(&e)));
    }
    let not_ready = Err("ServiceError: the API server is not ready".to_owned());
    assert_eq!(answers, [not_ready.clone(), not_ready, Ok(true)]);
}

#[tokio::test]
async fn f12_kind_that_is_forgotten_is_found_in_its_new_version() {
    let upgraded = Arc::new(AtomicUsize::new(0));
    let client = {
        let upgraded = upgraded.clone();
        fake_api::client(move |asked: FakeRequest| {
            let groups: Groups = match upgraded.load(Ordering::Relaxed) {
                0 => &[("cluster.x-k8s.io", &[("v1beta1", &["Machine"])])],
                _ => &[("cluster.x-k8s.io", &[("v1beta2", &["Machine"])])],
            };
            async move { discovery_of(groups, &asked.path) }
        })
    };
    let served = Served::default();
    let version = async || {
        let found = served
            .find(&client, "cluster.x-k8s.io", "Machine")
            .await
            .unwrap();
        found.map(|resource| resource.version)
    };
    assert_eq!(version().await.as_deref(), Some("v1beta1"));
    upgraded.store(1, Ordering::Relaxed);
    assert_eq!(
        version().await.as_deref(),
        Some("v1beta1"),
        "from the cache"
    );
    served.forget("cluster.x-k8s.io", "Machine");
    assert_eq!(version().await.as_deref(), Some("v1beta2"));
}

/// An API server needs seconds for a long list, and the caller must not wait forever.
#[tokio::test(start_paused = true)]
async fn list_is_read_in_pages_within_a_bounded_time() {
    for (pages, of_page, ends) in [(3, 4, true), (u32::MAX, 4, false), (1, 6, false)] {
        let client = fake_api::client(move |asked: FakeRequest| async move {
            assert!(asked.query.contains("limit=500"), "{}", asked.query);
            tokio::time::sleep(Duration::from_secs(of_page)).await;
            let page = asked.query.split("continue=").nth(1);
            let page = page.map_or(0, |page| page.parse::<u32>().unwrap());
            let next = (page + 1 < pages).then(|| (page + 1).to_string());
            let list = json!({
                "kind": "ClusterList", "apiVersion": "cluster.x-k8s.io/v1beta1",
                "metadata": { "resourceVersion": "7", "continue": next },
                "items": [{ "metadata": { "name": format!("c{page}"), "namespace": "ns" } }],
            });
            (StatusCode::OK, list)
        });
        let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "Cluster");
        let resource = ApiResource::from_gvk(&gvk);
        let began = tokio::time::Instant::now();
        let listed = list(&client, &resource, "", "Clusters").await;
        match ends {
            true => assert_eq!(listed.unwrap().len(), 3),
            false => assert!(listed.is_err(), "{pages} pages of {of_page} s"),
        }
        assert!(began.elapsed() <= LIST_TIMEOUT);
    }
}
