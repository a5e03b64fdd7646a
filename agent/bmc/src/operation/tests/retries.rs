//! Rejected commands, rejected passwords, and permanent errors.

use super::*;

#[test]
fn power_off_repeats_at_a_limited_rate_while_the_host_is_on() {
    let ran = run(off(), always(On));
    assert!(matches!(
        ran.outcome(),
        Outcome::Unconfirmed { last: Some(On), .. }
    ));
    assert!((5..=6).contains(&ran.sends.len()), "{:?}", ran.sends);
}

#[test]
fn bmc_lost_in_the_grace_period_is_polled_at_a_limited_rate() {
    let world = (
        |now| match now < s(19) {
            true => seen(On),
            false => Err(failed(ErrorKind::Unreachable)),
        },
        |_, _| Ok(()),
    );
    let ran = run(off_after(s(20)), world);
    assert!(matches!(ran.outcome(), Outcome::Unconfirmed { .. }));
    assert!(
        ran.reads.contains(&s(20)),
        "no reading at the end of the grace period"
    );
    assert!(ran.reads.len() < 60, "polled {} times", ran.reads.len());
}

#[test]
fn rejected_power_on_is_retried() {
    let calls = Cell::new(0);
    let accepted = Cell::new(false);
    let world = (
        |_| seen(if accepted.get() { On } else { Off }),
        |_, _| {
            calls.set(calls.get() + 1);
            if calls.get() < 4 {
                Err(failed(ErrorKind::Refused))
            } else {
                accepted.set(true);
                Ok(())
            }
        },
    );
    let ran = run(on(), world);
    assert!(matches!(
        ran.outcome(),
        Outcome::Confirmed { state: On, .. }
    ));
    assert_eq!(ran.sends.len(), 4);
    assert!(ran.at() < s(9), "{:?}", ran.at());
}

#[test]
fn retry_after_delays_the_next_command() {
    let calls = Cell::new(0);
    let world = (
        |_| seen(On),
        |_, _| {
            calls.set(calls.get() + 1);
            Err(CallFailure {
                kind: ErrorKind::Busy,
                retry_after: Some(s(25)),
                maybe_sent: false,
                not_sent: false,
            })
        },
    );
    let ran = run(off(), world);
    assert_eq!(calls.get(), 3);
    assert!(ran.sends[1] - ran.sends[0] >= s(25));
}

#[test]
fn retry_after_is_capped_by_the_operation_deadline() {
    let world = || {
        let hour = CallFailure {
            retry_after: Some(s(3600)),
            ..failed(ErrorKind::Busy)
        };
        (
            move |now| {
                if now < s(30) {
                    Err(hour.clone())
                } else {
                    seen(On)
                }
            },
            |_, _| Ok(()),
        )
    };
    let ran = run(off(), world());
    assert_eq!(
        ran.reads[1],
        s(48),
        "too late for a command and its confirmation"
    );
    assert_eq!(ran.commands[0], PowerCommand::Off);
    let short = OperationRequest {
        deadline: s(8),
        ..off()
    };
    let ran = run(short, world());
    assert!(ran.reads.len() > 1, "{ran:?}");
}

#[test]
fn wrong_password_is_tried_once() {
    let world = (|_| Err(failed(ErrorKind::Authentication)), |_, _| Ok(()));
    let ran = run(off(), world);
    assert_eq!(*ran.outcome(), Outcome::Failed(ErrorKind::Authentication));
    assert_eq!(ran.reads.len(), 1);
}

fn resting(rest: Duration) -> CallFailure {
    CallFailure {
        retry_after: Some(rest),
        ..failed(ErrorKind::Authentication)
    }
}

#[test]
fn blocked_password_is_tried_once_after_its_pause() {
    let asked = Cell::new(0);
    let world = (
        |now| {
            if now < s(40) {
                return Err(resting(s(40) - now));
            }
            asked.set(asked.get() + 1);
            Err(failed(ErrorKind::Authentication))
        },
        |_, _| Ok(()),
    );
    let ran = run(off(), world);
    assert_eq!(*ran.outcome(), Outcome::Failed(ErrorKind::Authentication));
    assert_eq!(asked.get(), 1, "more than one attempt");
    assert!(ran.at() < s(46), "{:?}", ran.at());
}

#[test]
fn changed_password_ends_the_pause_early() {
    let world = (
        |now| {
            if now < s(12) {
                Err(resting(s(50) - now))
            } else {
                seen(if now < ms(15_050) { On } else { Off })
            }
        },
        |_, _| Ok(()),
    );
    let ran = run(off(), world);
    assert!(matches!(ran.outcome(), Outcome::Confirmed { .. }));
    assert!(ran.at() < s(19), "{:?}", ran.at());
}

#[test]
fn password_blocked_past_the_deadline_fails_at_once() {
    let ran = run(off(), (|_| Err(resting(s(300))), |_, _| Ok(())));
    assert_eq!(*ran.outcome(), Outcome::Failed(ErrorKind::Authentication));
    assert_eq!(ran.reads.len(), 1);
}

#[test]
fn permanent_error_ends_the_operation_at_once() {
    for kind in [
        ErrorKind::Privilege,
        ErrorKind::System,
        ErrorKind::Unsupported,
        ErrorKind::Configuration,
        ErrorKind::Tls,
    ] {
        let ran = run(off(), (|_| Err(failed(kind)), |_, _| Ok(())));
        assert_eq!(*ran.outcome(), Outcome::Failed(kind));
        assert_eq!((ran.reads.len(), ran.sends.len()), (1, 0));
    }
}

#[test]
fn system_missing_during_a_bmc_restart_is_retried() {
    let world = (
        |now| {
            if now > s(1) && now < s(20) {
                Err(failed(ErrorKind::System))
            } else {
                seen(if now < s(20) { On } else { Off })
            }
        },
        |_, _| Ok(()),
    );
    let ran = run(off(), world);
    assert!(ran.at() > s(20), "{:?}", ran.at());
    assert!(ran.outcome().is_done(), "{ran:?}");
}

#[test]
fn f2_command_counts_unless_it_is_known_not_to_have_been_sent() {
    for (not_sent, maybe_sent) in [(true, false), (false, false), (false, true)] {
        let world = (
            |_| seen(On),
            |_, _| {
                Err(CallFailure {
                    maybe_sent,
                    not_sent,
                    ..failed(ErrorKind::Busy)
                })
            },
        );
        let ran = run(off(), world);
        assert!(ran.commands.len() > 1);
        let counted = u32::try_from(ran.commands.len()).unwrap();
        assert_eq!(ran.sent, if not_sent { 0 } else { counted });
    }
}

#[test]
fn updates_that_were_not_known_are_not_reported_of_a_command_that_was_not_sent() {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), seen(On));
    op.updates_read(s(0), s(0), Err("late".to_owned()));
    op.sending(s(0));
    assert_eq!(op.updates_unknown(), Some("late"));
    op.sent(
        s(0),
        Err(CallFailure {
            not_sent: true,
            ..failed(ErrorKind::Busy)
        }),
    );
    assert_eq!((op.sends(), op.updates_unknown()), (0, None));
}
