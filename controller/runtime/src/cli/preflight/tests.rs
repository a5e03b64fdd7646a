//! Tests of what is gathered, against API servers that serve groups in several versions or refuse calls.

use http::StatusCode;
use rackhand_core::preflight::{PersonsPolicy, WatchTrial};
use serde_json::{Value, json};

use super::*;
use crate::store::fake_api::{self, FakeRequest, failure};

/// As on OpenShift: the preferred version of the group has none of the kinds of interest.
const KINDS: [(&str, &str); 3] = [
    ("v1", "ControlPlaneMachineSet"),
    ("v1beta1", "Machine"),
    ("v1beta1", "MachineHealthCheck"),
];

/// Discovery of the group with these kinds, and empty lists of their objects.
fn openshift(asked: &FakeRequest) -> (StatusCode, Value) {
    const GROUP: &str = "machine.openshift.io";
    let version =
        |version: &str| json!({ "groupVersion": format!("{GROUP}/{version}"), "version": version });
    let kinds = |of: &str| -> Vec<Value> {
        let of_version = KINDS.iter().filter(|(version, _)| *version == of);
        let resource = |(_, kind): &(&str, &str)| {
            json!({
                "name": format!("{}s", kind.to_lowercase()), "singularName": "", "namespaced": true,
                "kind": kind, "verbs": ["get", "list", "watch"],
            })
        };
        of_version.map(resource).collect()
    };
    let path = asked.path.trim_start_matches("/apis");
    let ok = |answer: Value| (StatusCode::OK, answer);
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["", "readyz"] => ok(json!("ok")),
        [""] => {
            let versions = [version("v1"), version("v1beta1")];
            let group = json!({
                "name": GROUP, "versions": versions, "preferredVersion": versions[0],
            });
            ok(json!({ "kind": "APIGroupList", "groups": [group] }))
        }
        ["", GROUP, of] => ok(json!({
            "kind": "APIResourceList", "groupVersion": format!("{GROUP}/{of}"), "resources": kinds(of),
        })),
        ["", GROUP, _, _] => {
            let metadata = json!({ "resourceVersion": "1" });
            ok(json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": [] }))
        }
        _ => failure(StatusCode::NOT_FOUND),
    }
}

fn gatherer(client: Client, config: &Config) -> Gatherer<'_> {
    Gatherer {
        client,
        config,
        served: Served::default(),
        index: Arc::new(Index::new(Vec::new())),
    }
}

#[tokio::test]
async fn f12_kind_is_reported_in_the_version_that_the_controller_finds() {
    let client = fake_api::client(|asked: FakeRequest| async move { openshift(&asked) });
    let config = Config::default();
    let kinds = gatherer(client, &config).kinds().await;
    let of = |kind: &str, group: &str| {
        let mut all = kinds.iter();
        let facts = all.find(|facts| facts.kind == kind && facts.group == group);
        facts.unwrap().served.clone()
    };
    let v1beta1 = Ok(Some("v1beta1".to_owned()));
    assert_eq!(of("Machine", groups::OPENSHIFT_MACHINE), v1beta1);
    assert_eq!(of("MachineHealthCheck", groups::OPENSHIFT_MACHINE), v1beta1);
    assert_eq!(of("Machine", groups::CLUSTER_API), Ok(None));
}

#[tokio::test]
async fn f12_no_kind_counts_as_absent_while_the_api_server_is_not_ready() {
    for ready in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK] {
        let client = fake_api::client(move |asked: FakeRequest| async move {
            match (asked.path.as_str(), ready) {
                ("/readyz", StatusCode::OK) => (StatusCode::OK, json!("ok")),
                _ => failure(StatusCode::SERVICE_UNAVAILABLE),
            }
        });
        let config = Config::default();
        let gatherer = gatherer(client, &config);
        for facts in gatherer.kinds().await {
            assert!(facts.served.is_err(), "{facts:?}");
        }
        let policy = persons::policy(&gatherer.client, &gatherer.served).await;
        assert!(matches!(policy, PersonsPolicy::Unknown(_)), "{policy:?}");
    }
}

#[tokio::test]
async fn f12_list_and_watch_of_each_served_kind_are_tried() {
    for (list, watch, expected) in [
        (StatusCode::OK, StatusCode::OK, "watched"),
        (StatusCode::FORBIDDEN, StatusCode::OK, "may not list"),
        (StatusCode::OK, StatusCode::FORBIDDEN, "may not watch"),
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::OK,
            "not listed",
        ),
        (
            StatusCode::OK,
            StatusCode::INTERNAL_SERVER_ERROR,
            "not watched",
        ),
    ] {
        let client = fake_api::client(move |asked: FakeRequest| async move {
            let of_machines = asked.path.ends_with("/machines");
            match (of_machines, asked.watches) {
                (true, true) if watch != StatusCode::OK => failure(watch),
                (true, false) if list != StatusCode::OK => failure(list),
                _ => openshift(&asked),
            }
        });
        let config = Config::default();
        let facts = gatherer(client, &config).watches().await;
        let kinds: Vec<&str> = facts.iter().map(|facts| facts.kind.as_str()).collect();
        let served = [
            "Machine.machine.openshift.io",
            "MachineHealthCheck.machine.openshift.io",
        ];
        assert_eq!(kinds, served, "others are not served");
        let found = match &facts[0].trial {
            WatchTrial::Watched => "watched",
            WatchTrial::Forbidden("list") => "may not list",
            WatchTrial::Forbidden(_) => "may not watch",
            WatchTrial::NotListed(_) => "not listed",
            WatchTrial::NotWatched(_) => "not watched",
        };
        assert_eq!(found, expected, "{facts:?}");
        assert_eq!(facts[1].trial, WatchTrial::Watched);
    }
}
