//! Readings that confirm off, and readings that do not.

use super::*;

#[test]
fn f1_only_readings_after_the_power_off_confirm_off() {
    // The host goes off by itself between the first two readings.
    let world = (
        |now| seen(if now < ms(500) { On } else { Off }),
        |now, _| {
            assert!(now >= ms(500), "sent within the grace period");
            Ok(())
        },
    );
    let ran = run(off_after(s(20)), world);
    assert_eq!(ran.outcome().to_string(), "confirmed off");
    assert_eq!(ran.commands, [PowerCommand::Off]);
    let after = ran.reads.iter().filter(|at| **at > ran.sends[0]);
    assert_eq!(after.count(), 2);
    assert!(ran.at() < s(4), "{:?}", ran.at());
}

#[test]
fn f1_off_reported_for_a_running_host_does_not_confirm() {
    // As after a reset of the BMC: off is reported until a power-off was accepted; the host then
    // needs 3 s.
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
fn f1_off_is_not_confirmed_while_the_bmc_rejects_the_command() {
    for kind in [ErrorKind::Refused, ErrorKind::Busy, ErrorKind::Timeout] {
        let refused = CallFailure {
            maybe_sent: kind == ErrorKind::Timeout,
            ..failed(kind)
        };
        let ran = run(off(), (|_| seen(Off), |_, _| Err(refused.clone())));
        assert_eq!(*ran.outcome(), Outcome::NotTaken);
        assert!(!ran.outcome().is_done());
        assert!((4..=7).contains(&ran.sends.len()), "{:?}", ran.sends);
    }
}

#[test]
fn f1_rejected_second_command_keeps_the_first_accepted() {
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
fn f1_endless_powering_off_is_never_confirmed() {
    let ran = run(off(), always(PoweringOff));
    assert_eq!(
        ran.outcome().to_string(),
        "not confirmed off within 60s: the last reading was powering off"
    );
    assert!(ran.sends.len() <= 2, "too many commands: {:?}", ran.sends);
}

#[test]
fn f1_unknown_confirms_neither_off_nor_on() {
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
fn f1_reading_of_another_state_resets_the_confirmation() {
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
fn f1_read_error_resets_the_confirmation() {
    let mut op = commanded();
    op.read(s(0), s(0), seen(Off));
    op.read(s(2), s(2), Err(failed(ErrorKind::Timeout)));
    op.read(s(3), s(3), seen(Off));
    assert!(!matches!(op.next(s(3)), Next::Done(_)));
}

#[test]
fn f1_reading_started_within_the_interval_does_not_count() {
    let mut op = commanded();
    op.read(s(0), s(1), seen(Off));
    // Complete more than 2 s after the first one started, but started less than 2 s after its end.
    op.read(ms(2900), s(9), seen(Off));
    assert!(!matches!(op.next(s(9)), Next::Done(_)));
}

#[test]
fn f1_one_reading_from_each_of_two_protocols_does_not_confirm() {
    let by = |source| {
        Ok(Observation {
            state: Off,
            source,
            identity: SystemIdentity::default(),
            connection: None,
        })
    };
    let (redfish, ipmi) = (PowerSource::Redfish, PowerSource::Ipmi);
    let mut op = commanded();
    assert_eq!(op.read(s(0), s(0), by(redfish)), Proof::First);
    assert_eq!(op.read(s(2), s(2), by(ipmi)), Proof::First);
    assert_eq!(op.read(s(4), s(4), by(redfish)), Proof::First);
    assert_eq!(op.read(s(5), s(5), by(redfish)), Proof::TooSoon);
    assert!(!matches!(op.next(s(5)), Next::Done(_)));
    assert_eq!(op.read(s(6), s(6), by(redfish)), Proof::Further);
    assert!(matches!(op.next(s(6)), Next::Done(_)));
}

/// A power-off whose command was accepted before second 0.
fn commanded() -> Operation {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), seen(On));
    op.sending(s(0));
    op.sent(s(0), Ok(()));
    op
}
