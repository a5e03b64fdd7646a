use std::time::Duration;

use jiff::Timestamp;
use rackhand_proto::convert::duration_to_proto;

use super::*;

fn proto(state: v1::PowerState) -> v1::PowerReading {
    v1::PowerReading {
        state: state.into(),
        raw: "x".into(),
        at: Some(rackhand_proto::convert::timestamp_to_proto(
            Timestamp::UNIX_EPOCH,
        )),
        since_start: Some(duration_to_proto(Duration::from_millis(2500))),
        bmc: "b".into(),
        ..v1::PowerReading::default()
    }
}

fn outcome(code: v1::OutcomeCode, readings: Vec<v1::PowerReading>) -> OperationOutcome {
    let outcome = v1::Outcome {
        code: code.into(),
        readings,
        ..v1::Outcome::default()
    };
    match finished(&outcome, &ObservedOperation::default()) {
        OperationView::Finished { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn f1_only_power_state_off_converts_to_off() {
    for (said, read) in [
        (v1::PowerState::Off, PowerState::Off),
        (v1::PowerState::PoweringOff, PowerState::PoweringOff),
        (v1::PowerState::Unknown, PowerState::Unknown),
        (v1::PowerState::Unspecified, PowerState::Unknown),
    ] {
        assert_eq!(reading(&proto(said)).unwrap().state, read);
    }
    let mut later = proto(v1::PowerState::Off);
    later.state = 99;
    assert_eq!(
        reading(&later).unwrap().state,
        PowerState::Unknown,
        "a state of a later version"
    );
}

#[test]
fn f1_confirmation_with_malformed_evidence_is_unconfirmed() {
    let good = proto(v1::PowerState::Off);
    let confirmed = outcome(v1::OutcomeCode::Confirmed, vec![good.clone()]);
    assert!(matches!(confirmed, OperationOutcome::Confirmed { .. }));
    for spoil in [
        |r: &mut v1::PowerReading| r.at = None,
        |r: &mut v1::PowerReading| r.since_start = None,
    ] {
        let mut bad = good.clone();
        spoil(&mut bad);
        let read = outcome(v1::OutcomeCode::Confirmed, vec![good.clone(), bad]);
        assert!(
            matches!(read, OperationOutcome::Unconfirmed { .. }),
            "{read:?}"
        );
    }
}

#[test]
fn f8_unknown_outcome_code_is_unconfirmed() {
    let unknown = v1::Outcome {
        code: 99,
        ..v1::Outcome::default()
    };
    let OperationView::Finished { outcome, .. } = finished(&unknown, &ObservedOperation::default())
    else {
        panic!()
    };
    assert!(matches!(outcome, OperationOutcome::Unconfirmed { .. }));
}

#[test]
fn l1_staggered_power_on_carries_its_due_time() {
    let until = "2026-11-22T10:00:00Z".parse().unwrap();
    let mut waiting = v1::Waiting {
        reason: "waits for the turn of its PDU a, 3 before it".into(),
        until: Some(rackhand_proto::convert::timestamp_to_proto(until)),
    };
    let view = OperationView::Staged {
        why: waiting.reason.clone(),
        due: until,
    };
    assert_eq!(staged(waiting.clone()), Some(view));
    waiting.until = None;
    assert_eq!(staged(waiting), None);
}

#[test]
fn f1_proof_is_read_from_the_outcome_and_an_unknown_one_is_none() {
    let taken = v1::CommandTaken {
        since_start: Some(duration_to_proto(Duration::from_secs(1))),
        ..v1::CommandTaken::default()
    };
    let of = |proof: i32| {
        let outcome = v1::Outcome {
            power_off_taken: Some(taken.clone()),
            off_proof: proof,
            ..v1::Outcome::default()
        };
        super::taken(&outcome, &ObservedOperation::default()).and_then(|taken| taken.proof)
    };
    assert_eq!(of(v1::OffProof::Watched.into()), Some(OffProof::Watched));
    assert_eq!(of(0), None);
    assert_eq!(of(99), None, "a proof of a later version");
}

#[test]
fn update_is_another_outcome_after_a_command_was_sent() {
    let of = |commands_sent| {
        let refused = v1::Outcome {
            code: v1::OutcomeCode::Failed.into(),
            detail: v1::OutcomeDetail::FirmwareUpdate.into(),
            update: Some(v1::FirmwareUpdate::default()),
            commands_sent,
            ..v1::Outcome::default()
        };
        match finished(&refused, &ObservedOperation::default()) {
            OperationView::Finished { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(of(0), OperationOutcome::FirmwareUpdate { .. }));
    assert!(matches!(of(1), OperationOutcome::UpdateAfterCommand { .. }));
}

#[test]
fn evidence_has_why_updates_were_not_known() {
    let of = |why: &str| {
        let outcome = v1::Outcome {
            power_off_taken: Some(v1::CommandTaken {
                since_start: Some(duration_to_proto(Duration::from_secs(1))),
                ..v1::CommandTaken::default()
            }),
            updates_unknown: why.to_owned(),
            ..v1::Outcome::default()
        };
        let taken = super::taken(&outcome, &ObservedOperation::default());
        taken.and_then(|taken| taken.updates_unknown)
    };
    assert_eq!(of("tasks: timeout").as_deref(), Some("tasks: timeout"));
    assert_eq!(of(""), None);
}
