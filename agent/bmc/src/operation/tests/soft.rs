//! Soft off: sent once, and forced only if requested.

use std::cell::Cell;

use super::*;

pub(super) fn soft(limit: Duration, then_force: bool) -> OperationRequest {
    OperationRequest {
        goal: Goal::SoftOff {
            limit,
            then_force,
            confirmations: 2,
            confirm_interval: s(2),
        },
        deadline: s(300),
        ..off()
    }
}

use PowerCommand::{Off as HardOff, SoftOff};

#[test]
fn soft_off_is_sent_once_and_confirmed() {
    let ran = run(soft(s(180), true), follows(On, On, Off, s(40)));
    assert_eq!(ran.commands, [SoftOff]);
    assert_eq!(ran.outcome().to_string(), "confirmed off");
    assert!(ran.at() < s(45), "{:?}", ran.at());
}

#[test]
fn soft_off_timeout_does_not_force_by_default() {
    let ran = run(soft(s(180), false), always(On));
    assert_eq!(ran.commands, [SoftOff]);
    assert_eq!(
        ran.outcome().to_string(),
        "the host did not shut down within 180s, it was not forced: the last reading was on; \
         next: power off"
    );
    assert!(!ran.outcome().is_done());
    assert!(ran.at() >= s(180) && ran.at() < s(183), "{:?}", ran.at());
}

#[test]
fn soft_off_timeout_forces_power_off_if_requested() {
    let hard = Cell::new(None);
    let world = (
        |_| seen(if hard.get().is_some() { Off } else { On }),
        |now, command| {
            if command == HardOff {
                hard.set(Some(now));
            }
            Ok(())
        },
    );
    let ran = run(soft(s(60), true), world);
    assert_eq!(ran.commands, [SoftOff, HardOff]);
    assert!(ran.sends[1] - ran.sends[0] >= s(60));
    assert!(ran.sends[1] - ran.sends[0] < s(61), "forced too late");
    assert_eq!(
        ran.outcome().to_string(),
        "confirmed off, by force: the host did not shut down"
    );
}

#[test]
fn shutdown_time_counts_from_the_soft_off() {
    // The BMC is unreadable for longer than the whole limit.
    let world = (
        |now| {
            if now < s(100) {
                Err(failed(ErrorKind::Unreachable))
            } else {
                seen(On)
            }
        },
        |_, _| Ok(()),
    );
    let ran = run(soft(s(60), true), world);
    assert_eq!(ran.commands[..2], [SoftOff, HardOff]);
    assert!(ran.sends[0] >= s(100) && ran.sends[1] >= ran.sends[0] + s(60));
}

#[test]
fn unsupported_soft_off_fails_or_forces_at_once() {
    for then_force in [false, true] {
        let hard = Cell::new(false);
        let world = (
            |_| seen(if hard.get() { Off } else { On }),
            |_, command| {
                hard.set(command == HardOff);
                if command == SoftOff {
                    return Err(failed(ErrorKind::Unsupported));
                }
                Ok(())
            },
        );
        let ran = run(soft(s(180), then_force), world);
        if then_force {
            assert_eq!(ran.commands, [SoftOff, HardOff]);
            assert_eq!(*ran.outcome(), Outcome::Forced { requested: false });
            assert!(ran.at() < s(4), "{:?}", ran.at());
        } else {
            assert_eq!(ran.commands, [SoftOff]);
            assert_eq!(*ran.outcome(), Outcome::Failed(ErrorKind::Unsupported));
        }
    }
}

#[test]
fn rejected_soft_off_is_not_repeated_and_keeps_the_limit() {
    for (kind, then_force) in [
        (ErrorKind::Refused, false),
        (ErrorKind::Busy, false),
        (ErrorKind::Refused, true),
        (ErrorKind::Busy, true),
    ] {
        let world = (
            |_| seen(On),
            |_, command| match command {
                SoftOff => Err(failed(kind)),
                _ => Ok(()),
            },
        );
        let ran = run(soft(s(60), then_force), world);
        let soft = ran.commands.iter().filter(|c| **c == SoftOff).count();
        assert_eq!(soft, 1);
        if then_force {
            assert!(ran.sends[1] >= ran.sends[0] + s(60));
        } else {
            assert_eq!(*ran.outcome(), Outcome::Failed(kind));
        }
    }
}

#[test]
fn unanswered_soft_off_does_not_confirm_off() {
    let world = (
        |now| seen(if now < s(30) { On } else { Off }),
        |_, _| {
            Err(CallFailure {
                maybe_sent: true,
                ..failed(ErrorKind::Timeout)
            })
        },
    );
    let ran = run(soft(s(180), false), world);
    assert_eq!(ran.commands, [SoftOff]);
    assert_eq!(*ran.outcome(), Outcome::NotTaken, "no command was accepted");
}

#[test]
fn f1_unanswered_soft_off_is_followed_by_power_off_if_allowed() {
    let world = (
        |now| seen(if now < s(30) { On } else { Off }),
        |_, command| match command {
            SoftOff => Err(CallFailure {
                maybe_sent: true,
                ..failed(ErrorKind::Timeout)
            }),
            _ => Ok(()),
        },
    );
    let ran = run(soft(s(180), true), world);
    assert_eq!(ran.commands, [SoftOff, HardOff]);
    assert!(ran.outcome().is_done() && ran.at() < s(36), "{ran:?}");
}

#[test]
fn soft_off_is_sent_only_to_a_host_that_reads_on() {
    for state in [Unknown, PoweringOn, PoweringOff] {
        let ran = run(soft(s(60), false), always(state));
        assert!(ran.commands.is_empty(), "{state:?}");
        assert!(matches!(ran.outcome(), Outcome::NotShutDown { .. }));
    }
}

#[test]
fn f1_off_before_the_soft_off_does_not_confirm() {
    let ran = run(soft(s(60), false), always(Off));
    assert!(
        ran.commands.is_empty(),
        "a press of the button starts some hosts"
    );
    assert_eq!(*ran.outcome(), Outcome::NotTaken);
    let ran = run(soft(s(60), true), always(Off));
    assert_eq!(ran.commands, [HardOff]);
    assert_eq!(*ran.outcome(), Outcome::Unproven { uptime: None });
}

#[test]
fn host_off_at_the_end_of_the_limit_is_not_forced() {
    // Off is read for the first time 0.5 s before the limit; the confirmation needs 2 s more.
    let world = (
        |now| seen(if now < ms(59_500) { On } else { Off }),
        |_, command| {
            assert_eq!(command, SoftOff);
            Ok(())
        },
    );
    for then_force in [false, true] {
        let ran = run(soft(s(61), then_force), world);
        assert_eq!(ran.commands, [SoftOff]);
        assert!(matches!(ran.outcome(), Outcome::Confirmed { .. }));
    }
}

#[test]
fn operation_is_soft_until_it_forces() {
    let mut op = Operation::new(soft(s(60), true));
    assert!(op.is_soft());
    op.read(s(0), s(0), seen(On));
    assert_eq!(op.next(s(0)), Next::Send(SoftOff));
    op.sending(s(0));
    op.sent(s(0), Ok(()));
    op.read(s(59), s(59), seen(On));
    op.next(s(59));
    assert!(op.is_soft());
    op.read(ms(59_500), ms(59_500), seen(On));
    assert_eq!(op.next(s(60)), Next::Send(HardOff));
    assert!(!op.is_soft());
}

#[test]
fn text_of_a_forced_off_says_whether_a_shutdown_was_requested() {
    let world = |not_sent| {
        let hard = Cell::new(false);
        let hard = std::rc::Rc::new(hard);
        let commanded = hard.clone();
        (
            move |_| seen(if hard.get() { Off } else { On }),
            move |_, command| {
                commanded.set(command == HardOff);
                match command {
                    SoftOff => Err(CallFailure {
                        not_sent,
                        ..failed(ErrorKind::Unsupported)
                    }),
                    _ => Ok(()),
                }
            },
        )
    };
    for not_sent in [false, true] {
        let ran = run(soft(s(60), true), world(not_sent));
        assert_eq!(
            ran.outcome().to_string(),
            "confirmed off, by force: the host was not requested to shut down, because the BMC took no such request"
        );
        assert_eq!(ran.sent, if not_sent { 1 } else { 2 });
    }
}
