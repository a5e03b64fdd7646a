//! The engine with a fake API server, which records the requests, their number and their order.

mod fixture;
mod stalls;
mod watches;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::checks::{engine::CheckEngine, remediations::external_remediations::ExternalKind};
use fixture::*;

#[tokio::test]
async fn lease_precedes_single_remediation_and_both_are_deleted_on_recovery() {
    let mut rig = Fixture::with_check(&[("a", "True"), ("b", "False")]).await;
    rig.settle().await;
    let first: Vec<String> = rig.server.0.lock().writes.iter().take(2).cloned().collect();
    assert_eq!(
        first,
        [format!("POST {LEASES}"), format!("POST {REMEDIATIONS}")]
    );
    assert_eq!(rig.server.created(), 1);
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    assert_eq!(status["phase"], "Remediating");
    assert_eq!(status["unhealthyNodes"][0]["name"], "b");
    let written = rig.server.0.lock().statuses.len();
    rig.put_node("b", "False");
    rig.put_check("c", &json!({}));
    rig.settle().await;
    assert_eq!(
        rig.server.0.lock().statuses.len(),
        written,
        "nothing has changed"
    );

    rig.put_node("b", "True");
    rig.settle().await;
    assert_eq!(rig.server.count(&format!("DELETE {REMEDIATIONS}/b")), 1);
    assert_eq!(rig.server.count(&format!("DELETE {LEASES}/node-b")), 1);
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    assert_eq!(
        (&status["phase"], &status["healthyNodes"]),
        (&json!("Enabled"), &json!(2))
    );
}

#[tokio::test]
async fn event_during_creation_creates_no_second_remediation() {
    let mut rig = Fixture::with_check(&[("b", "False")]).await;
    rig.server.0.lock().closed = true;
    rig.until("the Lease", |s| s.count(&format!("POST {LEASES}")) == 1)
        .await;
    for _ in 0..3 {
        rig.put_node("b", "Unknown");
        rig.put_node("b", "False");
        rig.settle().await;
    }
    // A second check selects the same Node meanwhile.
    rig.put_check("d", &json!({}));
    rig.settle().await;
    rig.server.0.lock().closed = false;
    rig.until("the remediation is created", |s| s.created() > 0)
        .await;
    rig.settle().await;
    assert_eq!(rig.server.created(), 1, "{:?}", rig.server.0.lock().writes);
}

#[tokio::test]
async fn nothing_is_written_before_nodes_are_listed() {
    let mut rig = Fixture::unconnected().await;
    rig.put_node("b", "False");
    rig.put_check("c", &json!({}));
    rig.settle().await;
    assert!(
        rig.server.0.lock().writes.is_empty(),
        "the Nodes are not known"
    );
    assert!(rig.server.0.lock().statuses.is_empty());
    rig.connect();
    rig.until("the remediation is created", |s| s.created() == 1)
        .await;
}

#[tokio::test]
async fn failed_creation_is_retried_and_existing_remediation_is_adopted() {
    let mut rig = Fixture::with_check(&[("b", "False")]).await;
    rig.server.0.lock().refusing = (1, 500);
    rig.until("the creation is retried", |s| s.created() == 2)
        .await;
    rig.settle().await;
    assert_eq!(rig.server.created(), 2);
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    assert_eq!(
        status["unhealthyNodes"][0]["remediations"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    // Created by a call whose response was lost: it exists, and its check owns it.
    let mut rig = Fixture::new(&[("b", "False")]).await;
    rig.server.0.lock().refusing = (1, 409);
    rig.put_check("c", &json!({}));
    rig.server.0.lock().closed = true;
    rig.until("the Lease", |s| s.count(&format!("POST {LEASES}")) == 1)
        .await;
    let made = json!({
        "apiVersion": "x.y/v1", "kind": "XRemediation",
        "metadata": {
            "name": "b", "namespace": "ns", "uid": "lost", "resourceVersion": "5",
            "creationTimestamp": Timestamp::now().to_string(),
            "ownerReferences": [{
                "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
                "name": "c", "uid": "uid-of-c",
            }],
        },
    });
    {
        let mut told = rig.server.0.lock();
        told.objects.insert(format!("{REMEDIATIONS}/b"), made);
        told.closed = false;
    }
    rig.settle().await;
    assert_eq!(rig.server.created(), 1);
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    let remediation = &status["unhealthyNodes"][0]["remediations"][0];
    assert_eq!(remediation["resource"]["uid"], "lost");
}

#[tokio::test]
async fn failed_creation_for_one_node_does_not_block_others() {
    let mut rig = Fixture::new(&[("b", "False"), ("d", "False")]).await;
    rig.server.0.lock().refusing = (1, 500);
    rig.put_check("c", &json!({}));
    rig.until("both were tried", |s| s.created() == 2).await;
    rig.settle().await;
    let made = rig
        .server
        .0
        .lock()
        .objects
        .keys()
        .filter(|p| p.starts_with(REMEDIATIONS))
        .count();
    assert!(made >= 1, "the other remediation is created at once");
    rig.until("the first remediation is retried", |s| s.created() == 3)
        .await;
    rig.settle().await;
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    let entries = status["unhealthyNodes"].as_array().unwrap();
    assert!(
        entries
            .iter()
            .all(|entry| entry["remediations"][0].is_object()),
        "{status}"
    );
}

#[tokio::test]
async fn foreign_node_lease_blocks_remediation_and_stays_unchanged() {
    let mut rig = Fixture::new(&[("b", "False")]).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "node-b", "namespace": "medik8s-leases" },
        "spec": {
            "holderIdentity": "somebody", "leaseDurationSeconds": 3600,
            "renewTime": format!("{:.6}", Timestamp::now()),
        },
    });
    rig.server
        .0
        .lock()
        .objects
        .insert(format!("{LEASES}/node-b"), lease);
    rig.put_check("c", &json!({}));
    rig.settle().await;
    assert!(rig.server.0.lock().writes.is_empty());
    let watched = &rig.engine.dialect.checks[&Key::new("", "c")];
    assert!(
        watched.blocked["b"].1.contains("somebody"),
        "{:?}",
        watched.blocked
    );
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    assert_eq!(status["unhealthyNodes"], json!([{ "name": "b" }]));
}

#[tokio::test]
async fn missing_template_and_machine_health_check_disable_check_until_resolved() {
    let mut rig = Fixture::new(&[("b", "False")]).await;
    let template = rig.server.0.lock().objects.remove(&format!("{TEMPLATES}t"));
    rig.put_check("c", &json!({}));
    rig.settle().await;
    let disabled = |rig: &Fixture| {
        let status = rig.server.0.lock().statuses.last().cloned().unwrap();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let found = conditions
            .find(|c| c["type"] == "Disabled")
            .cloned()
            .unwrap();
        (found["status"].clone(), found["reason"].clone())
    };
    assert_eq!(
        disabled(&rig),
        (json!("True"), json!("RemediationTemplateNotFound"))
    );
    let template = template.unwrap();
    rig.server
        .0
        .lock()
        .objects
        .insert(format!("{TEMPLATES}t"), template);
    let fact = Fact::MachineChecks;
    let other: DynamicObject = serde_json::from_value(json!({
        "metadata": { "name": "m", "namespace": "api" },
        "spec": { "unhealthyConditions": [{ "type": "Ready" }] },
    }))
    .unwrap();
    rig.handle_event(WatchEvent::Fact(fact, Box::new(other)));
    let CheckEngine { dialect, parts, .. } = &mut rig.engine;
    dialect.read_templates(parts, &Key::new("", "c"));
    rig.settle().await;
    let conflict = json!("ConflictingMachineHealthCheckDetected");
    assert_eq!(disabled(&rig), (json!("True"), conflict));
    assert_eq!(rig.server.created(), 0);
    rig.handle_event(WatchEvent::FactGone(fact, Key::new("api", "m")));
    rig.settle().await;
    assert_eq!(
        disabled(&rig),
        (json!("False"), json!("NodeHealthCheckEnabled"))
    );
    assert_eq!(rig.server.created(), 1);
}

/// The status of `Disabled`, and its reason.
fn disabled(rig: &Fixture) -> (Value, Value) {
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|c| c["type"] == "Disabled");
    let found = found.cloned().unwrap_or_default();
    (found["status"].clone(), found["reason"].clone())
}

#[tokio::test]
async fn invalid_template_during_remediation_disables_check_without_writes() {
    let mut rig = Fixture::with_check(&[("b", "False")]).await;
    rig.settle().await;
    assert_eq!(rig.server.created(), 1);
    let at = format!("{TEMPLATES}t");
    let good = rig.server.0.lock().objects[&at].clone();
    let mut odd = good.clone();
    odd["spec"]["template"] = json!("not an object");
    let of = ExternalKind {
        api_version: "x.y/v1".into(),
        kind: "XRemediationTemplate".into(),
        namespace: "ns".into(),
    };
    for (template, reason) in [
        (Some(odd), "RemediationTemplateInvalid"),
        (None, "RemediationTemplateNotFound"),
    ] {
        let writes = rig.server.0.lock().writes.len();
        {
            let mut told = rig.server.0.lock();
            match template {
                Some(template) => told.objects.insert(at.clone(), template),
                None => told.objects.remove(&at),
            };
        }
        rig.handle_event(WatchEvent::Template(of.clone()));
        rig.settle().await;
        assert_eq!(disabled(&rig), (json!("True"), json!(reason)));
        let told = rig.server.0.lock();
        assert_eq!(told.writes.len(), writes, "{:?}", told.writes);
        let status = told.statuses.last().unwrap();
        assert!(status["unhealthyNodes"][0]["remediations"][0].is_object());
        assert_eq!(status["phase"], "Disabled");
    }
    // The Node recovers meanwhile; its remediation stays until the check is enabled again.
    rig.put_node("b", "True");
    rig.settle().await;
    assert_eq!(rig.server.count(&format!("DELETE {REMEDIATIONS}/b")), 0);
    rig.server.0.lock().objects.insert(at, good);
    rig.handle_event(WatchEvent::Template(of));
    rig.settle().await;
    assert_eq!(rig.server.count(&format!("DELETE {REMEDIATIONS}/b")), 1);
}

#[tokio::test]
async fn expired_node_lease_is_renewed_once() {
    let mut rig = Fixture::with_check(&[("b", "False")]).await;
    rig.settle().await;
    let put = format!("PUT {LEASES}/node-b");
    assert_eq!(rig.server.count(&put), 0);
    let at = format!("{LEASES}/node-b");
    let mut lease = rig.server.0.lock().objects[&at].clone();
    let old = "2026-01-01T00:00:00.000000Z";
    lease["spec"]["renewTime"] = old.into();
    rig.server
        .0
        .lock()
        .objects
        .insert(at.clone(), lease.clone());
    let read = serde_json::from_value(lease).unwrap();
    let held = leases::held(&read);
    rig.handle_event(WatchEvent::Lease("node-b".into(), held));
    rig.settle().await;
    assert_eq!(rig.server.count(&put), 1, "once");
    let renewed = rig.server.0.lock().objects[&at]["spec"]["renewTime"].clone();
    assert_ne!(renewed, old);
}

/// 45 of 95 Nodes are unhealthy, which a limit of 49 % allows. The API server has 5 more Nodes, which the
/// watch reports only after the live read.
async fn lagging(ready: &str) -> usize {
    let names: Vec<String> = (0..100).map(|i| format!("n-{i:03}")).collect();
    let is = |i: usize| if i < 45 { "False" } else { "True" };
    let known: Vec<(&str, &str)> = (0..95).map(|i| (names[i].as_str(), is(i))).collect();
    let mut rig = Fixture::new(&known).await;
    rig.put_check("c", &json!({ "minHealthy": null, "maxUnhealthy": "49%" }));
    for name in &names[95..] {
        let mut told = rig.server.0.lock();
        told.nodes.insert(name.clone(), node(name, ready));
    }
    rig.until("the live read", |s| s.0.lock().node_lists == 1)
        .await;
    for _ in 0..20 {
        timeout(QUIET / 20, rig.turn()).await.ok();
    }
    assert_eq!(rig.server.created(), 0, "the watch is behind");
    for name in &names[95..] {
        rig.put_node(name, ready);
    }
    let deadline = tokio::time::Instant::now() + QUIET * 8;
    while tokio::time::timeout_at(deadline, rig.turn()).await.is_ok() {}
    rig.server.created()
}

#[tokio::test]
async fn f13_lagging_node_watch_prevents_remediation() {
    let (over, under) = tokio::join!(lagging("False"), lagging("True"));
    assert_eq!((over, under), (0, 45), "50 of 100 are more than 49 %");
}

#[tokio::test]
async fn f13_burst_settles_before_remediation_begins() {
    let mut rig =
        Fixture::new(&[("a", "False"), ("b", "True"), ("c", "True"), ("d", "True")]).await;
    rig.put_check("c", &json!({ "minHealthy": 2 }));
    rig.settle().await;
    assert_eq!(rig.server.created(), 0, "the rest of the burst may follow");
    rig.put_node("b", "False");
    rig.put_node("c", "False");
    let deadline = tokio::time::Instant::now() + QUIET * 6;
    while tokio::time::timeout_at(deadline, rig.turn()).await.is_ok() {}
    assert_eq!(
        rig.server.created(),
        0,
        "1 of 4 is healthy, and minHealthy is 2"
    );
    rig.put_node("c", "True");
    rig.until("both", |s| s.created() == 2).await;
}

#[tokio::test]
async fn new_engine_resumes_from_status_and_objects() {
    let mut rig = Fixture::new(&[("b", "False")]).await;
    let remediation = |template: &str, uid: &str| {
        json!({
            "apiVersion": "x.y/v1", "kind": "XRemediation",
            "metadata": {
                "name": format!("b-{template}"), "namespace": "ns", "uid": uid, "resourceVersion": "3",
                "creationTimestamp": Timestamp::now().to_string(),
                "annotations": {
                    "remediation.medik8s.io/node-name": "b",
                    "remediation.medik8s.io/template-name": template,
                },
                "ownerReferences": [{
                    "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
                    "name": "c", "uid": "uid-of-c",
                }],
            },
        })
    };
    // Created from an earlier template of the check.
    let old = remediation("before", "old");
    rig.server
        .0
        .lock()
        .objects
        .insert(format!("{REMEDIATIONS}/b-before"), old);
    rig.put_check("c", &json!({}));
    rig.settle().await;
    assert_eq!(rig.server.created(), 0, "no second remediation is created");
    let status = rig.server.0.lock().statuses.last().cloned().unwrap();
    assert_eq!(
        status["unhealthyNodes"][0]["remediations"][0]["resource"]["uid"],
        "old"
    );
    rig.put_node("b", "True");
    rig.settle().await;
    assert_eq!(
        rig.server.count(&format!("DELETE {REMEDIATIONS}/b-before")),
        1
    );
}
