//! Tests with a host that does not stay on while it boots.

use std::collections::BTreeSet;

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

/// A kubelet renews its Lease up to 33 s before its first status of a boot; until then the API shows the Ready of before.
#[test]
fn renewed_lease_without_a_status_of_this_boot_is_no_recovery() {
    for step in [Step::Booting, Step::Restoring] {
        let mut o = mk_direct();
        o.machine = Some(MachineView {
            health_check_succeeded: Some(true),
            ..MachineView::not_asked()
        });
        let s = mk_direct_state(step);
        o.power = mk_power(16, PowerState::On);
        let node = node(&mut o);
        // The failure was over before the kubelet could report it, or it never was one of Ready.
        node.ready = true;
        let lease = node.lease.as_mut().unwrap();
        (lease.renewed, lease.unchanged_since) = ("09:05:00".into(), at(16));
        let waiting = match step {
            Step::Booting => Reason::Booting,
            _ => Reason::WaitingForHealth,
        };
        assert_eq!(waits(&o, &s, 17).0, waiting);
        super::build::node(&mut o).boot_id = "boot-2".into();
        assert_eq!(writes(&o, &s, 18).0.step, Step::Succeeded);
    }
}

/// A kubelet reports a new boot as not Ready, and as Ready about a second later.
#[test]
fn stopped_remediation_of_a_host_that_has_booted_waits_until_it_is_ready_or_the_boot_is_over() {
    let mut o = mk_direct();
    o.object.timed_out = true;
    o.machine = Some(MachineView {
        health_check_succeeded: Some(true),
        ..MachineView::not_asked()
    });
    let s = mk_direct_state(Step::Restoring);
    o.power = mk_power(16, PowerState::On);
    assert_eq!(writes(&o, &s, 17).0.step, Step::Aborting, "not booted yet");
    node(&mut o).boot_id = "boot-2".into();
    assert_eq!(waits(&o, &s, 17).0, Reason::WaitingForHealth);
    let (late, reason) = writes(&o, &s, 600);
    assert_eq!((late.step, reason), (Step::Aborting, Reason::TimedOut));
    node(&mut o).ready = true;
    assert_eq!(writes(&o, &s, 18).0.step, Step::Succeeded);
}

/// Without a boot id, and of a Node that was not read before, the condition Ready must have changed since the off.
#[test]
fn status_from_before_the_off_is_no_recovery_without_a_boot_id() {
    for is_pinned in [false, true] {
        let mut o = mk_direct();
        let mut s = mk_direct_state(Step::Booting);
        match (is_pinned, &mut s.attempt.node) {
            (true, Some(pinned)) => pinned.boot_id = String::new(),
            _ => s.attempt.node = None,
        }
        o.power = mk_power(16, PowerState::On);
        let seen = node(&mut o);
        (seen.ready, seen.boot_id) = (true, String::new());
        seen.ready_since = Some(at(-500));
        let lease = seen.lease.as_mut().unwrap();
        (lease.renewed, lease.unchanged_since) = ("09:05:00".into(), at(16));
        assert_eq!(waits(&o, &s, 17).0, Reason::Booting, "pinned: {is_pinned}");
        node(&mut o).ready_since = Some(at(17));
        assert_eq!(writes(&o, &s, 18).0.step, Step::Restoring);
    }
}

/// The check of a remediation by Node deletes it once the Node is healthy; without the check the cause decides.
#[test]
fn remediation_does_not_succeed_while_its_cause_persists() {
    let pressure = || BTreeSet::from([("DiskPressure".to_owned(), "True".to_owned())]);
    for check_is_gone in [false, true] {
        let mut o = mk_direct();
        (o.machine, o.object.by_node) = (Some(MachineView::not_asked()), true);
        o.object.checked = Some(pressure());
        let shown = |o: &mut Observation, status: &str| {
            let conditions = &mut node(o).conditions;
            conditions.insert("DiskPressure".into(), status.into());
        };
        shown(&mut o, "True");
        let (mut s, _) = writes(&o, &State::new(at(0)), 0);
        assert_eq!((s.step, s.causes.clone()), (Step::Holding, pressure()));
        s = State {
            causes: s.causes,
            ..mk_direct_state(Step::Restoring)
        };
        if check_is_gone {
            o.object.checked = None;
        }
        let back = node(&mut o);
        (back.ready, back.boot_id) = (true, "boot-2".into());
        o.power = mk_power(16, PowerState::On);
        assert_eq!(waits(&o, &s, 17).0, Reason::WaitingForHealth);
        // The attempt has not helped.
        assert_eq!(writes(&o, &s, 600).0.step, Step::Retrying);
        shown(&mut o, "False");
        assert_eq!(writes(&o, &s, 17).0.step, Step::Succeeded);
    }
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
            (
                d.next.clone(),
                d.state.step,
                d.state.attempt.power_on_repeats
            ),
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
        assert_eq!((s.step, s.attempt.on), (Step::Booting, Some(at(20))));
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
    s.attempt.power_on_repeats = 3;
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
        writes(&o, &s, 600).0.attempt.power_on_repeats,
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
    s.attempt.power_on_repeats = 1;
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
            if run.outcome != Some(RemediationOutcome::Succeeded) || !one {
                run.world.fail(&format!("switched off after {later} ms"));
            }
        }
    }
}
