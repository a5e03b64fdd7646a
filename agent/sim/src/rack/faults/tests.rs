//! Rules in order: what matches, what counts, what adds up.

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

fn decide(book: &mut RuleBook, method: &str, path: &str, body: &Value) -> Effects {
    book.decide(&RequestFacts {
        method,
        path,
        body,
        reused: false,
    })
}

fn status_of(book: &mut RuleBook, method: &str, path: &str) -> Option<u16> {
    match decide(book, method, path, &Value::Null).before {
        Some(Instead::Answer { status, .. }) => Some(status),
        _ => None,
    }
}

#[test]
fn a_rule_matches_by_method_and_path() {
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
        let mut book = RuleBook::default();
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
fn the_first_rule_wins_and_only_what_was_used_counts_down() {
    let mut book = RuleBook::default();
    book.add(Rule::always(mk_status(500)).times(2));
    let second = book.add(Rule::always(mk_status(501)).times(1));
    let answers: Vec<_> = (0..4).map(|_| status_of(&mut book, "GET", "/")).collect();
    assert_eq!(answers, [Some(500), Some(500), Some(501), None]);
    assert!(book.remove(second));
    assert!(!book.remove(second));
}

#[test]
fn delays_add_up_and_reports_join_an_answer_that_gets_lost() {
    let mut book = RuleBook::default();
    book.add(Rule::always(Action::Latency { takes: ms(10) }));
    book.add(Rule::always(Action::Latency { takes: ms(20) }));
    book.add(Rule::always(Action::Stale { age: ms(5) }));
    book.add(Rule::always(Action::Drop).afterwards());
    let effects = decide(&mut book, "GET", "/", &Value::Null);
    assert_eq!(effects.delay, ms(30));
    assert_eq!(effects.report, Some(Report::Stale(ms(5))));
    assert_eq!((effects.before, effects.after), (None, Some(Instead::Drop)));
}

#[test]
fn a_rule_may_look_at_the_body() {
    let path = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
    let mut book = RuleBook::default();
    book.add(Rule::always(mk_status(500)).on_reset(ResetType::ForceOff));
    let mut hit = |body: Value| decide(&mut book, "POST", path, &body).before.is_some();
    assert!(hit(json!({"ResetType": "ForceOff", "more": 1})));
    assert!(!hit(json!({"ResetType": "On"})));
    assert!(!hit(Value::Null));
}

#[test]
fn a_rule_may_let_some_pass_first() {
    let mut book = RuleBook::default();
    book.add(
        Rule::always(mk_status(500))
            .on("GET", "/a")
            .skip(2)
            .times(1),
    );
    assert_eq!(status_of(&mut book, "GET", "/b"), None, "not its path");
    let answers: Vec<_> = (0..4).map(|_| status_of(&mut book, "GET", "/a")).collect();
    assert_eq!(answers, [None, None, Some(500), None]);
}

#[test]
fn a_reused_connection_is_reset_and_a_new_one_is_not() {
    let mut book = RuleBook::default();
    book.add(Rule::always(Action::ResetReused).times(1));
    let mut asked = |reused| {
        let asked = RequestFacts {
            method: "GET",
            path: "/",
            body: &Value::Null,
            reused,
        };
        book.decide(&asked).before
    };
    let answers: Vec<_> = [false, true, true].into_iter().map(&mut asked).collect();
    assert_eq!(answers, [None, Some(Instead::Reset), None]);
}

#[test]
fn what_happens_to_connections_does_not_touch_requests() {
    let mut book = RuleBook::default();
    book.add(Rule::always(Action::SlowHandshake { takes: ms(10) }).skip(1));
    book.add(Rule::always(Action::ResetOnAccept).times(1));
    assert_eq!(status_of(&mut book, "GET", "/"), None);
    let first = book.decide_on_accept();
    assert!(first.reset && first.delay.is_zero());
    let second = book.decide_on_accept();
    assert_eq!((second.reset, second.delay), (false, ms(10)));
}

#[test]
fn merges_add_up_and_of_what_is_done_to_bytes_the_first_counts() {
    let mut book = RuleBook::default();
    book.add(Rule::always(Action::Merge {
        body: json!({"a": 1}),
    }));
    book.add(Rule::always(Action::Merge {
        body: json!({"a": null}),
    }));
    book.add(Rule::always(Action::Truncate));
    let late = book.add(Rule::always(Action::CutBody).times(1));
    let effects = decide(&mut book, "GET", "/", &Value::Null);
    assert_eq!(effects.merge, [json!({"a": 1}), json!({"a": null})]);
    assert_eq!(effects.mangle, Some(Mangle::Truncate));
    let late = book.rules().iter().find(|named| named.id == late).unwrap();
    assert_eq!(
        late.rule.remaining,
        Some(1),
        "a rule that came too late keeps its count"
    );
}
