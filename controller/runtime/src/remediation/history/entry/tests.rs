use rackhand_core::remediation::{HostRef, Reason, Step};
use serde_json::json;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn state(step: Step) -> State {
    let mut state = State::new(at(10));
    state.step = step;
    state.since = at(70);
    state.host = Some(HostRef {
        rack: "rack-a".into(),
        host: "bay-7".into(),
        bmh: None,
        bmc: "redfish://10.0.0.7".into(),
    });
    state
}

fn object(annotations: &serde_json::Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
        "metadata": {
            "name": "node-7", "namespace": "ns", "uid": "u1", "annotations": annotations,
            "creationTimestamp": "1970-01-01T00:00:09Z",
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Machine", "name": "m", "uid": "m" },
                { "apiVersion": "v1", "kind": "NodeHealthCheck", "name": "all", "uid": "c" },
            ],
        },
    }))
    .unwrap()
}

fn made(
    state: &State,
    annotations: &serde_json::Value,
    timeline: &[(&str, i64)],
    outcome: Option<(&'static str, &'static str)>,
) -> Option<HostRemediation> {
    let timeline: Vec<TimelineEntry> = timeline
        .iter()
        .map(|(step, second)| TimelineEntry {
            step: (*step).to_owned(),
            at: at(*second),
        })
        .collect();
    let facts = EntryFacts {
        id: &RequestId::new(Kind::PowerRemediation, Key::new("ns", "node-7")),
        object: &object(annotations),
        state,
        timeline: &timeline,
        node_cause: Some("Node condition Ready is Unknown".into()),
        shared_cause: None,
        outcome,
        now: at(99),
    };
    entry(&facts).map(|(_, entry)| entry)
}

fn mk(uid: &str, created: i64) -> HostRemediation {
    let mut entry = made(&state(Step::Holding), &json!({}), &[], None).unwrap();
    uid.clone_into(&mut entry.uid);
    entry.created_at = at(created);
    entry
}

#[test]
fn an_entry_says_who_asked_why_and_when_each_step_began() {
    let by_check = json!({
        MADE_BY_ANNOTATION: "MachineHealthCheck/workers/uid",
        CAUSE_ANNOTATION: "Ready is False",
    });
    let timeline = [("Holding", 11), ("PoweringOff", 12), ("Holding", 11)];
    let entry = made(&state(Step::PoweringOff), &by_check, &timeline, None).unwrap();
    assert_eq!(
        entry.requested_by.as_deref(),
        Some("MachineHealthCheck workers")
    );
    assert_eq!(entry.cause.as_deref(), Some("Ready is False"));
    let steps: Vec<&str> = entry.steps.iter().map(|s| s.step.as_str()).collect();
    assert_eq!(steps, ["Holding", "PoweringOff"]);
    assert_eq!((entry.created_at, entry.finished_at), (at(9), None));
    assert_eq!(entry.attempts.len(), 1);
    // Without the annotations the owner and the Node say it.
    let entry = made(&state(Step::PoweringOff), &json!({}), &[], None).unwrap();
    assert_eq!(entry.requested_by.as_deref(), Some("NodeHealthCheck all"));
    assert_eq!(
        entry.cause.as_deref(),
        Some("Node condition Ready is Unknown")
    );
}

#[test]
fn an_entry_is_made_only_for_a_known_host_and_recorded_from_the_first_attempt() {
    let mut unknown = state(Step::Holding);
    unknown.host = None;
    assert!(made(&unknown, &json!({}), &[], None).is_none());
    let pending = made(&state(Step::Pending), &json!({}), &[], None).unwrap();
    assert!(!is_worth_recording(&pending));
    let ended = Some(("withdrawn", "Withdrawn"));
    let withdrawn = made(&state(Step::Pending), &json!({}), &[], ended).unwrap();
    assert!(is_worth_recording(&withdrawn));
    assert_eq!(withdrawn.finished_at, Some(at(99)));
    assert!(is_worth_recording(
        &made(&state(Step::Holding), &json!({}), &[], None).unwrap()
    ));
}

#[test]
fn a_remediation_that_ended_under_an_earlier_leader_ended_with_its_last_step() {
    let ended = Some(("succeeded", "NodeHealthy"));
    let entry = made(&state(Step::Succeeded), &json!({}), &[], ended).unwrap();
    assert_eq!(entry.finished_at, Some(at(70)));
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
    let holding = made(
        &state(Step::Holding),
        &json!({}),
        &[("Pending", 10), ("Holding", 11)],
        None,
    );
    let booting = made(
        &state(Step::Booting),
        &json!({}),
        &[("Booting", 40), ("Holding", 11)],
        None,
    );
    let status = merge(&HostHistoryStatus::default(), &holding.unwrap());
    let status = merge(&status, &booting.unwrap());
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
fn texts_steps_and_readings_are_bounded() {
    let mut state = state(Step::Blocked);
    state.attempt.end_reason = Some(Reason::NodeNotFound("n".repeat(5_000)));
    let timeline: Vec<(&str, i64)> = (0..100).map(|second| ("Draining", second)).collect();
    let cause = json!({ CAUSE_ANNOTATION: "ä".repeat(5_000) });
    let entry = made(&state, &cause, &timeline, None).unwrap();
    assert_eq!(entry.steps.len(), STEPS);
    assert_eq!(entry.steps.last().map(|s| s.at), Some(at(99)));
    for text in [entry.cause, entry.message] {
        assert_eq!(text.map(|t| t.chars().count()), Some(TEXT));
    }
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
    let entry = made(&state(Step::Draining), &json!({}), &timeline, None).unwrap();
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
    let id = request_id(&entry).unwrap();
    assert_eq!(id.to_string(), "PowerRemediation ns/node-7");
}
