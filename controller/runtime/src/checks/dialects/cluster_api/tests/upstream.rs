//! Differences from Cluster API's controller, by their numbers in docs/reference/cluster-api.md, and
//! malformed objects.

use super::*;

/// Adds another check to the API server and the index.
fn tell(world: &World, name: &str, change: impl FnOnce(&mut Value)) {
    let mut object = check("100%", 1_000_000);
    object["metadata"]["name"] = name.into();
    object["metadata"]["uid"] = name.into();
    change(&mut object);
    let mut told = world.server.0.lock();
    told.others.insert(name.to_owned(), object.clone());
    // Later responses of the server have higher versions.
    told.version = told.version.max(1_000_000);
    drop(told);
    let object = serde_json::from_value(object).unwrap();
    world.index.apply(Kind::MachineHealthCheck, object);
}

async fn healthy(world: &World, machines: usize) {
    let all = |told: &RecordedEvent| told.written.len() == machines + 1;
    world.until("all are told healthy", all).await;
}

fn said(told: &RecordedEvent, check: &str, type_: &str) -> Value {
    let status = told.said.get(check).cloned().unwrap_or_default();
    let list = status["conditions"].as_array().cloned();
    let mut list = list.into_iter().flatten();
    list.find(|c| c["type"] == type_).unwrap_or_default()
}

#[tokio::test]
async fn q2_equal_node_names_in_two_clusters_are_distinct() {
    let world = World::start(2, "100%").await;
    let other = Key::new("ns", "d");
    let ready = |kind: &str| json!({ "type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let cluster = json!({
        "apiVersion": MACHINES, "kind": "Cluster",
        "metadata": { "name": "d", "namespace": "ns", "uid": "d", "resourceVersion": "1" },
        "status": { "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")] },
    });
    world
        .index
        .apply(Kind::Cluster, serde_json::from_value(cluster).unwrap());
    // The Node has the same name as that of the first Machine of the other cluster.
    let mut twin = machine("twin", 1);
    twin["spec"]["clusterName"] = "d".into();
    twin["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = "d".into();
    twin["status"]["nodeRef"]["name"] = format!("node-{}", name(0)).into();
    let others = |told: &mut RecordedEvent| told.others.insert("twin".into(), twin.clone());
    others(&mut world.server.0.lock());
    world
        .index
        .apply(Kind::Machine, serde_json::from_value(twin).unwrap());
    let set = |cluster: &Key, status: &str| {
        let node = serde_json::from_value(node(&name(0), status)).unwrap();
        world.index.apply_seen_node(cluster, node);
    };
    tell(&world, "of-d", |object| {
        object["spec"]["clusterName"] = "d".into();
        object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = "d".into();
    });
    // Nothing is told of a cluster whose Nodes were not listed yet, while the other one is judged.
    world.fail_since(1, &jiff::Timestamp::now().to_string());
    let is_judged = |told: &RecordedEvent| {
        told.said
            .get("check")
            .is_some_and(|s| s["currentHealthy"] == 1)
    };
    world.until("the other cluster is judged", is_judged).await;
    assert!(!world.server.0.lock().said.contains_key("of-d"));
    world.recover(1);
    set(&other, "True");
    world.index.set_connection(&other, Connection::Up);
    let counted = |told: &RecordedEvent| {
        told.said
            .get("of-d")
            .is_some_and(|s| s["currentHealthy"] == 1)
    };
    world.until("the twin is healthy", counted).await;
    world.fail(0);
    let one = |told: &RecordedEvent| told.made == [name(0)];
    world.until("the remediation of the first", one).await;
    set(&other, "Unknown");
    let both = |told: &RecordedEvent| told.made == [name(0), "twin".to_owned()];
    world.until("the remediation of the twin", both).await;
}

#[tokio::test]
async fn q3_new_check_is_evaluated_at_once() {
    let world = World::start(1, "100%").await;
    healthy(&world, 1).await;
    let start = Instant::now();
    tell(&world, "new", |object| {
        object["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
    });
    let counted = |told: &RecordedEvent| {
        told.said
            .get("new")
            .is_some_and(|s| s["expectedMachines"] == 1)
    };
    world.until("its numbers", counted).await;
    assert!(start.elapsed() < Duration::from_secs(10), "upstream: 15 s");
}

#[tokio::test]
async fn q7_deleted_remediation_is_created_again() {
    let world = World::start(1, "100%").await;
    healthy(&world, 1).await;
    world.fail(0);
    let made = |n: usize| move |told: &RecordedEvent| told.made.len() == n;
    world.until("its remediation", made(1)).await;
    let conditions = |told: &RecordedEvent| told.written.get(&name(0)).is_some_and(|n| *n >= 2);
    world.until("its condition", conditions).await;
    let key = Key::new("ns", name(0));
    world.index.delete(Kind::Metal3Remediation, &key);
    world
        .until("the remediation is created again", made(2))
        .await;
}

#[tokio::test]
async fn malformed_objects_are_reported_and_do_not_block_others() {
    let world = World::start(3, "100%").await;
    healthy(&world, 3).await;
    let younger = |object: &mut Value| {
        object["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
    };
    tell(&world, "near", |object| {
        younger(object);
        let near = json!({ "matchExpressions": [{ "key": "pool", "operator": "Near" }] });
        object["spec"]["selector"] = near;
    });
    tell(&world, "backwards", |object| {
        younger(object);
        object["spec"]["remediation"]["triggerIf"] = json!({ "unhealthyInRange": "[3-1]" });
    });
    for (check, word) in [("near", "Near"), ("backwards", "[3-1]")] {
        let told = |told: &RecordedEvent| {
            let said = said(told, check, "RemediationAllowed");
            let words = said["message"].as_str().unwrap_or_default();
            said["status"] == "False" && said["reason"] == "InvalidSpec" && words.contains(word)
        };
        world.until(check, told).await;
    }
    // The timeout of a condition from the future has not begun.
    world.fail_since(0, "2120-01-01T00:00:00Z");
    world.fail(1);
    let one = |told: &RecordedEvent| told.made == [name(1)];
    world.until("the remediation of the other", one).await;
    let conditions = |told: &RecordedEvent| told.written.get(&name(1)).is_some_and(|n| *n >= 2);
    world.until("its condition", conditions).await;
    assert_eq!(world.server.0.lock().made, [name(1)]);
}

#[tokio::test]
async fn check_with_malformed_limit_gets_cluster_owner_reference() {
    let world = World::start(1, "100%").await;
    healthy(&world, 1).await;
    tell(&world, "backwards", |object| {
        object["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
        object["metadata"]["ownerReferences"] = json!([]);
        object["spec"]["remediation"]["triggerIf"] = json!({ "unhealthyInRange": "[3-1]" });
    });
    let owned = |told: &RecordedEvent| {
        let owner = &told.metadata.get("backwards")?["ownerReferences"][0];
        (owner["kind"] == "Cluster" && owner["uid"] == "cluster").then_some(())
    };
    world
        .until("its ownerReference", |told| owned(told).is_some())
        .await;
    let told = world.server.0.lock();
    assert_eq!(
        said(&told, "backwards", "RemediationAllowed")["reason"],
        "InvalidSpec"
    );
}

#[tokio::test]
async fn future_condition_sets_clock_skew_until_corrected() {
    let world = World::start(3, "100%").await;
    healthy(&world, 3).await;
    let skew = |told: &RecordedEvent| said(told, "check", "ClockSkew");
    assert!(skew(&world.server.0.lock()).is_null());
    let warnings = |told: &RecordedEvent| {
        let skew = told.events.iter().filter(|e| *e == "ConditionInFuture");
        skew.count()
    };
    let until_named = async |words: &[&str]| {
        let named = |told: &RecordedEvent| {
            let said = skew(told);
            let message = said["message"].as_str().unwrap_or_default();
            said["status"] == "True"
                && said["reason"] == "ConditionInFuture"
                && words.iter().all(|word| message.contains(word))
        };
        world.until("the skew is reported", named).await;
    };
    world.fail_since(0, "2120-01-01T00:00:00Z");
    let one = "m-000 (Ready=Unknown on Node since 2120-01-01T00:00:00Z)";
    until_named(&[one]).await;
    world.fail_since(1, "2121-01-01T00:00:00Z");
    let other = "m-001 (Ready=Unknown on Node since 2121-01-01T00:00:00Z)";
    until_named(&[one, other]).await;
    world.until("Events", |told| warnings(told) == 2).await;
    // Other Machines are processed, and the unchanged condition is not written again.
    world.fail(2);
    let another = |told: &RecordedEvent| told.made.contains(&name(2));
    world.until("the remediation of another", another).await;
    for i in 0..2 {
        let mended = serde_json::from_value(node(&name(i), "True")).unwrap();
        world.index.apply_seen_node(&Key::new("ns", "c"), mended);
    }
    let quiet = |told: &RecordedEvent| {
        let status = &told.said["check"];
        status["currentHealthy"] == 2 && status["conditions"].is_array() && skew(told).is_null()
    };
    world.until("the condition is removed", quiet).await;
    let told = world.server.0.lock();
    // One Event for each message: the two Nodes may be corrected in two writes.
    assert!((2..=3).contains(&warnings(&told)), "{:?}", told.events);
    assert!(
        told.made.iter().all(|made| *made == name(2)),
        "{:?}",
        told.made
    );
}

#[tokio::test]
async fn paused_check_has_no_clock_skew_condition() {
    let world = World::start(1, "100%").await;
    healthy(&world, 1).await;
    tell(&world, "paused", |object| {
        object["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
        object["metadata"]["annotations"] = json!({ "rackhand.dev/paused": "" });
    });
    world.fail_since(0, "2120-01-01T00:00:00Z");
    let both = |told: &RecordedEvent| {
        let paused = said(told, "paused", "Paused");
        !said(told, "check", "ClockSkew").is_null() && paused["status"] == "True"
    };
    world.until("the other check reports the skew", both).await;
    assert!(said(&world.server.0.lock(), "paused", "ClockSkew").is_null());
}
