//! F11: withdrawal of the remediation at every step.

use super::{super::*, build::*};

#[test]
fn l1_cluster_is_pinned_once_known_and_never_changed() {
    let mut o = mk_held();
    o.cluster = Some("ns/c".into());
    let first = decide(&o, None, at(0)).state;
    assert_eq!(first.cluster.as_deref(), Some("ns/c"));
    // A state of an earlier version, or begun while the Machine was unknown.
    for step in [
        Step::Holding,
        Step::PoweringOff,
        Step::Draining,
        Step::Booting,
    ] {
        let (s, _) = writes(&o, &mk_state(step), 0);
        assert_eq!((s.step, s.cluster.as_deref()), (step, Some("ns/c")));
        o.cluster = Some("ns/other".into());
        let next = decide(&o, Some(&s), at(0)).state;
        assert_eq!(next.cluster.as_deref(), Some("ns/c"));
        o.cluster = Some("ns/c".into());
    }
}

#[test]
fn f11_withdrawal_before_any_action_only_removes_the_finalizer() {
    let mut o = mk_observation();
    o.object.deleting = true;
    assert_eq!(
        does(&o, &mk_state(Step::Pending), 0),
        Command::RemoveFinalizer(RemediationOutcome::Withdrawn)
    );
    o.object.finalizer = false;
    let done = Next::Done(RemediationOutcome::Withdrawn);
    assert_eq!(decide(&o, Some(&mk_state(Step::Pending)), at(0)).next, done);
    assert_eq!(decide(&o, None, at(0)).next, done);
}

#[test]
fn f11_withdrawal_while_holding_needs_no_agent() {
    let mut o = mk_deleted();
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    let (s, reason) = writes(&o, &mk_state(Step::Holding), 0);
    assert_eq!((s.step, reason), (Step::Aborting, Reason::Withdrawn));
    assert_eq!(does(&o, &s, 0), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    o.completed.insert(Command::RemoveHold);
    assert_eq!(
        does(&o, &s, 0),
        Command::RemoveFinalizer(RemediationOutcome::Withdrawn)
    );
}

#[test]
fn f7_withdrawal_removes_a_hold_that_is_not_observed_yet() {
    let mut o = mk_deleted();
    bmh(&mut o).our_hold = false;
    let (s, _) = writes(&o, &mk_state(Step::Holding), 0);
    // A former leader may have sent it.
    assert_eq!(does(&o, &s, 0), Command::RemoveHold);
    o.completed.insert(Command::RemoveHold);
    let end = Command::RemoveFinalizer(RemediationOutcome::Withdrawn);
    assert_eq!(does(&o, &s, 0), end);
    o.completed.clear();
    o.bmh = None;
    assert_eq!(does(&o, &s, 0), end);
}

#[test]
fn f11_withdrawal_before_the_power_off_aborts() {
    let mut o = mk_deleted();
    for operation in [
        None,
        Some(OperationView::Rejected {
            why: "no such host".into(),
        }),
    ] {
        o.operation = operation;
        let (s, _) = writes(&o, &mk_state(Step::PoweringOff), 0);
        assert_eq!(
            (s.step, s.attempt.end_reason.clone()),
            (Step::Aborting, Some(Reason::Withdrawn))
        );
        o.operation = None;
        assert_eq!(does(&o, &s, 0), Command::RemoveHold);
        let mut free = mk_observation();
        free.object.deleting = true;
        assert_eq!(does(&free, &s, 0), Command::Release);
        free.completed.insert(Command::Release);
        assert_eq!(
            does(&free, &s, 0),
            Command::RemoveFinalizer(RemediationOutcome::Withdrawn)
        );
    }
}

#[test]
fn f11_withdrawal_during_the_power_off_depends_on_sent_commands() {
    let mut o = Observation {
        bmh: None,
        ..mk_deleted()
    };
    let s = mk_direct_state(Step::PoweringOff);
    let cancel = Command::Cancel {
        id: operation_id(UID, &s).unwrap(),
    };
    o.operation = Some(OperationView::Running);
    assert_eq!(does(&o, &s, 3), cancel);
    o.completed.insert(cancel);
    assert_eq!(waits(&o, &s, 3).1, 18);
    let ended = |commands_sent| {
        Some(OperationView::Finished {
            outcome: OperationOutcome::Cancelled,
            commands_sent,
        })
    };
    o.operation = ended(0);
    assert_eq!(writes(&o, &s, 4).0.step, Step::Aborting);
    // A host that is still on may go off at any moment: the power-off is finished first.
    o.operation = ended(1);
    let (s, reason) = writes(&o, &s, 4);
    assert_eq!(
        (s.step, s.tries, reason),
        (Step::PoweringOff, 1, Reason::WithdrawnAfterOff)
    );
    o.operation = None;
    assert!(matches!(does(&o, &s, 4), Command::PowerOff { .. }));
    o.operation = Some(OperationView::Running);
    assert_eq!(waits(&o, &s, 5), (Reason::WithdrawnAfterOff, 20));
    for (operation, from) in [(confirmed(), None), (unconfirmed(), Some(at(25)))] {
        o.operation = operation;
        let (on, _) = writes(&o, &s, 10);
        assert_eq!((on.step, on.retry_at), (Step::PoweringOn, from));
    }
}

#[test]
fn f11_host_that_may_be_off_by_our_hold_is_switched_on_again() {
    let mut o = mk_deleted();
    o.operation = Some(OperationView::Finished {
        outcome: OperationOutcome::Cancelled,
        commands_sent: 0,
    });
    assert_eq!(
        writes(&o, &mk_state(Step::PoweringOff), 4).0.step,
        Step::PoweringOn
    );
    o.bmh = None;
    o.operation = Some(OperationView::Finished {
        outcome: OperationOutcome::Confirmed {
            readings: mk_proof(),
            taken: Some(mk_taken()),
        },
        commands_sent: 0,
    });
    assert_eq!(
        writes(&o, &mk_direct_state(Step::PoweringOff), 4).0.step,
        Step::PoweringOn
    );
}

#[test]
fn f11_withdrawal_after_an_earlier_try_finishes_the_cycle() {
    let mut o = mk_deleted();
    let mut s = mk_state(Step::PoweringOff);
    s.tries = 1;
    assert_eq!(writes(&o, &s, 0).0.step, Step::PoweringOn);
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    assert_eq!(waits(&o, &s, 0).0.label(), "AgentUnreachable");
}

#[test]
fn f11_withdrawal_after_confirmed_off_powers_on_without_a_taint() {
    let o = mk_deleted();
    for step in [Step::ConfirmingOff, Step::Tainting] {
        let (s, reason) = writes(&o, &mk_state(step), 1);
        assert_eq!(
            (s.step, reason),
            (Step::PoweringOn, Reason::WithdrawnAfterOff)
        );
    }
}

#[test]
fn f4_withdrawal_after_a_possible_taint_finishes_the_drain() {
    for step in [
        Step::PoweringOff,
        Step::ConfirmingOff,
        Step::Tainting,
        Step::Draining,
    ] {
        for mut o in [mk_deleted(), mk_offline()] {
            node(&mut o).taint = Taint::Ours;
            o.power = mk_power(1, PowerState::Off);
            o.drain = Some(Drain {
                pods: vec![mk_pod("db-0")],
                volumes: vec![],
            });
            let mut s = mk_state(step);
            s.attempt.taint = Some(TaintOwner::Us);
            s.power_off_repeats = 1;
            let next = decide(&o, Some(&s), at(2));
            match step {
                Step::PoweringOff => {
                    assert!(matches!(next.next, Next::Do(Command::PowerOff { .. })));
                }
                Step::ConfirmingOff => assert_eq!(next.state.step, Step::Tainting),
                Step::Tainting => assert_eq!(next.state.step, Step::Draining),
                _ => assert!(matches!(next.next, Next::Wait(_))),
            }
        }
    }
}

#[test]
fn f9_host_that_was_kept_off_has_booted_before_its_remediation_ends() {
    // It is switched on before a taint was set; until its end, health checks leave the host alone.
    let mut o = mk_deleted();
    o.bmh = None;
    let mut s = mk_direct_state(Step::Booting);
    s.attempt.taint = None;
    for (strategy, ends) in [
        (Strategy::Reboot, true),
        (Strategy::PowerOff, false),
        (Strategy::Evict, false),
    ] {
        s.strategy = strategy;
        let next = decide(&o, Some(&s), at(21)).next;
        let is_end = matches!(&next, Next::Do(Command::RemoveFinalizer(_)) | Next::Done(_));
        assert_eq!(is_end, ends, "{strategy:?}: {next:?}");
    }
}
