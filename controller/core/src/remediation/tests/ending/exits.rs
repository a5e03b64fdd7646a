//! F9: every end of a remediation removes what it added; and the end of the attempts (L1).

use super::{super::*, build::*};

#[test]
fn remediation_deleted_after_its_node_is_back_has_succeeded() {
    let mut o = mk_observation();
    o.object.deleting = true;
    let s = mk_state(Step::Restoring);
    // The Node is as it was before the power-off.
    let withdrawn = Command::RemoveFinalizer(RemediationOutcome::Withdrawn);
    assert_eq!(does(&o, &s, 5), withdrawn);
    node(&mut o).ready = true;
    assert_eq!(does(&o, &s, 5), withdrawn);
    node(&mut o).boot_id = "another".into();
    assert_eq!(
        does(&o, &s, 5),
        Command::RemoveFinalizer(RemediationOutcome::Succeeded)
    );
    let mut given_up = s;
    given_up.attempt.end_reason = Some(Reason::BootTimeout);
    assert_eq!(does(&o, &given_up, 5), withdrawn);
}

#[test]
fn f9_withdrawal_during_boot_removes_the_taint_before_the_finalizer() {
    let mut o = mk_observation();
    o.object.deleting = true;
    node(&mut o).taint = Taint::Ours;
    let s = mk_state(Step::Booting);
    assert_eq!(waits(&o, &s, 5), (Reason::Booting, 15));
    let (s, _) = writes(&o, &s, 600);
    assert_eq!(does(&o, &s, 600), Command::RemoveTaint);
    node(&mut o).taint = Taint::Absent;
    assert_eq!(
        does(&o, &s, 600),
        Command::RemoveFinalizer(RemediationOutcome::Withdrawn)
    );
    // Without a taint of ours nothing has to be awaited.
    let mut untainted = mk_state(Step::Booting);
    untainted.attempt.taint = Some(TaintOwner::Other);
    assert_eq!(
        does(&o, &untainted, 5),
        Command::RemoveFinalizer(RemediationOutcome::Withdrawn)
    );
}

#[test]
fn f9_existing_or_replaced_taint_is_not_removed() {
    let mut o = mk_held();
    o.power = mk_power(1, PowerState::Off);
    node(&mut o).taint = Taint::Other;
    let (s, _) = writes(&o, &mk_state(Step::Tainting), 2);
    assert_eq!(s.attempt.taint, Some(TaintOwner::Other));
    assert_eq!(writes(&o, &s, 2).0.step, Step::Draining);
    let mut o = mk_observation();
    let back = node(&mut o);
    (back.ready, back.boot_id) = (true, "boot-2".into());
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    for (owner, taint) in [
        (TaintOwner::Other, Taint::Ours),
        (TaintOwner::Us, Taint::Other),
    ] {
        node(&mut o).taint = taint;
        let mut s = mk_state(Step::Restoring);
        s.attempt.taint = Some(owner);
        assert_eq!(writes(&o, &s, 5).0.step, Step::Succeeded);
    }
}

#[test]
fn f9_hold_is_removed_before_the_finalizer_even_without_state() {
    let o = mk_deleted();
    assert_eq!(decide(&o, None, at(0)).next, Next::Do(Command::RemoveHold));
    for step in [Step::Succeeded, Step::Escalated, Step::Blocked] {
        assert_eq!(does(&o, &mk_state(step), 0), Command::RemoveHold);
    }
}

#[test]
fn f9_workload_outage_delays_neither_hold_removal_nor_power_on() {
    let mut o = mk_held();
    o.workload = WorkloadView::Unreachable {
        why: "connection refused".into(),
    };
    let mut s = mk_state(Step::Aborting);
    s.attempt.taint = Some(TaintOwner::Us);
    s.attempt.end_reason = Some(Reason::LeaseRenewed("node-7".into()));
    assert_eq!(does(&o, &s, 0), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    bmh(&mut o).powered_on = Some(true);
    assert!(matches!(does(&o, &s, 0), Command::PowerOn { .. }));
    o.operation = confirmed();
    assert_eq!(waits(&o, &s, 0).0.label(), "WorkloadUnreachable");
}

#[test]
fn f5_mistaken_host_that_others_keep_off_stays_off() {
    let mut s = mk_state(Step::Aborting);
    s.attempt.end_reason = Some(Reason::LeaseRenewed("node-7".into()));
    let mut held = mk_observation();
    bmh(&mut held)
        .foreign_holds
        .insert("reboot.metal3.io/firmware".into());
    let mut offline = mk_observation();
    bmh(&mut offline).online = false;
    for o in [held, offline] {
        assert_eq!(does(&o, &s, 0), Command::Release);
    }
}

#[test]
fn f5_power_on_of_a_mistaken_host_is_retried() {
    let mut o = mk_observation();
    let mut s = mk_state(Step::Aborting);
    s.attempt.end_reason = Some(Reason::LeaseRenewed("node-7".into()));
    for (t, pause) in [(10, 5), (20, 5), (30, 60), (100, 60)] {
        o.operation = unconfirmed();
        (s, _) = writes(&o, &s, t);
        o.operation = None;
        let (reason, until) = waits(&o, &s, t);
        assert_eq!((reason.label(), until), ("PowerOnUnconfirmed", t + pause));
        assert!(matches!(does(&o, &s, t + pause), Command::PowerOn { .. }));
    }
    o.operation = Some(OperationView::Running);
    assert_eq!(waits(&o, &s, 200).1, 215);
    o.operation = None;
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    assert_eq!(waits(&o, &s, 200).0.label(), "AgentUnreachable");
}

#[test]
fn online_false_aborts_and_leaves_the_host_off() {
    for step in [
        Step::Pending,
        Step::Holding,
        Step::PoweringOff,
        Step::AwaitingConfirmation,
        Step::ConfirmingOff,
        Step::Tainting,
        Step::PoweringOn,
        Step::Booting,
        Step::Retrying,
    ] {
        let mut o = mk_offline();
        let (mut s, reason) = writes(&o, &mk_state(step), 1);
        assert_eq!(s.step, Step::Aborting, "{step:?}");
        assert_eq!(reason, Reason::HostOffline("metal/host-7".into()));
        let mut done = Vec::new();
        let outcome = loop {
            let d = decide(&o, Some(&s), at(1));
            match d.next {
                Next::Write => s = d.state,
                Next::Do(command) => {
                    match command {
                        Command::RemoveHold => bmh(&mut o).our_hold = false,
                        Command::RemoveFinalizer(_) => o.object.finalizer = false,
                        Command::RemoveTaint | Command::Release => {}
                        ref other => panic!("{other:?} at {step:?}"),
                    }
                    o.completed.insert(command.clone());
                    done.push(command);
                }
                Next::Wait(_) => panic!("{d:?} at {step:?}"),
                Next::Done(outcome) => break outcome,
            }
        };
        assert_eq!(outcome, RemediationOutcome::Failed);
        assert!(done.contains(&Command::RemoveHold));
    }
}

#[test]
fn online_false_while_draining_removes_the_taint_after_the_drain() {
    let mut o = mk_offline();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(1, PowerState::Off);
    o.drain = Some(Drain::default());
    let (s, reason) = writes(&o, &mk_state(Step::Draining), 2);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "HostOffline"));
    assert_eq!(does(&o, &s, 2), Command::RemoveTaint);
}

#[test]
fn f9_failing_power_on_does_not_block_a_deleted_remediation() {
    let mut o = mk_observation();
    o.object.deleting = true;
    o.operation = unconfirmed();
    let mut s = mk_state(Step::PoweringOn);
    s.tries = 2;
    let (s, reason) = writes(&o, &s, 600);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Aborting, "PowerOnUnconfirmed")
    );
    node(&mut o).taint = Taint::Ours;
    o.operation = None;
    assert_eq!(does(&o, &s, 600), Command::RemoveTaint);
    node(&mut o).taint = Taint::Absent;
    assert_eq!(does(&o, &s, 600), Command::Release);
    o.completed.insert(Command::Release);
    let (s, _) = writes(&o, &s, 600);
    assert_eq!(
        does(&o, &s, 600),
        Command::RemoveFinalizer(RemediationOutcome::Failed)
    );
}

#[test]
fn l1_attempts_are_counted_as_in_capm3_before_escalation() {
    let mut o = mk_observation();
    node(&mut o).taint = Taint::Absent;
    let (s, _) = writes(&o, &mk_state(Step::Booting), 600);
    assert_eq!(
        (s.step, s.attempt.end_reason.clone()),
        (Step::Restoring, Some(Reason::BootTimeout))
    );
    let (s, reason) = writes(&o, &s, 600);
    assert_eq!(
        (s.step, s.attempt.number, reason),
        (Step::Retrying, 2, Reason::BootTimeout)
    );
    assert_eq!(
        (
            s.retry_count(),
            s.power_off_repeats,
            s.attempt.off.clone(),
            s.attempt.taint
        ),
        (1, 0, None, None)
    );
    let (s, _) = writes(&o, &s, 601);
    assert_eq!(s.step, Step::Holding);
    let mut last = mk_state(Step::Restoring);
    last.attempt.number = 2;
    last.attempt.end_reason = Some(Reason::BootTimeout);
    let (s, reason) = writes(&o, &last, 1300);
    assert_eq!((s.step, reason), (Step::Escalated, Reason::Exhausted(2)));
    assert_eq!(s.phase().as_str(), "Deleting machine");
    assert_eq!(does(&o, &s, 1300), Command::Escalate { retire: true });
    o.machine.as_mut().unwrap().owner_remediated_false = true;
    assert_eq!(
        does(&o, &s, 1300),
        Command::Escalate { retire: true },
        "the host is not marked yet"
    );
    bmh(&mut o).unhealthy_mark = true;
    assert_eq!(
        does(&o, &s, 1300),
        Command::RemoveFinalizer(RemediationOutcome::Escalated)
    );
    o.object.finalizer = false;
    assert_eq!(
        decide(&o, Some(&s), at(1300)).next,
        Next::Done(RemediationOutcome::Escalated)
    );
    // A limit lowered below the count ends it too.
    policy(&mut o).retry_limit = 0;
    assert_eq!(writes(&o, &last, 1300).0.step, Step::Escalated);
}

#[test]
fn remediation_by_node_has_no_machine_to_escalate() {
    let mut o = mk_direct();
    o.machine = Some(MachineView::not_asked());
    assert_eq!(
        does(&o, &mk_direct_state(Step::Escalated), 0),
        Command::RemoveFinalizer(RemediationOutcome::Escalated)
    );
    assert_eq!(
        writes(&o, &mk_direct_state(Step::Pending), 0).0.step,
        Step::Holding
    );
}

#[test]
fn node_recovered_before_the_next_attempt_is_not_switched_off() {
    let mut o = mk_observation();
    node(&mut o).ready = true;
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert_eq!(
        writes(&o, &mk_state(Step::Retrying), 0).0.step,
        Step::Succeeded
    );
}
