//! Cycle: off, confirmed, held off, on.

use std::cell::Cell;

use super::*;

fn cycle(hold_off: Duration) -> OperationRequest {
    OperationRequest {
        goal: Goal::Cycle {
            hold_off,
            confirmations: 2,
            confirm_interval: s(2),
        },
        ..off()
    }
}

/// A host in state `from` that executes commands immediately.
fn obedient(from: PowerState) -> impl World {
    let state = std::rc::Rc::new(Cell::new(from));
    let told = state.clone();
    (
        move |_| seen(state.get()),
        move |_, command: PowerCommand| {
            told.set(command.leads_to().unwrap());
            Ok(())
        },
    )
}

#[test]
fn cycle_confirms_off_holds_and_powers_on() {
    let ran = run(cycle(s(10)), obedient(On));
    assert_eq!(ran.commands, [PowerCommand::Off, PowerCommand::On]);
    assert_eq!(
        ran.outcome().to_string(),
        "was off, and is confirmed on again"
    );
    let [off, on] = ran.sends.as_slice() else {
        panic!()
    };
    let between: Vec<_> = ran
        .reads
        .iter()
        .filter(|at| *at > off && *at < on)
        .collect();
    assert!(
        between.len() >= 2,
        "too few readings while off: {between:?}"
    );
    assert!(
        *on >= *between[1] + s(10),
        "the hold starts after the confirmation"
    );
    assert!(ran.at() < s(14), "{:?}", ran.at());
}

#[test]
fn f1_cycle_sends_power_off_to_a_host_that_reads_off() {
    let ran = run(cycle(s(10)), obedient(Off));
    assert_eq!(ran.commands, [PowerCommand::Off, PowerCommand::On]);
    assert_eq!(
        ran.outcome().to_string(),
        "was already off, was sent another power-off, and is confirmed on"
    );
    assert!(ran.sends[1] >= ran.sends[0] + s(12), "{:?}", ran.sends);
}

#[test]
fn cycle_without_confirmed_off_sends_no_power_on() {
    for state in [On, PoweringOff, Unknown] {
        let ran = run(cycle(s(10)), always(state));
        assert!(ran.commands.iter().all(|c| *c == PowerCommand::Off));
        assert!(matches!(
            ran.outcome(),
            Outcome::Unconfirmed { wanted: Off, .. }
        ));
    }
}

#[test]
fn external_power_on_during_the_hold_completes_the_cycle() {
    let off = Cell::new(None);
    let world = (
        |now| match off.get() {
            Some(at) if now < at + s(5) => seen(Off),
            _ => seen(On),
        },
        |now, command| {
            assert_eq!(command, PowerCommand::Off, "no command but off is needed");
            off.set(Some(now));
            Ok(())
        },
    );
    let ran = run(cycle(s(10)), world);
    assert_eq!(*ran.outcome(), Outcome::Cycled { was_off: false });
    assert_eq!(ran.commands.len(), 1);
}

#[test]
fn hold_waits_without_reading_and_can_be_cancelled() {
    let mut op = Operation::new(cycle(s(10)));
    op.read(s(0), s(0), seen(On));
    op.sending(s(0));
    op.sent(s(0), Ok(()));
    op.read(s(1), s(1), seen(Off));
    op.read(s(3), s(3), seen(Off));
    assert_eq!(op.next(s(3)), Next::Wait(s(13)));
    op.cancel();
    assert_eq!(op.next(s(4)), Next::Done(Outcome::Cancelled));
}
