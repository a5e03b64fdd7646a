//! F11: a Node that is Ready again before anything was begun.

use super::{super::*, build::*};

/// A remediation by Node, without a Machine.
fn mk_by_node() -> Observation {
    let mut o = mk_observation();
    o.object.by_node = true;
    o.machine = Some(MachineView::not_asked());
    o
}

fn other() -> Option<Reason> {
    Some(Reason::OtherRemediation(
        "Metal3Remediation metal3/m-7".into(),
    ))
}

#[test]
fn f11_waiting_remediation_does_not_cycle_a_recovered_node() {
    for mut o in [mk_by_node(), mk_observation()] {
        o.machine.as_mut().unwrap().not_checked = true;
        o.conflict = other();
        let s = first(&o);
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

/// The first state of a remediation whose object nobody has worked on.
fn first(o: &Observation) -> State {
    let mut fresh = o.clone();
    fresh.object.finalizer = false;
    decide(&fresh, None, at(0)).state
}

#[test]
fn f11_node_that_failed_and_recovered_during_the_wait_is_not_cycled() {
    let mut o = mk_by_node();
    o.conflict = other();
    node(&mut o).ready = true;
    let s = first(&o);
    assert!(!s.node_was_down);
    node(&mut o).ready = false;
    let (s, _) = writes(&o, &s, 30);
    node(&mut o).ready = true;
    o.conflict = None;
    assert_eq!(writes(&o, &s, 60).0.step, Step::Succeeded);
}

#[test]
fn f11_health_check_has_time_to_evaluate_a_recovered_node() {
    let mut o = mk_observation();
    let s = first(&o);
    node(&mut o).ready = true;
    let (s, reason) = writes(&o, &s, 60);
    assert_eq!((s.step, reason), (Step::Pending, Reason::WaitingForHealth));
    assert_eq!(waits(&o, &s, 60), (Reason::WaitingForHealth, 75));
    let mut healthy = o.clone();
    healthy.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert_eq!(writes(&healthy, &s, 61).0.step, Step::Succeeded);
    // The verdict has another cause, which a Ready Node does not remove.
    let (over, _) = writes(&o, &s, 75);
    assert_eq!(writes(&o, &over, 75).0.step, Step::Holding);
    // Another failure and recovery during the wait restart the time.
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
fn always_ready_node_is_cycled_as_requested() {
    let mut o = mk_by_node();
    node(&mut o).ready = true;
    let s = first(&o);
    assert_eq!(writes(&o, &s, 0).0.step, Step::Holding);
    o.conflict = other();
    assert_eq!(waits(&o, &s, 1).0.label(), "OtherRemediation");
    o.conflict = None;
    assert_eq!(writes(&o, &s, 60).0.step, Step::Holding);
}

#[test]
fn f6_remediation_of_a_recovered_node_blocks_no_other() {
    let mut o = mk_observation();
    let s = first(&o);
    assert!(decide(&o, Some(&s), at(0)).begins);
    node(&mut o).ready = true;
    assert!(!decide(&o, Some(&s), at(60)).begins);
}

#[test]
fn f11_remediation_of_a_check_from_before_the_recovery_does_not_begin() {
    let ready = |o: &mut Observation, since: i64| {
        node(o).ready = true;
        node(o).ready_since = Some(at(since));
    };
    // The Node became Ready after the check had made the remediation, and before a controller saw it.
    let mut o = mk_by_node();
    o.object.made_by_check = Some(at(-300));
    ready(&mut o, -200);
    let s = first(&o);
    assert_eq!(writes(&o, &s, 0).0.step, Step::Succeeded);
    // What a person requests, and what a check requests for a Node that is Ready all the time, is carried out.
    let mut by_person = o.clone();
    by_person.object.made_by_check = None;
    ready(&mut o, -400);
    for o in [by_person, o] {
        let s = first(&o);
        assert_eq!(writes(&o, &s, 0).0.step, Step::Holding);
    }
    // The check calls the Machine healthy and did not delete its remediation.
    let mut o = mk_observation();
    o.object.made_by_check = Some(at(-300));
    ready(&mut o, -400);
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    let s = first(&o);
    assert_eq!(writes(&o, &s, 0).0.step, Step::Succeeded);
}

/// A move and a restore give a remediation that waits a new time of creation, after the recovery.
#[test]
fn f11_copied_remediation_of_a_check_waits_for_its_verdict() {
    let mut o = mk_observation();
    node(&mut o).ready = true;
    node(&mut o).ready_since = Some(at(-400));
    o.object.made_by_check = Some(at(-300));
    let created = |o: &mut Observation, seconds| {
        o.machine.as_mut().unwrap().created = Some(at(seconds));
    };
    // The Node is from before the Machine.
    created(&mut o, -310);
    let s = first(&o);
    let (s, reason) = writes(&o, &s, 0);
    assert_eq!((s.step, reason), (Step::Pending, Reason::WaitingForHealth));
    let mut healthy = o.clone();
    healthy.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert_eq!(writes(&healthy, &s, 5).0.step, Step::Succeeded);
    // The check still calls it unhealthy.
    let (s, _) = writes(&o, &s, 60);
    assert_eq!(writes(&o, &s, 60).0.step, Step::Holding);
    // The Machine was there first, or a person made the remediation.
    let mut by_person = o.clone();
    by_person.object.made_by_check = None;
    created(&mut o, -2000);
    for o in [by_person, o] {
        assert_eq!(writes(&o, &first(&o), 0).0.step, Step::Holding);
    }
}

/// The workload cluster is not connected yet when a controller starts.
#[test]
fn f11_remediation_of_a_check_waits_for_its_verdict_if_its_node_was_not_seen_at_first() {
    let mut o = mk_observation();
    let seen = o.workload.clone();
    o.object.made_by_check = Some(at(-300));
    o.workload = WorkloadView::Unreachable {
        why: "there is no connection".into(),
    };
    let s = first(&o);
    o.workload = seen;
    node(&mut o).ready = true;
    node(&mut o).ready_since = Some(at(-200));
    assert_eq!(writes(&o, &s, 5).1, Reason::WaitingForHealth);
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert_eq!(writes(&o, &s, 5).0.step, Step::Succeeded);
}
