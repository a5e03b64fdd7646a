//! The rules of a power operation, by their numbers.

mod abandonment;
mod button;
mod confirmation;
mod cycle;
mod identity;
mod once;
mod proof;
mod property;
mod retries;
mod runner;
mod soft;
mod updates;

use std::cell::Cell;

use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn off() -> OperationRequest {
    OperationRequest {
        goal: Goal::Off {
            confirmations: 2,
            confirm_interval: s(2),
            command_after: Duration::ZERO,
        },
        deadline: s(60),
        expected: Expected::default(),
        timing: Timing::default(),
        during_update: DuringUpdate::Refuse,
    }
}

fn off_after(command_after: Duration) -> OperationRequest {
    OperationRequest {
        goal: Goal::Off {
            confirmations: 2,
            confirm_interval: s(2),
            command_after,
        },
        ..off()
    }
}

fn on() -> OperationRequest {
    OperationRequest {
        goal: Goal::On,
        ..off()
    }
}

fn seen(state: PowerState) -> Result<Observation, CallFailure> {
    Ok(Observation {
        state,
        source: PowerSource::Redfish,
        identity: SystemIdentity::default(),
        connection: None,
    })
}

fn failed(kind: ErrorKind) -> CallFailure {
    CallFailure {
        kind,
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}

/// Behaviour of a BMC as a function of time and of the received commands.
trait World {
    fn read(&mut self, now: Duration) -> Result<Observation, CallFailure>;
    fn command(&mut self, now: Duration, command: PowerCommand) -> Result<(), CallFailure>;
}

impl<R, C> World for (R, C)
where
    R: FnMut(Duration) -> Result<Observation, CallFailure>,
    C: FnMut(Duration, PowerCommand) -> Result<(), CallFailure>,
{
    fn read(&mut self, now: Duration) -> Result<Observation, CallFailure> {
        (self.0)(now)
    }

    fn command(&mut self, now: Duration, command: PowerCommand) -> Result<(), CallFailure> {
        (self.1)(now, command)
    }
}

#[derive(Debug, Default)]
struct Ran {
    reads: Vec<Duration>,
    sends: Vec<Duration>,
    commands: Vec<PowerCommand>,
    /// Number of commands that count as sent.
    sent: u32,
    ended: Option<(Duration, Outcome)>,
}

impl Ran {
    fn outcome(&self) -> &Outcome {
        &self.ended.as_ref().unwrap().1
    }

    fn at(&self) -> Duration {
        self.ended.as_ref().unwrap().0
    }
}

/// Runs an operation against a world in which every call takes 10 ms.
fn run(asked: OperationRequest, mut world: impl World) -> Ran {
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
            Next::Corroborate => op.corroborated(now, None),
            Next::Wait(until) => {
                assert!(until > now, "a wait must end later than now");
                now = until;
            }
            Next::Done(outcome) => {
                ran.ended = Some((now, outcome));
                ran.sent = op.sends();
                return ran;
            }
        }
    }
    panic!("no end after 10000 steps: {op:?}");
}

fn always(state: PowerState) -> impl World {
    (move |_| seen(state), |_, _| Ok(()))
}

/// Reaches `to` a time `delay` after a command, and reports `meanwhile` until then.
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
fn off_is_confirmed_by_two_readings_2_s_apart() {
    let ran = run(off(), follows(On, PoweringOff, Off, s(3)));
    assert_eq!(
        *ran.outcome(),
        Outcome::Confirmed {
            state: Off,
            commanded: true
        }
    );
    assert_eq!(ran.sends.len(), 1);
    let [.., first, last] = ran.reads.as_slice() else {
        panic!()
    };
    assert!(*last - *first >= s(2));
    // A BMC that takes 3 s adds at most one poll interval to 3 s + 2 s.
    assert!(ran.at() < ms(6200), "{:?}", ran.at());
}

#[test]
fn power_on_of_a_running_host_sends_no_command() {
    let ran = run(on(), always(On));
    assert_eq!((ran.reads.len(), ran.sends.len()), (1, 0));
    assert!(matches!(
        ran.outcome(),
        Outcome::Confirmed { state: On, .. }
    ));
}

#[test]
fn power_on_is_confirmed_by_exactly_on() {
    let ran = run(on(), follows(Off, PoweringOn, On, s(46)));
    assert!(matches!(
        ran.outcome(),
        Outcome::Confirmed { state: On, .. }
    ));
    assert!(ran.at() < s(49), "{:?}", ran.at());
    assert!(ran.sends.len() <= 2, "{:?}", ran.sends);
}

#[test]
fn f8_dead_bmc_ends_unconfirmed_without_a_command() {
    let world = (|_| Err(failed(ErrorKind::Unreachable)), |_, _| Ok(()));
    let ran = run(off(), world);
    assert_eq!(
        ran.outcome().to_string(),
        "not confirmed off within 60s: the BMC could not be read"
    );
    assert_eq!((ran.at(), ran.sends.len()), (s(60), 0));
    assert!(ran.reads.len() < 45, "polled {} times", ran.reads.len());
}

#[test]
fn power_off_is_sent_when_the_grace_period_ends() {
    let ran = run(off_after(s(20)), follows(On, PoweringOff, Off, s(1)));
    assert_eq!(ran.sends.len(), 1);
    assert!(
        ran.sends[0] >= s(20) && ran.sends[0] < ms(20_050),
        "{:?}",
        ran.sends
    );
}

#[test]
fn f1_host_off_within_the_grace_period_is_sent_power_off() {
    let world = (
        |now| seen(if now < s(5) { On } else { Off }),
        |now, _| {
            assert!(now >= s(5), "sent within the grace period");
            Ok(())
        },
    );
    let ran = run(off_after(s(20)), world);
    assert_eq!(ran.commands, [PowerCommand::Off]);
    assert_eq!(ran.outcome().to_string(), "confirmed off");
    assert!(
        ran.at() < s(10),
        "the grace period ends when the host reads off"
    );
}

#[test]
fn cancel_prevents_the_next_command() {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), seen(On));
    assert_eq!(op.next(s(0)), Next::Send(PowerCommand::Off));
    op.cancel();
    assert_eq!(op.next(s(0)), Next::Done(Outcome::Cancelled));
}

#[test]
fn stale_reading_is_renewed_before_a_command() {
    let mut op = Operation::new(off());
    op.read(s(0), s(0), seen(On));
    assert_eq!(op.next(s(5)), Next::Read);
}
