//! A BMC that has only the power button, and reports the power state late.

use std::{cell::RefCell, rc::Rc};

use proptest::prelude::*;

use super::*;
use PowerCommand::{OnByButton, SoftOff, SoftOffByButton};

/// A host that is switched by its button, and a BMC that reports the state of `lag` ago.
#[derive(Debug)]
struct ButtonHost {
    lag: Duration,
    /// Every state with its begin.
    states: Vec<(Duration, PowerState)>,
    presses: Vec<Duration>,
}

impl ButtonHost {
    fn new(lag: Duration, state: PowerState) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            lag,
            states: vec![(Duration::ZERO, state)],
            presses: Vec::new(),
        }))
    }

    fn state(&self) -> PowerState {
        self.states.last().unwrap().1
    }

    /// The state that the BMC reports.
    fn reported(&self, now: Duration) -> PowerState {
        let stored = self.states.iter().rev();
        let then = now.saturating_sub(self.lag);
        let stored = stored.clone().find(|(at, _)| *at <= then);
        stored.unwrap_or(&self.states[0]).1
    }

    fn press(&mut self, now: Duration) {
        self.presses.push(now);
        let state = if self.state() == On { Off } else { On };
        self.states.push((now, state));
    }

    /// Number of times that the host was really switched off.
    fn offs(&self) -> usize {
        let later = self.states.iter().skip(1);
        later.filter(|(_, state)| *state == Off).count()
    }
}

/// The result of a command at a BMC that has only the button.
fn only_button(
    host: &RefCell<ButtonHost>,
    now: Duration,
    command: PowerCommand,
) -> Result<(), CallFailure> {
    match command {
        PowerCommand::On | SoftOff => Err(failed(ErrorKind::ButtonOnly)),
        OnByButton | SoftOffByButton => {
            host.borrow_mut().press(now);
            Ok(())
        }
        PowerCommand::Off => {
            host.borrow_mut().states.push((now, Off));
            Ok(())
        }
        other => panic!("{other:?} was sent"),
    }
}

fn world(host: &Rc<RefCell<ButtonHost>>) -> impl World {
    let (read, commanded) = (host.clone(), host.clone());
    (
        move |now| seen(read.borrow().reported(now)),
        move |now, command| only_button(&commanded, now, command),
    )
}

fn within(deadline: Duration, goal: Goal) -> OperationRequest {
    OperationRequest {
        goal,
        deadline,
        ..off()
    }
}

#[test]
fn button_is_pressed_once_while_the_state_lags_60_s() {
    let host = ButtonHost::new(s(60), Off);
    let ran = run(within(s(300), Goal::On), world(&host));
    assert_eq!(ran.commands, [PowerCommand::On, OnByButton]);
    assert!(matches!(
        ran.outcome(),
        Outcome::Confirmed {
            state: On,
            commanded: true
        }
    ));
    assert!(ran.at() < s(63), "{:?}", ran.at());
    assert_eq!(host.borrow().presses.len(), 1);
    assert_eq!(host.borrow().offs(), 0);
}

#[test]
fn button_is_pressed_at_once_on_the_first_reading_of_off() {
    let host = ButtonHost::new(Duration::ZERO, Off);
    let ran = run(within(s(60), Goal::On), world(&host));
    assert!(ran.outcome().is_done() && ran.at() < s(1), "{ran:?}");
    assert_eq!(host.borrow().presses.len(), 1);
}

#[test]
fn button_without_effect_is_pressed_again_after_the_lag_and_not_a_third_time() {
    let commands = RefCell::new(Vec::new());
    let world = (
        |_| seen(Off),
        |now, command| {
            commands.borrow_mut().push((now, command));
            match command {
                PowerCommand::On => Err(failed(ErrorKind::ButtonOnly)),
                _ => Ok(()),
            }
        },
    );
    let ran = run(within(s(600), Goal::On), world);
    assert_eq!(ran.commands, [PowerCommand::On, OnByButton, OnByButton]);
    let gap = ran.sends[2] - ran.sends[1];
    assert!(gap > s(90) && gap < s(95), "{gap:?}");
    assert!(matches!(ran.outcome(), Outcome::Unconfirmed { .. }));
    assert_eq!(ran.at(), s(600));
}

#[test]
fn button_is_not_pressed_again_within_the_lag_after_another_state_or_a_failed_reading() {
    for disturbed in [None, Some(PoweringOn), Some(Unknown)] {
        let world = (
            |now: Duration| match disturbed {
                _ if now < s(80) || now >= s(84) => seen(Off),
                Some(state) => seen(state),
                None => Err(failed(ErrorKind::Timeout)),
            },
            |_, command| match command {
                PowerCommand::On => Err(failed(ErrorKind::ButtonOnly)),
                _ => Ok(()),
            },
        );
        let ran = run(within(s(600), Goal::On), world);
        assert_eq!(ran.commands.len(), 3, "{:?}", ran.commands);
        let second = ran.sends[2];
        assert!(
            second > s(171) && second < s(180),
            "{disturbed:?}: {second:?}"
        );
    }
}

#[test]
fn unanswered_or_refused_press_counts_and_one_that_was_not_sent_does_not() {
    let press = |kind, maybe_sent| {
        let world = (
            |_| seen(Off),
            move |_, command| match command {
                PowerCommand::On => Err(failed(ErrorKind::ButtonOnly)),
                _ => Err(CallFailure {
                    maybe_sent,
                    ..failed(kind)
                }),
            },
        );
        let ran = run(within(s(85), Goal::On), world);
        ran.commands.iter().filter(|c| **c == OnByButton).count()
    };
    assert_eq!(press(ErrorKind::Timeout, true), 1);
    assert_eq!(press(ErrorKind::Busy, true), 1);
    assert_eq!(press(ErrorKind::Refused, false), 1);
    assert_eq!(press(ErrorKind::Protocol, false), 1);
    assert!(press(ErrorKind::Unreachable, false) > 10);
    assert!(press(ErrorKind::Busy, false) > 10);
}

#[test]
fn button_waits_for_the_state_after_a_command_of_an_earlier_operation() {
    let host = ButtonHost::new(s(60), Off);
    // An earlier operation has pressed it 10 s ago.
    host.borrow_mut().states = vec![(Duration::ZERO, Off), (Duration::ZERO, On)];
    let mut asked = within(s(300), Goal::On);
    asked.timing.button_after = s(80);
    let read = host.clone();
    let world = (
        move |now: Duration| seen(if now < s(50) { Off } else { On }),
        move |now, command| only_button(&read, now, command),
    );
    let ran = run(asked.clone(), world);
    assert_eq!(ran.commands, [PowerCommand::On]);
    assert!(ran.outcome().is_done(), "{ran:?}");
    assert_eq!(host.borrow().offs(), 0);

    let host = ButtonHost::new(s(60), Off);
    let ran = run(asked, world_of(&host));
    assert_eq!(ran.commands, [PowerCommand::On, OnByButton]);
    assert!(ran.sends[1] >= s(80) && ran.sends[1] < s(83));
}

fn world_of(host: &Rc<RefCell<ButtonHost>>) -> impl World {
    world(host)
}

#[test]
fn cycle_presses_the_button_once_after_a_lagging_off() {
    let host = ButtonHost::new(s(60), On);
    let cycle = Goal::Cycle {
        hold_off: s(10),
        confirmations: 2,
        confirm_interval: s(2),
    };
    let ran = run(within(s(600), cycle), world(&host));
    assert_eq!(*ran.outcome(), Outcome::Cycled { was_off: false });
    assert_eq!(host.borrow().presses.len(), 1);
    assert_eq!(host.borrow().state(), On);
}

#[test]
fn soft_off_presses_the_button_once() {
    for then_force in [false, true] {
        let host = ButtonHost::new(s(30), On);
        let soft = Goal::SoftOff {
            limit: s(180),
            then_force,
            confirmations: 2,
            confirm_interval: s(2),
        };
        let ran = run(within(s(600), soft), world(&host));
        assert_eq!(ran.commands, [SoftOff, SoftOffByButton]);
        assert!(matches!(
            ran.outcome(),
            Outcome::Confirmed { state: Off, .. }
        ));
        assert_eq!(host.borrow().presses.len(), 1);
    }
}

#[test]
fn refused_command_does_not_count_as_sent() {
    let mut op = Operation::new(on());
    op.read(s(0), s(0), seen(Off));
    assert_eq!(op.next(s(0)), Next::Send(PowerCommand::On));
    op.sending(s(0));
    op.sent(s(0), Err(failed(ErrorKind::ButtonOnly)));
    assert_eq!(op.sends(), 0);
    op.read(s(0), s(0), seen(On));
    assert_eq!(
        op.next(s(0)),
        Next::Done(Outcome::Confirmed {
            state: On,
            commanded: false
        })
    );
}

#[derive(Debug, Clone)]
struct Step {
    /// The reading fails.
    unreadable: bool,
    /// How late the BMC reports.
    lag: u64,
    /// Result of a press: whether it is carried out, and its answer.
    pressed: (bool, Result<(), CallFailure>),
    took: u64,
    /// Another state than the true one, before the lag.
    between: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let lost = || {
        Err(CallFailure {
            maybe_sent: true,
            ..failed(ErrorKind::Timeout)
        })
    };
    let pressed = prop_oneof![
        3 => Just((true, Ok(()))),
        1 => Just((false, Ok(()))),
        1 => any::<bool>().prop_map(move |done| (done, lost())),
        1 => any::<bool>().prop_map(|done| (done, Err(failed(ErrorKind::Protocol)))),
        1 => Just((false, Err(failed(ErrorKind::Busy)))),
        1 => Just((false, Err(failed(ErrorKind::Unreachable)))),
    ];
    (
        prop::bool::weighted(0.03),
        0..60_000_u64,
        pressed,
        0..4000_u64,
        prop::bool::weighted(0.03),
    )
        .prop_map(|(unreadable, lag, pressed, took, between)| Step {
            unreadable,
            lag,
            pressed,
            took,
            between,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever the BMC answers, and however late it reports within the lag: the button is pressed
    /// twice at most, never twice within the lag, and never on a host that runs.
    #[test]
    fn button_never_switches_a_running_host_off(
        steps in prop::collection::vec(any_step(), 1..60),
        deadline in 1..900_u64,
    ) {
        let host = ButtonHost::new(Duration::ZERO, Off);
        let mut op = Operation::new(within(s(deadline), Goal::On));
        let mut now = Duration::ZERO;
        let mut sent: Vec<Duration> = Vec::new();
        let mut maybe_pressed: Vec<Duration> = Vec::new();
        for step in steps.iter().cycle() {
            match op.next(now) {
                Next::Read => {
                    let begun = now;
                    now += ms(step.took);
                    host.borrow_mut().lag = ms(step.lag);
                    let state = match step.between {
                        true => Unknown,
                        false => host.borrow().reported(begun),
                    };
                    let result = match step.unreadable {
                        true => Err(failed(ErrorKind::Unreachable)),
                        false => seen(state),
                    };
                    op.read(begun, now, result);
                }
                Next::Send(PowerCommand::On) => {
                    prop_assert!(sent.is_empty(), "tried again although only the button is there");
                    op.sending(now);
                    op.sent(now, Err(failed(ErrorKind::ButtonOnly)));
                }
                Next::Send(command) => {
                    prop_assert_eq!(command, OnByButton);
                    prop_assert_eq!(host.borrow().state(), Off, "switched off at {:?}", now);
                    if let Some(last) = maybe_pressed.last() {
                        prop_assert!(now > *last + s(90), "{:?} after {:?}", now, last);
                    }
                    let (done, answer) = step.pressed.clone();
                    op.sending(now);
                    sent.push(now);
                    if done {
                        host.borrow_mut().press(now);
                    }
                    let is_certain = matches!(&answer, Err(f) if !f.maybe_sent && f.kind != ErrorKind::Protocol);
                    if !is_certain {
                        maybe_pressed.push(now);
                    }
                    now += ms(step.took);
                    op.sent(now, answer);
                }
                Next::Corroborate => op.corroborated(now, None),
                Next::Wait(until) => now = until,
                Next::Done(_) => break,
            }
        }
        prop_assert!(maybe_pressed.len() <= 2);
        prop_assert_eq!(host.borrow().offs(), 0);
    }
}
