//! Reset and diagnostic interrupt: sent once.

use super::*;

fn once(goal: Goal) -> OperationRequest {
    OperationRequest { goal, ..off() }
}

fn both() -> [(Goal, PowerCommand); 2] {
    [
        (Goal::Reset, PowerCommand::Reset),
        (Goal::Nmi, PowerCommand::Nmi),
    ]
}

#[test]
fn accepted_command_is_sent_once_and_the_state_read() {
    for (goal, command) in both() {
        let ran = run(once(goal), always(On));
        assert_eq!(ran.commands, [command]);
        assert_eq!(
            *ran.outcome(),
            Outcome::Taken {
                command,
                state: Some(On)
            }
        );
        assert!(ran.reads.iter().any(|at| *at > ran.sends[0]));
        assert!(ran.outcome().is_done());
    }
}

#[test]
fn reset_completes_when_the_host_reads_on() {
    let ran = run(once(Goal::Reset), follows(On, PoweringOff, On, s(20)));
    assert_eq!(
        ran.outcome().to_string(),
        "the BMC accepted the reset; the last reading was on"
    );
    assert!(ran.at() > s(20));
    let ran = run(once(Goal::Reset), follows(On, Off, Off, s(20)));
    assert_eq!(ran.commands, [PowerCommand::Reset]);
    assert_eq!(
        ran.outcome().to_string(),
        "not confirmed on within 60s: the last reading was off"
    );
}

#[test]
fn unanswered_command_is_not_repeated_and_ends_unknown() {
    for (goal, command) in both() {
        for (state, unreadable) in [(On, s(0)), (Off, s(5)), (Unknown, s(30))] {
            let sent = std::cell::Cell::new(None::<Duration>);
            let world = (
                |now: Duration| match sent.get() {
                    None => seen(On),
                    Some(at) if now < at + unreadable => Err(failed(ErrorKind::Timeout)),
                    Some(_) => seen(state),
                },
                |now, _| {
                    sent.set(Some(now));
                    Err(CallFailure {
                        maybe_sent: true,
                        ..failed(ErrorKind::Timeout)
                    })
                },
            );
            let ran = run(once(goal.clone()), world);
            assert_eq!(ran.commands, [command]);
            assert_eq!(
                *ran.outcome(),
                Outcome::Unknown {
                    command,
                    state: Some(state)
                }
            );
            assert!(!ran.outcome().is_done());
        }
    }
    let words = Outcome::Unknown {
        command: PowerCommand::Reset,
        state: Some(On),
    };
    assert_eq!(
        words.to_string(),
        "no answer to the reset, so it is unknown whether it was carried out (the last reading was \
         on); it is not sent again by itself: look at the host's console, and ask again if it is \
         needed"
    );
}

#[test]
fn unanswered_command_without_a_reading_ends_at_the_deadline() {
    for (goal, command) in both() {
        let sent = std::cell::Cell::new(false);
        let world = (
            |_| {
                if sent.get() {
                    Err(failed(ErrorKind::Unreachable))
                } else {
                    seen(On)
                }
            },
            |_, _| {
                sent.set(true);
                Err(CallFailure {
                    maybe_sent: true,
                    ..failed(ErrorKind::Timeout)
                })
            },
        );
        let ran = run(once(goal), world);
        assert_eq!(ran.commands, [command]);
        assert_eq!(
            *ran.outcome(),
            Outcome::Unknown {
                command,
                state: None
            }
        );
        assert_eq!(ran.at(), s(60));
    }
}

#[test]
fn rejected_command_fails_without_a_retry() {
    for (goal, command) in both() {
        for kind in [
            ErrorKind::Refused,
            ErrorKind::Busy,
            ErrorKind::Unsupported,
            ErrorKind::Unreachable,
        ] {
            let ran = run(once(goal.clone()), (|_| seen(On), |_, _| Err(failed(kind))));
            assert_eq!(ran.commands, [command]);
            assert_eq!(*ran.outcome(), Outcome::Failed(kind));
        }
    }
}

#[test]
fn powered_off_host_is_not_reset() {
    for (goal, command) in both() {
        let ran = run(once(goal.clone()), always(Off));
        assert!(ran.commands.is_empty());
        assert_eq!(*ran.outcome(), Outcome::NeedsPower { command });
        for state in [Unknown, PoweringOff] {
            let ran = run(once(goal.clone()), always(state));
            assert!(ran.commands.is_empty(), "{state:?}");
            assert!(matches!(ran.outcome(), Outcome::NotSent { .. }));
        }
    }
    let words = Outcome::NeedsPower {
        command: PowerCommand::Reset,
    };
    assert_eq!(
        words.to_string(),
        "the host is off, and a reset requires power: nothing was sent; next: power on"
    );
}
