//! F11: remediations whose check is gone or has changed.

use super::*;

fn live() -> CheckState {
    CheckState {
        uid: "u1".into(),
        deleting: false,
        paused: false,
        cluster_active: true,
        dry_run: false,
        selects: true,
        makes: true,
    }
}

type Change = fn(&mut CheckState);

#[test]
fn f11_remediation_is_withdrawn_when_its_check_no_longer_makes_it() {
    let cases: [(Change, Option<Orphan>, bool); 9] = [
        (|_| {}, None, true),
        (|c| c.uid = "u2".into(), Some(Orphan::CheckDeleted), true),
        (|c| c.deleting = true, Some(Orphan::CheckDeleted), false),
        (|c| c.paused = true, Some(Orphan::CheckPaused), false),
        (|c| c.selects = false, Some(Orphan::NotSelected), false),
        (|c| c.makes = false, Some(Orphan::OtherTemplate), true),
        (|c| c.dry_run = true, None, false),
        (|c| c.cluster_active = false, None, false),
        (
            |c| {
                c.cluster_active = false;
                c.paused = true;
            },
            None,
            false,
        ),
    ];
    for (change, orphan, is_live) in cases {
        let mut check = live();
        change(&mut check);
        let of = |covered, paused| orphaned("u1", Some(&check), covered, paused);
        assert_eq!(of(false, false), orphan, "{check:?}");
        assert_eq!(check.is_live(), is_live, "{check:?}");
        assert_eq!(of(false, true), None, "a paused Machine");
        assert_eq!(
            of(true, false),
            None,
            "another check makes the same remediation"
        );
    }
    let gone = orphaned("u1", None, false, false);
    assert_eq!(gone, Some(Orphan::CheckDeleted));
}
