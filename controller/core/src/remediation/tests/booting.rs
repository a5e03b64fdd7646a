//! Tests with a host that does not stay on while it boots.

use super::{
    super::*,
    build::*,
    driver::{Run, time},
    faults::{Fault, Plan},
};

/// Switched on by the agent at second 0; the node has not reported yet.
fn mk_booting() -> (Observation, State) {
    let mut o = mk_direct();
    node(&mut o).taint = Taint::Ours;
    (o, mk_direct_state(Step::Booting))
}

#[test]
fn power_is_read_periodically_during_boot() {
    let (mut o, s) = mk_booting();
    assert_eq!(waits(&o, &s, 1), (Reason::Booting, 15));
    assert_eq!(does(&o, &s, 15), Command::ReadPower);
    o.power = mk_power(16, PowerState::On);
    assert_eq!(waits(&o, &s, 17), (Reason::Booting, 31));
    assert_eq!(does(&o, &s, 31), Command::ReadPower);
    // The wait ends at the boot timeout.
    o.power = mk_power(590, PowerState::On);
    assert_eq!(waits(&o, &s, 591), (Reason::Booting, 600));
    o.agent = AgentView::Unreachable { why: "dark".into() };
    assert_eq!(waits(&o, &s, 100), (Reason::Booting, 600));
}

#[test]
fn host_off_during_boot_is_switched_on_again_and_reported() {
    for step in [Step::Booting, Step::Restoring] {
        let (mut o, mut s) = mk_booting();
        s.step = step;
        if step == Step::Restoring {
            node(&mut o).taint = Taint::Absent;
        }
        let first = operation_id(
            UID,
            &State {
                step: Step::PoweringOn,
                ..s.clone()
            },
        );
        o.power = mk_power(16, PowerState::Off);
        let d = decide(&o, Some(&s), at(17));
        assert_eq!(
            (d.next.clone(), d.state.step, d.state.power_on_repeats),
            (Next::Write, Step::PoweringOn, 1)
        );
        let note = &d.notes[0];
        assert!(note.warning && note.reason == "OffAgain", "{note:?}");
        // The repeated power-on has an id of its own.
        let Command::PowerOn { id, .. } = does(&o, &d.state, 17) else {
            panic!("no power-on");
        };
        assert_ne!(Some(id), first);
        o.operation = confirmed();
        let (s, _) = writes(&o, &d.state, 20);
        assert_eq!((s.step, s.on), (Step::Booting, Some(at(20))));
        // Readings from before this power-on do not count.
        o.operation = None;
        assert_eq!(waits(&o, &s, 21), (Reason::Booting, 35));
    }
}

#[test]
fn only_exactly_off_causes_another_power_on() {
    let (mut o, s) = mk_booting();
    for state in [
        PowerState::On,
        PowerState::PoweringOn,
        PowerState::PoweringOff,
        PowerState::Unknown,
    ] {
        o.power = mk_power(16, state);
        assert_eq!(waits(&o, &s, 17), (Reason::Booting, 31), "{state:?}");
    }
    o.power = mk_no_power(16);
    assert_eq!(waits(&o, &s, 17), (Reason::Booting, 31));
    // Readings of off from before the power-on, and outdated ones.
    o.power = mk_power(-1, PowerState::Off);
    assert_eq!(waits(&o, &s, 14), (Reason::Booting, 15));
    o.power = mk_power(16, PowerState::Off);
    assert_eq!(does(&o, &s, 31), Command::ReadPower);
}

#[test]
fn l1_repeated_power_ons_are_bounded_and_the_reason_is_reported() {
    let (mut o, mut s) = mk_booting();
    s.power_on_repeats = 3;
    o.power = mk_power(16, PowerState::Off);
    let (reason, until) = waits(&o, &s, 17);
    assert_eq!((reason.label(), until), ("StaysOff", 31));
    assert!(reason.is_blocked());
    // A person has switched the host on: the boot continues.
    o.power = mk_power(31, PowerState::On);
    assert_eq!(waits(&o, &s, 32).0, Reason::Booting);
    let (s, reason) = writes(&o, &s, 600);
    assert_eq!((s.step, reason), (Step::Restoring, Reason::BootTimeout));
    node(&mut o).taint = Taint::Absent;
    assert_eq!(
        writes(&o, &s, 600).0.power_on_repeats,
        0,
        "the next attempt counts again from 0"
    );
}

#[test]
fn a7_repeated_power_on_waits_for_baremetal_operator_and_holds() {
    let mut o = mk_observation();
    let mut s = mk_state(Step::Booting);
    o.power = mk_power(16, PowerState::Off);
    (s, _) = writes(&o, &s, 17);
    assert_eq!(s.step, Step::PoweringOn);
    assert_eq!(does(&o, &s, 17), Command::ReadPower);
    o.power = mk_power(17, PowerState::Off);
    assert_eq!(waits(&o, &s, 17), (Reason::PowerOnRunning, 18));
    o.power = mk_power(36, PowerState::Off);
    assert!(matches!(does(&o, &s, 37), Command::PowerOn { .. }));
    let key = "reboot.metal3.io/firmware";
    bmh(&mut o).foreign_holds.insert(key.into());
    (s, _) = writes(&o, &s, 37);
    assert_eq!(waits(&o, &s, 37).0.label(), "HeldByOthers");
    bmh(&mut o).online = false;
    assert_eq!(writes(&o, &s, 37).1.label(), "HostOffline");
}

/// The kubelet may have reported while the host was on.
#[test]
fn f5_lease_renewed_while_the_host_was_on_is_its_own() {
    let (mut o, mut s) = mk_booting();
    s.step = Step::PoweringOn;
    s.power_on_repeats = 1;
    let lease = node(&mut o).lease.as_mut().unwrap();
    (lease.renewed, lease.unchanged_since) = ("09:05:00".into(), at(12));
    o.power = mk_power(17, PowerState::Off);
    assert!(matches!(does(&o, &s, 18), Command::PowerOn { .. }));
}

#[test]
fn workload_outage_does_not_stop_power_readings_during_boot() {
    let (mut o, mut s) = mk_booting();
    o.workload = WorkloadView::Unreachable {
        why: "refused".into(),
    };
    s.failure = Some("refused".into());
    assert_eq!(does(&o, &s, 700), Command::ReadPower);
    o.power = mk_power(700, PowerState::On);
    assert_eq!(waits(&o, &s, 701).0.label(), "WorkloadUnreachable");
    o.power = mk_power(700, PowerState::Off);
    assert_eq!(writes(&o, &s, 701).1, Reason::OffAgain);
}

/// Power loss at any time of the boot: one attempt, without intervention.
#[test]
fn power_loss_during_boot_costs_no_attempt() {
    for cooperative in [false, true] {
        let mk = |faults: &[(i64, Fault)]| {
            let mut plan = Plan::calm(cooperative);
            plan.faults.extend(faults);
            let mut run = Run::new(plan);
            run.go();
            run
        };
        let calm = mk(&[]);
        let on = calm.state.unwrap().attempts[0].on.unwrap();
        let on = on.as_millisecond() - time(0).as_millisecond();
        for later in (500..27_000).step_by(500) {
            let run = mk(&[(on + later, Fault::SwitchedOff)]);
            let state = run.state.as_ref().unwrap();
            let one = state.attempts.len() == 1 && run.world.hosts[0].power_on_repeats == 2;
            if run.outcome != Some(Outcome::Succeeded) || !one {
                run.world.fail(&format!("switched off after {later} ms"));
            }
        }
    }
}
