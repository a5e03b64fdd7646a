//! F11: a Node that is Ready again before anything was begun.

use super::{super::*, build::*};

/// A request by Node: no Machine is asked for its health.
fn mk_by_node() -> Observation {
    let mut o = mk_observation();
    o.request.by_node = true;
    o.machine = Some(MachineView::not_asked());
    o
}

fn other() -> Option<Reason> {
    Some(Reason::OtherRemediation(
        "Metal3Remediation metal3/m-7".into(),
    ))
}

#[test]
fn f11_a_request_that_waited_for_another_does_not_cycle_a_node_that_came_back() {
    for mut o in [mk_by_node(), mk_observation()] {
        o.machine.as_mut().unwrap().not_checked = true;
        o.conflict = other();
        let s = decide(&o, None, at(0)).state;
        assert_eq!(waits(&o, &s, 0).0.label(), "OtherRemediation");
        node(&mut o).ready = true;
        o.conflict = None;
        let (s, reason) = writes(&o, &s, 60);
        assert_eq!((s.step, reason), (Step::Succeeded, Reason::Recovered));
        assert!(
            s.host.is_none() && s.attempts.is_empty(),
            "nothing was begun"
        );
    }
}

#[test]
fn f11_a_node_that_went_down_only_while_its_request_waited_counts_too() {
    let mut o = mk_by_node();
    o.conflict = other();
    node(&mut o).ready = true;
    let s = decide(&o, None, at(0)).state;
    assert!(!s.node_was_down);
    node(&mut o).ready = false;
    let (s, _) = writes(&o, &s, 30);
    node(&mut o).ready = true;
    o.conflict = None;
    assert_eq!(writes(&o, &s, 60).0.step, Step::Succeeded);
}

#[test]
fn f11_a_health_check_gets_time_to_evaluate_a_node_that_came_back() {
    let mut o = mk_observation();
    let s = decide(&o, None, at(0)).state;
    node(&mut o).ready = true;
    let (s, reason) = writes(&o, &s, 60);
    assert_eq!((s.step, reason), (Step::Pending, Reason::WaitingForHealth));
    assert_eq!(waits(&o, &s, 60), (Reason::WaitingForHealth, 75));
    let mut healthy = o.clone();
    healthy.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert_eq!(writes(&healthy, &s, 61).0.step, Step::Succeeded);
    // It has another cause, which a Ready Node does not remove.
    let (over, _) = writes(&o, &s, 75);
    assert_eq!(writes(&o, &over, 75).0.step, Step::Holding);
    // Down again while it waits, and back again: the time begins anew.
    node(&mut o).ready = false;
    assert_eq!(writes(&o, &s, 70).0.step, Step::Holding);
    o.conflict = other();
    let (s, reason) = writes(&o, &s, 70);
    assert_eq!(reason.label(), "OtherRemediation");
    o.conflict = None;
    node(&mut o).ready = true;
    let (s, _) = writes(&o, &s, 72);
    assert_eq!(waits(&o, &s, 72), (Reason::WaitingForHealth, 87));
}

#[test]
fn a_node_that_was_ready_all_the_time_is_cycled_as_asked() {
    let mut o = mk_by_node();
    node(&mut o).ready = true;
    let s = decide(&o, None, at(0)).state;
    assert_eq!(writes(&o, &s, 0).0.step, Step::Holding);
    o.conflict = other();
    assert_eq!(waits(&o, &s, 1).0.label(), "OtherRemediation");
    o.conflict = None;
    assert_eq!(writes(&o, &s, 60).0.step, Step::Holding);
}

#[test]
fn f6_a_request_whose_node_came_back_holds_up_nobody() {
    let mut o = mk_observation();
    let s = decide(&o, None, at(0)).state;
    assert!(decide(&o, Some(&s), at(0)).begins);
    node(&mut o).ready = true;
    assert!(!decide(&o, Some(&s), at(60)).begins);
}
