//! The engine with a fake API server, which records the requests and their number.

mod orphans;
mod world;

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    clusters::sync::SyncError,
    store::{
        index::Connection,
        metrics::render,
        object::{Key, Kind},
    },
};
use world::*;

#[tokio::test]
async fn machine_is_deleted_once_and_machine_without_owner_gets_event_only() {
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
            render(&world.registry).lines().any(|l| l == lately)
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
    let text = render(&world.registry);
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
async fn failed_machine_deletion_emits_event_and_is_retried() {
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
async fn f10_closed_limit_deletes_no_machine_until_it_opens() {
    let world = World::start(vec![
        machine("a", failed),
        machine("b", |_| {}),
        check("check", &json!({}), &json!({ "maxUnhealthy": "40%" })),
    ])
    .await;
    world.node("b", "True", LONG_AGO);
    world.until_shown("check", 2, 1).await;
    world
        .until("the limit is reported", |told| {
            told.condition("check", "RemediationAllowed")["reason"] == "TooManyUnhealthy"
                && told
                    .events
                    .iter()
                    .any(|e| e == "RemediationRestricted check")
        })
        .await;
    let closed = "mapi_machinehealthcheck_short_circuit{name=\"check\",namespace=\"ns\"} 1";
    assert!(render(&world.registry).lines().any(|l| l == closed));
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
    assert!(looks <= 3, "{looks} writes of an unchanged status");
}

/// Waits until the engine has processed what was told before, which it shows on a check that it cannot evaluate.
async fn until_processed(world: &World, marker: &str) {
    let near =
        json!({ "selector": { "matchExpressions": [{ "key": "pool", "operator": "Near" }] } });
    let (kind, object) = check(marker, &json!({}), &near);
    world.tell(kind, object);
    world
        .until("the check that cannot be read is told so", |told| {
            told.condition(marker, "RemediationAllowed")["reason"] == "InvalidSpec"
        })
        .await;
}

#[tokio::test]
async fn nothing_is_told_before_the_nodes_were_listed_once() {
    let world = World::start_unconnected(vec![
        machine("a", |_| {}),
        machine("b", |_| {}),
        check("check", &json!({}), &json!({ "maxUnhealthy": "40%" })),
    ])
    .await;
    until_processed(&world, "x-1").await;
    // Part of the first list.
    world.node("a", "True", LONG_AGO);
    until_processed(&world, "x-2").await;
    assert_eq!(world.server.0.lock().check("check")["status"], Value::Null);
    let of_check = "check=\"check\"";
    assert!(!render(&world.registry).contains(of_check));
    world.node("b", "True", LONG_AGO);
    world.connect(Connection::Up);
    world.until_shown("check", 2, 2).await;
    until_processed(&world, "x-3").await;
    let told = world.server.0.lock();
    assert!(
        !told.events.contains(&"RemediationRestricted check".into()),
        "{:?}",
        told.events
    );
    assert_eq!(told.wrote("PATCH machinehealthchecks/check"), 1);
}

#[tokio::test]
async fn f10_nodes_that_cannot_be_listed_close_the_limit() {
    let world = World::start_unconnected(vec![
        machine("a", failed),
        machine("b", |_| {}),
        check("check", &json!({}), &json!({ "maxUnhealthy": "40%" })),
    ])
    .await;
    until_processed(&world, "x-1").await;
    world.connect(Connection::Down("forbidden".into()));
    world
        .until("the limit is reported", |told| {
            told.condition("check", "RemediationAllowed")["reason"] == "TooManyUnhealthy"
        })
        .await;
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 0);
}

#[tokio::test]
async fn deadline_fires_without_event_and_lateness_is_measured() {
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
    let text = render(&world.registry);
    let none = "rackhand_deadline_lateness_seconds_count 0";
    assert!(!text.lines().any(|l| l == none), "{text}");
}

#[tokio::test]
async fn external_annotation_creates_remediation_only_without_openshift_controllers() {
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
    // Whether OpenShift's own controllers run is not known, so no remediation is created.
    let made = |told: &RecordedEvent| told.writes.iter().filter(|w| w.starts_with("POST")).count();
    assert_eq!(made(&world.server.0.lock()), 0);
    world.server.0.lock().controllers = Some(StatusCode::NOT_FOUND);
    world
        .until("the remediation is created", |told| made(told) == 1)
        .await;
    let remediation = "/apis/rackhand.dev/v1alpha1/namespaces/ns/powerremediations/a";
    let mut remediation = world.server.0.lock().objects[remediation].clone();
    assert_eq!(remediation["spec"]["strategy"]["type"], "Reboot");
    // The host has recovered: the annotation is removed first, and the remediation after it.
    world.node("a", "True", "2026-01-02T00:00:00Z");
    remediation["status"] = json!({ "phase": "Succeeded" });
    world.tell(Kind::PowerRemediation, remediation);
    world.until_shown("check", 1, 1).await;
    let told = world.server.0.lock();
    let place = |what: &str| told.writes.iter().rposition(|write| write == what);
    assert!(place("PATCH machines/a") < place("DELETE powerremediations/a"));
    assert!(place("DELETE powerremediations/a").is_some());
    assert!(told.objects[&at]["metadata"]["annotations"][MARK].is_null());
}

#[tokio::test]
async fn host_is_left_to_openshift_controllers_where_they_run() {
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
        .until("the condition or Event is written", |told| {
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
async fn q12_older_of_two_checks_acts_until_paused() {
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
        .until("the younger check names the acting one", |told| {
            let said = told.condition("younger", "Overlapping");
            let words = said["message"].as_str().unwrap_or_default();
            words.starts_with("MachineHealthCheck older acts for a,")
        })
        .await;
    world.until_shown("older", 1, 0).await;
    // The older check acts, and its limit forbids remediation.
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
        "the status of a paused check is unchanged"
    );
}

#[tokio::test]
async fn future_condition_sets_clock_skew_until_corrected() {
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
    let skew = |told: &RecordedEvent| told.condition("check", "ClockSkew");
    world
        .until("the condition or Event is written", |told| {
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
        .until("the condition is removed", |told| skew(told).is_null())
        .await;
    let told = world.server.0.lock();
    assert_eq!(told.wrote("DELETE machines/a"), 0);
    assert_eq!(told.wrote("PATCH machinehealthchecks/paused"), 0);
}

#[tokio::test]
async fn dry_run_counts_machines_and_writes_nothing() {
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
            render(&world.registry).lines().any(|l| l == shown)
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
async fn malformed_objects_are_reported_and_do_not_block_others() {
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
        .until("the invalid check reports it", |told| {
            let said = told.condition("unreadable", "RemediationAllowed");
            let words = said["message"].as_str().unwrap_or_default();
            said["reason"] == "InvalidSpec" && words.contains("Near")
        })
        .await;
    world.until_shown("unlimited", 1, 0).await;
    assert_eq!(world.server.0.lock().wrote("DELETE machines/a"), 0);
    let (kind, object) = check("well", &json!({}), &json!({}));
    world.tell(kind, object);
    // Of the checks that select the Machine, "unlimited" is the first by name and must not act.
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
async fn f13_failed_live_read_prevents_deletion_and_sets_stale_view() {
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
        .until("the check reports the cause", |told| {
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
async fn f13_burst_over_limit_deletes_no_machine() {
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
    assert_eq!(
        world.reads.lock().1,
        0,
        "the live read waits for the burst to settle"
    );
    world.node("b", "True", "2026-01-02T00:00:00Z");
    let deleted = |name: &str| format!("DELETE machines/{name}");
    world
        .until("as many as the limit permits", |told| {
            told.wrote(&deleted("a")) == 1
        })
        .await;
    assert_eq!(world.server.0.lock().wrote(&deleted("b")), 0);
}
