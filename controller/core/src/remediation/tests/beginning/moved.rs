//! F15, F16: a remediation that clusterctl moves to another cluster, or is made to wait for; and the finalizer that
//! CAPM3 may have set.

use std::time::Duration;

use super::{super::*, build::*};

const FORMER: &str = "reboot.metal3.io/rackhand-9a72";

/// A failed Node that a former remediation of ours has tainted, on a host that its hold key keeps off. Nothing is
/// recorded about the copy of that remediation.
fn mk_moved() -> Observation {
    let mut o = mk_observation();
    o.object.finalizer_is_shared = true;
    o.object.finalizer_by_copy = Some(true);
    bmh(&mut o).orphaned_holds.insert(FORMER.into());
    bmh(&mut o).created = Some(at(0));
    bmh(&mut o).powered_on = Some(false);
    node(&mut o).taint = Taint::Ours;
    node(&mut o).tainted_by_rackhand = true;
    o
}

fn unblocked(mut o: Observation) -> Observation {
    o.object.move_block = MoveBlock::Absent;
    bmh(&mut o).move_block = MoveBlock::Absent;
    o
}

#[test]
fn f16_move_is_blocked_before_the_hold_and_until_everything_is_removed() {
    let mut o = unblocked(mk_observation());
    assert_eq!(does(&o, &mk_state(Step::Holding), 0), Command::BlockMove);
    // The hold key brings it to the host.
    o.object.move_block = MoveBlock::Ours;
    assert_eq!(does(&o, &mk_state(Step::Holding), 0), Command::AddHold);
    // A remediation by Node is not moved, so that only its host makes a move wait.
    o.object.by_node = true;
    assert_eq!(does(&o, &mk_state(Step::Holding), 0), Command::BlockMove);
    o.object.by_node = false;
    bmh(&mut o).our_hold = true;
    assert_eq!(does(&o, &mk_state(Step::Holding), 0), Command::BlockMove);
    bmh(&mut o).our_hold = false;
    bmh(&mut o).move_block = MoveBlock::Ours;
    assert_eq!(does(&o, &mk_state(Step::Holding), 0), Command::AddHold);
    // The taint goes first.
    let s = mk_state(Step::Restoring);
    node(&mut o).taint = Taint::Ours;
    assert_eq!(does(&o, &s, 9), Command::RemoveTaint);
    node(&mut o).taint = Taint::Absent;
    // That of the object goes with the finalizer.
    assert_eq!(does(&o, &s, 9), Command::UnblockHost);
    let mut left = o.clone();
    left.object.finalizer = false;
    assert_eq!(does(&left, &s, 9), Command::UnblockMove);
    let mut waiting = o.clone();
    waiting.object.paused = true;
    let pending = mk_state(Step::Retrying);
    assert_eq!(does(&waiting, &pending, 9), Command::UnblockMove);
    let mut aborting = mk_state(Step::Aborting);
    aborting.attempt.end_reason = Some(Reason::HostOffline("metal/host-7".into()));
    aborting.attempt.taint = None;
    o.completed.insert(Command::RemoveHold);
    o.completed.insert(Command::Release);
    assert_eq!(does(&o, &aborting, 9), Command::UnblockMove);
    // F9: what somebody else has set stays.
    o.object.move_block = MoveBlock::Other;
    bmh(&mut o).move_block = MoveBlock::Other;
    assert_eq!(writes(&o, &aborting, 9).0.step, Step::Blocked);
}

#[test]
fn what_is_not_held_yet_is_not_held_in_a_paused_cluster() {
    let mut o = unblocked(mk_observation());
    o.object.paused = true;
    let s = mk_state(Step::Holding);
    let (next, reason) = writes(&o, &s, 0);
    assert_eq!((next.step, reason), (Step::Pending, Reason::Paused));
    assert_eq!(waits(&o, &next, 0).0, Reason::Paused);
    bmh(&mut o).move_block = MoveBlock::Ours;
    assert_eq!(does(&o, &s, 0), Command::UnblockMove);
    // What is held goes on, so that the move has to wait no longer than necessary.
    o.object.move_block = MoveBlock::Ours;
    bmh(&mut o).our_hold = true;
    assert_eq!(writes(&o, &s, 0).0.step, Step::PoweringOff);
}

#[test]
fn nothing_is_done_to_originals_that_clusterctl_deletes() {
    for step in super::waiting::STEPS {
        if step.is_terminal() {
            continue;
        }
        // clusterctl has removed all annotations, the hold key included.
        let mut o = mk_observation();
        bmh(&mut o).moved_away = true;
        o.object.deleting = true;
        assert_eq!(
            waits(&o, &mk_state(step), 9).0,
            Reason::MovedAway,
            "{step:?}"
        );
        let mut o = mk_observation();
        o.object.moved_away = true;
        assert_eq!(
            waits(&o, &mk_state(step), 9).0,
            Reason::MovedAway,
            "{step:?}"
        );
    }
}

#[test]
fn f15_moved_remediation_confirms_off_again_and_takes_over_key_and_taint() {
    let mut o = mk_moved();
    o.object.paused = true;
    let s = decide(&o, None, at(5)).state;
    assert!(s.finalizer, "its finalizer came with it");
    assert_eq!(waits(&o, &s, 5).0, Reason::Paused);
    o.object.paused = false;
    assert_eq!(writes(&o, &s, 5).0.step, Step::Holding);
    assert_eq!(does(&o, &mk_state(Step::Holding), 5), Command::AddHold);

    bmh(&mut o).our_hold = true;
    o.power = mk_power(30, PowerState::Off);
    let (s, _) = writes(&o, &mk_state(Step::Tainting), 30);
    assert_eq!(s.attempt.taint, Some(TaintOwner::Us));

    let s = mk_state(Step::PoweringOn);
    let (reason, until) = waits(&o, &s, 60);
    assert_eq!((reason.label(), until), ("OrphanedHold", 600));
    assert!(reason.to_string().contains(FORMER), "{reason}");
    o.object.paused = true;
    assert_eq!(waits(&o, &s, 600).0.label(), "OrphanedHold");
    o.object.paused = false;
    let keys = [FORMER.to_owned()].into();
    assert_eq!(does(&o, &s, 600), Command::RemoveOrphanedHolds { keys });
    bmh(&mut o).orphaned_holds.clear();
    assert_eq!(does(&o, &s, 600), Command::RemoveHold);
}

#[test]
fn f15_taint_of_somebody_else_is_not_taken_over() {
    for tainted_by_rackhand in [false, true] {
        let mut o = mk_moved();
        node(&mut o).tainted_by_rackhand = tainted_by_rackhand;
        if tainted_by_rackhand {
            bmh(&mut o).orphaned_holds.clear();
        }
        let d = decide(&o, None, at(5));
        assert_eq!(d.reason.label(), "StateLost", "{tainted_by_rackhand}");
    }
}

/// As the control plane shows a Node that runs, or that was switched off less than 40 s ago.
fn is_shown_ready(o: &mut Observation) {
    node(o).ready = true;
    node(o).ready_unknown = false;
    o.machine.as_mut().unwrap().health_check_succeeded = None;
}

fn lease(renewed: &str, unchanged_since: i64) -> Option<LeaseFacts> {
    Some(LeaseFacts {
        renewed: renewed.into(),
        duration: Duration::from_secs(40),
        unchanged_since: at(unchanged_since),
    })
}

#[test]
fn f11_moved_remediation_whose_node_is_back_is_over() {
    let mut o = mk_observation();
    is_shown_ready(&mut o);
    node(&mut o).lease = lease("0", 5);
    let mut waiting = o.clone();
    waiting.object.finalizer = false;
    waiting.object.finalizer_by_copy = Some(false);
    waiting.object.made_by_check = Some(at(0));
    for mut o in [o, waiting] {
        let s = decide(&o, None, at(5)).state;
        assert_eq!(waits(&o, &s, 6), (Reason::WaitingForRenewal, 17));
        node(&mut o).lease = lease("1", 15);
        assert_eq!(writes(&o, &s, 17).0.step, Step::Succeeded);
    }
}

/// A leader that is killed between the first copy and the record leaves the copy alone.
#[test]
fn f11_ready_node_is_cycled_by_the_copy_of_a_label_or_a_person_that_has_switched_nothing() {
    let mut o = mk_observation();
    is_shown_ready(&mut o);
    node(&mut o).lease = lease("0", 5);
    o.object.finalizer = false;
    o.object.made_by_check = None;
    for (had_begun, was_down) in [(None, false), (Some(false), false), (Some(true), true)] {
        o.object.finalizer_by_copy = had_begun;
        let s = decide(&o, None, at(5)).state;
        assert_eq!(s.node_was_down, was_down, "{had_begun:?}");
    }
    // With the first copy the host may be taken, which puts the finalizer on the object.
    o.object.finalizer_by_copy = Some(true);
    o.object.uncut_by_copy = true;
    for finalizer in [false, true] {
        o.object.finalizer = finalizer;
        let s = decide(&o, None, at(5)).state;
        assert!(!s.node_was_down, "finalizer {finalizer}");
        assert_eq!(s.former_lease, None);
    }
    o.object.made_by_check = Some(at(0));
    assert!(decide(&o, None, at(5)).state.node_was_down);
}

/// The control plane shows a Node as Ready for 40 s after its host was switched off.
#[test]
fn f11_moved_remediation_does_not_take_a_node_for_back_that_was_just_fenced() {
    let mut o = mk_moved();
    o.object.finalizer_is_shared = false;
    is_shown_ready(&mut o);
    node(&mut o).lease = None;
    let s = decide(&o, None, at(0)).state;
    node(&mut o).lease = lease("0", 5);
    // What was read first is not a renewal.
    let (s, reason) = writes(&o, &s, 5);
    assert_eq!((s.step, reason), (Step::Pending, Reason::WaitingForRenewal));
    assert_eq!(waits(&o, &s, 5), (Reason::WaitingForRenewal, 17));
    assert_eq!(writes(&o, &s, 17).0.step, Step::Holding);
    // Nor is a Node without a Lease proven to be alive.
    node(&mut o).lease = None;
    assert_eq!(writes(&o, &s, 17).0.step, Step::Holding);
}

#[test]
fn f9_finalizer_that_was_there_first_is_not_ours() {
    let mut o = mk_observation();
    o.object.finalizer_is_shared = true;
    let s = decide(&o, None, at(0)).state;
    let (s, reason) = writes(&o, &s, 0);
    assert_eq!((s.step, reason.label()), (Step::Blocked, "RivalController"));
    assert!(reason.to_string().contains("finalizer"), "{reason}");
    for deleting in [false, true] {
        o.object.deleting = deleting;
        let d = decide(&o, Some(&s), at(9));
        assert!(matches!(d.next, Next::Done(_)), "{d:?}");
        let d = decide(&o, None, at(9));
        assert!(!matches!(d.next, Next::Do(_)), "{d:?}");
    }
    // What we leave while we work on an object tells that it is ours.
    o.object.deleting = false;
    for trace in [
        (|o| o.object.finalizer_by_copy = Some(true)) as fn(&mut Observation),
        |o| bmh(o).our_hold = true,
        |o| o.held = true,
    ] {
        let mut o = o.clone();
        trace(&mut o);
        assert!(decide(&o, None, at(0)).state.finalizer);
    }
}
