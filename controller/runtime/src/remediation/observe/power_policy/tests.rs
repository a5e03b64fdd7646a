use std::collections::BTreeSet;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::store::object::Kind;
use rackhand_core::remediation::{Step, WordsOfPersons};

fn index_with(policies: &[(&str, Value)]) -> Index {
    let index = Index::new(Vec::new());
    for (name, spec) in policies {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerPolicy",
            "metadata": { "name": name, "uid": name, "resourceVersion": "1" },
            "spec": spec,
        }))
        .unwrap();
        index.apply(Kind::PowerPolicy, object);
    }
    index
}

fn node(labels: &Value, annotations: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": "n", "labels": labels, "annotations": annotations },
    }))
    .unwrap()
}

fn host() -> HostRef {
    HostRef {
        rack: "r1".into(),
        host: "h".into(),
        bmh: None,
        bmc: "10.0.0.7".into(),
    }
}

fn target() -> Target {
    Target {
        machine: None,
        cluster: Some(Key::local()),
        node: Some("n".into()),
        by_node: true,
        openshift: None,
    }
}

fn input(index: &Index, node: &KnownNode<'_>, state: Option<&State>) -> PolicyInput {
    policy_input(index, &target(), Some(&host()), node, state)
}

#[test]
fn policies_select_by_rack_and_node_labels() {
    let index = index_with(&[
        (
            "gpu",
            json!({ "selector": { "nodes": { "matchLabels": { "pool": "gpu" } } } }),
        ),
        ("r1", json!({ "selector": { "racks": ["r1"] } })),
        ("r2", json!({ "selector": { "racks": ["r2"] } })),
    ]);
    let gpu = node(&json!({ "pool": "gpu" }), &json!({}));
    let names = |node: &KnownNode<'_>| {
        let input = input(&index, node, None);
        let list = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" ");
        (list(input.facts.policies), list(input.subject.assumed))
    };
    assert_eq!(
        names(&KnownNode::Read(&gpu)),
        ("gpu r1".into(), String::new())
    );
    assert_eq!(names(&KnownNode::None), ("r1".into(), String::new()));
    assert_eq!(names(&KnownNode::Unread), ("gpu r1".into(), "gpu".into()));
}

#[test]
fn pdus_and_annotations_come_from_the_node() {
    let index = index_with(&[("all", json!({}))]);
    let node = node(
        &json!({ "zone": "a" }),
        &json!({ "rackhand.dev/pdus": "p1, p2,", "x": "" }),
    );
    let input = input(&index, &KnownNode::Read(&node), None);
    let placement = input.facts.placement;
    assert_eq!(placement.pdus, BTreeSet::from(["p1".into(), "p2".into()]));
    assert_eq!(placement.rack.as_deref(), Some("r1"));
    assert_eq!(placement.labels.unwrap()["zone"], "a");
    assert!(input.subject.annotations.contains("x"));
}

#[test]
fn host_that_is_kept_off_fills_no_budget() {
    let index = index_with(&[("all", json!({}))]);
    let mut state = State::new(Timestamp::UNIX_EPOCH);
    state.step = Step::Fenced;
    let kept_off = input(&index, &KnownNode::Unread, Some(&state));
    assert_eq!(kept_off.facts, PolicyFacts::default());
    state.step = Step::Draining;
    let draining = input(&index, &KnownNode::Unread, Some(&state));
    assert!(draining.facts.policies.contains("all"));
}

#[test]
fn only_attempts_that_switched_off_count() {
    let mut state = State::new(Timestamp::UNIX_EPOCH);
    let attempt = json!({
        "number": 1, "started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:10:00Z",
        "because": { "reason": "BootTimeout" },
    });
    let mut switched_off = attempt.clone();
    switched_off["off"] = "2026-01-01T00:01:00Z".into();
    state.attempts = serde_json::from_value(json!([attempt, switched_off])).unwrap();
    assert_eq!(PastAttempt::of_state(&state).count(), 1);
}

#[test]
fn attempts_of_other_remediations_count_and_a_success_ends_with_its_remediation() {
    let attempt = |off: bool| {
        let mut attempt = json!({ "number": 1, "startedAt": "2026-01-01T00:00:00Z" });
        if off {
            attempt["poweredOffAt"] = "2026-01-01T00:01:00Z".into();
        }
        attempt
    };
    let remediation = |uid: &str, outcome: &str, attempts: Value| {
        json!({
            "uid": uid, "kind": "PowerRemediation", "namespace": "ns", "name": uid,
            "createdAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:20:00Z",
            "outcome": outcome, "attempts": attempts,
        })
    };
    let history: HostHistoryStatus = serde_json::from_value(json!({ "total": 3, "remediations": [
        remediation("me", "failed", json!([attempt(true)])),
        remediation("a", "succeeded", json!([attempt(true), attempt(true)])),
        remediation("b", "withdrawn", json!([attempt(false)])),
    ]}))
    .unwrap();
    let past = past_attempts(&history, "me");
    let succeeded: Vec<bool> = past.iter().map(|p| p.succeeded).collect();
    assert_eq!(succeeded, [false, true]);
    assert_eq!(past[1].ended.to_string(), "2026-01-01T00:20:00Z");
}

/// F10: what a budget counts is recorded with the beginning.
#[test]
fn f10_begun_remediation_stays_in_its_budgets_without_its_node() {
    let index = index_with(&[(
        "gpu",
        json!({
            "selector": { "nodes": { "matchLabels": { "pool": "gpu" } } },
            "budgets": [{ "per": "Label", "label": "zone", "maxConcurrent": 1 }],
        }),
    )]);
    let labels = json!({ "pool": "gpu", "zone": "a" });
    let gpu = node(&labels, &json!({ "rackhand.dev/pdus": "p1" }));
    let began = input(&index, &KnownNode::Read(&gpu), None).facts;
    let mut state = State::new(Timestamp::UNIX_EPOCH);
    state.counted = Some(Box::new(began.counted()));
    let changed = node(&json!({}), &json!({}));
    let nodes = [
        KnownNode::None,
        KnownNode::Unread,
        KnownNode::Read(&changed),
    ];
    for step in [
        Step::Holding,
        Step::PoweringOff,
        Step::Draining,
        Step::Booting,
    ] {
        state.step = step;
        for node in &nodes {
            assert_eq!(input(&index, node, Some(&state)).facts, began, "{step:?}");
        }
    }
    // A further attempt begins by the Node as it is, or as it was where there is none.
    state.step = Step::Retrying;
    let facts = |node: &KnownNode<'_>| input(&index, node, Some(&state)).facts;
    assert_eq!(facts(&KnownNode::None), began);
    assert!(facts(&KnownNode::Read(&changed)).policies.is_empty());
    // The policy is gone, or selects otherwise by now: it counts where it began.
    state.step = Step::PoweringOff;
    let without = input(&index_with(&[]), &KnownNode::None, Some(&state)).facts;
    assert_eq!(without, began);
}

#[test]
fn f15_approval_counts_by_its_uid_unless_words_of_persons_are_ignored() {
    let approved = |value: &str, words_of_persons| {
        let object: DynamicObject = serde_json::from_value(json!({ "metadata": {
            "name": "a", "namespace": "ns", "uid": "u",
            "annotations": { "rackhand.dev/approved": value },
        }}))
        .unwrap();
        let view = RemediationObject::read(Kind::PowerRemediation, &object).unwrap();
        let config = Config {
            words_of_persons,
            ..Config::default()
        };
        is_approved(&config, &view)
    };
    assert!(approved("u", WordsOfPersons::Accepted));
    assert!(!approved("true", WordsOfPersons::Accepted));
    assert!(!approved("u", WordsOfPersons::Ignored));
}
