//! The view of a remediation for people: its text, and that it predicts the next step.

use jiff::{SignedDuration, Timestamp};

use super::{super::*, build::*};
use crate::explanation::{RemediationFacts, RemediationView, explain_remediation};

fn explained(o: &Observation, s: Option<&State>, now: i64) -> RemediationView {
    explained_on_wall(o, s, now, SignedDuration::ZERO)
}

fn explained_on_wall(
    o: &Observation,
    s: Option<&State>,
    now: i64,
    ahead: SignedDuration,
) -> RemediationView {
    let facts = RemediationFacts {
        remediation: "PowerRemediation metal3/node-7".into(),
        observation: o.clone(),
        state: s.cloned(),
        awaits_turn: None,
        recorded: Some("an older word".into()),
        machine: Some("metal3/node-7".into()),
    };
    explain_remediation(&facts, at(now), ahead)
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

#[test]
fn f1_a_step_of_the_wall_clock_changes_displayed_times_and_no_decision() {
    let (o, mut s) = mk_draining();
    s.attempt.off = Some(OffEvidence::Person { at: at(-60) });
    s.attempts.push(AttemptRecord {
        number: 1,
        started: at(-600),
        off: None,
        drained: None,
        outlets: Vec::new(),
        pods_evicted: 0,
        evicted_pods: Vec::new(),
        pods_deleted: 0,
        deleted_pods: Vec::new(),
        on: None,
        ended: at(-120),
        step: Some(Step::Booting),
        reason: Reason::Booting,
    });
    let before = explained(&o, Some(&s), 80);
    let hour = SignedDuration::from_hours(1);
    for ahead in [hour, -hour] {
        let after = explained_on_wall(&o, Some(&s), 80, ahead);
        let moved = |at: Option<Timestamp>| at.map(|at| at + ahead);
        assert_eq!(after.now, before.now + ahead);
        assert_eq!(after.since, moved(before.since));
        assert_eq!(after.until, moved(before.until));
        assert_eq!(after.next.at, moved(before.next.at));
        assert!(after.until.is_some() && after.next.at.is_some());
        // The same decision, with the same age.
        assert_eq!(
            (
                &after.step,
                &after.reason,
                after.overdue,
                &after.next.message
            ),
            (
                &before.step,
                &before.reason,
                before.overdue,
                &before.next.message
            )
        );
        let shown = |second: i64| (at(second) + ahead).to_string();
        assert_contains(
            &after.to_string(),
            &[
                &format!("read at {}", shown(79)),
                &format!("confirmed off at {} by a person", shown(-60)),
                &format!("attempt 1 from {} ended after 8", shown(-600)),
            ],
        );
    }
}

#[test]
fn deadlines_in_messages_are_of_the_wall_clock() {
    let mut o = mk_observation();
    o.wall_ahead = SignedDuration::from_hours(1);
    o.machine.as_mut().unwrap().updating = Some("condition Updating".into());
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 0);
    let until = at(1800);
    let shown = until + o.wall_ahead;
    assert!(
        reason.to_string().contains(&format!("until {shown}")),
        "{reason}"
    );
    assert_eq!(decide(&o, Some(&s), at(1)).next, Next::Wait(until));
}

#[test]
fn l1_wait_for_the_turn_is_explained_at_once() {
    let (o, mut facts) = (mk_observation(), None);
    for state in [None, Some(mk_state(Step::Pending))] {
        let waiting = RemediationFacts {
            remediation: "PowerRemediation metal3/node-7".into(),
            observation: o.clone(),
            state,
            awaits_turn: Some(Reason::ApiServerSlow("metal3/c".into())),
            recorded: None,
            machine: None,
        };
        let e = explain_remediation(&waiting, at(1), SignedDuration::ZERO);
        assert_eq!(
            (e.step.as_str(), e.reason.as_str()),
            ("Pending", "ApiServerSlow")
        );
        assert_eq!((e.next.what.as_str(), e.next.at), ("wait", None));
        assert!(
            e.message.contains("cluster metal3/c is slow"),
            "{}",
            e.message
        );
        facts = Some(waiting);
    }
    // Once it has its turn, the next step is explained.
    let begun = RemediationFacts {
        awaits_turn: None,
        ..facts.unwrap()
    };
    let e = explain_remediation(&begun, at(1), SignedDuration::ZERO);
    assert_eq!(e.next.what, "write");
}
