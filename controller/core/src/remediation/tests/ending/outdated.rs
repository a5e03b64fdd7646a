//! States that were restored from a backup.

use jiff::Timestamp;

use super::{super::*, build::*, driver::time};

fn at(step: Step) -> State {
    let mut state = State::new(Timestamp::UNIX_EPOCH);
    state.step = step;
    state
}

/// The id of the operation of a step, after a number of repetitions.
fn id(step: Step, change: impl FnOnce(&mut State)) -> String {
    let mut state = at(step);
    change(&mut state);
    operation_id(UID, &state).unwrap()
}

fn off(id: String) -> JournalEntry {
    JournalEntry {
        id,
        host: mk_host().host,
        is_off: true,
        is_release: false,
        progress: EntryProgress::Ended,
    }
}

fn on(id: String) -> JournalEntry {
    JournalEntry {
        id,
        host: mk_host().host,
        is_off: false,
        is_release: false,
        progress: EntryProgress::Ended,
    }
}

fn release() -> JournalEntry {
    JournalEntry {
        id: format!("{UID}/release/1"),
        host: mk_host().host,
        is_off: false,
        is_release: true,
        progress: EntryProgress::Ended,
    }
}

const BEFORE_OFF: [Step; 3] = [Step::Pending, Step::Holding, Step::Retrying];
const OFF: [Step; 6] = [
    Step::PoweringOff,
    Step::AwaitingConfirmation,
    Step::ConfirmingOff,
    Step::Tainting,
    Step::Draining,
    Step::Fenced,
];
const ON: [Step; 3] = [Step::PoweringOn, Step::Booting, Step::Restoring];

#[test]
fn f12_a_state_from_before_a_power_on_of_its_remediation_is_outdated() {
    let first = || off(id(Step::PoweringOff, |_| {}));
    let back = || on(id(Step::PoweringOn, |_| {}));
    for step in BEFORE_OFF.into_iter().chain(OFF) {
        for newest in [back(), release(), on(id(Step::Aborting, |_| {}))] {
            assert!(
                is_outdated(UID, Some(&at(step)), &[newest, first()]),
                "{step:?}"
            );
        }
        for ours in [
            vec![],
            vec![first()],
            vec![off("another/1@0/off/0.0".into())],
        ] {
            assert!(
                !is_outdated(UID, Some(&at(step)), &ours),
                "{step:?}: {ours:?}"
            );
        }
    }
    for step in ON {
        for entries in [vec![back(), first()], vec![release(), first()]] {
            assert!(!is_outdated(UID, Some(&at(step)), &entries), "{step:?}");
        }
        let again = on(id(Step::PoweringOn, |s| s.attempt.power_on_repeats = 1));
        assert!(
            is_outdated(UID, Some(&at(step)), &[again, back(), first()]),
            "{step:?}"
        );
    }
}

/// The backup was made after the remediation was created and before its first state was written.
#[test]
fn f12_a_remediation_without_a_state_is_outdated_by_its_own_power_on() {
    let first = || off(id(Step::PoweringOff, |_| {}));
    let back = || on(id(Step::PoweringOn, |_| {}));
    for newest in [back(), release()] {
        assert!(is_outdated(UID, None, &[newest, first()]));
    }
    assert!(!is_outdated(UID, None, &[]), "nothing was done");
    assert!(!is_outdated(UID, None, &[first()]), "it is kept off");

    // A state that was written before the journals could be read.
    for step in BEFORE_OFF.into_iter().chain(OFF).chain(ON) {
        let mut state = at(step);
        state.attempt.started = time(1_000);
        for newest in [back(), release()] {
            let entries = [newest, first()];
            assert!(is_outdated(UID, Some(&state), &entries), "{step:?}");
        }
        assert!(!is_outdated(UID, Some(&state), &[first()]), "{step:?}");
    }

    let mut o = mk_observation();
    o.journal.is_outdated = true;
    let first = super::super::step(&o, None, time(1_000));
    assert_eq!(first.state.step, Step::Pending);
    let d = super::super::step(&o, Some(&first.state), time(1_000));
    assert_eq!(d.next, Next::Write);
    assert_eq!(d.state.step, Step::Aborting);
    assert_eq!(d.reason, Reason::StateOutdated);
}

/// The host was kept off for the remediation, which was restored without a state and went on.
#[test]
fn an_attempt_that_began_anew_under_a_power_off_is_not_outdated_by_its_own_power_on() {
    let anew = |step| {
        let mut state = at(step);
        state.attempt.started = time(1_000);
        state
    };
    let id = |step| operation_id(UID, &anew(step)).unwrap();
    let entries = [
        on(id(Step::PoweringOn)),
        off(id(Step::PoweringOff)),
        off(operation_id(UID, &at(Step::PoweringOff)).unwrap()),
    ];
    for step in ON {
        assert!(!is_outdated(UID, Some(&anew(step)), &entries), "{step:?}");
    }
}

/// No agent could be reached at first, so the power-off was to be repeated.
#[test]
fn f12_repetitions_of_an_outdated_state_do_not_make_it_current() {
    let first = || off(id(Step::PoweringOff, |_| {}));
    let back = || on(id(Step::PoweringOn, |_| {}));
    for step in OFF {
        let mut state = at(step);
        state.power_off_repeats = 1;
        for newest in [back(), release()] {
            let entries = [newest, first()];
            assert!(is_outdated(UID, Some(&state), &entries), "{step:?}");
        }
        assert!(!is_outdated(UID, Some(&state), &[first()]), "{step:?}");
    }
}

/// `OnExhausted::StayOff` begins another attempt under the number of the failed one.
#[test]
fn an_attempt_that_keeps_the_host_off_is_not_outdated_by_the_failed_one() {
    let mut state = at(Step::Retrying);
    state.attempts.push(AttemptRecord {
        number: 1,
        started: state.attempt.started,
        off: None,
        drained: None,
        outlets: Vec::new(),
        pods_evicted: 0,
        evicted_pods: Vec::new(),
        pods_deleted: 0,
        deleted_pods: Vec::new(),
        on: None,
        ended: time(900),
        step: Some(Step::Booting),
        reason: Reason::ExhaustedKeptOff(1),
    });
    state.attempt.started = time(1_000);
    state.power_off_repeats = 1;
    let first = off(id(Step::PoweringOff, |_| {}));
    for newest in [on(id(Step::PoweringOn, |_| {})), release()] {
        let entries = [newest, first.clone()];
        assert!(!is_outdated(UID, Some(&state), &entries));
    }
}

#[test]
fn a_later_attempt_is_not_outdated_by_an_earlier_one() {
    let earlier = [
        release(),
        on(id(Step::PoweringOn, |s| s.tries = 3)),
        off(id(Step::PoweringOff, |s| s.power_off_repeats = 2)),
    ];
    for step in BEFORE_OFF.into_iter().chain(OFF).chain(ON) {
        let mut state = at(step);
        state.attempt.number = 2;
        assert!(!is_outdated(UID, Some(&state), &earlier), "{step:?}");
        assert!(!is_outdated(UID, Some(&state), &earlier[1..]), "{step:?}");
        let later = on(id(Step::PoweringOn, |s| s.attempt.number = 3));
        let entries: Vec<_> = std::iter::once(later).chain(earlier.clone()).collect();
        assert!(is_outdated(UID, Some(&state), &entries), "{step:?}");
    }
}

#[test]
fn f11_nothing_is_switched_on_the_word_of_an_outdated_state_and_what_it_added_is_removed() {
    let mut o = mk_observation();
    o.journal.is_outdated = true;
    for step in BEFORE_OFF.into_iter().chain(OFF).chain(ON) {
        let d = super::super::step(&o, Some(&at(step)), time(1_000));
        assert_eq!(d.next, Next::Write, "{step:?}");
        assert_eq!(d.state.step, Step::Aborting, "{step:?}");
        assert_eq!(d.reason, Reason::StateOutdated);
    }
    let mut state = at(Step::Aborting);
    state.attempt.end_reason = Some(Reason::StateOutdated);
    state.agent_holds = true;
    state.attempt.taint = Some(TaintOwner::Us);
    if let WorkloadView::Present(node) = &mut o.workload {
        node.taint = Taint::Ours;
    }
    o.bmh.as_mut().unwrap().our_hold = true;
    let mut done = Vec::new();
    for _ in 0..20 {
        let d = super::super::step(&o, Some(&state), time(1_000));
        state = d.state;
        match d.next {
            Next::Write => {}
            Next::Do(command) => {
                match &command {
                    Command::RemoveTaint => {
                        if let WorkloadView::Present(node) = &mut o.workload {
                            node.taint = Taint::Absent;
                        }
                    }
                    Command::RemoveHold => o.bmh.as_mut().unwrap().our_hold = false,
                    Command::RemoveFinalizer(_) => o.object.finalizer = false,
                    _ => {}
                }
                o.completed.insert(command.clone());
                done.push(command);
            }
            Next::Wait(_) => panic!("it waits: {}", d.reason),
            Next::Done(outcome) => {
                assert_eq!(outcome, RemediationOutcome::Failed);
                break;
            }
        }
    }
    assert_eq!(
        done,
        [
            Command::RemoveTaint,
            Command::RemoveHold,
            Command::Release,
            Command::RemoveFinalizer(RemediationOutcome::Failed)
        ]
    );
}
