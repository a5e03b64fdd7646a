//! Two checks that select the same Machines.

use super::*;

/// An older check with a template of its own, and the number of its versions.
struct OlderCheck(u64);

impl OlderCheck {
    fn tell(&mut self, world: &World, change: impl FnOnce(&mut Value)) {
        self.0 += 1;
        let mut object = check("100%", 1_000_000 * self.0);
        object["metadata"]["name"] = "older".into();
        object["metadata"]["uid"] = "older".into();
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        object["spec"]["remediation"]["templateRef"]["name"] = "of-older".into();
        change(&mut object);
        let mut told = world.server.0.lock();
        told.others.insert("older".into(), object.clone());
        // Later responses of the server have higher versions.
        told.version = told.version.max(1_000_000 * self.0);
        drop(told);
        let object = serde_json::from_value(object).unwrap();
        world.index.apply(Kind::MachineHealthCheck, object);
    }
}

impl World {
    /// Fails a Machine and returns the template of its remediation.
    async fn requested_from(&self, i: usize) -> String {
        self.fail(i);
        self.until("its remediation", |told| told.from.contains_key(&name(i)))
            .await;
        self.server.0.lock().from[&name(i)].clone()
    }

    /// Waits for the message of the condition `Overlapping` on the younger check.
    async fn until_said(&self, words: Option<&str>) {
        self.until("what the younger check says", |told| {
            let status = told.said.get("check").cloned().unwrap_or_default();
            let list = status["conditions"].as_array().cloned().unwrap_or_default();
            let found = list.iter().find(|c| c["type"] == "Overlapping");
            found.and_then(|c| c["message"].as_str()) == words
        })
        .await;
    }
}

#[tokio::test]
async fn q12_older_overlapping_check_acts_until_paused_and_younger_reports_it() {
    let world = World::start(5, "100%").await;
    world
        .until("all Machines are reported healthy", |told| {
            told.written.len() == 6
        })
        .await;
    let mut older = OlderCheck(0);
    older.tell(&world, |_| {});
    let all = "MachineHealthCheck older acts for m-000, m-001, m-002, m-003, m-004, which this check \
               selects too and only counts";
    world.until_said(Some(all)).await;
    assert_eq!(world.requested_from(0).await, "of-older");

    older.tell(&world, |o| {
        o["metadata"]["annotations"] = json!({ "rackhand.dev/paused": "" });
    });
    world.until_said(None).await;
    assert_eq!(world.requested_from(1).await, "t");

    older.tell(&world, |_| {});
    world.until_said(Some(all)).await;
    assert_eq!(world.requested_from(2).await, "of-older");

    older.tell(&world, |o| {
        o["spec"]["selector"] = json!({ "matchLabels": { "pool": "another" } });
    });
    world.until_said(None).await;
    assert_eq!(world.requested_from(3).await, "t");

    older.tell(&world, |_| {});
    world.until_said(Some(all)).await;
    let gone = Key::new("ns", "older");
    world.index.delete(Kind::MachineHealthCheck, &gone);
    world.until_said(None).await;
    assert_eq!(world.requested_from(4).await, "t");

    let told = world.server.0.lock();
    assert!(told.tried.values().all(|n| *n == 1), "{:?}", told.tried);
    assert!(!told.said["older"].to_string().contains("Overlapping"));
}

#[tokio::test]
async fn overlapping_checks_both_count_shared_machines() {
    let world = World::start(4, "100%").await;
    let mut older = OlderCheck(0);
    older.tell(&world, |_| {});
    world.fail(0);
    for name in ["check", "older"] {
        let line = format!("rackhand_check_counted{{namespace=\"ns\",check=\"{name}\"}} 1");
        world
            .until("it counts", |_| {
                render(&world.registry).lines().any(|l| l == line)
            })
            .await;
    }
}
