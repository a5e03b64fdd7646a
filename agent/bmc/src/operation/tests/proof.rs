//! F1: proof of an off that the BMC reports.

use super::*;
use crate::{Accepted, StateBefore};

fn reads(op: &mut Operation, at: u64, state: PowerState) {
    op.read(s(at), s(at), seen(state));
}

fn answers(op: &mut Operation, at: u64, accepted: &Accepted) {
    op.sending(s(at));
    op.answered(s(at), accepted);
}

fn taken() -> Accepted {
    Accepted::taken("ForceOff", "204")
}

fn already(state: PowerState, same_connection: bool) -> Accepted {
    Accepted {
        before: Some(StateBefore {
            state,
            same_connection,
        }),
        ..Accepted::already_there("ForceOff", "409: already off")
    }
}

/// An observation of a BMC that reports no identity.
fn past(watch: &Watch, begun: Duration) -> Past {
    Past {
        remembered: None,
        watch: watch.since(begun),
        system: None,
    }
}

/// The step after two readings of off.
fn after_off(op: &mut Operation, at: u64) -> Next {
    reads(op, at, Off);
    reads(op, at + 2, Off);
    op.next(s(at + 2))
}

fn is_confirmed(next: &Next) -> bool {
    matches!(next, Next::Done(Outcome::Confirmed { state: Off, .. }))
}

#[test]
fn f1_on_then_taken_then_off_is_proven() {
    for state in [On, PoweringOn, Unknown, PoweringOff] {
        let mut op = Operation::new(off());
        reads(&mut op, 0, state);
        answers(&mut op, 0, &taken());
        assert!(is_confirmed(&after_off(&mut op, 1)), "{state:?}");
        assert_eq!(op.proof(), Some(OffProof::Taken));
    }
}

#[test]
fn f1_command_taken_while_off_was_read_proves_nothing() {
    for accepted in [taken(), already(Off, true)] {
        let mut op = Operation::new(off());
        reads(&mut op, 0, Off);
        answers(&mut op, 0, &accepted);
        assert_eq!(after_off(&mut op, 1), Next::Corroborate);
        assert_eq!(op.proof(), None);
    }
}

#[test]
fn f1_state_read_with_the_command_counts_rather_than_the_one_before() {
    // The BMC restarted between the reading of on and the command.
    let mut op = Operation::new(off());
    op.read(s(0), s(0), Ok(over(On, 1)));
    let accepted = Accepted {
        connection: Some(2),
        ..taken()
    };
    answers(&mut op, 0, &accepted);
    op.read(s(1), s(1), Ok(over(Off, 2)));
    op.read(s(3), s(3), Ok(over(Off, 2)));
    assert_eq!(op.next(s(3)), Next::Corroborate);
}

fn over(state: PowerState, connection: u64) -> Observation {
    Observation {
        state,
        source: PowerSource::Ipmi,
        identity: SystemIdentity::default(),
        connection: Some(connection),
    }
}

#[test]
fn f1_refused_as_already_off_after_on_is_proven_only_over_one_connection() {
    for (same, confirmed) in [(true, true), (false, false)] {
        let mut op = Operation::new(off());
        reads(&mut op, 0, On);
        answers(&mut op, 0, &already(On, same));
        assert_eq!(is_confirmed(&after_off(&mut op, 1)), confirmed);
        assert_eq!(op.proof().is_some(), confirmed);
    }
}

#[test]
fn f1_refused_as_already_off_is_proven_by_a_watch_that_saw_the_host_go_off() {
    let mut op = Operation::new(off_after(s(20)));
    reads(&mut op, 0, On);
    reads(&mut op, 2, Off);
    answers(&mut op, 2, &already(Off, false));
    assert!(is_confirmed(&after_off(&mut op, 3)));
    assert_eq!(op.proof(), Some(OffProof::Watched));
}

#[test]
fn f1_watch_from_before_the_operation_proves_until_it_is_interrupted() {
    let mut watch = Watch::default();
    watch.read(s(100), On, PowerSource::Redfish, None);
    watch.read(s(105), Off, PowerSource::Redfish, None);
    let mut op = Operation::new(off());
    op.watched(past(&watch, s(110)));
    reads(&mut op, 0, Off);
    answers(&mut op, 0, &already(Off, false));
    assert!(is_confirmed(&after_off(&mut op, 1)));

    let mut op = Operation::new(off());
    op.watched(past(&watch, s(110)));
    op.read(s(0), s(0), Err(failed(ErrorKind::Unreachable)));
    reads(&mut op, 0, Off);
    answers(&mut op, 0, &taken());
    assert_eq!(after_off(&mut op, 1), Next::Corroborate);
}

#[test]
fn f1_interruption_before_the_command_takes_the_proof_and_one_after_it_does_not() {
    for kind in [ErrorKind::Unreachable, ErrorKind::Timeout, ErrorKind::Busy] {
        let mut op = Operation::new(off());
        reads(&mut op, 0, On);
        answers(&mut op, 0, &taken());
        op.read(s(1), s(1), Err(failed(kind)));
        assert!(is_confirmed(&after_off(&mut op, 14)), "{kind:?}");
        assert_eq!(op.proof(), Some(OffProof::Taken));

        let mut op = Operation::new(off());
        reads(&mut op, 0, On);
        op.read(s(1), s(1), Err(failed(kind)));
        reads(&mut op, 2, Off);
        answers(&mut op, 2, &taken());
        assert_eq!(after_off(&mut op, 4), Next::Corroborate, "{kind:?}");
    }
}

#[test]
fn f1_uptime_of_the_manager_proves_off_if_it_is_long_enough() {
    for (uptime, confirmed) in [(Some(s(900)), true), (Some(s(601)), false), (None, false)] {
        let mut op = Operation::new(off());
        reads(&mut op, 0, Off);
        answers(&mut op, 0, &already(Off, false));
        assert_eq!(after_off(&mut op, 1), Next::Corroborate);
        assert_eq!(op.uptime(s(3), uptime), confirmed);
        assert_eq!(is_confirmed(&op.next(s(3))), confirmed, "{uptime:?}");
        let proof = confirmed.then_some(OffProof::ManagerUptime);
        assert_eq!(op.proof(), proof);
    }
}

#[test]
fn f1_off_without_a_proof_ends_with_what_could_prove_it() {
    let ran = run(off(), always(Off));
    assert_eq!(*ran.outcome(), Outcome::Unproven { uptime: None });
    assert!(!ran.outcome().is_done());
    let words = ran.outcome().to_string();
    for part in ["not proven", "LastResetTime", "standby_watts", "outlets"] {
        assert!(words.contains(part), "{words}");
    }
    assert!(ran.at() < s(15), "a handful of attempts: {:?}", ran.at());
    let young = Outcome::Unproven {
        uptime: Some(s(240)),
    };
    assert!(young.to_string().contains("only 4 min"), "{young}");
}

#[test]
fn f1_corroboration_does_not_outlast_a_reading_of_on() {
    let mut op = Operation::new(off());
    reads(&mut op, 0, Off);
    answers(&mut op, 0, &taken());
    reads(&mut op, 1, Off);
    op.corroborated(s(1), Some(OffProof::Outlets));
    reads(&mut op, 2, On);
    op.read(s(3), s(3), Err(failed(ErrorKind::Unreachable)));
    assert_eq!(after_off(&mut op, 4), Next::Corroborate);
}

#[test]
fn f1_outlets_are_a_device_of_their_own() {
    let read = |at: u64, op: &mut Operation| {
        op.read(
            s(at),
            s(at),
            Ok(Observation {
                state: Off,
                source: PowerSource::Outlets,
                identity: SystemIdentity::default(),
                connection: None,
            }),
        );
    };
    let mut op = Operation::new(off());
    read(0, &mut op);
    answers(&mut op, 0, &taken());
    read(1, &mut op);
    read(3, &mut op);
    assert!(is_confirmed(&op.next(s(3))));
    assert_eq!(op.proof(), Some(OffProof::OtherDevice));
}

#[test]
fn f1_refusals_of_a_bmc_that_reads_off_are_a_handful() {
    for kind in [ErrorKind::Refused, ErrorKind::Protocol] {
        let ran = run(off(), (|_| seen(Off), |_, _| Err(failed(kind))));
        assert_eq!(*ran.outcome(), Outcome::NotTaken);
        assert!(ran.sends.len() <= 5, "{:?}", ran.sends);
    }
    // A host that reads on is commanded as often as before.
    let ran = run(
        off(),
        (|_| seen(On), |_, _| Err(failed(ErrorKind::Protocol))),
    );
    assert!(ran.sends.len() > 10, "{:?}", ran.sends);
}
