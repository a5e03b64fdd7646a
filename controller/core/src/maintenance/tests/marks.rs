//! Marks that are refused, missing, of others, or left.

use super::*;

#[test]
fn mark_that_is_refused_keeps_the_remediation_from_beginning_and_is_said() {
    let mut f = ready();
    f.lease = LeaseMark::NotUsed;
    refuse_to_set(
        &mut f,
        Mark::SkipRemediation,
        "Machine ns/m: the webhook says no",
    );
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Pending, R::MarkRefused));
    assert!(!d.record.marked);
    assert!(d.message.contains("the webhook says no"), "{}", d.message);
    assert_eq!(d.actions, [A::Set(Mark::SkipRemediation)], "tried again");
    assert_eq!(
        d.in_place,
        [Mark::Remediation],
        "what was refused is not there"
    );
    // Each mark by itself is one too few.
    for (machine, lease, marked) in [
        (MachineMark::Absent, LeaseMark::NotUsed, false),
        (MachineMark::Ours, LeaseMark::Free, false),
        (MachineMark::Ours, LeaseMark::NotUsed, true),
        (MachineMark::Theirs, LeaseMark::NotUsed, true),
        (
            MachineMark::NoMachine,
            LeaseMark::Ours { renewed: at(0) },
            true,
        ),
    ] {
        let f = MaintenanceFacts {
            machine,
            lease,
            ..ready()
        };
        assert_eq!(decide(&f, at(0)).record.marked, marked, "{f:?}");
    }
}

#[test]
fn mark_that_goes_missing_stops_what_was_not_switched_yet() {
    let mut f = facts();
    f.record.begun = true;
    f.record.marked = true;
    f.lease = LeaseMark::Theirs {
        holder: "somebody".into(),
        until: at(300),
    };
    f.remediation = seen(Stage::Evicting, false);
    assert!(!decide(&f, at(0)).record.marked);
    refuse_to_set(&mut f, Mark::Lease, "403");
    assert_eq!(decide(&f, at(0)).reason, R::MarkRefused);
    // In the last moment its remediation waits for it as well, which is no power-off.
    f.failed_marks = FailedMarks::default();
    for (reason, expected) in [
        ("WaitingForMarks", R::MarkRefused),
        ("PowerOffRunning", R::PoweringOff),
    ] {
        f.remediation = seen(Stage::Working, false);
        if let RemediationSeen::Present { reason: shown, .. } = &mut f.remediation {
            *shown = reason.into();
        }
        let d = decide(&f, at(0));
        assert_eq!(d.reason, expected, "{reason}");
        assert!(d.message.contains("somebody has taken"), "{}", d.message);
    }
    refuse_to_set(&mut f, Mark::Lease, "403");
    f.remediation = seen(Stage::Parked, false);
    let d = decide(&f, at(0));
    assert_eq!(d.reason, R::Parked);
    assert!(
        d.message.contains("a health check may act"),
        "{}",
        d.message
    );
}

#[test]
fn marks_are_taken_back_from_what_waits_again() {
    let mut w = World::new(ready());
    w.turn(0);
    w.turn(1);
    assert!(w.f.record.marked);
    w.f.remediation = seen(Stage::Waiting, false);
    let back = [A::TakeBack(Mark::SkipRemediation), A::TakeBack(Mark::Lease)];
    assert!(w.turn(2).is_empty(), "one that begins meanwhile sees it");
    assert!(!w.f.record.marked);
    assert_eq!(w.turn(3), back);
    assert!(w.turn(4).is_empty());
    // A check that came meanwhile is asked again.
    let mut f = ready();
    f.refused = Some("the check".into());
    f.machine = MachineMark::Ours;
    let d = decide(&f, at(4));
    assert_eq!(d.reason, R::CheckWouldAct);
    assert_eq!(d.actions, [A::TakeBack(Mark::SkipRemediation)]);
}

#[test]
fn f9_taint_of_a_remediation_that_is_gone_is_not_called_nothing() {
    let mut f = facts();
    f.deleting = true;
    f.record.begun = true;
    f.machine = MachineMark::Ours;
    f.leftovers = Leftovers {
        node: "Node n".into(),
        taint: true,
        ..Leftovers::default()
    };
    let d = decide(&f, at(0));
    assert_eq!(d.actions, [A::TakeBack(Mark::SkipRemediation)]);
    f.machine = MachineMark::Absent;
    let d = decide(&f, at(1));
    assert_eq!((d.phase, d.reason), (P::Ending, R::TaintLeft));
    assert!(d.actions.is_empty() && d.message.contains("Node n has its out-of-service taint"));
    f.leftovers = Leftovers::default();
    f.record.marked = true;
    let d = decide(&f, at(2));
    assert_eq!(d.actions, [A::RemoveFinalizer]);
    assert!(!d.record.marked, "no check leaves it alone any more");
}

#[test]
fn mark_that_somebody_has_removed_in_part_is_set_again_and_taken_back() {
    let mut f = facts();
    f.record.begun = true;
    f.record.marked = true;
    f.lease = LeaseMark::NotUsed;
    f.machine = MachineMark::InPart;
    f.remediation = seen(Stage::Evicting, false);
    let d = decide(&f, at(0));
    assert!(!d.record.marked, "no check heeds what is left of it");
    assert_eq!(d.actions, [A::Set(Mark::SkipRemediation)]);
    f.deleting = true;
    f.remediation = RemediationSeen::Absent;
    let back = [A::TakeBack(Mark::SkipRemediation)];
    assert_eq!(decide(&f, at(1)).actions, back);
}

#[test]
fn f9_mark_that_cannot_be_taken_back_is_said_and_tried_until_it_is() {
    let mut f = facts();
    f.deleting = true;
    f.record.begun = true;
    f.machine = MachineMark::Ours;
    f.lease = LeaseMark::NotUsed;
    let refused = "Machine ns/m: machines is forbidden (403)";
    let take_back = &mut f.failed_marks.take_back;
    take_back.insert(Mark::SkipRemediation, refused.into());
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Ending, R::MarkLeft));
    for part in [
        "the annotation of the Machine",
        refused,
        "or remove the annotation",
    ] {
        assert!(
            d.message.contains(part),
            "{part} is missing in {}",
            d.message
        );
    }
    assert_eq!(d.actions, [A::TakeBack(Mark::SkipRemediation)]);
    assert_eq!(d.in_place, [Mark::SkipRemediation]);
    assert!(!d.record.over);
    f.machine = MachineMark::Absent;
    let d = decide(&f, at(1));
    assert_eq!((d.phase, d.reason), (P::Ended, R::Deleted));
}

#[test]
fn f9_mark_that_is_left_on_a_host_that_waits_is_said_as_well() {
    let mut f = facts();
    f.remediation = seen(Stage::Waiting, false);
    f.lease = LeaseMark::Ours { renewed: at(0) };
    let take_back = &mut f.failed_marks.take_back;
    take_back.insert(Mark::Lease, "503".into());
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Pending, R::MarkLeft));
    assert!(d.message.contains("nothing is switched yet") && d.message.contains("503"));
}

#[test]
fn f9_maintenance_is_not_over_while_its_cordon_or_hold_stands() {
    let left = |cordon, hold| {
        let mut f = facts();
        f.deleting = true;
        f.record.begun = true;
        f.leftovers = Leftovers {
            node: "Node n".into(),
            taint: false,
            cordon,
            hold,
        };
        let d = decide(&f, at(0));
        assert!(d.phase == P::Ending && d.actions.is_empty() && !d.record.over);
        d.reason
    };
    assert_eq!(left(true, true), R::CordonLeft);
    assert_eq!(left(false, true), R::HoldLeft);
    // Its beginning may not have been seen.
    let mut f = facts();
    f.leftovers.cordon = true;
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Pending, R::CordonLeft));
    assert!(d.actions.is_empty(), "none is made anew");
    f.deleting = true;
    assert_eq!(decide(&f, at(1)).reason, R::CordonLeft);
    // A taint may be of another remediation.
    f.leftovers = Leftovers {
        taint: true,
        ..Leftovers::default()
    };
    assert_eq!(decide(&f, at(2)).actions, [A::RemoveFinalizer]);
}

#[test]
fn led_that_cannot_be_lit_is_said_and_not_called_in_place() {
    let mut f = facts();
    f.record.begun = true;
    f.remediation = seen(Stage::Parked, false);
    refuse_to_set(&mut f, Mark::LocatorLED, "the BMC has none");
    let d = decide(&f, at(0));
    assert_eq!(d.reason, R::Parked);
    assert!(d.message.contains("cannot be lit: the BMC has none"));
    assert!(!d.in_place.contains(&Mark::LocatorLED));
}

#[test]
fn f9_only_marks_that_are_recorded_are_renewed_before_the_status_is_written() {
    let expires = i64::try_from(LEASE_LASTS.as_secs()).unwrap();
    let mut f = facts();
    f.record.begun = true;
    f.record.marked = true;
    f.machine = MachineMark::InPart;
    f.lease = LeaseMark::Ours { renewed: at(0) };
    f.remediation = seen(Stage::Parked, false);
    let (skip, lease) = (A::Set(Mark::SkipRemediation), A::Set(Mark::Lease));
    let led = A::Set(Mark::LocatorLED);
    // The LED has a time of its own, which is recorded first.
    let all = [Mark::SkipRemediation, Mark::Lease, Mark::LocatorLED];
    for (recorded, renewed, rest) in [
        (&all[..], vec![skip, lease], vec![led]),
        (&[Mark::Lease][..], vec![lease], vec![skip, led]),
        (&[][..], vec![], vec![skip, lease, led]),
    ] {
        let mut d = decide(&f, at(expires - 1));
        assert_eq!(d.take_renewals(recorded), renewed, "{recorded:?}");
        assert_eq!(d.actions, rest, "{recorded:?}");
    }
    // While the host comes back too. What is taken back waits for its record.
    f.deleting = true;
    f.remediation = seen(Stage::Returning, true);
    assert_eq!(decide(&f, at(expires - 1)).take_renewals(&all), [lease]);
    f.remediation = RemediationSeen::Absent;
    let mut d = decide(&f, at(expires - 1));
    assert!(d.take_renewals(&all).is_empty() && d.actions.len() == 2);
}

#[test]
fn f9_mark_that_cannot_be_taken_back_keeps_no_other_one_standing() {
    let mut f = facts();
    f.deleting = true;
    f.record.begun = true;
    f.machine = MachineMark::Ours;
    f.lease = LeaseMark::Ours { renewed: at(0) };
    f.led.until = Some(at(240));
    let all = [Mark::SkipRemediation, Mark::Lease, Mark::LocatorLED];
    for refused in all {
        f.failed_marks = FailedMarks::default();
        f.failed_marks.take_back.insert(refused, "403".into());
        let d = decide(&f, at(1));
        assert_eq!(d.actions, all.map(A::TakeBack), "{refused:?}");
        assert!(!d.record.over);
    }
}

#[test]
fn f12_lease_that_may_be_needed_and_is_not_read_keeps_the_remediation_from_beginning() {
    let mut f = ready();
    f.machine = MachineMark::Ours;
    f.lease = unread_lease(300);
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Pending, R::NodeLeaseHeld));
    assert!(!d.record.marked && d.message.contains("403"));
    f.record.begun = true;
    f.remediation = seen(Stage::Evicting, false);
    let d = decide(&f, at(0));
    assert_eq!(d.reason, R::MarkRefused);
    assert!(!d.record.marked && d.message.contains("nothing is evicted or switched"));
    f.remediation = seen(Stage::Parked, false);
    let d = decide(&f, at(0));
    assert!(!d.record.marked && d.message.contains("a health check may act"));
}

#[test]
fn f9_lease_that_was_listed_and_is_not_read_is_left_until_it_has_expired() {
    let mut f = facts();
    f.record.begun = true;
    f.lease = LeaseMark::Ours { renewed: at(0) };
    f.remediation = seen(Stage::Parked, false);
    f.record = decide(&f, at(0)).record;
    assert!(f.record.leased);
    f.lease = unread_lease(300);
    let d = decide(&f, at(1));
    assert!(d.in_place.contains(&Mark::Lease), "it is not forgotten");
    f.record = d.record;
    f.deleting = true;
    f.remediation = RemediationSeen::Absent;
    let d = decide(&f, at(2));
    assert_eq!(d.phase, P::Ending);
    assert_eq!(d.actions, [A::TakeBack(Mark::Lease)]);
    assert!(d.record.leased && !d.record.over);
    // Nobody has renewed it since, and a right that is gone must not keep the object for ever.
    assert_eq!(decide(&f, at(300)).actions, [A::RemoveFinalizer]);
    f.record.leased = false;
    assert_eq!(decide(&f, at(2)).actions, [A::RemoveFinalizer]);
}
