//! The view of a remediation for people: its text, and that it predicts the next step.

use super::{super::*, build::*};
use crate::explanation::{RemediationFacts, RemediationView, explain_remediation, observed};

fn explained(o: &Observation, s: Option<&State>, now: i64) -> RemediationView {
    let facts = RemediationFacts {
        request: "PowerRemediation metal3/node-7".into(),
        observation: o.clone(),
        state: s.cloned(),
        recorded: Some("an older word".into()),
        seen: observed(Some("metal3/node-7"), o),
    };
    explain_remediation(&facts, at(now))
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

/// Draining since second 0, with one pod left.
fn mk_draining() -> (Observation, State) {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain {
        pods: vec![mk_pod("db-0")],
        volumes: Vec::new(),
    });
    o.power = mk_power(79, PowerState::Off);
    (o, mk_state(Step::Draining))
}

#[test]
fn blocked_drain_is_explained_with_pod_deadline_and_next_step() {
    let (o, s) = mk_draining();
    let e = explained(&o, Some(&s), 80);
    assert_eq!(
        (e.step.as_str(), e.reason.as_str()),
        ("Draining", "Draining")
    );
    assert_eq!((e.overdue, e.blocked), (false, false));
    assert_eq!(e.next.what, "wait");
    assert_eq!(e.recorded.as_deref(), Some("an older word"));
    assert_contains(
        &e.to_string(),
        &[
            "PowerRemediation metal3/node-7: Draining, attempt 1 of",
            "1 pod (shop/db-0)",
            "an older word (what the controller wrote last)",
            "never before they are gone",
            "node-7: Ready is Unknown, out of service",
            "host-7 of rack r1",
            "held by us",
            "of rack r1: connected",
            "Off (Redfish), read at",
        ],
    );
    let until = e.until.unwrap().as_second() - at(0).as_second();
    let late = explained(&o, Some(&s), until + 1);
    assert!(late.blocked && late.overdue);
    assert_contains(&late.to_string(), &["BLOCKED", "OVERDUE"]);
}

#[test]
fn next_step_of_the_view_is_that_of_the_decision() {
    let (mut o, s) = mk_draining();
    o.drain = Some(Drain::default());
    let e = explained(&o, Some(&s), 80);
    assert_eq!(decide(&o, Some(&s), at(80)).state.step, Step::PoweringOn);
    assert_eq!(
        (e.next.what.as_str(), e.next.message.as_str()),
        ("write", "goes to PoweringOn")
    );
    let e = explained(&mk_observation(), None, 1);
    assert_eq!(
        (e.next.what.as_str(), e.step.as_str()),
        ("write", "Pending")
    );
}

#[test]
fn what_only_agent_and_bmc_know_is_explained() {
    let mut o = mk_held();
    o.agent = AgentView::Unreachable {
        why: "connection refused".into(),
    };
    o.operation = Some(OperationView::Staged {
        why: "2 of 2 power-ons of feed-a are under way".into(),
        due: at(90),
    });
    o.power = mk_no_power(70);
    assert_contains(
        &explained(&o, Some(&mk_state(Step::PoweringOn)), 80).to_string(),
        &[
            "of rack r1: connection refused",
            "waiting: 2 of 2 power-ons of feed-a are under way",
            "the BMC did not answer in 5s",
        ],
    );
}

#[test]
fn wait_for_a_person_names_what_the_person_can_do() {
    let mut s = mk_state(Step::AwaitingConfirmation);
    s.failure = Some("no answer from 192.0.2.7".into());
    let e = explained(&mk_held(), Some(&s), 80);
    assert!(e.blocked, "{e}");
    assert!(e.message.contains("rackhand.dev/confirm-fenced"), "{e}");
    assert_eq!(e.uid, UID);
}

#[test]
fn view_is_read_back_from_json() {
    let (o, s) = mk_draining();
    let e = explained(&o, Some(&s), 80);
    let json = serde_json::to_string(&e).unwrap();
    assert_eq!(serde_json::from_str::<RemediationView>(&json).unwrap(), e);
}
