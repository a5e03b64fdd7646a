//! Several maintenances of one host: the later one waits, and uses nothing of the earlier one.

use super::*;

fn another(has_begun: bool) -> Earlier {
    Earlier {
        name: "ns/first".into(),
        has_begun,
        ends: Ends::At(at(7200) + Duration::from_nanos(5)),
    }
}

#[test]
fn second_maintenance_of_a_host_waits_and_sets_nothing() {
    let mut f = facts();
    f.earlier = Some(another(true));
    f.lease = LeaseMark::Theirs {
        holder: "HostMaintenance-first-u1".into(),
        until: at(300),
    };
    let d = decide(&f, at(0));
    assert_eq!((d.phase, d.reason), (P::Pending, R::Queued));
    assert!(d.actions.is_empty() && d.in_place.is_empty());
    for part in [
        "HostMaintenance ns/first",
        "has begun",
        "at 1970-01-01T02:00:00Z",
    ] {
        assert!(
            d.message.contains(part),
            "{part} is missing in {}",
            d.message
        );
    }
    f.earlier = Some(Earlier {
        ends: Ends::ByDeletion,
        ..another(false)
    });
    let told = decide(&f, at(0)).message;
    assert!(told.contains("was created before") && told.contains("when somebody deletes it"));
}

#[test]
fn remediation_of_a_second_maintenance_is_withdrawn_before_it_begins() {
    for stage in [Stage::Waiting, Stage::Ready] {
        let mut w = World::new(facts());
        w.f.remediation = seen(stage, false);
        w.f.machine = MachineMark::Ours;
        w.f.earlier = Some(another(true));
        let actions = w.turn(0);
        assert_eq!(
            actions,
            [A::TakeBack(Mark::SkipRemediation), A::DeleteRemediation]
        );
        assert!(w.turn(1).is_empty(), "its end is waited for");
        w.f.remediation = RemediationSeen::Absent;
        assert!(w.turn(2).is_empty());
        assert_eq!(w.phases, [P::Pending]);
        w.f.earlier = None;
        assert_eq!(w.turn(3), [A::CreateRemediation]);
    }
    // What has begun goes on.
    let mut f = facts();
    f.earlier = Some(another(true));
    f.record.begun = true;
    f.remediation = seen(Stage::Parked, false);
    assert_eq!(decide(&f, at(0)).phase, P::Parked);
}

#[test]
fn f9_mark_of_another_maintenance_is_neither_relied_on_nor_taken_back() {
    let mut f = ready();
    f.machine = MachineMark::OfAnother {
        by: "HostMaintenance ns/first (UID u1)".into(),
    };
    f.lease = LeaseMark::NotUsed;
    let d = decide(&f, at(0));
    assert_eq!(d.reason, R::Queued);
    assert!(d.actions.is_empty() && !d.record.marked);
    assert!(d.message.contains("HostMaintenance ns/first (UID u1)"));
    f.record.begun = true;
    f.remediation = seen(Stage::Evicting, false);
    let d = decide(&f, at(0));
    assert!(!d.record.marked && d.actions.is_empty());
    assert_eq!(d.reason, R::MarkRefused);
    f.deleting = true;
    f.remediation = RemediationSeen::Absent;
    assert_eq!(decide(&f, at(1)).actions, [A::RemoveFinalizer]);
}

#[test]
fn queue_says_what_really_ends_the_one_that_is_first() {
    let told = |ends| {
        let mut f = facts();
        f.earlier = Some(Earlier {
            ends,
            ..another(true)
        });
        decide(&f, at(0)).message
    };
    let later = told(Ends::After(Duration::from_secs(7200)));
    assert!(later.contains("7200 s after its host can be worked on, or when somebody deletes it"));
    // Deleting it once more ends nothing.
    let ends = told(Ends::Already {
        reason: "MarkLeft".into(),
    });
    for part in [
        "ends already",
        "(MarkLeft)",
        "explain maintenance first --namespace ns",
    ] {
        assert!(ends.contains(part), "{part} is missing in {ends}");
    }
    assert!(!ends.contains("deletes"), "{ends}");
}
