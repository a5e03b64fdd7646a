//! Rules in order: matching, counting, combination.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn mk_status(status: u16) -> Action {
    Action::Status {
        status,
        body: None,
        headers: [].into(),
    }
}

fn decide(book: &mut RuleSet, method: &str, path: &str, body: &Value) -> Effects {
    decide_again(book, method, path, body, false)
}

fn decide_again(
    book: &mut RuleSet,
    method: &str,
    path: &str,
    body: &Value,
    is_again: bool,
) -> Effects {
    book.decide(&RequestFacts {
        method,
        path,
        body,
        is_again,
    })
}

#[test]
fn rule_for_used_connections_leaves_the_first_request_alone() {
    let mut book = RuleSet::default();
    book.add(Rule::always(mk_status(503)).on_used_connections().times(1));
    let null = Value::Null;
    for (is_again, applies) in [(false, false), (true, true), (true, false)] {
        let effects = decide_again(&mut book, "GET", "/", &null, is_again);
        assert_eq!(effects.before.is_some(), applies);
    }
}

fn status_of(book: &mut RuleSet, method: &str, path: &str) -> Option<u16> {
    match decide(book, method, path, &Value::Null).before {
        Some(Action::Status { status, .. }) => Some(status),
        _ => None,
    }
}

#[test]
fn rule_matches_method_and_path() {
    let cases = [
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/b/c", false),
        ("/a/**", "/a/b/c", true),
        ("**/Reset", "/a/b/Reset", true),
        ("**/S*s/*", "/v1/Systems/1", true),
        ("/a", "/a/b", false),
        ("**", "", true),
    ];
    for (pattern, path, expected) in cases {
        let mut book = RuleSet::default();
        book.add(Rule::always(mk_status(500)).on("get", pattern));
        assert_eq!(
            status_of(&mut book, "GET", path).is_some(),
            expected,
            "{pattern} {path}"
        );
        assert_eq!(status_of(&mut book, "POST", path), None);
    }
}

#[test]
fn first_matching_rule_applies_and_counts_down() {
    let mut book = RuleSet::default();
    book.add(Rule::always(mk_status(500)).times(2));
    let second = book.add(Rule::always(mk_status(501)).times(1));
    let answers: Vec<_> = (0..4).map(|_| status_of(&mut book, "GET", "/")).collect();
    assert_eq!(answers, [Some(500), Some(500), Some(501), None]);
    assert!(book.remove(second));
    assert!(!book.remove(second));
}

#[test]
fn report_fault_combines_with_a_dropped_response() {
    let mut book = RuleSet::default();
    let stale = Action::Stale { age: ms(5) };
    book.add(Rule::always(stale.clone()));
    book.add(Rule::always(Action::Drop).afterwards());
    let effects = decide(&mut book, "GET", "/", &Value::Null);
    assert_eq!(effects.report, Some(stale));
    assert_eq!((effects.before, effects.after), (None, Some(Action::Drop)));
}

#[test]
fn rule_matches_the_request_body() {
    let path = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
    let mut book = RuleSet::default();
    book.add(Rule::always(mk_status(500)).on_reset(ResetType::ForceOff));
    let mut hit = |body: Value| decide(&mut book, "POST", path, &body).before.is_some();
    assert!(hit(json!({"ResetType": "ForceOff", "more": 1})));
    assert!(!hit(json!({"ResetType": "On"})));
    assert!(!hit(Value::Null));
}

#[test]
fn merges_combine_and_the_first_report_fault_applies() {
    let mut book = RuleSet::default();
    book.add(Rule::always(Action::Merge {
        body: json!({"a": 1}),
    }));
    book.add(Rule::always(Action::Merge {
        body: json!({"a": null}),
    }));
    book.add(Rule::always(Action::OffUntilCommanded));
    let late = book.add(Rule::always(Action::Stale { age: ms(5) }).times(1));
    let effects = decide(&mut book, "GET", "/", &Value::Null);
    assert_eq!(effects.merge, [json!({"a": 1}), json!({"a": null})]);
    assert_eq!(effects.report, Some(Action::OffUntilCommanded));
    let late = book.rules().iter().find(|named| named.id == late).unwrap();
    assert_eq!(
        late.rule.remaining,
        Some(1),
        "a rule that was not applied keeps its count"
    );
}
