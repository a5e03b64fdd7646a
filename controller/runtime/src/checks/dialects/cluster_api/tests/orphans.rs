//! F11: remediations that their check no longer requires.

use super::*;

/// A world in which one Machine has failed and has a remediation.
async fn requested() -> World {
    let world = World::start(2, "100%").await;
    let all = |told: &RecordedEvent| told.written.len() == 3;
    world.until("all are told healthy", all).await;
    world.fail(0);
    let made = |told: &RecordedEvent| told.made == [name(0)];
    world.until("its remediation", made).await;
    world
}

/// Changes the check at the API server and in the index.
fn change(world: &World, change: impl FnOnce(&mut Value)) {
    let mut object = check("100%", 1_000_000);
    change(&mut object);
    let mut told = world.server.0.lock();
    told.others.insert("check".into(), object.clone());
    told.version = told.version.max(1_000_000);
    drop(told);
    let object = serde_json::from_value(object).unwrap();
    world.index.apply(Kind::MachineHealthCheck, object);
}

async fn withdrawn(world: &World, why: &str) {
    let deleted = |told: &RecordedEvent| told.deleted == [name(0)];
    world.until(why, deleted).await;
    let said = |told: &RecordedEvent| told.events.iter().any(|e| e == "RemediationWithdrawn");
    world.until("the Event", said).await;
}

#[tokio::test]
async fn f11_remediations_of_deleted_check_are_withdrawn() {
    let world = requested().await;
    world.server.0.lock().gone.push("check".into());
    let key = Key::new("ns", "check");
    world.index.delete(Kind::MachineHealthCheck, &key);
    withdrawn(&world, "deleted").await;
}

#[tokio::test]
async fn f12_check_missing_from_index_only_keeps_its_remediations() {
    let world = requested().await;
    let key = Key::new("ns", "check");
    world.index.delete(Kind::MachineHealthCheck, &key);
    let object = serde_json::from_value(check("100%", 1_000_000)).unwrap();
    let reads = |told: &RecordedEvent| told.read.iter().any(|path| path.ends_with("/check"));
    world.until("the check is read", reads).await;
    world.index.apply(Kind::MachineHealthCheck, object);
    world.fail(1);
    let both = |told: &RecordedEvent| told.made.len() == 2;
    world.until("it goes on", both).await;
    assert_eq!(world.server.0.lock().deleted, Vec::<String>::new());
}

#[tokio::test]
async fn f12_other_check_missing_from_index_only_covers_remediations() {
    let world = requested().await;
    let mut other = check("100%", 1_000_000);
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "other".into();
    {
        let mut told = world.server.0.lock();
        told.others.insert("other".into(), other);
        told.gone.push("check".into());
    }
    let key = Key::new("ns", "check");
    world.index.delete(Kind::MachineHealthCheck, &key);
    // The live read finds the other check, which creates the same remediations and continues.
    let seen = || {
        let other = Key::new("ns", "other");
        world.index.check(&other).is_some()
    };
    world.until("the other is read", |_| seen()).await;
    world.fail(1);
    let both = |told: &RecordedEvent| told.made.len() == 2;
    world.until("it goes on", both).await;
    assert_eq!(world.server.0.lock().deleted, Vec::<String>::new());
}

#[tokio::test]
async fn f11_remediations_of_paused_check_are_withdrawn() {
    let world = requested().await;
    change(&world, |check| {
        check["metadata"]["annotations"] = json!({ "cluster.x-k8s.io/paused": "" });
    });
    withdrawn(&world, "paused").await;
}

#[tokio::test]
async fn f11_remediations_outside_narrowed_selector_are_withdrawn() {
    let world = requested().await;
    change(&world, |check| {
        check["spec"]["selector"]["matchLabels"]["zone"] = "a".into();
    });
    withdrawn(&world, "narrowed").await;
}
