//! F8: when a confirmation by a person counts, and what is tried before it is accepted.

use super::{super::*, build::*, failures::mk_person};

/// A confirmation was given, and then the BMC confirmed off itself.
fn mk_answered() -> (Observation, State) {
    let (mut o, s) = mk_person();
    o.operation = confirmed();
    let (s, _) = writes(&o, &s, 601);
    assert!(matches!(s.attempt.off, Some(OffEvidence::Bmc { .. })));
    o.operation = None;
    (o, s)
}

#[test]
fn f8_confirmed_off_uses_the_confirmation() {
    let (_, s) = mk_answered();
    assert!(s.confirmation_used);
}

#[test]
fn f8_confirmation_of_an_earlier_power_off_does_not_count() {
    let (mut o, mut s) = mk_answered();
    o.power = mk_power(602, PowerState::On);
    o.silent_since = None;
    s.attempt.lease_at_off = Some("09:00:00".into());
    s.step = Step::Tainting;
    s.confirmation_used = false;
    let (s, reason) = writes(&o, &s, 602);
    assert_eq!(reason.label(), "FenceViolated");
    assert!(
        s.confirmation_used,
        "another power-off uses the confirmation"
    );
    o.power = mk_no_power(900);
    assert!(matches!(does(&o, &s, 900), Command::PowerOff { .. }));
}

#[test]
fn f8_confirmation_from_before_the_attempt_does_not_count() {
    let (mut o, _) = mk_person();
    o.power = mk_no_power(1);
    let (s, _) = writes(&o, &mk_state(Step::Holding), 1);
    assert_eq!((s.step, s.confirmation_used), (Step::PoweringOff, true));
    assert!(matches!(does(&o, &s, 2), Command::PowerOff { .. }));
    // A later confirmation counts.
    o.object.confirm_fenced = None;
    let (s, _) = writes(&o, &s, 3);
    assert!(!s.confirmation_used);
}

/// The first second of a leader: no agent is connected yet, and the BMC was not read.
#[test]
fn f8_new_leader_tries_the_bmc_before_it_accepts_a_confirmation() {
    let (mut o, s) = mk_person();
    let dark = AgentView::Unreachable { why: "dark".into() };
    for (agent, power) in [(dark, None), (AgentView::Ready, mk_no_power(601))] {
        o.agent = agent;
        o.power = power;
        o.silent_since = None;
        let since = o.silence(Some(&s), None, at(601));
        assert_eq!(
            since,
            Some(at(601)),
            "tries of the previous process do not count"
        );
        for silent_since in [None, since] {
            o.silent_since = silent_since;
            let (reason, until) = waits(&o, &s, 601);
            assert_eq!(reason.label(), "FenceUnconfirmed");
            assert!(until <= 660, "{until}");
            assert!(reason.to_string().contains("is accepted once"), "{reason}");
        }
        o.silent_since = Some(at(601 - 180));
        assert_eq!(writes(&o, &s, 601).0.step, Step::ConfirmingOff);
    }
}

#[test]
fn l1_pending_confirmation_is_reevaluated_when_the_try_time_ends() {
    let (mut o, s) = mk_person();
    o.power = mk_no_power(601);
    o.silent_since = Some(at(601 - 178));
    assert_eq!(waits(&o, &s, 601).1, 603);
}

#[test]
fn f8_silence_begins_with_a_try_and_ends_with_a_clear_reading() {
    let (mut o, s) = mk_person();
    let silence = |o: &Observation, before: i64| {
        let since = o.silence(Some(&s), Some(at(before)), at(700));
        since.map(|t| t.as_second() - 1_800_000_000)
    };
    o.power = mk_no_power(601);
    assert_eq!(silence(&o, 100), Some(100), "another try without an answer");
    for heard in [PowerState::On, PowerState::Off, PowerState::PoweringOn] {
        o.power = mk_power(601, heard);
        assert_eq!(silence(&o, 100), None, "{heard:?}");
        assert_eq!(silence(&o, 650), Some(650), "an older reading");
    }
    for unclear in [PowerState::Unknown, PowerState::PoweringOff] {
        o.power = mk_power(601, unclear);
        assert_eq!(silence(&o, 100), Some(100), "{unclear:?}");
    }
    o.operation = confirmed();
    assert_eq!(silence(&o, 100), None);
    // Nothing was tried.
    (o.operation, o.power) = (None, None);
    assert_eq!(o.silence(Some(&s), None, at(700)), None);
    o.operation = Some(OperationView::Running);
    assert_eq!(o.silence(Some(&s), None, at(700)), Some(at(700)));
    // In steps that need no reading there is no silence.
    for step in [
        Step::Pending,
        Step::Holding,
        Step::PoweringOn,
        Step::Booting,
    ] {
        let s = mk_state(step);
        assert_eq!(
            o.silence(Some(&s), Some(at(100)), at(700)),
            None,
            "{step:?}"
        );
    }
}

#[test]
fn f15_ignored_confirmation_has_no_effect_and_the_reason_says_so() {
    let (mut o, s) = mk_person();
    o.object.confirm_fenced = None;
    let policy = o.object.policy.as_mut().unwrap();
    policy.words_of_persons = WordsOfPersons::Ignored;
    let decision = step(&o, Some(&s), at(602));
    assert_eq!(decision.reason.label(), "FenceUnconfirmed");
    let text = decision.reason.to_string();
    assert!(text.contains("(--words-of-persons=ignored)"), "{text}");
    assert!(!text.contains("confirm-fenced"), "{text}");
}
