//! F17: operations whose caller is gone.

use super::*;

fn cycle() -> OperationRequest {
    OperationRequest {
        goal: Goal::Cycle {
            hold_off: s(10),
            confirmations: 2,
            confirm_interval: s(2),
        },
        ..off()
    }
}

/// Runs an operation whose caller is gone from `gone` on.
fn run_until_gone(asked: OperationRequest, gone: Duration, mut world: impl World) -> Ran {
    let (mut op, mut now, mut ran) = (Operation::new(asked), Duration::ZERO, Ran::default());
    for _ in 0..10_000 {
        if now >= gone {
            op.abandon(now);
        }
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
            // As the runner, which is woken by the end of the lease.
            Next::Wait(until) if now < gone => now = until.min(gone),
            Next::Wait(until) => now = until,
            Next::Done(outcome) => {
                ran.ended = Some((now, outcome));
                return ran;
            }
        }
    }
    panic!("no end after 10000 steps: {op:?}");
}

/// A host that is on, and goes off or on this long after each command.
fn slow_host(off_takes: Duration, on_takes: Duration) -> impl World {
    let due = std::rc::Rc::new(Cell::new(None::<(Duration, PowerState)>));
    let told = due.clone();
    let mut state = On;
    (
        move |now| {
            if let Some((_, reached)) = due.get().filter(|(at, _)| now >= *at) {
                state = reached;
            }
            seen(state)
        },
        move |now, command: PowerCommand| {
            let state = command.leads_to().unwrap();
            let takes = if state == Off { off_takes } else { on_takes };
            told.set(Some((now + takes, state)));
            Ok(())
        },
    )
}

#[test]
fn f17_no_power_off_is_sent_once_the_caller_is_gone() {
    let then_force = OperationRequest {
        goal: Goal::SoftOff {
            limit: s(20),
            then_force: true,
            confirmations: 2,
            confirm_interval: s(2),
        },
        ..off()
    };
    let once = |goal| OperationRequest { goal, ..off() };
    for (asked, gone, commands) in [
        (off_after(s(20)), s(5), &[][..]),
        (off(), s(5), &[PowerCommand::Off]),
        (cycle(), s(0), &[]),
        (then_force, s(5), &[PowerCommand::SoftOff]),
        (once(Goal::Reset), s(0), &[]),
        (once(Goal::On), s(0), &[]),
    ] {
        // The BMC takes commands, and the host stays on.
        let ran = run_until_gone(asked.clone(), gone, always(On));
        assert_eq!(
            *ran.outcome(),
            Outcome::CallerGone { is_on: false },
            "{asked:?}"
        );
        assert_eq!(ran.commands, commands, "{asked:?}");
        assert!(ran.at() <= gone + ms(20), "{asked:?}: {:?}", ran.at());
    }
}

#[test]
fn f17_cycle_that_has_switched_off_is_finished_with_power_on() {
    let cycled = Outcome::Cycled { was_off: false };
    let cut_short = Outcome::CallerGone { is_on: true };
    for (gone, outcome) in [
        // Before the off takes effect, before it is confirmed, during the hold, and during the power-on.
        (ms(100), &cut_short),
        (ms(2500), &cut_short),
        (s(8), &cycled),
        (s(15), &cycled),
    ] {
        let ran = run_until_gone(cycle(), gone, slow_host(s(2), s(2)));
        assert_eq!(ran.outcome(), outcome, "{gone:?}");
        assert_eq!(
            ran.commands,
            [PowerCommand::Off, PowerCommand::On],
            "{gone:?}: the host must not be left off"
        );
    }
}

#[test]
fn f17_late_power_off_of_a_cycle_does_not_leave_its_host_off() {
    // The BMC carries the command out after 25 s: a reading of on before that confirms nothing.
    let ran = run_until_gone(cycle(), s(1), slow_host(s(25), s(2)));
    assert_eq!(ran.commands, [PowerCommand::Off, PowerCommand::On]);
    assert_eq!(*ran.outcome(), Outcome::CallerGone { is_on: true });
    // A BMC that never does delays the operation no longer than a host takes to go off.
    let ran = run_until_gone(cycle(), s(1), always(On));
    assert_eq!(*ran.outcome(), Outcome::CallerGone { is_on: true });
    assert_eq!(ran.commands, [PowerCommand::Off]);
    assert!(ran.at() >= s(30) && ran.at() < s(33), "{:?}", ran.at());
}

#[test]
fn f17_finished_cycle_has_time_for_its_power_on() {
    let mut asked = cycle();
    asked.deadline = s(20);
    // The BMC is away from just after the power-off until long after the deadline.
    let host = std::rc::Rc::new(std::cell::RefCell::new(slow_host(s(1), s(1))));
    let told = host.clone();
    let world = (
        move |now| {
            if now > s(1) && now < s(60) {
                return Err(failed(ErrorKind::Unreachable));
            }
            host.borrow_mut().read(now)
        },
        move |now, command| told.borrow_mut().command(now, command),
    );
    let ran = run_until_gone(asked, s(19), world);
    assert_eq!(*ran.outcome(), Outcome::CallerGone { is_on: true });
    assert!(ran.at() > s(60), "{:?}", ran.at());
}

#[test]
fn f17_hard_power_off_of_somebody_else_ends_an_abandoned_cycle() {
    let mut op = Operation::new(cycle());
    op.read(s(0), s(0), seen(On));
    op.sending(s(0));
    op.sent(s(0), Ok(()));
    op.abandon(s(1));
    assert!(op.is_abandoned());
    op.cancel();
    assert_eq!(op.next(s(1)), Next::Done(Outcome::Cancelled));
}

#[test]
fn power_on_after_a_late_power_off_waits_for_it() {
    let mut asked = on();
    asked.timing.late_off_until = s(20);
    let ran = run(asked.clone(), always(On));
    assert!(ran.at() >= s(20) && ran.sends.is_empty(), "{:?}", ran.at());
    // It is off: it is switched on, and that is enough.
    let ran = run(asked.clone(), follows(Off, Off, On, s(1)));
    assert!(ran.at() < s(3) && ran.sends.len() == 1, "{:?}", ran.at());
    // It is powering off until 5 s: it is switched on when it is off.
    let on = Cell::new(false);
    let world = (
        |now| {
            seen(match now {
                _ if on.get() => On,
                now if now < s(5) => PoweringOff,
                _ => Off,
            })
        },
        |now, _| {
            assert!(now >= s(5), "sent to a host that was powering off");
            on.set(true);
            Ok(())
        },
    );
    let ran = run(asked, world);
    assert!(ran.at() < s(8) && ran.sends.len() == 1, "{:?}", ran.at());
}
