//! What the user may choose for a workload cluster that is down, a Node that is gone, a health check
//! that gives up, and clusters that do not know the taint.

use super::{super::*, build::*};

fn down() -> WorkloadView {
    WorkloadView::Unreachable {
        why: "connection refused".into(),
    }
}

#[test]
fn a_workload_api_that_is_down_for_long_keeps_the_host_off_unless_the_policy_says_otherwise() {
    let mut o = mk_held();
    o.workload = down();
    o.power = mk_power(599, PowerState::Off);
    for step in [Step::ConfirmingOff, Step::Tainting] {
        let s = mk_state(step);
        policy(&mut o).workload_down = WorkloadDown::KeepOff;
        assert_eq!(waits(&o, &s, 600).0.label(), "WorkloadUnreachable");
        policy(&mut o).workload_down = WorkloadDown::PowerOn;
        assert_eq!(waits(&o, &s, 599).0.label(), "WorkloadUnreachable");
        let (s, reason) = writes(&o, &s, 600);
        assert_eq!(
            (s.step, s.taint, reason.label()),
            (Step::PoweringOn, None, "TaintSkipped")
        );
    }
}

#[test]
fn f4_once_the_taint_may_stand_a_workload_api_that_is_down_is_waited_for() {
    let mut o = mk_held();
    o.workload = down();
    policy(&mut o).workload_down = WorkloadDown::PowerOn;
    o.power = mk_power(900, PowerState::Off);
    for step in [Step::Tainting, Step::Draining] {
        let mut s = mk_state(step);
        s.taint = Some(TaintOwner::Us);
        assert_eq!(waits(&o, &s, 900).0.label(), "WorkloadUnreachable");
    }
    let mut s = mk_state(Step::Tainting);
    s.strategy = Strategy::PowerOff;
    assert_eq!(waits(&o, &s, 900).0.label(), "WorkloadUnreachable");
}

#[test]
fn f1_before_it_is_switched_on_without_a_taint_the_bmc_has_the_last_word() {
    let mut o = mk_held();
    o.workload = down();
    policy(&mut o).workload_down = WorkloadDown::PowerOn;
    o.power = mk_power(590, PowerState::Off);
    let s = mk_state(Step::Tainting);
    assert_eq!(does(&o, &s, 600), Command::ReadPower);
    o.power = mk_power(600, PowerState::On);
    assert_eq!(writes(&o, &s, 600).1.label(), "FenceViolated");
}

#[test]
fn l1_every_step_with_a_time_says_until_when() {
    let p = Policy::default();
    let until = |step| {
        let s = mk_state(step);
        p.step_until(&s).map(|t| t.as_second() - 1_800_000_000)
    };
    for (step, second) in [
        (Step::Pending, None),
        (Step::PoweringOff, Some(560)),
        (Step::AwaitingConfirmation, Some(180)),
        (Step::ConfirmingOff, Some(120)),
        (Step::Tainting, Some(600)),
        (Step::Draining, Some(600)),
        (Step::PoweringOn, Some(560)),
        (Step::Booting, Some(600)),
        (Step::Restoring, Some(600)),
        (Step::Fenced, None),
    ] {
        assert_eq!(until(step), second, "{step:?}");
    }
}

/// What medik8s writes once, a person may take back.
#[test]
fn told_to_stop_and_not_any_more_it_goes_on_as_if_it_had_not_been() {
    let mut o = mk_observation();
    o.power = mk_power(5, PowerState::On);
    let mut s = mk_state(Step::Restoring);
    s.end_reason = Some(Reason::WithdrawnAfterOff);
    assert_eq!(waits(&o, &s, 5).0, Reason::WaitingForHealth);
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    o.power = mk_power(5, PowerState::Off);
    let mut s = mk_state(Step::Draining);
    s.strategy = Strategy::PowerOff;
    s.end_reason = Some(Reason::WithdrawnAfterOff);
    let (s, reason) = writes(&o, &s, 5);
    assert_eq!((s.step, reason), (Step::Fenced, Reason::Fenced));
    assert_eq!(s.failed(), None);
}

#[test]
fn a_node_that_is_gone_is_power_cycled_or_replaced_at_once() {
    let mut o = mk_observation();
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    assert_eq!(
        writes(&o, &mk_state(Step::Pending), 0).0.step,
        Step::Holding
    );
    policy(&mut o).node_gone = NodeGone::Replace;
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!((s.step, reason), (Step::Escalated, Reason::Exhausted(1)));
    assert_eq!(s.attempts[0].reason, Reason::NodeGone("node-7".into()));
    assert_eq!(does(&o, &s, 0), Command::Escalate { retire: true });
    // Kept off, it is switched off once and not asked again.
    policy(&mut o).on_exhausted = OnExhausted::StayOff;
    let (s, _) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!(s.step, Step::Retrying);
    assert_eq!(writes(&o, &s, 0).0.step, Step::Holding);
    o.request.paused = true;
    assert_eq!(waits(&o, &mk_state(Step::Pending), 0).0, Reason::Paused);
}

#[test]
fn a_request_by_the_name_of_a_node_that_does_not_exist_switches_nothing() {
    let mut o = mk_observation();
    o.request.by_node = true;
    o.request.finalizer = false;
    o.machine = Some(MachineView::not_asked());
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "NodeNotFound"));
    let (s, _) = writes(&o, &s, 0);
    assert_eq!(s.step, Step::Blocked);
    assert_eq!(
        decide(&o, Some(&s), at(0)).next,
        Next::Done(Outcome::Failed)
    );
}

#[test]
fn a_health_check_that_gives_up_ends_what_was_not_begun() {
    let mut o = mk_observation();
    o.request.timed_out = true;
    for step in [Step::Pending, Step::Holding, Step::Retrying] {
        let (s, reason) = writes(&o, &mk_state(step), 0);
        assert_eq!((s.step, reason), (Step::Aborting, Reason::TimedOut));
    }
}

#[test]
fn f4_f9_a_health_check_that_gives_up_in_the_middle_gets_the_host_back_and_cleaned() {
    let mut o = mk_held();
    o.request.timed_out = true;
    // Off and not tainted: on again.
    let (s, _) = writes(&o, &mk_state(Step::ConfirmingOff), 1);
    assert_ne!(s.step, Step::Draining);
    let mut untainted = mk_state(Step::Tainting);
    untainted.taint = None;
    let (s, reason) = writes(&o, &untainted, 1);
    assert_eq!(
        (s.step, reason),
        (Step::PoweringOn, Reason::WithdrawnAfterOff)
    );
    // Tainted: the drain comes first, also where it was to stay off.
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(10, PowerState::Off);
    o.drain = Some(Drain::default());
    let mut s = mk_state(Step::Draining);
    s.strategy = Strategy::PowerOff;
    let (s, _) = writes(&o, &s, 10);
    assert_eq!(s.step, Step::PoweringOn);
    // Cleaned, it is over, whatever attempts were left; the object itself stays.
    let s = mk_state(Step::Restoring);
    assert_eq!(does(&o, &s, 20), Command::RemoveTaint);
    node(&mut o).taint = Taint::Absent;
    bmh(&mut o).our_hold = false;
    let (s, reason) = writes(&o, &s, 20);
    assert_eq!((s.step, reason), (Step::Aborting, Reason::TimedOut));
    let (s, _) = writes(&o, &s, 20);
    assert_eq!((s.step, s.attempts.len()), (Step::Blocked, 1));
    assert_eq!(s.failed(), Some(&Reason::TimedOut));
    assert_eq!(does(&o, &s, 20), Command::RemoveFinalizer(Outcome::Failed));
}

fn legacy() -> Observation {
    let mut o = mk_held();
    o.node_action = NodeAction::Delete;
    o.power = mk_power(1, PowerState::Off);
    o
}

#[test]
fn f1_f2_a_node_is_deleted_only_confirmed_off_recorded_and_backed_up() {
    let mut o = legacy();
    let mut s = mk_state(Step::Tainting);
    s.taint = None;
    o.power = None;
    assert_eq!(does(&o, &s, 1), Command::ReadPower);
    o.power = mk_power(1, PowerState::On);
    assert_eq!(writes(&o, &s, 1).1.label(), "FenceViolated");
    o.power = mk_power(1, PowerState::Off);
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!(reason.label(), "DeletingNode");
    assert_eq!(s.node_action, Some(NodeAction::Delete));
    assert_eq!(does(&o, &s, 1), Command::BackUpNode);
    o.request.node_backup = true;
    let delete = Command::DeleteNode { uid: "n7".into() };
    assert_eq!(does(&o, &s, 1), delete);
    // Decided once: an upgrade in the middle does not mix the two ways.
    o.node_action = NodeAction::Taint;
    assert_eq!(does(&o, &s, 1), delete);
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    assert_eq!(writes(&o, &s, 1).0.step, Step::Draining);
}

#[test]
fn f5_a_node_whose_lease_is_renewed_is_not_deleted() {
    let mut o = legacy();
    node(&mut o).lease.as_mut().unwrap().renewed = "09:09:09".into();
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(0);
    let mut s = mk_state(Step::Tainting);
    s.taint = None;
    assert_eq!(writes(&o, &s, 1).1.label(), "LeaseRenewed");
}

#[test]
fn f9_a_node_that_came_back_gets_what_it_had_before_the_request_ends() {
    let mut o = mk_observation();
    o.request.node_backup = true;
    let mut s = mk_state(Step::Restoring);
    s.node_action = Some(NodeAction::Delete);
    assert_eq!(does(&o, &s, 1), Command::RestoreNode);
    o.request.deleting = true;
    assert_eq!(does(&o, &s, 1), Command::RestoreNode);
    assert_eq!(does(&o, &mk_state(Step::Aborting), 1), Command::RestoreNode);
    // Withdrawn while it boots: it is waited for, as with a taint of ours.
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    let mut booting = mk_state(Step::Booting);
    booting.taint = None;
    assert_eq!(waits(&o, &booting, 10).0, Reason::Booting);
    // It never came: the next attempt finds the backup where it was.
    o.request.deleting = false;
    s.end_reason = Some(Reason::BootTimeout);
    assert_eq!(writes(&o, &s, 700).0.step, Step::Retrying);
}
