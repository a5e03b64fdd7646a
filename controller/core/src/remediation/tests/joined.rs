//! Writes that are joined, and what is never joined.

use super::{super::*, build::*};

fn mk_shell(state: Option<&State>) -> Shell {
    let mut shell = Shell::new(UID);
    shell.loaded = true;
    shell.written(state);
    shell
}

/// The state that is written next, with the writes that are joined to it.
#[track_caller]
fn records(shell: &Shell, o: &Observation, now: i64) -> State {
    let d = shell.decide(o, at(now));
    assert_eq!(d.next, Next::Write, "{d:?}");
    d.state
}

/// The shell of an ended power-off, and the Node as it was read.
fn mk_ended(after_end: bool) -> (Shell, Observation) {
    let mut o = mk_direct();
    // Its Lease is still waited for.
    node(&mut o).ready_unknown = false;
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(20);
    let mut state = mk_direct_state(Step::PoweringOff);
    state.attempt.node = None;
    let mut shell = mk_shell(Some(&state));
    let id = operation_id(UID, shell.state.as_ref().unwrap()).unwrap();
    shell.operation = Some(TrackedOperation {
        id,
        known: true,
        view: after_end.then(confirmed).flatten(),
        unknown_to: None,
        stood_by: false,
        following: true,
    });
    shell.node_read(&o.workload, at(24));
    o.operation = confirmed();
    (shell, o)
}

#[test]
fn f9_first_write_takes_the_host_and_records_the_finalizer_before_it_is_added() {
    let mut o = mk_observation();
    o.object.finalizer = false;
    o.object.finalizer_is_shared = true;
    let shell = mk_shell(None);
    let d = shell.decide(&o, at(0));
    assert_eq!(d.next, Next::Write);
    assert!(d.begins && d.state.finalizer && d.state.step == Step::Holding);
    let shell = mk_shell(Some(&d.state));
    assert_eq!(
        shell.decide(&o, at(0)).next,
        Next::Do(Command::AddFinalizer)
    );
    // What may not begin is recorded as waiting.
    o.conflict = Some(Reason::OtherRemediation("PowerRemediation a/b".into()));
    let d = mk_shell(None).decide(&o, at(0));
    assert_eq!((d.next, d.state.step), (Next::Write, Step::Pending));
    assert!(!d.state.finalizer && !d.begins);
}

#[test]
fn f9_what_was_added_is_removed_without_a_step_of_its_own_unless_something_is_waited_for() {
    let mut o = mk_direct();
    node(&mut o).taint = Taint::Ours;
    node(&mut o).boot_id = "another".into();
    node(&mut o).ready = true;
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    let mut s = mk_direct_state(Step::Booting);
    s.attempt.taint = Some(TaintOwner::Us);
    s.attempt.evidence = None;
    let shell = mk_shell(Some(&s));
    assert_eq!(
        shell.decide(&o, at(200)).next,
        Next::Do(Command::RemoveTaint)
    );
    node(&mut o).taint = Taint::Absent;
    let next = shell.decide(&o, at(200));
    assert_eq!((next.next, next.state.step), (Next::Write, Step::Succeeded));
    node(&mut o).ready = false;
    assert_eq!(records(&shell, &o, 200).step, Step::Restoring);
}

#[test]
fn f2_hold_and_power_off_are_recorded_apart() {
    let o = mk_direct();
    let shell = mk_shell(Some(&mk_direct_state(Step::Pending)));
    assert_eq!(records(&shell, &o, 0).step, Step::Holding);
    // The hold stands between the two.
    let o = mk_observation();
    let shell = mk_shell(Some(&mk_state(Step::Holding)));
    assert_eq!(shell.decide(&o, at(0)).next, Next::Do(Command::AddHold));
}

#[test]
fn evidence_is_recorded_with_the_power_off() {
    let mut o = mk_direct();
    policy(&mut o).evidence_timeout = secs(60);
    o.collected.evidence = Some(Box::new(HostEvidence::new(1, at(0))));
    let shell = mk_shell(Some(&mk_direct_state(Step::Holding)));
    let s = records(&shell, &o, 1);
    assert_eq!(s.step, Step::PoweringOff);
    assert!(s.attempt.evidence.is_some() && s.agent_holds);
}

#[test]
fn f5_lease_is_pinned_with_the_confirmed_off_only_if_it_was_read_after_it() {
    let (shell, o) = mk_ended(true);
    let s = records(&shell, &o, 25);
    assert_eq!(s.step, Step::ConfirmingOff);
    assert_eq!(s.attempt.lease_at_off.as_deref(), Some("09:00:00"));
    let (shell, o) = mk_ended(false);
    let s = records(&shell, &o, 25);
    assert_eq!(
        (s.step, s.attempt.lease_at_off),
        (Step::ConfirmingOff, None)
    );
}

#[test]
fn f5_kept_reading_is_read_again_for_the_pin() {
    let (mut shell, o) = mk_ended(false);
    if let Some(kept) = &mut shell.node.kept {
        kept.is_live = false;
    }
    let d = shell.decide(&o, at(25));
    assert!(d.state.attempt.lease_at_off.is_some());
    assert!(!shell.node.suffices(shell.state.as_ref(), &d, at(25)));
}

#[test]
fn f9_taint_is_recorded_as_ours_with_the_drain_and_set_after_that() {
    let mut o = mk_held();
    o.power = mk_power(100, PowerState::Off);
    let mut shell = mk_shell(Some(&mk_state(Step::ConfirmingOff)));
    let s = records(&shell, &o, 101);
    assert_eq!(
        (s.step, s.attempt.taint),
        (Step::Draining, Some(TaintOwner::Us))
    );
    shell.written(Some(&s));
    assert_eq!(shell.decide(&o, at(101)).next, Next::Do(Command::AddTaint));
    // On a reading that still proves off, which this one does for 2 s (F1).
    assert_eq!(shell.decide(&o, at(102)).next, Next::Do(Command::ReadPower));
}

/// The shell of an ended power-off after which the BMC was read, and what is observed. The Lease counts as not renewed.
fn mk_read_after_end() -> (Shell, Observation) {
    let (mut shell, mut o) = mk_ended(true);
    node(&mut o).ready = false;
    node(&mut o).ready_unknown = true;
    shell.node_read(&o.workload, at(24));
    o.operation = confirmed();
    let read = mk_power(24, PowerState::Off).unwrap();
    shell.reading(read, &o);
    (shell, o)
}

#[test]
fn f1_bmc_is_read_after_the_end_before_the_confirmed_off_is_recorded_with_the_taint() {
    let (mut shell, o) = mk_read_after_end();
    let (power, is_after_end) = (shell.power.take(), shell.is_read_after_end);
    assert!(is_after_end, "the end was known");
    shell.is_read_after_end = false;
    let unread = shell.observed(o.clone(), at(25));
    assert_eq!(
        shell.decide(&unread, at(25)).next,
        Next::Do(Command::ReadPower)
    );
    // One from before the end was known counts no more than the readings that prove the end.
    shell.power.clone_from(&power);
    let before_end = shell.observed(o.clone(), at(25));
    assert_eq!(
        shell.decide(&before_end, at(25)).next,
        Next::Do(Command::ReadPower)
    );
    shell.is_read_after_end = true;
    let o = shell.observed(o, at(25));
    let s = records(&shell, &o, 25);
    assert_eq!(
        (s.step, s.attempt.taint),
        (Step::Draining, Some(TaintOwner::Us))
    );
    assert_eq!(s.attempt.lease_at_off.as_deref(), Some("09:00:00"));
    assert_eq!(s.attempt.off.as_ref().map(OffEvidence::at), Some(at(24)));
    shell.written(Some(&s));
    assert_eq!(shell.read_since_end(), None, "another state");
    let o = shell.observed(
        Observation {
            operation: None,
            ..o
        },
        at(25),
    );
    assert_eq!(shell.decide(&o, at(25)).next, Next::Do(Command::AddTaint));
}

#[test]
fn f5_confirmed_off_is_recorded_alone_while_the_lease_is_waited_for() {
    let (mut shell, mut o) = mk_read_after_end();
    node(&mut o).ready_unknown = false;
    shell.node_read(&o.workload, at(24));
    (shell.power, shell.is_read_after_end) = (None, false);
    let o = shell.observed(o, at(25));
    // Nor is the BMC read for that.
    let s = records(&shell, &o, 25);
    assert_eq!((s.step, s.attempt.taint), (Step::ConfirmingOff, None));
}

#[test]
fn f8_confirmed_off_is_recorded_alone_if_the_bmc_does_not_answer_or_a_person_confirms() {
    let (mut shell, o) = mk_read_after_end();
    shell.power.as_mut().unwrap().result = Err("no answer".into());
    let seen = shell.observed(o.clone(), at(25));
    assert_eq!(records(&shell, &seen, 25).step, Step::ConfirmingOff);
    shell.power.as_mut().unwrap().result =
        Ok(mk_power(24, PowerState::On).unwrap().result.unwrap());
    let seen = shell.observed(o, at(25));
    let s = records(&shell, &seen, 25);
    assert_eq!((s.step, s.attempt.taint), (Step::ConfirmingOff, None));
}

#[test]
fn f14_confirmed_off_is_recorded_without_the_taint_if_the_nodes_were_not_compared() {
    let (mut shell, mut o) = mk_read_after_end();
    o.other_nodes = OtherNodes::NotCompared;
    let seen = shell.observed(o, at(25));
    let s = records(&shell, &seen, 25);
    assert_eq!((s.step, s.attempt.taint), (Step::Tainting, None));
}

#[test]
fn f12_record_that_the_watch_does_not_show_is_absent_only_for_the_write_that_creates_it() {
    let o = mk_observation();
    let mut shell = Shell::new(UID);
    assert!(shell.assume_unrecorded());
    let first = shell.decide(&o, at(0));
    assert_eq!(first.next, Next::Write);
    assert!(!shell.rests_on_unread(Some(&first)));
    // There is one: it is read, and not assumed again.
    shell.write_failed();
    assert!(!shell.loaded && !shell.assume_unrecorded());
    shell
        .read_state(Ok(Some(mk_state(Step::PoweringOff))))
        .unwrap();
    assert!(!shell.rests_on_unread(None));

    let mut deleted = o;
    deleted.object.deleting = true;
    let mut shell = Shell::new(UID);
    assert!(shell.assume_unrecorded());
    let ends = shell.decide(&deleted, at(0));
    assert_ne!(ends.next, Next::Write);
    assert!(
        shell.rests_on_unread(Some(&ends)) && !shell.loaded,
        "it is read"
    );
    let mut shell = Shell::new(UID);
    assert!(shell.assume_unrecorded());
    assert!(shell.rests_on_unread(None), "so is it for a report");
    // What this process has written it knows.
    let mut shell = mk_shell(Some(&mk_state(Step::Holding)));
    shell.loaded = false;
    assert!(!shell.assume_unrecorded());
}

#[test]
fn f14_taint_is_not_recorded_as_ours_before_the_nodes_were_compared() {
    let mut o = mk_held();
    o.power = mk_power(100, PowerState::Off);
    o.other_nodes = OtherNodes::NotCompared;
    let shell = mk_shell(Some(&mk_state(Step::ConfirmingOff)));
    let s = records(&shell, &o, 101);
    assert_eq!((s.step, s.attempt.taint), (Step::Tainting, None));
}

#[test]
fn f4_outcome_of_the_power_off_is_not_that_of_the_power_on() {
    let mut o = mk_direct();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    o.power = mk_power(100, PowerState::Off);
    // As if the operation of the recorded state had one that is confirmed.
    o.operation = confirmed();
    let shell = mk_shell(Some(&mk_direct_state(Step::Draining)));
    let s = records(&shell, &o, 101);
    assert_eq!((s.step, s.attempt.on), (Step::PoweringOn, None));
}

#[test]
fn f16_release_is_recorded_with_the_power_on_if_the_owner_has_the_host_as_off() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    bmh(&mut o).powered_on = Some(true);
    o.drain = Some(Drain::default());
    o.power = mk_power(100, PowerState::Off);
    let shell = mk_shell(Some(&mk_state(Step::Draining)));
    let s = records(&shell, &o, 101);
    assert_eq!(
        (s.step, s.attempt.handover.released),
        (Step::PoweringOn, None)
    );
    bmh(&mut o).powered_on = Some(false);
    let s = records(&shell, &o, 101);
    assert_eq!(s.attempt.handover.released, Some(at(101)));
}

#[test]
fn notes_of_joined_writes_are_all_kept() {
    let (shell, o) = mk_ended(true);
    let d = shell.decide(&o, at(25));
    let reasons: Vec<_> = d.notes.iter().map(|note| note.reason).collect();
    assert_eq!(reasons, ["ConfirmingOff"]);
}
