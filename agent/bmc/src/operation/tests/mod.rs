//! The rules of a power operation, by their numbers.

mod cycle;
mod once;
mod property;
mod runner;
mod soft;

use std::cell::Cell;

use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn off() -> Asked {
    Asked {
        goal: Goal::Off {
            confirmations: 2,
            confirm_interval: s(2),
            command_after: Duration::ZERO,
        },
        deadline: s(60),
        expected: Expected::default(),
        pace: Pace::default(),
    }
}

fn off_after(command_after: Duration) -> Asked {
    Asked {
        goal: Goal::Off {
            confirmations: 2,
            confirm_interval: s(2),
            command_after,
        },
        ..off()
    }
}

fn on() -> Asked {
    Asked {
        goal: Goal::On,
        ..off()
    }
}

fn seen(state: PowerState) -> Result<Seen, Failed> {
    Ok(Seen {
        state,
        protocol: Protocol::Redfish,
        identity: SystemIdentity::default(),
    })
}

fn failed(kind: ErrorKind) -> Failed {
    Failed {
        kind,
        retry_after: None,
        maybe_sent: false,
    }
}

/// What a BMC does, as a function of time and of the times at which commands reached it.
trait World {
    fn read(&mut self, now: Duration) -> Result<Seen, Failed>;
    fn command(&mut self, now: Duration, command: PowerCommand) -> Result<(), Failed>;
}

impl<R, C> World for (R, C)
where
    R: FnMut(Duration) -> Result<Seen, Failed>,
    C: FnMut(Duration, PowerCommand) -> Result<(), Failed>,
{
    fn read(&mut self, now: Duration) -> Result<Seen, Failed> {
        (self.0)(now)
    }

    fn command(&mut self, now: Duration, command: PowerCommand) -> Result<(), Failed> {
        (self.1)(now, command)
    }
}

#[derive(Debug, Default)]
struct Ran {
    reads: Vec<Duration>,
    sends: Vec<Duration>,
    commands: Vec<PowerCommand>,
    ended: Option<(Duration, Ending)>,
}

impl Ran {
    fn ending(&self) -> &Ending {
        &self.ended.as_ref().unwrap().1
    }

    fn at(&self) -> Duration {
        self.ended.as_ref().unwrap().0
    }
}

/// Runs an operation against a world in which every call takes 10 ms.
fn run(asked: Asked, mut world: impl World) -> Ran {
    let (mut op, mut now, mut ran) = (Operation::new(asked), Duration::ZERO, Ran::default());
    for _ in 0..10_000 {
        match op.next(now) {
            Next::Read => {
                let begun = now;
                ran.reads.push(now);
                now += ms(10);
                op.read(begun, now, world.read(now));
            }
            Next::Send(command) => {
                ran.sends.push(now);
                ran.commands.push(command);
                op.sending(now);
                now += ms(10);
                op.sent(now, world.command(now, command));
            }
            Next::Wait(until) => {
                assert!(until > now, "a wait must end later than now");
                now = until;
            }
            Next::Done(ending) => {
                ran.ended = Some((now, ending));
                return ran;
            }
        }
    }
    panic!("no end after 10000 steps: {op:?}");
}

fn always(state: PowerState) -> impl World {
    (move |_| seen(state), |_, _| Ok(()))
}

/// Follows a command after `delay`, saying `meanwhile` until then.
fn follows(from: PowerState, meanwhile: PowerState, to: PowerState, delay: Duration) -> impl World {
    let commanded = std::rc::Rc::new(Cell::new(None::<Duration>));
    let told = commanded.clone();
    (
        move |now| {
            seen(match commanded.get() {
                None => from,
                Some(at) if now < at + delay => meanwhile,
                Some(_) => to,
            })
        },
        move |now, _| {
            if told.get().is_none() {
                told.set(Some(now));
            }
            Ok(())
        },
    )
}

use PowerState::{Off, On, PoweringOff, PoweringOn, Unknown};

#[test]
fn off_is_commanded_once_and_confirmed_by_two_readings_two_seconds_apart() {
    let ran = run(off(), follows(On, PoweringOff, Off, s(3)));
    assert_eq!(
        *ran.ending(),
        Ending::Confirmed {
            state: Off,
            commanded: true
        }
    );
    assert_eq!(ran.sends.len(), 1);
    let [.., first, last] = ran.reads.as_slice() else {
        panic!()
    };
    assert!(*last - *first >= s(2));
    // A BMC that needs 3 s costs no more than one poll beyond 3 s + 2 s.
    assert!(ran.at() < ms(6200), "{:?}", ran.at());
}

#[test]
fn f1_a_host_that_reads_off_already_is_commanded_and_only_readings_after_that_count() {
    let ran = run(off(), always(Off));
    assert_eq!(ran.ending().to_string(), "confirmed off");
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
    assert_eq!(ran.ending().to_string(), "confirmed off");
    assert!(ran.at() >= taken.get().unwrap() + s(5), "{:?}", ran.at());
}

#[test]
fn f1_off_that_is_read_is_no_proof_while_the_bmc_takes_no_command() {
    for kind in [ErrorKind::Refused, ErrorKind::Busy, ErrorKind::Timeout] {
        let refused = Failed {
            maybe_sent: kind == ErrorKind::Timeout,
            ..failed(kind)
        };
        let ran = run(off(), (|_| seen(Off), |_, _| Err(refused.clone())));
        assert_eq!(*ran.ending(), Ending::NotTaken);
        assert!(!ran.ending().is_done());
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
    assert_eq!(ran.ending().to_string(), "confirmed off");
}

#[test]
fn on_already_needs_no_command() {
    let ran = run(on(), always(On));
    assert_eq!((ran.reads.len(), ran.sends.len()), (1, 0));
    assert!(matches!(ran.ending(), Ending::Confirmed { state: On, .. }));
}

#[test]
fn on_is_commanded_and_confirmed_by_exactly_on() {
    let ran = run(on(), follows(Off, PoweringOn, On, s(46)));
    assert!(matches!(ran.ending(), Ending::Confirmed { state: On, .. }));
    assert!(ran.at() < s(49), "{:?}", ran.at());
    assert!(ran.sends.len() <= 2, "{:?}", ran.sends);
}

#[test]
fn f1_powering_off_for_ever_is_never_confirmed() {
    let ran = run(off(), always(PoweringOff));
    assert_eq!(
        ran.ending().to_string(),
        "not confirmed off within 60s: the last reading was powering off"
    );
    assert!(ran.sends.len() <= 2, "it is not hammered: {:?}", ran.sends);
}

#[test]
fn f1_unknown_is_not_off_and_not_on() {
    for asked in [off(), on()] {
        let ran = run(asked, always(Unknown));
        assert!(matches!(
            ran.ending(),
            Ending::Unconfirmed {
                last: Some(Unknown),
                ..
            }
        ));
    }
}

/// A power-off whose command was taken before second 0.
fn commanded() -> Operation {
    let mut op = Operation::new(off());
    op.sending(s(0));
    op.sent(s(0), Ok(()));
    op
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
            Next::Done(Ending::Confirmed { .. })
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
        Ok(Seen {
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
        Next::Done(Ending::Confirmed { .. })
    ));
}

#[test]
fn f5_another_system_gets_no_command_and_no_confirmation() {
    let expected = Expected {
        system_uuid: Some("11111111-2222-3333-4444-555555555555".into()),
        serial: None,
    };
    for state in [On, Off, PoweringOff, Unknown] {
        for goal in [off().goal, Goal::On] {
            let asked = Asked {
                goal,
                expected: expected.clone(),
                ..off()
            };
            let world = (
                |_| {
                    Ok(Seen {
                        state,
                        protocol: Protocol::Redfish,
                        identity: SystemIdentity {
                            system_uuid: Some("99999999-2222-3333-4444-555555555555".into()),
                            ..SystemIdentity::default()
                        },
                    })
                },
                |_, _| Ok(()),
            );
            let ran = run(asked, world);
            assert!(ran.sends.is_empty());
            assert_eq!(
                ran.ending().to_string(),
                "the BMC manages another system: system UUID \
                 99999999-2222-3333-4444-555555555555, expected \
                 11111111-2222-3333-4444-555555555555; check the BMC address of this host"
            );
        }
    }
}

#[test]
fn f5_either_byte_order_of_the_uuid_is_the_same_system() {
    let wire = "00112233-4455-6677-8899-AABBCCDDEEFF";
    for written in [
        "00112233-4455-6677-8899-aabbccddeeff",
        "33221100-5544-7766-8899-aabbccddeeff",
        "00112233445566778899aabbccddeeff",
    ] {
        let expected = Expected {
            system_uuid: Some(written.into()),
            serial: Some("not compared once the UUID agrees".into()),
        };
        let found = SystemIdentity {
            system_uuid: Some(wire.into()),
            serial: Some("S1".into()),
            ..SystemIdentity::default()
        };
        assert_eq!(expected.mismatch(&found), None);
    }
}

#[test]
fn f5_serials_are_compared_where_no_uuid_is_known() {
    let expected = Expected {
        system_uuid: None,
        serial: Some("ABC123 ".into()),
    };
    let found = |serial: Option<&str>| SystemIdentity {
        serial: serial.map(str::to_owned),
        ..SystemIdentity::default()
    };
    assert_eq!(expected.mismatch(&found(Some("abc123"))), None);
    assert_eq!(expected.mismatch(&found(None)), None);
    assert_eq!(
        expected.mismatch(&found(Some("ABC124"))).unwrap().what,
        "serial number"
    );
}

#[test]
fn f8_a_dead_bmc_ends_unconfirmed_without_a_command() {
    let world = (|_| Err(failed(ErrorKind::Unreachable)), |_, _| Ok(()));
    let ran = run(off(), world);
    assert_eq!(
        ran.ending().to_string(),
        "not confirmed off within 60s: the BMC could not be read"
    );
    assert_eq!((ran.at(), ran.sends.len()), (s(60), 0));
    assert!(ran.reads.len() < 45, "polled {} times", ran.reads.len());
}

#[test]
fn nothing_is_sent_within_the_grace_and_at_once_after_it() {
    let ran = run(off_after(s(20)), follows(On, PoweringOff, Off, s(1)));
    assert_eq!(ran.sends.len(), 1);
    assert!(
        ran.sends[0] >= s(20) && ran.sends[0] < ms(20_050),
        "{:?}",
        ran.sends
    );
}

#[test]
fn f1_a_host_that_goes_off_within_the_grace_gets_our_command_all_the_same() {
    let world = (
        |now| seen(if now < s(5) { On } else { Off }),
        |now, _| {
            assert!(now >= s(5), "it has its grace");
            Ok(())
        },
    );
    let ran = run(off_after(s(20)), world);
    assert_eq!(ran.commands, [PowerCommand::Off]);
    assert_eq!(ran.ending().to_string(), "confirmed off");
    assert!(
        ran.at() < s(10),
        "the grace is over when the host reads off"
    );
}

#[test]
fn a_host_that_stays_on_is_commanded_again_but_not_hammered() {
    let ran = run(off(), always(On));
    assert!(matches!(
        ran.ending(),
        Ending::Unconfirmed { last: Some(On), .. }
    ));
    assert!((5..=6).contains(&ran.sends.len()), "{:?}", ran.sends);
}

#[test]
fn a_refused_on_is_tried_again_while_the_bmc_settles() {
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
    assert!(matches!(ran.ending(), Ending::Confirmed { state: On, .. }));
    assert_eq!(ran.sends.len(), 4);
    assert!(ran.at() < s(9), "{:?}", ran.at());
}

#[test]
fn retry_after_is_obeyed() {
    let calls = Cell::new(0);
    let world = (
        |_| seen(On),
        |_, _| {
            calls.set(calls.get() + 1);
            Err(Failed {
                kind: ErrorKind::Busy,
                retry_after: Some(s(25)),
                maybe_sent: false,
            })
        },
    );
    let ran = run(off(), world);
    assert_eq!(calls.get(), 3);
    assert!(ran.sends[1] - ran.sends[0] >= s(25));
}

#[test]
fn retry_after_is_capped_by_the_deadline_of_the_operation() {
    let world = || {
        let hour = Failed {
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
    assert_eq!(ran.reads[1], s(48), "in time for a command and its proof");
    assert_eq!(ran.commands[0], PowerCommand::Off);
    let short = Asked {
        deadline: s(8),
        ..off()
    };
    let ran = run(short, world());
    assert!(ran.reads.len() > 1, "{ran:?}");
}

#[test]
fn a_wrong_password_is_tried_once_and_no_more() {
    let world = (|_| Err(failed(ErrorKind::Authentication)), |_, _| Ok(()));
    let ran = run(off(), world);
    assert_eq!(*ran.ending(), Ending::Failed(ErrorKind::Authentication));
    assert_eq!(ran.reads.len(), 1);
}

fn resting(rest: Duration) -> Failed {
    Failed {
        retry_after: Some(rest),
        ..failed(ErrorKind::Authentication)
    }
}

#[test]
fn a_password_that_rests_is_waited_for_and_costs_no_try() {
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
    assert_eq!(*ran.ending(), Ending::Failed(ErrorKind::Authentication));
    assert_eq!(asked.get(), 1, "the try that it always had, and no more");
    assert!(ran.at() < s(46), "{:?}", ran.at());
}

#[test]
fn a_password_that_is_changed_while_it_rests_is_noticed_soon() {
    let world = (
        |now| {
            if now < s(12) {
                Err(resting(s(50) - now))
            } else {
                seen(Off)
            }
        },
        |_, _| Ok(()),
    );
    let ran = run(off(), world);
    assert!(matches!(ran.ending(), Ending::Confirmed { .. }));
    assert!(ran.at() < s(19), "{:?}", ran.at());
}

#[test]
fn a_password_that_rests_beyond_the_deadline_ends_it_at_once() {
    let ran = run(off(), (|_| Err(resting(s(300))), |_, _| Ok(())));
    assert_eq!(*ran.ending(), Ending::Failed(ErrorKind::Authentication));
    assert_eq!(ran.reads.len(), 1);
}

#[test]
fn what_can_never_work_ends_at_once() {
    for kind in [
        ErrorKind::Privilege,
        ErrorKind::System,
        ErrorKind::Unsupported,
        ErrorKind::Configuration,
        ErrorKind::Tls,
    ] {
        let ran = run(off(), (|_| Err(failed(kind)), |_, _| Ok(())));
        assert_eq!(*ran.ending(), Ending::Failed(kind));
        assert_eq!((ran.reads.len(), ran.sends.len()), (1, 0));
    }
}

#[test]
fn a_system_that_vanishes_while_the_bmc_restarts_is_waited_for() {
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
    assert!(matches!(ran.ending(), Ending::Confirmed { .. }));
}

#[test]
fn cancel_stops_before_the_next_command() {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), seen(On));
    assert_eq!(op.next(s(0)), Next::Send(PowerCommand::Off));
    op.cancel();
    assert_eq!(op.next(s(0)), Next::Done(Ending::Cancelled));
}

#[test]
fn no_command_goes_out_on_an_old_reading() {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), seen(On));
    assert_eq!(op.next(s(5)), Next::Read);
}
