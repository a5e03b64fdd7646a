//! Rows of the failure table and of the power-authority protocol (A1 to A8) that no other file tests.
//!
//! | row | where |
//! |---|---|
//! | BMC unreachable, password refused, On after off, PoweringOff | `failures` |
//! | Off but the Lease moves | `identity` |
//! | On while tainted, our hold removed | `fencing` |
//! | workload API down, Node gone | `failures`, `policies` |
//! | never joined, foreign keys, servicing, paused, detached, not provisioned, disablePowerOff | `failures` |
//! | drain blocked | `fencing`, `strategies` |
//! | healthy again, deleted | `withdrawn`, `exits` |
//! | online false | `exits` |
//! | two checks, two control-plane members, one BMC | `concurrency` |
//! | restarts | `crash`, `random_runs` |
//! | power-on refused for a while | `failures` |
//! | clock skew, CAPM3's own controller | here |
//!
//! | protocol | where |
//! |---|---|
//! | A1 | `failures`, `identity`, here |
//! | A2 | `fencing` (F2) |
//! | A3 | here |
//! | A4, A5, A6 | `fencing` (F1, F3), `identity` (F5) |
//! | A7, A8 | `failures`, here |

use super::{super::*, build::*};

#[test]
fn bmc_and_agent_clocks_do_not_affect_decisions() {
    let mut o = mk_held();
    for wrong in [at(-9_000_000), at(9_000_000)] {
        let mut readings = mk_proof();
        for reading in &mut readings {
            reading.at = wrong;
        }
        o.operation = finished(OperationOutcome::Confirmed {
            readings,
            taken: Some(mk_taken()),
        });
        let (s, _) = writes(&o, &mk_state(Step::PoweringOff), 5);
        assert_eq!(s.step, Step::ConfirmingOff);
        assert_eq!(s.attempt.off.as_ref().map(OffEvidence::at), Some(at(5)));
    }
    o.operation = None;
    let mut s = mk_state(Step::Tainting);
    s.attempt.taint = Some(TaintOwner::Us);
    for wrong in [at(-9_000_000), at(9_000_000)] {
        o.power = mk_power(1, PowerState::Off);
        o.power.as_mut().unwrap().result.as_mut().unwrap().at = wrong;
        assert_eq!(does(&o, &s, 2), Command::AddTaint);
        assert_eq!(does(&o, &s, 4), Command::ReadPower);
    }
    // Nor does the clock of a kubelet: any change of renewTime is a renewal.
    o.power = mk_power(1, PowerState::Off);
    node(&mut o).lease.as_mut().unwrap().renewed = "01:00:00".into();
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(0);
    assert_eq!(writes(&o, &s, 2).1.label(), "LeaseRenewed");
}

#[test]
fn a3_only_the_first_power_off_has_the_cooperative_grace() {
    let grace = |o: &Observation, s: &State| match does(o, s, 0) {
        Command::PowerOff { command_after, .. } => command_after,
        other => panic!("{other:?}"),
    };
    let mut o = mk_held();
    policy(&mut o).cooperative_grace = secs(7);
    let s = mk_state(Step::PoweringOff);
    assert_eq!(grace(&o, &s), secs(7));
    for again in [
        State {
            tries: 1,
            ..s.clone()
        },
        State {
            power_off_repeats: 1,
            ..s
        },
    ] {
        assert_eq!(grace(&o, &again), secs(0));
    }
    let direct = mk_direct_state(Step::PoweringOff);
    assert_eq!(grace(&mk_direct(), &direct), secs(0));
}

#[test]
fn a7_returned_host_of_a_deleted_machine_is_left_to_its_operator() {
    let cases: [Case<BareMetalHostFacts>; 2] = [
        (|b| b.provisioned = false, "HostNotProvisioned"),
        (|b| b.deleting = true, "HostDeleting"),
    ];
    for (set, label) in cases {
        let mut o = mk_held();
        o.machine = None;
        o.power = mk_power(1, PowerState::Off);
        set(bmh(&mut o));
        let s = mk_state(Step::PoweringOn);
        // While the remediation exists, it switches the host on.
        assert_eq!(does(&o, &s, 2), Command::RemoveHold);
        o.object.deleting = true;
        let (s, reason) = writes(&o, &s, 2);
        assert_eq!((s.step, reason.label()), (Step::Aborting, label));
        assert_eq!(does(&o, &s, 2), Command::RemoveHold);
        bmh(&mut o).our_hold = false;
        assert_eq!(does(&o, &s, 2), Command::Release);
    }
}

fn rival() -> Option<Reason> {
    let key = format!("reboot.metal3.io/metal3-remediation-{UID}");
    Some(Reason::RivalController(key))
}

#[test]
fn capm3_controller_on_the_same_object_prevents_any_switching() {
    let mut o = mk_held();
    o.conflict = rival();
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!((s.step, reason.label()), (Step::Blocked, "RivalController"));
    assert!(reason.is_blocked());
    // Its key goes before it switches the host on, and the finalizer is its own (F9).
    let mut later = o.clone();
    later.conflict = None;
    bmh(&mut later).our_hold = false;
    assert!(later.object.finalizer);
    assert!(matches!(
        decide(&later, Some(&s), at(60)).next,
        Next::Done(_)
    ));
    // The conflict appeared while our hold was set: the hold is removed again.
    let (s, reason) = writes(&o, &mk_state(Step::Holding), 0);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Aborting, "RivalController")
    );
    assert_eq!(does(&o, &s, 0), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    o.completed.insert(Command::RemoveHold);
    let (s, _) = writes(&o, &s, 0);
    assert_eq!(s.step, Step::Blocked);
}

/// The same, on a Metal3Remediation with our finalizer.
fn shared(o: &mut Observation, s: &mut State) {
    o.object.finalizer_is_shared = true;
    s.finalizer = true;
}

#[test]
fn f9_rival_that_was_seen_is_remembered_in_every_step_and_keeps_its_finalizer() {
    for step in super::waiting::STEPS {
        let (mut o, mut s) = (mk_held(), mk_state(step));
        shared(&mut o, &mut s);
        o.conflict = rival();
        let d = decide(&o, Some(&s), at(1));
        assert_eq!(
            d.next,
            Next::Write,
            "{step:?}: recorded before anything is done"
        );
        assert!(!d.begins, "{step:?}");
        let told = d
            .notes
            .iter()
            .filter(|note| note.reason == "RivalController");
        assert_eq!(told.count(), 1, "{step:?}");
        let s: State = serde_json::from_str(&serde_json::to_string(&d.state).unwrap()).unwrap();
        assert_eq!(s.rival.map(Reason::RivalController), rival(), "{step:?}");

        // Its key is gone again, and the object is deleted.
        bmh(&mut o).our_hold = false;
        (o.conflict, o.object.deleting) = (None, true);
        let ended = State {
            rival: d.state.rival,
            step: Step::Blocked,
            ..d.state
        };
        let next = decide(&o, Some(&ended), at(60)).next;
        assert!(matches!(next, Next::Done(_)), "{step:?}: {next:?}");
    }
}

#[test]
fn f9_rival_of_a_remediation_without_a_state_is_remembered() {
    let (mut o, mut s) = (mk_held(), mk_state(Step::Pending));
    shared(&mut o, &mut s);
    o.conflict = rival();
    let s = decide(&o, None, at(0)).state;
    assert!(s.finalizer && s.rival.is_some(), "{s:?}");
    o.conflict = None;
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!((s.step, reason.label()), (Step::Blocked, "RivalController"));
}

#[test]
fn f9_rival_that_came_and_went_ends_the_remediation_after_this_attempt() {
    let blocked = |o: &Observation, s: &State, now: i64| {
        let (s, reason) = writes(o, s, now);
        assert_eq!((s.step, reason.label()), (Step::Blocked, "RivalController"));
        assert_eq!(s.attempt.number, 1);
        let d = decide(o, Some(&s), at(now + 60));
        assert!(
            matches!(d.next, Next::Done(RemediationOutcome::Failed)),
            "{d:?}"
        );
        s
    };
    let (mut o, mut s) = (mk_held(), mk_state(Step::Draining));
    shared(&mut o, &mut s);
    o.conflict = rival();
    node(&mut o).taint = Taint::Ours;
    let (s, _) = writes(&o, &s, 1);
    assert_eq!(s.step, Step::Draining, "what has begun goes on");
    o.conflict = None;
    o.drain = Some(Drain::default());
    o.power = mk_power(1, PowerState::Off);
    assert_eq!(writes(&o, &s, 2).0.step, Step::PoweringOn);

    // The Node is back, or it is not.
    let restoring = State {
        rival: s.rival,
        finalizer: true,
        ..mk_state(Step::Restoring)
    };
    node(&mut o).taint = Taint::Absent;
    bmh(&mut o).our_hold = false;
    bmh(&mut o).powered_on = Some(true);
    let late = blocked(&o, &restoring, 100_000);
    assert_eq!(late.attempts[0].reason, Reason::BootTimeout);
    let n = node(&mut o);
    (n.ready, n.ready_unknown) = (true, false);
    n.boot_id = "boot-2".into();
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    let back = blocked(&o, &restoring, 3);
    assert_eq!(back.attempts[0].reason, Reason::Recovered);
    // Nor does one begin between two attempts.
    let between = State {
        step: Step::Retrying,
        ..restoring
    };
    blocked(&o, &between, 3);
}

#[test]
fn a8_capm3_controller_is_named_if_its_key_keeps_the_host_off() {
    let mut o = mk_observation();
    bmh(&mut o)
        .foreign_holds
        .insert(format!("reboot.metal3.io/metal3-remediation-{UID}"));
    o.conflict = rival();
    o.power = mk_power(1, PowerState::Off);
    let (s, _) = writes(&o, &mk_state(Step::PoweringOn), 2);
    let (reason, until) = waits(&o, &s, 2);
    assert_eq!((reason.label(), until), ("RivalController", 17));
    // A remediation that has begun is finished.
    bmh(&mut o).our_hold = true;
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    assert_eq!(
        writes(&o, &mk_state(Step::Draining), 2).0.step,
        Step::PoweringOn
    );
}

#[test]
fn a1_conflict_after_the_hold_does_not_stop_a_begun_remediation() {
    let mut o = mk_held();
    o.conflict = Some(Reason::OtherRemediation("another one".into()));
    assert_eq!(
        writes(&o, &mk_state(Step::Holding), 0).0.step,
        Step::PoweringOff
    );
}
