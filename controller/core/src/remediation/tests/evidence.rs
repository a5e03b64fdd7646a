//! F1: what proves off, and what does not.

use super::{super::*, build::*};

fn proof(readings: &[(PowerState, u64)]) -> Result<(), String> {
    let readings: Vec<_> = readings.iter().map(|(s, ms)| mk_reading(*s, *ms)).collect();
    confirmed_off(&readings, &Policy::default())
}

#[test]
fn f1_two_readings_of_off_two_seconds_apart_are_proof() {
    use PowerState::Off;
    assert_eq!(proof(&[(Off, 1000), (Off, 3000)]), Ok(()));
    assert_eq!(proof(&[(Off, 0), (Off, 900), (Off, 2000)]), Ok(()));
}

#[test]
fn f1_less_is_no_proof() {
    use PowerState::Off;
    assert_eq!(proof(&[]).unwrap_err(), "0 of 2 readings of off");
    assert_eq!(proof(&[(Off, 9000)]).unwrap_err(), "1 of 2 readings of off");
    let near = proof(&[(Off, 1000), (Off, 2999)]).unwrap_err();
    assert_eq!(
        near,
        "the readings are only 1999 ms apart, 2000 ms are asked"
    );
}

#[test]
fn f1_readings_from_before_and_after_a_restart_of_the_agent_are_not_apart() {
    use PowerState::Off;
    assert!(proof(&[(Off, 90_000), (Off, 100)]).is_err());
}

#[test]
fn f1_nothing_but_off_is_off() {
    use PowerState::{Off, On, PoweringOff, PoweringOn, Unknown};
    for other in [On, PoweringOn, PoweringOff, Unknown] {
        let why = proof(&[(Off, 0), (other, 2000), (Off, 4000)]).unwrap_err();
        assert_eq!(
            why,
            format!("a reading says \"{other:?}\", which is not off")
        );
    }
}

#[test]
fn f1_readings_of_two_bmcs_prove_nothing() {
    let mut readings = mk_proof();
    readings[1].bmc = "10.0.0.8".into();
    let why = confirmed_off(&readings, &Policy::default()).unwrap_err();
    assert_eq!(why, "the readings are of different BMCs");
}

#[test]
fn f1_no_policy_makes_a_single_reading_a_proof() {
    let policy = Policy {
        confirmations: 1,
        confirm_interval: secs(0),
        ..Policy::default()
    };
    assert!(confirmed_off(&[mk_reading(PowerState::Off, 0)], &policy).is_err());
    let three = Policy {
        confirmations: 3,
        ..Policy::default()
    };
    assert!(confirmed_off(&mk_proof(), &three).is_err());
}

#[test]
fn f1_a_taint_is_not_written_on_a_word_that_grew_old_on_the_way() {
    let bmc = OffEvidence::Bmc {
        at: at(0),
        readings: mk_proof(),
    };
    let person = OffEvidence::Person { at: at(0) };
    let off = mk_power(10, PowerState::Off);
    let stands = |evidence: Option<&OffEvidence>, power: &Option<PowerView>, now: i64| {
        last_word_stands(evidence, power.as_ref(), at(now)).is_ok()
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
    assert!(
        stands(Some(&person), &None, 9000),
        "a person vouches for it"
    );
}
