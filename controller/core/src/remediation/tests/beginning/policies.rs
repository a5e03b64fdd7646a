//! The policies for a workload cluster that is unreachable, a Node that is gone, a health check that
//! times out, and clusters that do not support the taint.

use super::{super::*, build::*};

fn down() -> WorkloadView {
    WorkloadView::Unreachable {
        why: "connection refused".into(),
    }
}

#[test]
fn long_workload_outage_keeps_the_host_off_unless_policy_is_power_on() {
    let mut o = mk_held();
    o.workload = down();
    o.power = mk_power(599, PowerState::Off);
    for step in [Step::ConfirmingOff, Step::Tainting] {
        let s = mk_state(step);
        policy(&mut o).workload_down = UnreachablePolicy::StayOff;
        assert_eq!(waits(&o, &s, 600).0.label(), "WorkloadUnreachable");
        policy(&mut o).workload_down = UnreachablePolicy::PowerOn;
        assert_eq!(waits(&o, &s, 599).0.label(), "WorkloadUnreachable");
        let (s, reason) = writes(&o, &s, 600);
        assert_eq!(
            (s.step, s.attempt.taint, reason.label()),
            (Step::PoweringOn, None, "TaintSkipped")
        );
    }
}

#[test]
fn f4_possible_taint_keeps_the_host_off_during_a_workload_outage() {
    let mut o = mk_held();
    o.workload = down();
    policy(&mut o).workload_down = UnreachablePolicy::PowerOn;
    o.power = mk_power(900, PowerState::Off);
    for step in [Step::Tainting, Step::Draining] {
        let mut s = mk_state(step);
        s.attempt.taint = Some(TaintOwner::Us);
        assert_eq!(waits(&o, &s, 900).0.label(), "WorkloadUnreachable");
    }
    let mut s = mk_state(Step::Tainting);
    s.strategy = Strategy::PowerOff;
    assert_eq!(waits(&o, &s, 900).0.label(), "WorkloadUnreachable");
}

#[test]
fn f1_power_on_without_a_taint_requires_a_recent_reading_of_off() {
    let mut o = mk_held();
    o.workload = down();
    policy(&mut o).workload_down = UnreachablePolicy::PowerOn;
    o.power = mk_power(590, PowerState::Off);
    let s = mk_state(Step::Tainting);
    assert_eq!(does(&o, &s, 600), Command::ReadPower);
    o.power = mk_power(600, PowerState::On);
    assert_eq!(writes(&o, &s, 600).1.label(), "FenceViolated");
}

#[test]
fn l1_step_deadlines_follow_the_policy() {
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

/// A person may remove the annotation that medik8s sets.
#[test]
fn revoked_stop_request_lets_the_remediation_continue() {
    let mut o = mk_observation();
    o.power = mk_power(5, PowerState::On);
    let mut s = mk_state(Step::Restoring);
    s.attempt.end_reason = Some(Reason::WithdrawnAfterOff);
    assert_eq!(waits(&o, &s, 5).0, Reason::WaitingForHealth);
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    o.power = mk_power(5, PowerState::Off);
    let mut s = mk_state(Step::Draining);
    s.strategy = Strategy::PowerOff;
    s.attempt.end_reason = Some(Reason::WithdrawnAfterOff);
    let (s, reason) = writes(&o, &s, 5);
    assert_eq!((s.step, reason), (Step::Fenced, Reason::Fenced));
    assert_eq!(s.failed(), None);
}

#[test]
fn missing_node_is_power_cycled_or_replaced_by_policy() {
    let mut o = mk_observation();
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    assert_eq!(
        writes(&o, &mk_state(Step::Pending), 0).0.step,
        Step::Holding
    );
    policy(&mut o).node_gone = NodeGonePolicy::Replace;
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!((s.step, reason), (Step::Escalated, Reason::Exhausted(1)));
    assert_eq!(s.attempts[0].reason, Reason::NodeGone("node-7".into()));
    assert_eq!(does(&o, &s, 0), Command::Escalate { retire: true });
    // With StayOff the host is switched off once.
    policy(&mut o).on_exhausted = OnExhausted::StayOff;
    let (s, _) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!(s.step, Step::Retrying);
    assert_eq!(writes(&o, &s, 0).0.step, Step::Holding);
    o.object.paused = true;
    assert_eq!(waits(&o, &mk_state(Step::Pending), 0).0, Reason::Paused);
}

#[test]
fn remediation_of_a_nonexistent_node_switches_nothing() {
    let mut o = mk_observation();
    o.object.by_node = true;
    o.object.finalizer = false;
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
        Next::Done(RemediationOutcome::Failed)
    );
}

#[test]
fn timed_out_health_check_aborts_before_the_power_off() {
    let mut o = mk_observation();
    o.object.timed_out = true;
    for step in [Step::Pending, Step::Holding, Step::Retrying] {
        let (s, reason) = writes(&o, &mk_state(step), 0);
        assert_eq!((s.step, reason), (Step::Aborting, Reason::TimedOut));
    }
}

#[test]
fn f4_f9_timed_out_health_check_after_power_off_restores_the_host() {
    let mut o = mk_held();
    o.object.timed_out = true;
    // Off and not tainted: the host is switched on again.
    let (s, _) = writes(&o, &mk_state(Step::ConfirmingOff), 1);
    assert_ne!(s.step, Step::Draining);
    let mut untainted = mk_state(Step::Tainting);
    untainted.attempt.taint = None;
    let (s, reason) = writes(&o, &untainted, 1);
    assert_eq!(
        (s.step, reason),
        (Step::PoweringOn, Reason::WithdrawnAfterOff)
    );
    // Tainted: the drain comes first, also with the strategy PowerOff.
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(10, PowerState::Off);
    o.drain = Some(Drain::default());
    let mut s = mk_state(Step::Draining);
    s.strategy = Strategy::PowerOff;
    let (s, _) = writes(&o, &s, 10);
    assert_eq!(s.step, Step::PoweringOn);
    // After the cleanup the remediation ends, whatever attempts are left; the object stays.
    let s = mk_state(Step::Restoring);
    assert_eq!(does(&o, &s, 20), Command::RemoveTaint);
    node(&mut o).taint = Taint::Absent;
    bmh(&mut o).our_hold = false;
    let (s, reason) = writes(&o, &s, 20);
    assert_eq!((s.step, reason), (Step::Aborting, Reason::TimedOut));
    let (s, _) = writes(&o, &s, 20);
    assert_eq!((s.step, s.attempts.len()), (Step::Blocked, 1));
    assert_eq!(s.failed(), Some(&Reason::TimedOut));
    assert_eq!(
        does(&o, &s, 20),
        Command::RemoveFinalizer(RemediationOutcome::Failed)
    );
}

fn legacy() -> Observation {
    let mut o = mk_held();
    o.node_action = NodeAction::Delete;
    o.power = mk_power(1, PowerState::Off);
    o
}

#[test]
fn f1_f2_node_is_deleted_only_if_off_recorded_and_backed_up() {
    let mut o = legacy();
    let mut s = mk_state(Step::Tainting);
    s.attempt.taint = None;
    o.power = None;
    assert_eq!(does(&o, &s, 1), Command::ReadPower);
    o.power = mk_power(1, PowerState::On);
    assert_eq!(writes(&o, &s, 1).1.label(), "FenceViolated");
    o.power = mk_power(1, PowerState::Off);
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!(reason.label(), "DeletingNode");
    assert_eq!(s.attempt.node_action, Some(NodeAction::Delete));
    assert_eq!(does(&o, &s, 1), Command::BackUpNode);
    o.object.node_backup = true;
    let delete = Command::DeleteNode { uid: "n7".into() };
    assert_eq!(does(&o, &s, 1), delete);
    // The action is decided once: an upgrade during the remediation does not change it.
    o.node_action = NodeAction::Taint;
    assert_eq!(does(&o, &s, 1), delete);
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    assert_eq!(writes(&o, &s, 1).0.step, Step::Draining);
}

#[test]
fn f5_node_with_a_renewed_lease_is_not_deleted() {
    let mut o = legacy();
    node(&mut o).lease.as_mut().unwrap().renewed = "09:09:09".into();
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(0);
    let mut s = mk_state(Step::Tainting);
    s.attempt.taint = None;
    assert_eq!(writes(&o, &s, 1).1.label(), "LeaseRenewed");
}

#[test]
fn f9_returned_node_gets_its_labels_and_annotations_back() {
    let mut o = mk_observation();
    o.object.node_backup = true;
    let mut s = mk_state(Step::Restoring);
    s.attempt.node_action = Some(NodeAction::Delete);
    assert_eq!(does(&o, &s, 1), Command::RestoreNode);
    o.object.deleting = true;
    assert_eq!(does(&o, &s, 1), Command::RestoreNode);
    assert_eq!(does(&o, &mk_state(Step::Aborting), 1), Command::RestoreNode);
    // Withdrawn during the boot: the Node is awaited, as with a taint of ours.
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    let mut booting = mk_state(Step::Booting);
    booting.attempt.taint = None;
    assert_eq!(waits(&o, &booting, 10).0, Reason::Booting);
    // The Node did not return: the next attempt finds the backup on the object.
    o.object.deleting = false;
    s.attempt.end_reason = Some(Reason::BootTimeout);
    assert_eq!(writes(&o, &s, 700).0.step, Step::Retrying);
}

#[test]
fn remediation_that_a_power_policy_holds_waits_and_switches_nothing() {
    let mut o = mk_observation();
    o.conflict = Some(Reason::HeldByPolicy(
        "PowerPolicy p: within its freeze".into(),
    ));
    for step in [Step::Pending, Step::Retrying] {
        let (reason, _) = waits(&o, &mk_state(step), 0);
        assert_eq!(reason.label(), "HeldByPolicy");
        assert!(reason.is_blocked());
    }
}

#[test]
fn attempt_limit_of_a_power_policy_ends_the_remediation_as_if_all_attempts_had_failed() {
    let mut o = mk_observation();
    o.conflict = Some(Reason::PolicyLimitReached("2 attempts".into()));
    for (on_exhausted, step, label) in [
        (OnExhausted::Escalate, Step::Escalated, "Exhausted"),
        (OnExhausted::Notify, Step::Escalated, "ExhaustedTold"),
        (OnExhausted::StayOff, Step::Retrying, "ExhaustedKeptOff"),
    ] {
        policy(&mut o).on_exhausted = on_exhausted;
        let (s, reason) = writes(&o, &mk_state(Step::Pending), 0);
        assert_eq!((s.step, reason.label()), (step, label));
        let recorded = s.attempts.last().map(|a| a.reason.label());
        assert_eq!(recorded, Some("PolicyLimitReached"));
    }
}
