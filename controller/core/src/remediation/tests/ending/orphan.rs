//! L1, F9: the BMC stops answering, or its credentials, the host, the cluster or the stored state are
//! gone.

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

/// Runs until the remediation waits or is done; commands take effect on the objects.
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
                    Command::RemoveFinalizer(_) => o.object.finalizer = false,
                    Command::ReadPower => o.power = mk_power(now, PowerState::Off),
                    Command::Release | Command::Cancel { .. } => {}
                    other => panic!("{other:?} at {:?}", s.step),
                }
                o.completed.insert(command.clone());
            }
            Next::Wait(_) | Next::Done(_) => return (o, s, d),
        }
    }
    panic!("neither a wait nor an end at {:?}", s.step);
}

#[test]
fn f1_l1_silent_bmc_of_a_host_kept_off_awaits_confirmation() {
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
            (
                s.step,
                reason.label(),
                s.attempt.off.clone(),
                s.power_off_repeats
            ),
            (Step::AwaitingConfirmation, "FenceUnconfirmed", None, 1),
            "{step:?}"
        );
        assert!(reason.to_string().contains("stopped answering"), "{reason}");
        // The power-off is repeated with a new id.
        let Command::PowerOff { id, .. } = does(&o, &s, 301) else {
            panic!("the power-off is not repeated");
        };
        assert!(id.ends_with("off/1.0"), "{id}");
    }
}

#[test]
fn f8_bmc_may_be_silent_after_a_confirmation_by_a_person() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_no_power(300);
    o.silent_since = Some(at(0));
    let mut s = mk_state(Step::Draining);
    s.attempt.off = Some(OffEvidence::Person { at: at(0) });
    assert_ne!(
        decide(&o, Some(&s), at(301)).state.step,
        Step::AwaitingConfirmation
    );
}

#[test]
fn l1_missing_bmc_access_is_reported_in_every_step_that_needs_it() {
    for step in STEPS {
        let mut o = mk_held();
        o.bmh = None;
        o.access = mk_missing();
        o.workload = WorkloadView::Missing { name: "n".into() };
        o.operation = None;
        let mut s = mk_state(step);
        if step == Step::Aborting {
            s.attempt.end_reason = Some(Reason::LeaseRenewed("n".into()));
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
fn f8_confirmation_counts_without_bare_metal_host_or_secret() {
    for mut o in [
        mk_host_gone(),
        Observation {
            access: mk_missing(),
            ..mk_held()
        },
    ] {
        // Without access a confirmation is requested after the power-off timeout.
        let s = mk_state(Step::PoweringOff);
        assert_eq!(waits(&o, &s, 1).1, 180);
        let (s, reason) = writes(&o, &s, 180);
        assert_eq!(s.step, Step::AwaitingConfirmation);
        assert!(reason.to_string().contains("confirm-fenced"), "{reason}");
        o.object.confirm_fenced = Some(UID.into());
        o.silent_since = Some(at(1));
        let (s, _) = writes(&o, &s, 182);
        assert!(matches!(s.attempt.off, Some(OffEvidence::Person { .. })));
        let (o, s, d) = run(o, s, 183);
        assert_eq!((s.step, d.reason.label()), (Step::Draining, "Draining"));
        // The power-on then reports what is missing.
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
fn l1_f9_deleted_remediation_without_host_completes_from_every_step() {
    for step in STEPS {
        for tainted in [false, true] {
            let mut o = mk_host_gone();
            o.object.deleting = true;
            node(&mut o).taint = if tainted { Taint::Ours } else { Taint::Absent };
            let mut s = mk_state(step);
            s.attempt.taint = tainted.then_some(TaintOwner::Us);
            let (o, _, d) = run(o, s, 5);
            assert!(matches!(d.next, Next::Done(_)), "{step:?}: {d:?}");
            assert!(!o.object.finalizer);
            let ours = step.is_terminal() || matches!(step, Step::Pending | Step::Retrying);
            if !ours {
                assert_ne!(node(&mut { o }).taint, Taint::Ours, "{step:?}");
            }
        }
    }
}

/// The Secret is gone and the BareMetalHost is not: the host is left as it is.
#[test]
fn l1_deleted_remediation_that_cannot_power_on_completes() {
    let mut o = mk_held();
    o.object.deleting = true;
    o.access = mk_missing();
    node(&mut o).taint = Taint::Ours;
    let (o, _, d) = run(o, mk_state(Step::PoweringOn), 5);
    assert!(matches!(d.next, Next::Done(_)), "{d:?}");
    assert!(o.completed.is_empty() || !o.bmh.unwrap().our_hold);
}

#[test]
fn l1_f9_deleted_cluster_ends_every_step_cleanly() {
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
fn f4_host_of_a_removed_cluster_object_is_held_until_drained() {
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
        s.attempt.taint = taint;
        let d = decide(&o, Some(&s), at(1));
        assert_ne!(d.state.step, Step::Aborting, "{step:?}: {d:?}");
        assert_ne!(d.next, Next::Do(Command::RemoveHold), "{step:?}");
    }
}

#[test]
fn nothing_begins_for_a_removed_cluster_object() {
    let mut o = mk_held();
    o.cluster = Some("metal/c".into());
    o.cluster_removed = true;
    let mut s = mk_state(Step::Pending);
    s.cluster = Some("metal/c".into());
    assert_eq!(waits(&o, &s, 1).0.label(), "ClusterGone");
    // Between two attempts the remediation ends.
    s.step = Step::Retrying;
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "ClusterGone"));
}

#[test]
fn f9_returned_host_ends_every_step_cleanly() {
    for step in STEPS {
        for set in [
            (|b| b.deleting = true) as fn(&mut BareMetalHostFacts),
            |b| b.provisioned = false,
        ] {
            let mut o = mk_held();
            o.object.deleting = true;
            set(bmh(&mut o));
            node(&mut o).taint = Taint::Ours;
            let (o, _, d) = run(o, mk_state(step), 5);
            assert!(matches!(d.next, Next::Done(_)), "{step:?}: {d:?}");
            assert!(!o.bmh.as_ref().unwrap().our_hold, "{step:?}");
        }
    }
}

#[test]
fn f7_operation_is_cancelled_before_a_returned_host_is_released() {
    for step in [
        Step::PoweringOff,
        Step::AwaitingConfirmation,
        Step::PoweringOn,
    ] {
        let mut o = mk_held();
        o.object.deleting = true;
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
fn f9_removed_state_never_turns_our_taint_into_a_foreign_one() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    for deleting in [false, true] {
        o.object.deleting = deleting;
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
    // The recovery that the message describes.
    o = mk_held();
    assert_eq!(does_first(&o), Next::Write);
    o.object.deleting = true;
    assert_eq!(does_first(&o), Next::Do(Command::RemoveHold));
    // Nothing else would switch the host on.
    o.bmh = None;
    assert_eq!(decide(&o, None, at(1)).reason.label(), "StateLost");
    node(&mut o).ready = true;
    assert!(matches!(
        does_first(&o),
        Next::Do(Command::RemoveFinalizer(_))
    ));
    // A remediation that did nothing ends at once.
    o.object.finalizer = false;
    assert_eq!(does_first(&o), Next::Done(RemediationOutcome::Withdrawn));
}

fn does_first(o: &Observation) -> Next {
    decide(o, None, at(1)).next
}

#[test]
fn f1_clock_set_back_makes_no_old_reading_recent() {
    let mut o = mk_held();
    let mut s = mk_state(Step::Tainting);
    s.attempt.taint = Some(TaintOwner::Us);
    s.attempt.off = Some(OffEvidence::Bmc {
        at: at(0),
        readings: mk_proof(),
        taken: mk_taken(),
    });
    // Read at 900 by the earlier clock; the clock shows 10 now.
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
    // Evidence from the future was written by another process, before this one read anything.
    s.attempt.off = Some(OffEvidence::Bmc {
        at: at(900),
        readings: mk_proof(),
        taken: mk_taken(),
    });
    node(&mut o).taint = Taint::Absent;
    o.power = mk_power(10, PowerState::Off);
    assert_eq!(does(&o, &s, 11), Command::AddTaint);
}
