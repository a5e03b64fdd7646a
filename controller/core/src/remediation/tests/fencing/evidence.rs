//! F1: which evidence confirms off.

use super::{super::*, build::*};

fn proof(readings: &[(PowerState, u64)]) -> Result<(), EvidenceError> {
    let readings: Vec<_> = readings.iter().map(|(s, ms)| mk_reading(*s, *ms)).collect();
    confirmed_off(Some(&taken_at(0)), &readings, &Policy::default()).map(drop)
}

fn taken_at(since_start_ms: u64) -> CommandTaken {
    CommandTaken {
        since_start_ms,
        ..mk_taken()
    }
}

#[test]
fn f1_two_readings_of_off_two_seconds_apart_confirm_off() {
    use PowerState::Off;
    assert_eq!(proof(&[(Off, 1000), (Off, 3000)]), Ok(()));
    assert_eq!(proof(&[(Off, 0), (Off, 900), (Off, 2000)]), Ok(()));
}

#[test]
fn f1_fewer_or_closer_readings_do_not_confirm_off() {
    use PowerState::Off;
    assert_eq!(
        proof(&[]).unwrap_err().to_string(),
        "0 of 2 readings of off"
    );
    let one = proof(&[(Off, 9000)]).unwrap_err();
    assert_eq!(one.to_string(), "1 of 2 readings of off");
    let near = proof(&[(Off, 1000), (Off, 2999)]).unwrap_err().to_string();
    assert_eq!(
        near,
        "the readings are only 1999 ms apart, 2000 ms are required"
    );
}

#[test]
fn f1_readings_across_an_agent_restart_do_not_confirm_off() {
    use PowerState::Off;
    assert!(proof(&[(Off, 90_000), (Off, 100)]).is_err());
}

#[test]
fn f1_only_readings_of_off_confirm_off() {
    use PowerState::{Off, On, PoweringOff, PoweringOn, Unknown};
    for other in [On, PoweringOn, PoweringOff, Unknown] {
        let why = proof(&[(Off, 0), (other, 2000), (Off, 4000)])
            .unwrap_err()
            .to_string();
        assert_eq!(why, format!("a reading is \"{other:?}\", which is not off"));
    }
}

#[test]
fn f1_readings_of_two_bmcs_do_not_confirm_off() {
    let mut readings = mk_proof();
    readings[1].bmc = "10.0.0.8".into();
    let why = confirmed_off(Some(&mk_taken()), &readings, &Policy::default()).unwrap_err();
    assert_eq!(why, EvidenceError::OtherBmc);
}

#[test]
fn f1_no_policy_accepts_a_single_reading() {
    let policy = Policy {
        confirmations: 1,
        confirm_interval: secs(0),
        ..Policy::default()
    };
    assert!(
        confirmed_off(
            Some(&taken_at(0)),
            &[mk_reading(PowerState::Off, 0)],
            &policy
        )
        .is_err()
    );
    let three = Policy {
        confirmations: 3,
        ..Policy::default()
    };
    assert!(confirmed_off(Some(&mk_taken()), &mk_proof(), &three).is_err());
}

#[test]
fn f1_readings_without_a_taken_power_off_do_not_confirm_off() {
    let why = confirmed_off(None, &mk_proof(), &Policy::default()).unwrap_err();
    assert_eq!(why, EvidenceError::NoCommand);
}

#[test]
fn f1_readings_from_before_the_command_do_not_confirm_off() {
    let prove = |at| confirmed_off(Some(&taken_at(at)), &mk_proof(), &Policy::default()).map(drop);
    assert_eq!(prove(10_000), Ok(()));
    assert_eq!(prove(10_001), Err(EvidenceError::BeforeCommand));
}

#[test]
fn f1_taken_power_off_without_a_proof_does_not_confirm_off() {
    let taken = CommandTaken {
        proof: None,
        ..mk_taken()
    };
    let why = confirmed_off(Some(&taken), &mk_proof(), &Policy::default()).unwrap_err();
    assert_eq!(why, EvidenceError::NoProof);
}

#[test]
fn f1_events_of_an_earlier_agent_prove_what_its_readings_show() {
    let prove = |events: &[Option<(PowerState, u64)>], answer: &str| {
        let mut observed = ObservedOperation::default();
        for event in events {
            match event {
                Some((state, at)) => observed.reading(mk_reading(*state, *at)),
                None => observed.interrupted(),
            }
        }
        let taken = CommandTaken {
            answer: answer.to_owned(),
            proof: None,
            ..taken_at(9000)
        };
        observed.proof(&taken).is_some()
    };
    let (on, off) = (
        Some((PowerState::On, 8500)),
        Some((PowerState::Off, 10_000)),
    );
    assert!(prove(&[on, off], "204"));
    assert!(!prove(&[on, off], "409: already off"));
    assert!(!prove(&[Some((PowerState::Off, 8500)), off], "204"));
    assert!(!prove(&[on, None, off], "204"), "an interruption");
    assert!(
        !prove(&[on, Some((PowerState::Off, 18_501))], "204"),
        "a gap"
    );
    assert!(!prove(&[Some((PowerState::PoweringOff, 9500)), off], "204"));
    assert!(!prove(&[], "204"));
}

#[test]
fn f1_outcome_without_a_taken_command_is_retried_without_a_taint() {
    let mut o = mk_held();
    o.operation = Some(OperationView::Finished {
        outcome: OperationOutcome::Confirmed {
            readings: mk_proof(),
            taken: None,
        },
        commands_sent: 0,
    });
    let (s, reason) = writes(&o, &mk_state(Step::PoweringOff), 5);
    assert_eq!(
        (s.step, s.attempt.off, s.tries),
        (Step::PoweringOff, None, 1)
    );
    assert_eq!(reason.label(), "FenceUnconfirmed");
}

#[test]
fn f1_taint_is_not_written_with_an_outdated_reading() {
    let bmc = OffEvidence::Bmc {
        at: at(0),
        readings: mk_proof(),
        taken: mk_taken(),
    };
    let person = OffEvidence::Person { at: at(0) };
    let off = mk_power(10, PowerState::Off);
    let stands = |evidence: Option<&OffEvidence>, power: &Option<PowerView>, now: i64| {
        latest_reading_stands(evidence, power.as_ref(), at(now)).is_ok()
    };
    for (now, stands_then) in [(10, true), (25, true), (26, false), (9000, false)] {
        assert_eq!(stands(Some(&bmc), &off, now), stands_then, "{now}");
    }
    assert!(!stands(Some(&bmc), &off, 9), "a clock that was set back");
    assert!(!stands(Some(&bmc), &None, 10));
    assert!(!stands(None, &off, 10));
    for other in [PowerState::On, PowerState::PoweringOff, PowerState::Unknown] {
        assert!(!stands(Some(&bmc), &mk_power(10, other), 10), "{other:?}");
    }
    assert!(!stands(Some(&bmc), &mk_no_power(10), 10));
    assert!(stands(Some(&person), &None, 9000), "confirmed by a person");
}
