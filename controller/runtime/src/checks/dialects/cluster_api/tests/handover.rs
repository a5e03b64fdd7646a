//! F12 and F13, and the removal of conditions after a handover to the owner.

use super::*;

/// The last written condition of a Machine or check.
fn said(told: &RecordedEvent, object: &str, type_: &str) -> Option<Value> {
    let status = told.said.get(object)?;
    let list = status["conditions"].as_array()?;
    list.iter().find(|c| c["type"] == type_).cloned()
}

fn is(told: &RecordedEvent, object: &str, type_: &str, status: &str) -> bool {
    said(told, object, type_).is_some_and(|c| c["status"] == status)
}

/// Removes the template, so that the owners of Machines remediate.
fn without_template(world: &World) {
    let mut object = check("100%", 1_000_000);
    let remediation = object["spec"]["remediation"].as_object_mut().unwrap();
    remediation.remove("templateRef");
    let mut told = world.server.0.lock();
    told.others.insert("check".into(), object.clone());
    told.version = told.version.max(1_000_000);
    drop(told);
    let object = serde_json::from_value(object).unwrap();
    world.index.apply(Kind::MachineHealthCheck, object);
}

#[tokio::test]
async fn f13_burst_over_limit_creates_no_remediation() {
    let world = World::start(20, "40%").await;
    world
        .until("all Machines are reported healthy", |told| {
            told.written.len() == 21
        })
        .await;
    for i in 0..8 {
        world.fail(i);
    }
    // The last Machine fails after the others were evaluated and reported.
    world
        .until("the first are reported unhealthy", |told| {
            (0..8).all(|i| is(told, &name(i), "HealthCheckSucceeded", "False"))
        })
        .await;
    world.fail(8);
    world
        .until("the last is reported unhealthy", |told| {
            is(told, &name(8), "HealthCheckSucceeded", "False")
        })
        .await;
    assert_eq!(world.server.0.lock().made, Vec::<String>::new());
    // A live read from before the limit closed no longer counts (F10).
    let reads = world.reads.lock().1;
    world.recover(8);
    world
        .until("as many as the limit permits", |told| told.made.len() == 8)
        .await;
    assert!(world.reads.lock().1 > reads);
}

#[tokio::test]
async fn f13_failed_live_read_prevents_handover_and_sets_stale_view() {
    let world = World::start(3, "100%").await;
    world.reads.lock().0 = Err(SyncError::Read("connection refused".into()));
    world.fail(0);
    world
        .until("the check reports the cause", |told| {
            said(told, "check", "StaleView").is_some_and(|c| {
                let message = c["message"].as_str().unwrap_or_default().to_owned();
                c["status"] == "True" && message.ends_with("connection refused")
            })
        })
        .await;
    world
        .until("another try", |_| world.reads.lock().1 > 5)
        .await;
    assert_eq!(world.server.0.lock().made, Vec::<String>::new());
    world.reads.lock().0 = Ok(());
    world
        .until("the remediation is created", |told| told.made == [name(0)])
        .await;
    world
        .until("the condition is removed", |told| {
            said(told, "check", "StaleView").is_none()
        })
        .await;
}

#[tokio::test]
async fn f12_absent_node_counts_only_after_live_read() {
    let world = World::start(2, "100%").await;
    world
        .until("all Machines are reported healthy", |told| {
            told.written.len() == 3
        })
        .await;
    let cluster = Key::new("ns", "c");
    let node = format!("node-{}", name(0));
    world.index.delete_node(&cluster, &node);
    world.fail(1);
    world
        .until("the other is made", |told| told.made == [name(1)])
        .await;
    assert!(!is(
        &world.server.0.lock(),
        &name(0),
        "HealthCheckSucceeded",
        "False"
    ));
    world.index.confirm_absent(&cluster, &node);
    world
        .until("the remediation is created", |told| {
            told.made == [name(1), name(0)]
        })
        .await;
    let why = said(&world.server.0.lock(), &name(0), "HealthCheckSucceeded").unwrap();
    assert_eq!(why["reason"], "NodeDeleted");
}

#[tokio::test]
async fn owner_remediated_condition_is_removed_once_machine_is_healthy() {
    let world = World::start(2, "100%").await;
    without_template(&world);
    world.fail(0);
    world
        .until("it is handed over", |told| {
            is(told, &name(0), "OwnerRemediated", "False")
        })
        .await;
    world.recover(0);
    world
        .until("the condition is removed", |told| {
            is(told, &name(0), "HealthCheckSucceeded", "True")
                && said(told, &name(0), "OwnerRemediated").is_none()
        })
        .await;
}

#[tokio::test]
async fn owner_remediated_is_not_retried_after_machine_recovered() {
    let world = World::start(2, "100%").await;
    without_template(&world);
    world.server.0.lock().refusing = 1;
    world.fail(0);
    world
        .until("a write is refused", |told| told.refusing == 0)
        .await;
    world.recover(0);
    world
        .until("it is healthy", |told| {
            is(told, &name(0), "HealthCheckSucceeded", "True")
        })
        .await;
    // The retry of the rejected write precedes the handover of this Machine.
    world.fail(1);
    world
        .until("another is handed over", |told| {
            is(told, &name(1), "OwnerRemediated", "False")
        })
        .await;
    assert_eq!(
        said(&world.server.0.lock(), &name(0), "OwnerRemediated"),
        None
    );
}

#[tokio::test]
async fn f12_no_machine_counts_as_healthy_while_a_kind_of_its_check_is_not_watched() {
    for kind in [Kind::Machine, Kind::Cluster, Kind::MachineHealthCheck] {
        let world = World::start(3, "100%").await;
        let healthy = |told: &RecordedEvent| {
            let status = told.said.get("check");
            status.and_then(|status| status["currentHealthy"].as_u64())
        };
        world
            .until("all count as healthy", |told| healthy(told) == Some(3))
            .await;
        world.index.set_lost_watch(kind, Some("denied".into()));
        world
            .until("none counts as healthy", |told| healthy(told) == Some(0))
            .await;
        {
            let told = world.server.0.lock();
            let is_false = |i| is(&told, &name(i), "HealthCheckSucceeded", "False");
            assert!(!(0..3).any(is_false), "{kind:?}: unknown is not unhealthy");
            assert_eq!(told.made, Vec::<String>::new());
        }
        world.fail(0);
        world.index.set_lost_watch(kind, None);
        world
            .until("detection goes on", |told| told.made == [name(0)])
            .await;
        world
            .until("the others count as healthy", |told| {
                healthy(told) == Some(2)
            })
            .await;
    }
}
