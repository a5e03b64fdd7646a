//! L1, F9: what happens when the BMC falls silent, when the way to it, the host, the cluster or the
//! written state is gone.

use super::{super::*, build::*, waiting::STEPS};

fn mk_missing() -> BmcAccess {
    BmcAccess::Missing {
        why: "Secret metal/bmc-7 does not exist".into(),
    }
}

/// The BareMetalHost was deleted.
fn mk_host_gone() -> Observation {
    Observation {
        bmh: None,
        access: BmcAccess::HostGone {
            name: "metal/host-7".into(),
        },
        ..mk_held()
    }
}

/// Carries on until it waits or is done; commands have their effect on the objects.
fn run(mut o: Observation, s: State, now: i64) -> (Observation, State, Decision) {
    let mut s = s;
    for _ in 0..20 {
        let d = decide(&o, Some(&s), at(now));
        match &d.next {
            Next::Write => {
                if operation_id(UID, &s) != operation_id(UID, &d.state) {
                    o.operation = None;
                }
                o.completed.clear();
                s = d.state;
            }
            Next::Do(command) => {
                match command {
                    Command::RemoveTaint => node(&mut o).taint = Taint::Absent,
                    Command::AddTaint => node(&mut o).taint = Taint::Ours,
                    Command::RemoveHold => bmh(&mut o).our_hold = false,
                    Command::RemoveFinalizer(_) => o.request.finalizer = false,
                    Command::Release | Command::Cancel { .. } => {}
                    other => panic!("{other:?} at {:?}", s.step),
                }
                o.completed.insert(command.clone());
            }
            Next::Wait(_) | Next::Done(_) => return (o, s, d),
        }
    }
    panic!("it comes to nothing at {:?}", s.step);
}

#[test]
fn f1_l1_a_bmc_that_falls_silent_while_the_host_has_to_stay_off_ends_with_a_person() {
    for step in [Step::ConfirmingOff, Step::Tainting, Step::Draining] {
        let mut o = mk_held();
        node(&mut o).taint = Taint::Ours;
        o.power = mk_no_power(300);
        o.silent_since = Some(at(121));
        let s = mk_state(step);
        let early = decide(&o, Some(&s), at(300));
        assert_ne!(early.state.step, Step::AwaitingConfirmation, "{step:?}");
        let (s, reason) = writes(&o, &s, 301);
        assert_eq!(
            (s.step, reason.label(), s.off.clone(), s.power_off_repeats),
            (Step::AwaitingConfirmation, "FenceUnconfirmed", None, 1),
            "{step:?}"
        );
        assert!(reason.to_string().contains("fell silent"), "{reason}");
        // It is tried on, under a new name.
        let Command::PowerOff { id, .. } = does(&o, &s, 301) else {
            panic!("it is not switched off again");
        };
        assert!(id.ends_with("off/1.0"), "{id}");
    }
}

#[test]
fn f8_what_a_person_vouches_for_may_be_silent() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_no_power(300);
    o.silent_since = Some(at(0));
    let mut s = mk_state(Step::Draining);
    s.off = Some(OffEvidence::Person { at: at(0) });
    assert_ne!(
        decide(&o, Some(&s), at(301)).state.step,
        Step::AwaitingConfirmation
    );
}

#[test]
fn l1_without_the_way_to_the_bmc_every_step_says_what_is_missing_or_goes_on() {
    for step in STEPS {
        let mut o = mk_held();
        o.bmh = None;
        o.access = mk_missing();
        o.workload = WorkloadView::Missing { name: "n".into() };
        o.operation = None;
        let mut s = mk_state(step);
        if step == Step::Aborting {
            s.end_reason = Some(Reason::LeaseRenewed("n".into()));
        }
        let needs = [
            Step::Pending,
            Step::PoweringOff,
            Step::PoweringOn,
            Step::Aborting,
        ];
        if needs.contains(&step) {
            let (reason, _) = waits(&o, &s, 1);
            assert_eq!(reason.label(), "BmcAccessMissing", "{step:?}");
            assert!(reason.is_blocked() && reason.to_string().contains("Secret metal/bmc-7"));
        }
        let d = decide(&o, Some(&s), at(1));
        let touches = matches!(
            d.next,
            Next::Do(Command::ReadPower | Command::PowerOff { .. } | Command::PowerOn { .. })
        );
        assert!(!touches, "{step:?}: {d:?}");
    }
}

#[test]
fn f8_a_persons_word_is_heard_when_the_bare_metal_host_or_its_secret_is_gone() {
    for mut o in [
        mk_host_gone(),
        Observation {
            access: mk_missing(),
            ..mk_held()
        },
    ] {
        // Nothing to switch off with: a person is asked after the time of a power-off.
        let s = mk_state(Step::PoweringOff);
        assert_eq!(waits(&o, &s, 1).1, 180);
        let (s, reason) = writes(&o, &s, 180);
        assert_eq!(s.step, Step::AwaitingConfirmation);
        assert!(reason.to_string().contains("confirm-fenced"), "{reason}");
        o.request.confirm_fenced = Some(UID.into());
        o.silent_since = Some(at(1));
        let (s, _) = writes(&o, &s, 182);
        assert!(matches!(s.off, Some(OffEvidence::Person { .. })));
        let (o, s, d) = run(o, s, 183);
        assert_eq!((s.step, d.reason.label()), (Step::Draining, "Draining"));
        // And then it says what it needs to switch on.
        let (_, s, d) = run(
            Observation {
                drain: Some(Drain::default()),
                ..o
            },
            s,
            184,
        );
        assert_eq!(s.step, Step::PoweringOn);
        assert_eq!(d.reason.label(), "BmcAccessMissing");
    }
}

#[test]
fn l1_f9_a_deleted_request_whose_host_is_gone_completes_from_every_step() {
    for step in STEPS {
        for tainted in [false, true] {
            let mut o = mk_host_gone();
            o.request.deleting = true;
            node(&mut o).taint = if tainted { Taint::Ours } else { Taint::Absent };
            let mut s = mk_state(step);
            s.taint = tainted.then_some(TaintOwner::Us);
            let (o, _, d) = run(o, s, 5);
            assert!(matches!(d.next, Next::Done(_)), "{step:?}: {d:?}");
            assert!(!o.request.finalizer);
            let ours = step.is_terminal() || matches!(step, Step::Pending | Step::Retrying);
            if !ours {
                assert_ne!(node(&mut { o }).taint, Taint::Ours, "{step:?}");
            }
        }
    }
}

/// The Secret is gone and the BareMetalHost is not: the host is left as it is.
#[test]
fn l1_a_deleted_request_that_cannot_switch_on_any_more_completes() {
    let mut o = mk_held();
    o.request.deleting = true;
    o.access = mk_missing();
    node(&mut o).taint = Taint::Ours;
    let (o, _, d) = run(o, mk_state(Step::PoweringOn), 5);
    assert!(matches!(d.next, Next::Done(_)), "{d:?}");
    assert!(o.completed.is_empty() || !o.bmh.unwrap().our_hold);
}

#[test]
fn l1_f9_a_cluster_that_is_gone_ends_every_step_cleanly() {
    for step in STEPS {
        let mut o = mk_held();
        o.workload = WorkloadView::ClusterGone {
            name: "metal/c".into(),
        };
        o.machine.as_mut().unwrap().owner_remediated_false = true;
        bmh(&mut o).unhealthy_mark = true;
        let (o, s, d) = run(o, mk_state(step), 5);
        if step == Step::Pending {
            assert_eq!(d.reason.label(), "ClusterGone");
            continue;
        }
        assert!(matches!(d.next, Next::Done(_)), "{step:?}: {d:?}");
        assert!(!o.bmh.unwrap().our_hold, "{step:?}");
        assert!(s.step.is_terminal() || step == Step::Aborting, "{step:?}");
    }
}

#[test]
fn f4_a_host_whose_cluster_object_was_removed_is_held_until_its_workload_is_gone_or_drained() {
    for (step, taint) in [
        (Step::PoweringOff, None),
        (Step::ConfirmingOff, None),
        (Step::Tainting, Some(TaintOwner::Us)),
        (Step::Draining, Some(TaintOwner::Us)),
        (Step::Fenced, Some(TaintOwner::Us)),
    ] {
        let mut o = mk_held();
        o.cluster = Some("metal/c".into());
        o.cluster_removed = true;
        o.workload = WorkloadView::Unreachable {
            why: "Cluster metal/c was removed".into(),
        };
        o.power = mk_power(1, PowerState::Off);
        let mut s = mk_state(step);
        s.cluster = Some("metal/c".into());
        s.taint = taint;
        let d = decide(&o, Some(&s), at(1));
        assert_ne!(d.state.step, Step::Aborting, "{step:?}: {d:?}");
        assert_ne!(d.next, Next::Do(Command::RemoveHold), "{step:?}");
    }
}

#[test]
fn nothing_is_begun_for_a_cluster_whose_object_was_removed() {
    let mut o = mk_held();
    o.cluster = Some("metal/c".into());
    o.cluster_removed = true;
    let mut s = mk_state(Step::Pending);
    s.cluster = Some("metal/c".into());
    assert_eq!(waits(&o, &s, 1).0.label(), "ClusterGone");
    // Between two attempts it ends.
    s.step = Step::Retrying;
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "ClusterGone"));
}

#[test]
fn f9_a_host_that_is_given_back_in_any_step_ends_it_cleanly() {
    for step in STEPS {
        for set in [
            (|b| b.deleting = true) as fn(&mut BareMetalHostFacts),
            |b| b.provisioned = false,
        ] {
            let mut o = mk_held();
            o.request.deleting = true;
            set(bmh(&mut o));
            node(&mut o).taint = Taint::Ours;
            let (o, _, d) = run(o, mk_state(step), 5);
            assert!(matches!(d.next, Next::Done(_)), "{step:?}: {d:?}");
            assert!(!o.bmh.as_ref().unwrap().our_hold, "{step:?}");
        }
    }
}

#[test]
fn f7_what_runs_at_the_agent_is_cancelled_before_a_host_that_was_given_back_is_let_go() {
    for step in [
        Step::PoweringOff,
        Step::AwaitingConfirmation,
        Step::PoweringOn,
    ] {
        let mut o = mk_held();
        o.request.deleting = true;
        bmh(&mut o).deleting = true;
        o.operation = Some(OperationView::Running);
        let s = mk_state(step);
        let cancel = does(&o, &s, 1);
        assert!(
            matches!(cancel, Command::Cancel { .. }),
            "{step:?}: {cancel:?}"
        );
        o.completed.insert(cancel);
        assert_eq!(waits(&o, &s, 1).0.label(), "HostDeleting");
        o.operation = finished(OperationOutcome::Cancelled);
        assert_eq!(writes(&o, &s, 2).0.step, Step::Aborting, "{step:?}");
    }
}

#[test]
fn f9_a_state_that_was_removed_never_makes_our_taint_somebody_elses() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    for deleting in [false, true] {
        o.request.deleting = deleting;
        let d = decide(&o, None, at(1));
        assert_eq!(d.reason.label(), "StateLost");
        assert!(matches!(d.next, Next::Wait(_)) && !d.begins);
        assert!(
            d.reason.is_blocked()
                && d.reason
                    .to_string()
                    .contains("remove the out-of-service taint")
        );
    }
    o.workload = WorkloadView::Unreachable { why: "down".into() };
    assert_eq!(decide(&o, None, at(1)).reason.label(), "StateLost");
    // The way out that it names.
    o = mk_held();
    assert_eq!(does_first(&o), Next::Write);
    o.request.deleting = true;
    assert_eq!(does_first(&o), Next::Do(Command::RemoveHold));
    // Nobody else would switch it on.
    o.bmh = None;
    assert_eq!(decide(&o, None, at(1)).reason.label(), "StateLost");
    node(&mut o).ready = true;
    assert!(matches!(
        does_first(&o),
        Next::Do(Command::RemoveFinalizer(_))
    ));
    // One that never did anything only leaves.
    o.request.finalizer = false;
    assert_eq!(does_first(&o), Next::Done(Outcome::Withdrawn));
}

fn does_first(o: &Observation) -> Next {
    decide(o, None, at(1)).next
}

#[test]
fn f1_a_clock_that_was_set_back_makes_no_old_reading_fresh() {
    let mut o = mk_held();
    let mut s = mk_state(Step::Tainting);
    s.taint = Some(TaintOwner::Us);
    s.off = Some(OffEvidence::Bmc {
        at: at(0),
        readings: mk_proof(),
        taken: Some(mk_taken()),
    });
    // Read at 900 by the clock of then; the clock says 10 now.
    o.power = mk_power(900, PowerState::Off);
    assert_eq!(does(&o, &s, 10), Command::ReadPower);
    for step in [Step::Draining, Step::Fenced] {
        node(&mut o).taint = Taint::Ours;
        assert_eq!(
            does(&o, &mk_state(step), 10),
            Command::ReadPower,
            "{step:?}"
        );
    }
    // A evidence of the future is another process's, and older than anything that this one read.
    s.off = Some(OffEvidence::Bmc {
        at: at(900),
        readings: mk_proof(),
        taken: Some(mk_taken()),
    });
    node(&mut o).taint = Taint::Absent;
    o.power = mk_power(10, PowerState::Off);
    assert_eq!(does(&o, &s, 11), Command::AddTaint);
}
