use serde_json::json;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn mk(uid: &str, created: i64) -> HostRemediation {
    with_steps(uid, created, &[])
}

/// With its steps and when they began.
fn with_steps(uid: &str, created: i64, steps: &[(&str, i64)]) -> HostRemediation {
    let steps: Vec<_> = steps
        .iter()
        .map(|(step, second)| json!({ "step": step, "at": at(*second) }))
        .collect();
    let entry = json!({
        "uid": uid, "kind": "PowerRemediation", "namespace": "ns", "name": "node-7",
        "createdAt": at(created), "steps": steps,
    });
    serde_json::from_value(entry).unwrap()
}

#[test]
fn merging_again_changes_nothing() {
    let entry = mk("u1", 5);
    let once = merge(&HostHistoryStatus::default(), &entry);
    assert_eq!((once.total, once.remediations.len()), (1, 1));
    assert_eq!(merge(&once, &entry), once);
    let ended = HostRemediation {
        outcome: Some("succeeded".into()),
        finished_at: Some(at(50)),
        ..entry.clone()
    };
    let twice = merge(&once, &ended);
    assert_eq!(merge(&twice, &ended), twice);
    // A late write of an earlier moment takes nothing back.
    assert_eq!(merge(&twice, &entry), twice);
    // Another end of the same remediation does not replace the first.
    let again = HostRemediation {
        outcome: Some("withdrawn".into()),
        finished_at: Some(at(60)),
        ..entry
    };
    assert_eq!(merge(&twice, &again), twice);
}

#[test]
fn the_steps_of_two_leaders_are_joined() {
    let holding = with_steps("u1", 9, &[("Pending", 10), ("Holding", 11)]);
    let booting = with_steps("u1", 9, &[("Booting", 40), ("Holding", 11)]);
    let status = merge(&HostHistoryStatus::default(), &holding);
    let status = merge(&status, &booting);
    let steps = &status.remediations[0].steps;
    let steps: Vec<&str> = steps.iter().map(|s| s.step.as_str()).collect();
    assert_eq!(steps, ["Pending", "Holding", "Booting"]);
}

#[test]
fn the_list_is_bounded_and_one_that_has_left_it_is_not_counted_again() {
    let mut status = HostHistoryStatus::default();
    for number in 0..25 {
        status = merge(&status, &mk(&format!("u{number}"), number));
    }
    let uids: Vec<&str> = status.remediations.iter().map(|r| r.uid.as_str()).collect();
    assert_eq!((status.total, uids.len()), (25, REMEDIATIONS));
    assert_eq!((uids[0], uids[9]), ("u24", "u15"));
    assert_eq!(merge(&status, &mk("u14", 14)), status);
}

#[test]
fn names_of_objects_are_valid_and_differ() {
    assert_eq!(object_name("rack-a", "bay-7"), "rack-a.bay-7");
    let long = "x".repeat(400);
    let names = [
        object_name("rack-a", "Bay_7"),
        object_name("rack-a", "bay-7"),
        object_name("rack.a", "b"),
        object_name("rack", "a.b"),
        object_name("", ""),
        object_name("metal3", "ns/host"),
        object_name("metal3", "ns-host"),
        object_name("r", &long),
        object_name("r", &format!("{long}y")),
    ];
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    for name in &names {
        assert!(name.len() <= NAME, "{name}");
        for label in name.split('.') {
            assert!(
                !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'),
                "{name}"
            );
            assert!(
                label
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{name}"
            );
        }
    }
}

#[test]
fn an_entry_without_an_outcome_ends_with_its_last_step() {
    let timeline = [("Holding", 11), ("Draining", 30)];
    let entry = with_steps("u1", 9, &timeline);
    let ended = unrecorded(&entry, at(500));
    assert_eq!(ended.outcome.as_deref(), Some("unrecorded"));
    assert_eq!(ended.finished_at, Some(at(30)));
    // The controller that carried it out may still write the outcome.
    let status = merge(&HostHistoryStatus::default(), &ended);
    let succeeded = HostRemediation {
        outcome: Some("succeeded".into()),
        finished_at: Some(at(40)),
        ..entry.clone()
    };
    let merged = merge(&status, &succeeded);
    assert_eq!(merged.remediations[0].finished_at, Some(at(40)));
    assert_eq!(merge(&merged, &ended), merged);
    let id = remediation_id(&entry).unwrap();
    assert_eq!(id.to_string(), "PowerRemediation ns/node-7");
}
