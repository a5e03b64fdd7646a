//! Which readings confirm off, and which do not.

use super::*;

#[test]
fn f1_a_host_that_reads_off_already_is_commanded_and_only_readings_after_that_count() {
    let ran = run(off(), always(Off));
    assert_eq!(ran.outcome().to_string(), "confirmed off");
    assert_eq!(ran.commands, [PowerCommand::Off]);
    let after = ran.reads.iter().filter(|at| **at > ran.sends[0]);
    assert_eq!((ran.reads.len(), after.count()), (3, 2));
    assert!(ran.at() < s(3), "{:?}", ran.at());
}

#[test]
fn f1_a_bmc_that_reports_off_for_a_host_that_runs_is_not_believed() {
    // As after a reset of the BMC, until a power-off was taken; the host needs 3 s then.
    let taken = Cell::new(None::<Duration>);
    let world = (
        |now| match taken.get() {
            Some(at) if now < at + s(3) => seen(On),
            _ => seen(Off),
        },
        |now, command| {
            assert_eq!(command, PowerCommand::Off);
            taken.set(taken.get().or(Some(now)));
            Ok(())
        },
    );
    let ran = run(off(), world);
    assert_eq!(ran.outcome().to_string(), "confirmed off");
    assert!(ran.at() >= taken.get().unwrap() + s(5), "{:?}", ran.at());
}

#[test]
fn f1_off_that_is_read_is_no_proof_while_the_bmc_takes_no_command() {
    for kind in [ErrorKind::Refused, ErrorKind::Busy, ErrorKind::Timeout] {
        let refused = CallFailure {
            maybe_sent: kind == ErrorKind::Timeout,
            ..failed(kind)
        };
        let ran = run(off(), (|_| seen(Off), |_, _| Err(refused.clone())));
        assert_eq!(*ran.outcome(), Outcome::NotTaken);
        assert!(!ran.outcome().is_done());
        assert!(ran.sends.len() > 10, "it is tried until the deadline");
    }
}

#[test]
fn f1_a_second_command_that_is_refused_takes_nothing_back() {
    let sends = Cell::new(0);
    let world = (
        |now| seen(if now < s(12) { On } else { Off }),
        |_, _| {
            sends.set(sends.get() + 1);
            if sends.get() == 1 {
                Ok(())
            } else {
                Err(failed(ErrorKind::Refused))
            }
        },
    );
    let ran = run(off(), world);
    assert!(sends.get() > 1);
    assert_eq!(ran.outcome().to_string(), "confirmed off");
}

#[test]
fn f1_powering_off_for_ever_is_never_confirmed() {
    let ran = run(off(), always(PoweringOff));
    assert_eq!(
        ran.outcome().to_string(),
        "not confirmed off within 60s: the last reading was powering off"
    );
    assert!(ran.sends.len() <= 2, "it is not hammered: {:?}", ran.sends);
}

#[test]
fn f1_unknown_is_not_off_and_not_on() {
    for asked in [off(), on()] {
        let ran = run(asked, always(Unknown));
        assert!(matches!(
            ran.outcome(),
            Outcome::Unconfirmed {
                last: Some(Unknown),
                ..
            }
        ));
    }
}

#[test]
fn f1_any_other_answer_between_starts_the_count_anew() {
    for other in [On, PoweringOff, PoweringOn, Unknown] {
        let mut op = commanded();
        op.read(s(0), s(0), seen(Off));
        op.read(s(2), s(2), seen(other));
        op.read(s(4), s(4), seen(Off));
        assert!(!matches!(op.next(s(4)), Next::Done(_)), "{other:?}");
        op.read(s(6), s(6), seen(Off));
        assert!(matches!(
            op.next(s(6)),
            Next::Done(Outcome::Confirmed { .. })
        ));
    }
}

#[test]
fn f1_an_error_between_starts_the_count_anew() {
    let mut op = commanded();
    op.read(s(0), s(0), seen(Off));
    op.read(s(2), s(2), Err(failed(ErrorKind::Timeout)));
    op.read(s(3), s(3), seen(Off));
    assert!(!matches!(op.next(s(3)), Next::Done(_)));
}

#[test]
fn f1_a_reading_that_began_too_soon_does_not_count() {
    let mut op = commanded();
    op.read(s(0), s(1), seen(Off));
    // Complete more than 2 s after the first one was begun, but begun less than 2 s after its end.
    op.read(ms(2900), s(9), seen(Off));
    assert!(!matches!(op.next(s(9)), Next::Done(_)));
}

#[test]
fn f1_two_protocols_with_one_reading_each_prove_nothing() {
    let by = |protocol| {
        Ok(Observation {
            state: Off,
            protocol,
            identity: SystemIdentity::default(),
        })
    };
    let (redfish, ipmi) = (Protocol::Redfish, Protocol::Ipmi);
    let mut op = commanded();
    assert_eq!(op.read(s(0), s(0), by(redfish)), Proof::First);
    assert_eq!(op.read(s(2), s(2), by(ipmi)), Proof::First);
    assert_eq!(op.read(s(4), s(4), by(redfish)), Proof::First);
    assert_eq!(op.read(s(5), s(5), by(redfish)), Proof::TooSoon);
    assert!(!matches!(op.next(s(5)), Next::Done(_)));
    assert_eq!(op.read(s(6), s(6), by(redfish)), Proof::Further);
    assert!(matches!(
        op.next(s(6)),
        Next::Done(Outcome::Confirmed { .. })
    ));
}

/// A power-off whose command was taken before second 0.
fn commanded() -> Operation {
    let mut op = Operation::new(off());
    op.sending(s(0));
    op.sent(s(0), Ok(()));
    op
}
