//! F16: the power of a host is handed back to baremetal-operator, not dropped.

use super::{
    super::*,
    build::*,
    driver::Run,
    faults::{Fault, Plan},
    world::Power,
};

/// A drained host with our hold, which the owner still reports on.
fn mk_unreported() -> (Observation, State) {
    let mut o = mk_held();
    bmh(&mut o).powered_on = Some(true);
    o.power = mk_power(1, PowerState::Off);
    (o, mk_state(Step::PoweringOn))
}

/// A host without any hold, which the owner has as off.
fn mk_released() -> (Observation, State) {
    let mut o = mk_observation();
    bmh(&mut o).powered_on = Some(false);
    let mut s = mk_state(Step::PoweringOn);
    s.attempt.handover.released = Some(at(1));
    (o, s)
}

#[test]
fn f16_hold_stays_until_the_owner_reports_off_and_its_value_changes_every_30_s() {
    let (mut o, s) = mk_unreported();
    for reported in [Some(true), None] {
        bmh(&mut o).powered_on = reported;
        bmh(&mut o).hold_renewed = None;
        assert_eq!(does(&o, &s, 2), Command::RenewHold, "at once");
        bmh(&mut o).hold_renewed = Some(at(2));
        let (reason, until) = waits(&o, &s, 3);
        assert_eq!((reason.label(), until), ("OwnerDoesNotReportOff", 32));
        assert!(reason.is_blocked());
        assert_eq!(does(&o, &s, 32), Command::RenewHold);
        // For days: only the owner or a person ends the wait.
        assert_eq!(does(&o, &s, 400_000), Command::RenewHold);
        bmh(&mut o).hold_renewed = Some(at(900_000));
        assert_eq!(
            does(&o, &s, 3),
            Command::RenewHold,
            "the clock was set back"
        );
    }
    bmh(&mut o).powered_on = Some(false);
    assert_eq!(does(&o, &s, 33), Command::RemoveHold);
}

/// Otherwise the state that the owner reports would not be one from after the hold.
#[test]
fn f16_hold_that_somebody_removes_before_the_owner_reports_off_is_set_again() {
    let (mut o, mut s) = mk_unreported();
    s.attempt.handover.released = None;
    bmh(&mut o).our_hold = false;
    assert_eq!(does(&o, &s, 2), Command::AddHold);
    // Given up before it is removed: a crash in between changes nothing.
    bmh(&mut o).our_hold = true;
    bmh(&mut o).powered_on = Some(false);
    let (s, _) = writes(&o, &s, 3);
    assert_eq!(s.attempt.handover.released, Some(at(3)));
    assert_eq!(does(&o, &s, 3), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    bmh(&mut o).powered_on = Some(true);
    o.power = mk_power(4, PowerState::On);
    assert_eq!(does(&o, &s, 4), Command::Release);
}

#[test]
fn f16_reason_names_what_keeps_the_owner_and_what_a_person_makes_sure_of() {
    let (mut o, s) = mk_unreported();
    bmh(&mut o).hold_renewed = Some(at(2));
    bmh(&mut o).paused = true;
    bmh(&mut o).error = Some("wrong password".into());
    let text = waits(&o, &s, 3).0.to_string();
    for part in [
        "metal/host-7 reports poweredOn true",
        "is paused",
        "wrong password",
        "make sure that Ironic",
        "rackhand.dev/override-owner=<its UID>",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn f16_person_takes_the_power_from_the_owner_only_by_the_uid() {
    let (mut o, mut s) = mk_unreported();
    s.attempt.handover.released = None;
    bmh(&mut o).hold_renewed = Some(at(2));
    o.object.override_owner = Some("true".into());
    assert_eq!(waits(&o, &s, 3).0.label(), "OwnerDoesNotReportOff");
    o.object.override_owner = Some(UID.into());
    let (s, _) = writes(&o, &s, 3);
    assert_eq!(s.attempt.handover.released, Some(at(3)));
    assert_eq!(does(&o, &s, 3), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    o.power = mk_power(30, PowerState::Off);
    let power_on = does(&o, &s, 31);
    assert!(matches!(power_on, Command::PowerOn { .. }), "{power_on:?}");
}

/// The words of an API server that cannot reach the webhook of baremetal-operator.
const AWAY: &str = "failed calling webhook \"baremetalhost.metal3.io\": failed to call webhook: connection refused";

fn refuse(o: &mut Observation, seconds: i64) {
    bmh(o).hold_refused = Some(HoldRefusal::new(AWAY, at(seconds)));
}

#[test]
fn f16_answer_of_the_api_server_is_cut() {
    let long = format!("{AWAY}{}", "x".repeat(100_000));
    let refused = HoldRefusal::new(&long, at(1));
    assert!(refused.why.starts_with(AWAY) && refused.why.len() <= 120);
}

#[test]
fn f16_absent_owner_is_named_although_our_hold_cannot_be_renewed() {
    let (mut o, s) = mk_unreported();
    assert_eq!(does(&o, &s, 2), Command::RenewHold);
    refuse(&mut o, 2);
    let (reason, until) = waits(&o, &s, 2);
    assert_eq!((reason.label(), until), ("OwnerDoesNotReportOff", 32));
    let text = reason.to_string();
    assert!(text.len() < 1000, "the note of an Event is cut: {text}");
    for part in [
        "connection refused",
        "rackhand.dev/override-owner",
        "ValidatingWebhookConfiguration",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert_eq!(does(&o, &s, 32), Command::RenewHold);
}

#[test]
fn f16_absent_owner_is_named_although_our_hold_cannot_be_removed() {
    let (mut o, s) = mk_unreported();
    bmh(&mut o).powered_on = Some(false);
    assert_eq!(does(&o, &s, 2), Command::RemoveHold);
    refuse(&mut o, 2);
    let (reason, until) = waits(&o, &s, 3);
    assert_eq!((reason.label(), until), ("OwnerDoesNotSwitchOn", 7));
    assert!(reason.to_string().contains("rackhand.dev/override-owner"));
    assert_eq!(does(&o, &s, 7), Command::RemoveHold);
}

/// Without its owner nobody acts on the key, and nobody can remove it.
#[test]
fn f16_person_takes_the_power_although_our_hold_cannot_be_removed_now() {
    for reported in [Some(true), Some(false), None] {
        let (mut o, s) = mk_unreported();
        bmh(&mut o).powered_on = reported;
        o.object.override_owner = Some(UID.into());
        assert_eq!(does(&o, &s, 3), Command::RemoveHold, "it is tried first");
        refuse(&mut o, 30);
        o.power = mk_power(30, PowerState::Off);
        let power_on = does(&o, &s, 31);
        assert!(matches!(power_on, Command::PowerOn { .. }), "{power_on:?}");
        // A key of somebody else is still waited for.
        let mut held = o.clone();
        bmh(&mut held)
            .foreign_holds
            .insert("reboot.metal3.io/firmware".into());
        assert_eq!(writes(&held, &s, 31).1.label(), "HeldByOthers");
        assert_eq!(does(&o, &s, 35), Command::RemoveHold, "and again");

        // While the host boots, too, until it is gone.
        let mut s = s.at(Step::Booting, at(40));
        s.attempt.on = Some(at(40));
        o.power = mk_power(41, PowerState::On);
        assert_eq!(does(&o, &s, 41), Command::RemoveHold);
        refuse(&mut o, 41);
        let (reason, until) = waits(&o, &s, 42);
        assert_eq!((reason.label(), until), ("Booting", 46));
        bmh(&mut o).our_hold = false;
        assert_eq!(waits(&o, &s, 46).0.label(), "Booting");
        // The remediation does not end with it.
        bmh(&mut o).our_hold = true;
        let s = s.at(Step::Restoring, at(50));
        assert_eq!(does(&o, &s, 50), Command::RemoveHold);
    }
}

#[test]
fn f16_detached_host_is_switched_on_although_our_hold_cannot_be_removed_now() {
    let (mut o, mut s) = mk_unreported();
    s.attempt.handover.released = Some(at(1));
    bmh(&mut o).detached = true;
    refuse(&mut o, 2);
    o.power = mk_power(2, PowerState::Off);
    let power_on = does(&o, &s, 3);
    assert!(matches!(power_on, Command::PowerOn { .. }), "{power_on:?}");
}

/// F5: the host of somebody else stays off while its hold cannot be removed, unless a person says so.
#[test]
fn f16_undone_power_off_does_not_wait_for_a_hold_of_an_overruled_owner() {
    let mut o = mk_held();
    let mut s = mk_state(Step::Aborting);
    s.attempt.end_reason = Some(Reason::LeaseRenewed("node-7".into()));
    bmh(&mut o).powered_on = Some(false);
    o.power = mk_power(30, PowerState::Off);
    refuse(&mut o, 29);
    assert_eq!(does(&o, &s, 30), Command::RemoveHold);
    o.object.override_owner = Some(UID.into());
    let power_on = does(&o, &s, 30);
    assert!(matches!(power_on, Command::PowerOn { .. }), "{power_on:?}");
}

#[test]
fn f16_detached_or_missing_host_has_no_owner() {
    let (o, s) = mk_unreported();
    let mut detached = o.clone();
    bmh(&mut detached).detached = true;
    assert_eq!(does(&detached, &s, 2), Command::RemoveHold);
    bmh(&mut detached).our_hold = false;
    let mut missing = o;
    missing.bmh = None;
    for mut o in [detached, missing] {
        o.power = mk_power(2, PowerState::Off);
        assert!(matches!(does(&o, &s, 2), Command::PowerOn { .. }));
    }
}

/// F5: a host that was switched off by mistake is switched on at once, but not behind the back of Ironic.
#[test]
fn f16_undone_power_off_is_left_to_an_owner_that_has_the_host_as_off() {
    let mut o = mk_observation();
    let mut s = mk_state(Step::Aborting);
    s.attempt.end_reason = Some(Reason::LeaseRenewed("node-7".into()));
    bmh(&mut o).powered_on = Some(false);
    o.completed.insert(Command::RemoveHold);
    assert_eq!(does(&o, &s, 2), Command::ReadPower);
    o.power = mk_power(30, PowerState::Off);
    assert_eq!(waits(&o, &s, 30).0.label(), "OwnerDoesNotSwitchOn");
    let mut overruled = o.clone();
    overruled.object.override_owner = Some(UID.into());
    assert!(matches!(does(&overruled, &s, 30), Command::PowerOn { .. }));
    o.power = mk_power(31, PowerState::On);
    assert_eq!(does(&o, &s, 31), Command::Release);
    o.completed.insert(Command::Release);
    assert_eq!(writes(&o, &s, 31).0.step, Step::Blocked);
}

#[test]
fn f16_grace_of_the_owner_begins_when_the_last_hold_is_gone() {
    let (mut o, mut s) = mk_released();
    s.attempt.handover.released = None;
    let key = "reboot.metal3.io/firmware";
    bmh(&mut o).foreign_holds.insert(key.into());
    let (s, _) = writes(&o, &s, 100);
    assert_eq!(waits(&o, &s, 100).0.label(), "HeldByOthers");
    bmh(&mut o).foreign_holds.clear();
    let (s, _) = writes(&o, &s, 200);
    assert_eq!(s.attempt.handover.released, Some(at(200)));
    o.power = mk_power(219, PowerState::Off);
    assert_eq!(waits(&o, &s, 219).0.label(), "PowerOnRunning");
    o.power = mk_power(221, PowerState::Off);
    assert_eq!(waits(&o, &s, 221).0.label(), "OwnerDoesNotSwitchOn");
    // Somebody holds the host again: the time begins anew after that.
    bmh(&mut o).foreign_holds.insert(key.into());
    let (s, reason) = writes(&o, &s, 230);
    assert_eq!(reason.label(), "HeldByOthers");
    bmh(&mut o).foreign_holds.clear();
    assert_eq!(
        writes(&o, &s, 300).0.attempt.handover.released,
        Some(at(300))
    );
}

#[test]
fn f16_agent_never_switches_on_what_ironic_may_have_as_off() {
    let (mut o, s) = mk_released();
    for reported in [Some(false), None] {
        bmh(&mut o).powered_on = reported;
        for now in [30, 3000, 300_000] {
            o.power = mk_power(now, PowerState::Off);
            let (reason, _) = waits(&o, &s, now);
            assert_eq!(reason.label(), "OwnerDoesNotSwitchOn");
            assert!(reason.is_blocked());
            // Seldom, because it may take days.
            assert_eq!(does(&o, &s, now + 31), Command::ReadPower);
        }
    }
    // After an operation that failed, too.
    let mut tried = s.clone();
    (tried.tries, tried.failure) = (1, Some("no answer".into()));
    o.power = mk_power(30, PowerState::Off);
    assert_eq!(waits(&o, &tried, 30).0.label(), "OwnerDoesNotSwitchOn");
    // Ironic has switched it on, and the host is off all the same.
    bmh(&mut o).powered_on = Some(true);
    assert!(matches!(does(&o, &s, 30), Command::PowerOn { .. }));
}

#[test]
fn f16_host_that_the_owner_switches_on_late_boots() {
    let (mut o, mut s) = mk_released();
    o.power = mk_power(4000, PowerState::On);
    assert_eq!(does(&o, &s, 4001), Command::Release);
    s.agent_holds = false;
    assert_eq!(writes(&o, &s, 4001).0.step, Step::Booting);
}

#[test]
fn f16_remediation_ends_once_the_owner_reports_on() {
    let mut o = mk_observation();
    node(&mut o).ready = true;
    node(&mut o).boot_id = "boot-2".into();
    o.machine = Some(MachineView::not_asked());
    o.power = mk_power(50, PowerState::On);
    bmh(&mut o).powered_on = Some(false);
    let s = mk_state(Step::Restoring);
    let (waiting, reason) = writes(&o, &s, 60);
    assert_eq!(reason.label(), "OwnerDoesNotReportOn");
    assert!(!reason.is_blocked());
    assert_eq!(does(&o, &waiting, 70), Command::ReadPower);
    o.power = mk_power(70, PowerState::On);
    assert_eq!(waits(&o, &waiting, 70).0.label(), "OwnerDoesNotReportOn");
    let mut reported = o.clone();
    bmh(&mut reported).powered_on = Some(true);
    let d = decide(&reported, Some(&waiting), at(71));
    assert_eq!(d.state.step, Step::Succeeded);
    assert!(d.notes.iter().all(|note| note.reason != "OwnerSilent"));
    // A Node that fails again begins the time anew.
    node(&mut o).ready = false;
    assert_eq!(writes(&o, &waiting, 72).0.attempt.handover.unreported, None);
}

#[test]
fn f16_owner_that_never_reports_on_ends_the_remediation_after_10_minutes_with_an_event() {
    let mut o = mk_observation();
    node(&mut o).ready = true;
    node(&mut o).boot_id = "boot-2".into();
    bmh(&mut o).powered_on = Some(false);
    let mut s = mk_state(Step::Restoring);
    s.attempt.handover.unreported = Some(at(60));
    for deleting in [false, true] {
        o.object.deleting = deleting;
        o.machine = Some(MachineView::not_asked());
        o.power = mk_power(659, PowerState::On);
        assert_eq!(waits(&o, &s, 659).0.label(), "OwnerDoesNotReportOn");
        let d = decide(&o, Some(&s), at(660));
        let silent = d.notes.iter().filter(|note| note.reason == "OwnerSilent");
        assert_eq!(silent.count(), 1, "{d:?}");
        let ended = d.state.step == Step::Succeeded
            || d.next == Next::Do(Command::RemoveFinalizer(RemediationOutcome::Succeeded));
        assert!(ended, "{d:?}");
        // A host that is off by then is not back.
        o.power = mk_power(659, PowerState::Off);
        assert_eq!(writes(&o, &s, 660).0.step, Step::PoweringOn);
    }
}

#[test]
fn f16_nothing_is_sent_while_the_owner_services_or_deprovisions() {
    let cases: [Case<BareMetalHostFacts>; 3] = [
        (|b| b.servicing = true, "HostServicing"),
        (|b| b.provisioned = false, "HostNotProvisioned"),
        (|b| b.deleting = true, "HostDeleting"),
    ];
    for (set, label) in cases {
        for step in [
            Step::PoweringOff,
            Step::AwaitingConfirmation,
            Step::ConfirmingOff,
            Step::Tainting,
            Step::Draining,
            Step::Fenced,
            Step::PoweringOn,
        ] {
            let mut o = mk_held();
            // The owner boots a ramdisk.
            o.power = mk_power(1, PowerState::On);
            bmh(&mut o).powered_on = Some(true);
            set(bmh(&mut o));
            let s = mk_state(step);
            o.operation = Some(OperationView::Running);
            let with_operation = matches!(
                step,
                Step::PoweringOff | Step::AwaitingConfirmation | Step::PoweringOn
            );
            if with_operation {
                let cancel = does(&o, &s, 2);
                assert!(matches!(cancel, Command::Cancel { .. }), "{cancel:?}");
                o.completed.insert(cancel);
            }
            assert_eq!(does(&o, &s, 2), Command::RemoveHold, "{step:?}");
            bmh(&mut o).our_hold = false;
            let (s, reason) = writes(&o, &s, 2);
            assert_eq!((s.step, reason.label()), (step, label));
            assert_eq!(waits(&o, &s, 3).0.label(), label);
            assert_eq!(waits(&o, &s, 90_000).0.label(), label, "without an end");
        }
    }
}

#[test]
fn f16_serviced_host_is_fenced_again_when_it_returns_and_another_machines_host_is_not() {
    let mut o = mk_observation();
    o.power = mk_power(1, PowerState::On);
    let mut s = mk_state(Step::Draining);
    s.attempt.handover.taken = true;
    let (back, _) = writes(&o, &s, 2);
    assert!(!back.attempt.handover.taken);
    let (again, reason) = writes(&o, &back, 2);
    assert_eq!(
        (again.step, reason.label()),
        (Step::PoweringOff, "HoldLost")
    );
    // Meanwhile it was provisioned for another Machine.
    for set in [
        (|o: &mut Observation| o.machine = None) as fn(&mut Observation),
        |o| {
            o.host = HostView::Found(HostRef {
                host: "host-8".into(),
                ..mk_host()
            });
        },
    ] {
        let mut o = o.clone();
        set(&mut o);
        assert_eq!(waits(&o, &s, 2).0.label(), "HostNotProvisioned");
    }
}

#[test]
fn f16_host_taken_before_the_power_off_is_let_go() {
    let mut o = mk_held();
    bmh(&mut o).servicing = true;
    let s = mk_state(Step::Holding);
    assert_eq!(does(&o, &s, 1), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!((s.step, reason.label()), (Step::Pending, "HostServicing"));
}

#[test]
fn f16_taint_of_a_deprovisioned_host_stays_until_its_node_is_gone_or_it_is_read_off() {
    let mut o = mk_observation();
    o.object.deleting = true;
    o.machine = None;
    bmh(&mut o).provisioned = false;
    node(&mut o).taint = Taint::Ours;
    let (s, reason) = writes(&o, &mk_state(Step::Draining), 10);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Aborting, "HostNotProvisioned")
    );
    // A reading from before does not count.
    o.power = mk_power(9, PowerState::Off);
    assert_eq!(does(&o, &s, 11), Command::Release);
    o.completed.insert(Command::Release);
    assert_eq!(does(&o, &s, 11), Command::ReadPower);
    o.power = mk_power(11, PowerState::On);
    assert_eq!(waits(&o, &s, 11).0.label(), "HostNotProvisioned");
    let mut gone = o.clone();
    gone.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    assert_eq!(writes(&gone, &s, 12).0.step, Step::Blocked);
    o.power = mk_power(12, PowerState::Off);
    assert_eq!(does(&o, &s, 12), Command::RemoveTaint);
}

/// Runs with a stopped baremetal-operator, from this time.
fn run_without_owner(from: i64, webhook: bool) -> Run {
    let mut run = Run::new(Plan {
        faults: vec![(from, Fault::Operator(true))],
        webhook,
        ..Plan::calm(true)
    });
    run.go_until(600_000);
    run
}

#[test]
fn f16_absent_owner_holds_the_end_and_undoes_nothing_when_it_returns() {
    let times = [0, 5000, 15_000, 30_000, 60_000];
    for (from, webhook) in times.iter().flat_map(|&from| [(from, false), (from, true)]) {
        let mut run = run_without_owner(from, webhook);
        let reason = run.reason.label();
        // What makes clusterctl wait cannot be removed from the BareMetalHost.
        let is_blocking_move = webhook && reason == "WaitingForHealth";
        let is_back = reason == "OwnerDoesNotReportOn" || is_blocking_move;
        if reason == "Holding" {
            // F2: nothing is begun without the hold.
            assert!(webhook && from == 0, "{from}");
            assert_eq!(run.world.hosts[0].offs, 0);
        } else if run.outcome.is_none() && !is_back {
            assert!(
                ["OwnerDoesNotReportOff", "OwnerDoesNotSwitchOn"].contains(&reason),
                "{from}: {reason}"
            );
            assert_eq!(run.world.hosts[0].power, Power::Off, "{from}");
            let on = |c: &Command| matches!(c, Command::PowerOn { .. });
            assert!(!run.commands.iter().any(on), "{from}");
        }
        run.world.bmo_down = false;
        // One that is not held yet is power-cycled now.
        let before = run.world.hosts[0].offs.max(1);
        run.go_until(900_000);
        assert_eq!(run.outcome, Some(RemediationOutcome::Succeeded), "{from}");
        for _ in 0..300 {
            run.world.tick();
        }
        assert_eq!(run.world.hosts[0].offs, before, "{from}: it stays on");
    }
}

/// The owner never comes back: the host does, by the word of a person, and is left alone.
#[test]
fn f16_person_takes_the_power_of_an_owner_that_is_away_with_its_webhook() {
    for from in [15_000, 30_000, 60_000] {
        let mut run = run_without_owner(from, true);
        if run.outcome.is_some() || run.reason.label() == "OwnerDoesNotReportOn" {
            continue;
        }
        run.world.apply(Fault::Overruled);
        // As the person made sure.
        run.world.stored_on = true;
        run.go_until(900_000);
        assert_eq!(run.world.hosts[0].power, Power::On, "{from}");
        assert_eq!(run.world.cluster.taint, Taint::Absent, "{from}");
        assert_eq!(run.outcome, None, "{from}: our key stays");
        let offs = run.world.hosts[0].offs;
        // Its ValidatingWebhookConfiguration is removed, and then it starts.
        run.world.plan.webhook = false;
        run.go_until(1_200_000);
        assert_eq!(run.outcome, Some(RemediationOutcome::Succeeded), "{from}");
        run.world.bmo_down = false;
        for _ in 0..300 {
            run.world.tick();
        }
        assert_eq!(run.world.hosts[0].offs, offs, "{from}: it stays on");
    }
}
