//! A remediation that had begun, and waits again: a freeze, a pause or a quorum that would be lost has taken it back.

use super::*;
use crate::{maintenance::unmarked_reason, remediation::Reason};

/// A maintenance whose pods leave, with all of its marks.
fn evicting() -> World {
    let mut w = World::new(ready());
    w.turn(0);
    w.turn(1);
    w.f.remediation = seen(Stage::Evicting, false);
    w.turn(2);
    assert!(w.f.record.begun && w.f.record.marked);
    w
}

#[test]
fn freeze_takes_the_phase_back_and_then_the_marks() {
    let mut w = evicting();
    w.f.remediation = seen(Stage::Waiting, false);
    let d = decide(&w.f, at(3));
    assert_eq!((d.phase, d.reason), (P::Pending, R::RemediationWaits));
    assert!(d.message.contains("nothing is switched yet"));
    // A remediation that begins at this moment is not left without marks: it sees first that they do not count.
    assert!(w.turn(3).is_empty() && !w.f.record.marked);
    let back = [A::TakeBack(Mark::SkipRemediation), A::TakeBack(Mark::Lease)];
    assert_eq!(w.turn(4), back);
    assert!(w.turn(5).is_empty());
    assert_eq!(w.left(), ["remediation", "finalizer"]);
    // It has its turn again.
    w.f.remediation = seen(Stage::Ready, false);
    let set = [A::Set(Mark::SkipRemediation), A::Set(Mark::Lease)];
    assert_eq!(w.turn(6), set);
    assert!(w.turn(7).is_empty() && w.f.record.marked);
    w.f.remediation = seen(Stage::Evicting, false);
    w.turn(8);
    let way = [P::Pending, P::Evicting, P::Pending, P::Evicting];
    assert_eq!(w.phases, way);
}

#[test]
fn one_that_begins_while_its_marks_are_to_be_taken_back_keeps_them() {
    let mut w = evicting();
    w.f.remediation = seen(Stage::Waiting, false);
    w.turn(3);
    // It was let through before it was recorded that the marks do not count.
    w.f.remediation = seen(Stage::Evicting, false);
    assert!(w.turn(4).is_empty(), "no mark is taken back, none is due");
    assert!(w.f.record.begun && w.f.record.marked);
}

#[test]
fn f11_one_that_ends_while_it_waits_again_is_made_anew() {
    let mut w = evicting();
    w.f.remediation = seen(Stage::Recovered, false);
    assert_eq!(decide(&w.f, at(3)).reason, R::MadeAnew);
    assert_eq!(w.turn(3), [A::DeleteRemediation]);
    w.turn(4);
    w.f.remediation = RemediationSeen::Absent;
    assert_eq!(w.turn(5), [A::CreateRemediation]);
    assert_eq!(w.phases.last(), Some(&P::Pending));
}

#[test]
fn f12_one_whose_record_is_lost_keeps_its_marks() {
    let mut w = evicting();
    w.f.remediation = seen(Stage::Unrecorded, false);
    assert!(w.turn(3).is_empty() && w.turn(4).is_empty());
    assert!(w.f.record.begun && w.f.record.marked);
    assert_eq!(w.phases.last(), Some(&P::PoweringOff));
    let mut f = facts();
    f.remediation = seen(Stage::Unrecorded, false);
    assert_eq!(decide(&f, at(0)).phase, P::Pending, "it is new");
}

#[test]
fn marks_that_are_being_set_are_no_warning() {
    let by = || "HostMaintenance ns/m".to_owned();
    for shown in [
        None,
        Some("Started"),
        Some("RemediationWaits"),
        Some("SettingMarks"),
        Some("Evicting"),
    ] {
        let reason = unmarked_reason(shown, by());
        assert!(!reason.is_blocked(), "{shown:?}");
        assert_eq!(reason, Reason::SettingMarks(by()));
    }
    for shown in ["MarkRefused", "NodeLeaseHeld", "CheckWouldAct"] {
        let reason = unmarked_reason(Some(shown), by());
        assert!(reason.is_blocked(), "{shown}");
        assert_eq!(reason, Reason::WaitingForMarks(by()));
    }
    // What the remediation says of them is from before, or said by the maintenance itself.
    let mut w = evicting();
    w.f.remediation = RemediationSeen::Present {
        deleting: false,
        stage: Stage::Evicting,
        outdated: false,
        blocked: true,
        reason: "WaitingForMarks".into(),
        message: "m".into(),
    };
    assert!(decide(&w.f, at(3)).warnings.is_empty());
    w.f.failed_marks.set.insert(Mark::Lease, "403".into());
    w.f.lease = LeaseMark::Free;
    let d = decide(&w.f, at(3));
    assert_eq!((d.phase, d.reason), (P::Evicting, R::MarkRefused));
}
