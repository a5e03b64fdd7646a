use rackhand_api::kinds::host_history::{STEPS, TEXT};
use rackhand_core::remediation::{HostRef, Reason, Step};
use serde_json::json;

use super::*;
use crate::{
    history::entry::is_worth_recording,
    store::object::{Key, Kind},
};

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
        id: &RemediationId::new(Kind::PowerRemediation, Key::new("ns", "node-7")),
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
