//! Tests of the rule about updates of firmware.

use super::*;
use crate::remediation::tests::build::mk_update;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn watch() -> UpdateWatch {
    UpdateWatch::seen(None, &mk_update(10), false, at(0))
}

#[test]
fn update_that_says_something_else_has_moved() {
    let first = watch();
    let same = UpdateWatch::seen(Some(&first), &mk_update(10), false, at(600));
    assert_eq!((same.first_seen, same.last_moved), (at(0), at(0)));
    for changed in [
        mk_update(11),
        FirmwareUpdate {
            message: "Verifying".into(),
            ..mk_update(10)
        },
        FirmwareUpdate {
            state: "Downloading".into(),
            ..mk_update(10)
        },
        FirmwareUpdate {
            source: "job JID_2".into(),
            ..mk_update(10)
        },
    ] {
        let moved = UpdateWatch::seen(Some(&same), &changed, false, at(700));
        assert_eq!((moved.first_seen, moved.last_moved), (at(0), at(700)));
    }
}

#[test]
fn rule_decides_by_policy_progress_and_approval() {
    let default = UpdateRules::default();
    let timed = UpdateRules {
        proceed_after: Some(minutes(120)),
        ..default
    };
    let lets_stalled = UpdateRules {
        on_stalled: OnUpdate::Proceed,
        ..default
    };
    let proceeds = UpdateRules {
        on_running: OnUpdate::Proceed,
        ..default
    };
    // Rules, minutes since the last change and the first reading, approved; held, stalled, until (minutes).
    for (rules, minute, approved, held, stalled, until) in [
        (&default, 0, false, true, false, None),
        (&default, 29, false, true, false, None),
        (&default, 30, false, true, true, None),
        (&default, 10_000, false, true, true, None),
        (&default, 5, true, false, false, None),
        (&timed, 0, false, true, false, Some(120)),
        (&timed, 119, false, true, true, Some(120)),
        (&timed, 120, false, false, false, None),
        (&lets_stalled, 29, false, true, false, Some(30)),
        (&lets_stalled, 30, false, false, false, None),
        (&proceeds, 0, false, false, false, None),
    ] {
        let hold = rules.hold(&watch(), approved, at(minute * 60));
        assert_eq!(hold.is_some(), held, "{rules:?} after {minute} min");
        let Some(hold) = hold else { continue };
        assert_eq!(hold.stalled.is_some(), stalled, "{rules:?} {minute}");
        assert_eq!(hold.until, until.map(|m: i64| at(m * 60)), "{rules:?}");
    }
}

#[test]
fn update_that_moves_is_never_stalled() {
    let rules = UpdateRules::default();
    let mut now = watch();
    for step in 1..40_u8 {
        let time = at(i64::from(step) * 1700);
        now = UpdateWatch::seen(Some(&now), &mk_update(10 + step), false, time);
        assert_eq!(rules.stalled(&now, time), None);
    }
    let hold = rules.hold(&now, false, at(39 * 1700 + 34 * 60)).unwrap();
    assert_eq!(
        stalled_words(hold.stalled.unwrap()),
        "it has not moved for 34 min"
    );
}

#[test]
fn approval_from_before_the_update_does_not_mean_it() {
    let rules = UpdateRules::default();
    let first = UpdateWatch::seen(None, &mk_update(10), true, at(0));
    let hold = rules.hold(&first, true, at(1)).unwrap();
    assert!(hold.needs_new_approval);
    let removed = UpdateWatch::seen(Some(&first), &mk_update(10), false, at(30));
    assert!(rules.hold(&removed, true, at(31)).is_none(), "given again");
}

#[test]
fn every_policy_must_allow_it() {
    let default = UpdateRules::default();
    assert_eq!(UpdateRules::of_all([]), default);
    let proceeds = UpdateRules {
        on_running: OnUpdate::Proceed,
        on_unknown: OnUpdate::Wait,
        ..default
    };
    let timed = |hours: u64| UpdateRules {
        proceed_after: Some(minutes(60 * hours)),
        stalled_after: minutes(10 * hours),
        on_stalled: OnUpdate::Proceed,
        ..default
    };
    let (short, long) = (timed(1), timed(5));
    let both = UpdateRules::of_all([&short, &long]);
    assert_eq!(both, long);
    let mixed = UpdateRules::of_all([&proceeds, &short]);
    assert_eq!(mixed.proceed_after, short.proceed_after);
    assert_eq!(
        (mixed.on_running, mixed.on_unknown, mixed.on_stalled),
        (OnUpdate::Wait, OnUpdate::Wait, OnUpdate::Wait)
    );
    assert_eq!(UpdateRules::of_all([&short, &default]).proceed_after, None);
    assert!(!UpdateRules::of_all([&proceeds]).reads());
}

#[test]
fn clock_that_goes_back_is_not_a_stall() {
    assert_eq!(UpdateRules::default().stalled(&watch(), at(-5000)), None);
}
