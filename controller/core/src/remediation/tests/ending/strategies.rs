//! The strategies PowerOff and PowerCycleFirst, and the policies for exhausted attempts.

use super::{super::*, build::*};

fn mk_cycle(step: Step) -> State {
    let mut s = mk_state(step);
    s.strategy = Strategy::PowerCycleFirst;
    s.attempt.taint = None;
    s
}

/// Drained and off, with a recent reading of the BMC.
fn mk_drained(now: i64) -> Observation {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(now, PowerState::Off);
    o.drain = Some(Drain::default());
    o
}

#[test]
fn strategy_is_fixed_when_the_attempt_begins() {
    let mut o = mk_observation();
    policy(&mut o).strategy = Strategy::PowerOff;
    let (s, _) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!((s.step, s.strategy), (Step::Holding, Strategy::PowerOff));
    // An edited or invalid policy does not switch the host on afterwards.
    for broken in [Ok(Policy::default()), Err(PolicyError::NoStrategy)] {
        let mut o = mk_drained(10);
        o.object.policy = broken;
        let mut s = mk_state(Step::Draining);
        s.strategy = Strategy::PowerOff;
        assert_eq!(writes(&o, &s, 10).0.step, Step::Fenced);
    }
}

#[test]
fn power_off_strategy_keeps_the_host_off_tainted_held_and_monitored() {
    let mut o = mk_drained(10);
    let mut s = mk_state(Step::Draining);
    s.strategy = Strategy::PowerOff;
    let (s, reason) = writes(&o, &s, 10);
    assert_eq!((s.step, reason), (Step::Fenced, Reason::Fenced));
    assert_eq!((s.attempt.drained, s.failed()), (Some(at(10)), None));
    assert_eq!(waits(&o, &s, 11), (Reason::Fenced, 41));
    assert_eq!(does(&o, &s, 41), Command::ReadPower);
    // Neither an agent that is gone nor a BMC that is silent changes anything.
    o.agent = AgentView::Unreachable { why: "dark".into() };
    assert_eq!(waits(&o, &s, 41).0, Reason::Fenced);
    o.agent = AgentView::Ready;
    o.power = mk_no_power(41);
    assert_eq!(waits(&o, &s, 42).0, Reason::Fenced);
    // A stop request changes nothing, because nothing is being tried.
    o.object.timed_out = true;
    assert_eq!(waits(&o, &s, 42).0, Reason::Fenced);
}

#[test]
fn f3_fenced_host_seen_on_or_without_hold_is_switched_off_again() {
    let s = mk_state(Step::Fenced);
    let mut o = mk_drained(10);
    o.power = mk_power(10, PowerState::On);
    let (again, reason) = writes(&o, &s, 11);
    assert_eq!(
        (
            again.step,
            again.attempt.off,
            again.attempt.drained,
            reason.label()
        ),
        (Step::PoweringOff, None, None, "FenceViolated")
    );
    let mut o = mk_drained(10);
    bmh(&mut o).our_hold = false;
    assert_eq!(writes(&o, &s, 11).1.label(), "HoldLost");
    let mut o = mk_drained(10);
    node(&mut o).taint = Taint::Absent;
    assert_eq!(writes(&o, &s, 11).0.step, Step::Tainting);
}

#[test]
fn f5_lease_renewal_while_fenced_undoes_the_remediation() {
    let mut o = mk_drained(10);
    let lease = node(&mut o).lease.as_mut().unwrap();
    lease.renewed = "09:09:09".into();
    lease.unchanged_since = at(9);
    let (s, reason) = writes(&o, &mk_state(Step::Fenced), 10);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "LeaseRenewed"));
}

#[test]
fn f9_deletion_powers_on_a_fenced_host_unless_others_keep_it_off() {
    let mut o = mk_drained(10);
    o.object.deleting = true;
    let (s, _) = writes(&o, &mk_state(Step::Fenced), 11);
    assert_eq!(s.step, Step::PoweringOn);
    let (s, _) = writes(&o, &s, 11);
    assert_eq!(does(&o, &s, 11), Command::RemoveHold);
    let wants: [Case<BareMetalHostFacts>; 2] = [
        (|b| b.online = false, "HostOffline"),
        (
            |b| {
                b.foreign_holds.insert("reboot.metal3.io/a".into());
            },
            "HeldByOthers",
        ),
    ];
    for (set, label) in wants {
        let mut o = mk_drained(10);
        o.object.deleting = true;
        set(bmh(&mut o));
        let (s, reason) = writes(&o, &mk_state(Step::Fenced), 11);
        assert_eq!((s.step, reason.label()), (Step::Aborting, label));
        assert_eq!(does(&o, &s, 11), Command::RemoveTaint);
        node(&mut o).taint = Taint::Absent;
        assert_eq!(does(&o, &s, 11), Command::RemoveHold);
        bmh(&mut o).our_hold = false;
        assert_eq!(does(&o, &s, 11), Command::Release);
    }
}

#[test]
fn never_joined_machine_is_kept_off_without_a_taint() {
    let mut o = mk_held();
    o.workload = WorkloadView::NotJoined;
    let mut s = mk_state(Step::ConfirmingOff);
    (s.attempt.node, s.attempt.lease_at_off, s.strategy) = (None, None, Strategy::PowerOff);
    let (s, _) = writes(&o, &s, 1);
    assert_eq!((s.step, s.attempt.taint), (Step::Fenced, None));
    o.object.deleting = true;
    assert_eq!(writes(&o, &s, 2).0.step, Step::PoweringOn);
}

#[test]
fn f1_f5_power_cycle_waits_for_hold_time_quiet_lease_and_a_reading() {
    let mut o = mk_held();
    let mut s = mk_cycle(Step::ConfirmingOff);
    s.attempt.off = Some(OffEvidence::Bmc {
        at: at(0),
        readings: mk_proof(),
        taken: mk_taken(),
    });
    o.power = mk_power(1, PowerState::Off);
    assert_eq!(waits(&o, &s, 1).0, Reason::Cycling);
    // Kept off for five seconds, and a recently renewed Lease is quiet for twelve.
    node(&mut o).ready_unknown = false;
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(-4);
    o.power = mk_power(5, PowerState::Off);
    assert_eq!(waits(&o, &s, 6).0, Reason::Cycling);
    assert_eq!(does(&o, &s, 8), Command::ReadPower);
    o.power = mk_power(8, PowerState::Off);
    let (on, _) = writes(&o, &s, 8);
    assert_eq!(
        (on.step, on.attempt.taint, on.attempt.drained),
        (Step::PoweringOn, None, None)
    );
    // Seen on while it is kept off: switched off and confirmed again.
    o.power = mk_power(8, PowerState::On);
    assert_eq!(writes(&o, &s, 8).1.label(), "FenceViolated");
    // The Lease shows that another host is off.
    o.power = mk_power(8, PowerState::Off);
    node(&mut o).lease.as_mut().unwrap().renewed = "09:09:09".into();
    assert_eq!(writes(&o, &s, 8).1.label(), "LeaseRenewed");
}

#[test]
fn power_cycle_does_not_wait_for_the_workload_api() {
    let mut o = mk_held();
    o.workload = WorkloadView::Unreachable { why: "x".into() };
    let s = mk_cycle(Step::ConfirmingOff);
    o.power = mk_power(1, PowerState::Off);
    assert_eq!(waits(&o, &s, 1).0, Reason::Cycling);
    o.power = mk_power(6, PowerState::Off);
    assert_eq!(writes(&o, &s, 6).0.step, Step::PoweringOn);
}

#[test]
fn f4_tainted_node_or_further_attempt_is_drained() {
    let mut o = mk_held();
    o.power = mk_power(9, PowerState::Off);
    let mut s = mk_cycle(Step::ConfirmingOff);
    node(&mut o).taint = Taint::Other;
    assert_eq!(writes(&o, &s, 9).0.step, Step::Tainting);
    node(&mut o).taint = Taint::Absent;
    s.attempt.number = 2;
    assert_eq!(writes(&o, &s, 9).0.step, Step::Tainting);
}

fn attempts_exhausted(how: OnExhausted) -> (Observation, State, Reason) {
    let mut o = mk_observation();
    policy(&mut o).on_exhausted = how;
    let mut s = mk_state(Step::Restoring);
    (s.attempt.number, s.attempt.end_reason) = (2, Some(Reason::BootTimeout));
    let d = decide(&o, Some(&s), at(700));
    assert_eq!(d.next, Next::Write);
    assert!(d.notes.iter().all(|n| n.warning));
    (o, d.state, d.reason)
}

#[test]
fn escalate_marks_the_machine_and_retire_also_the_host() {
    for (how, retire) in [(OnExhausted::Escalate, false), (OnExhausted::Retire, true)] {
        let (mut o, s, reason) = attempts_exhausted(how);
        assert_eq!((s.step, reason.label()), (Step::Escalated, "Exhausted"));
        assert_eq!(does(&o, &s, 700), Command::Escalate { retire });
        o.machine.as_mut().unwrap().owner_remediated_false = true;
        if retire {
            assert_eq!(does(&o, &s, 700), Command::Escalate { retire });
            bmh(&mut o).unhealthy_mark = true;
        }
        let end = Command::RemoveFinalizer(RemediationOutcome::Escalated);
        assert_eq!(does(&o, &s, 700), end);
    }
}

#[test]
fn notify_only_reports_the_failure() {
    let (o, s, reason) = attempts_exhausted(OnExhausted::Notify);
    assert_eq!((s.step, reason.label()), (Step::Escalated, "ExhaustedTold"));
    assert!(s.failed().is_some());
    assert_eq!(
        does(&o, &s, 700),
        Command::RemoveFinalizer(RemediationOutcome::Failed)
    );
}

#[test]
fn stay_off_confirms_off_once_more_and_counts_as_failed() {
    let (mut o, s, reason) = attempts_exhausted(OnExhausted::StayOff);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Retrying, "ExhaustedKeptOff")
    );
    assert_eq!(
        (s.attempts.len(), s.power_off_repeats, s.attempt.off.clone()),
        (1, 1, None)
    );
    // Conflicts, quorum and all other preconditions are checked once more.
    o.conflict = Some(Reason::OtherRemediation("another one".into()));
    assert_eq!(waits(&o, &s, 700).0.label(), "OtherRemediation");
    o.conflict = None;
    assert_eq!(writes(&o, &s, 701).0.step, Step::Holding);
    let mut s = State {
        keep_off: s.keep_off,
        ..mk_state(Step::Draining)
    };
    s.strategy = Strategy::PowerCycleFirst;
    let (s, _) = writes(&mk_drained(720), &s, 720);
    assert_eq!(s.step, Step::Fenced);
    assert_eq!(s.failed().map(Reason::label), Some("ExhaustedKeptOff"));
    // A node that recovered late is not switched off.
    let (mut o, s, _) = attempts_exhausted(OnExhausted::StayOff);
    node(&mut o).ready = true;
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert_eq!(writes(&o, &s, 702).0.step, Step::Succeeded);
}

#[test]
fn given_up_drain_leaves_the_host_off_and_escalates() {
    let mut o = mk_drained(600);
    o.drain = Some(Drain {
        pods: vec![mk_pod("db-0")],
        volumes: vec![],
    });
    policy(&mut o).drain_blocked = DrainPolicy::GiveUp;
    policy(&mut o).on_exhausted = OnExhausted::Escalate;
    let s = mk_state(Step::Draining);
    o.power = mk_power(599, PowerState::Off);
    assert_eq!(waits(&o, &s, 599).0.label(), "Draining");
    let (s, reason) = writes(&o, &s, 600);
    assert_eq!((s.step, reason.label()), (Step::Fenced, "DrainGivenUp"));
    assert_eq!(s.attempts.len(), 1);
    assert_eq!(does(&o, &s, 601), Command::Escalate { retire: false });
    o.machine.as_mut().unwrap().owner_remediated_false = true;
    assert_eq!(waits(&o, &s, 601).0.label(), "DrainGivenUp");
    // F4: withdrawn, the drain still comes before the power-on, and is not given up again.
    o.object.deleting = true;
    let (s, _) = writes(&o, &s, 602);
    assert_eq!(s.step, Step::Draining);
    o.power = mk_power(1300, PowerState::Off);
    assert_eq!(waits(&o, &s, 1301).0.label(), "DrainBlocked");
    o.drain = Some(Drain::default());
    assert_eq!(writes(&o, &s, 1301).0.step, Step::PoweringOn);
}

#[test]
fn blocked_drain_does_not_power_on_a_host_that_stays_off() {
    let mut o = mk_drained(600);
    o.drain = Some(Drain {
        pods: vec![mk_pod("db-0")],
        volumes: vec![],
    });
    policy(&mut o).drain_blocked = DrainPolicy::PowerOn;
    let mut s = mk_state(Step::Draining);
    s.strategy = Strategy::PowerOff;
    assert_eq!(waits(&o, &s, 600).0.label(), "DrainBlocked");
}
