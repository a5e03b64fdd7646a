//! Updates of firmware: what waits for one, how it goes on, and what a boot does while one runs.

use super::{super::*, build::*};

fn reads(o: &mut Observation, second: i64, status: UpdateStatus) {
    o.updates = Some(UpdateReading {
        at: at(second),
        status,
    });
}

fn running(o: &mut Observation, second: i64, percent: u8) {
    reads(o, second, UpdateStatus::Running(mk_update(percent)));
}

/// An observation whose policies let the updates be read.
fn mk_checked() -> Observation {
    let mut o = mk_observation();
    o.update_rules = UpdateRules::default();
    policy(&mut o).evidence_timeout = secs(0);
    o
}

/// The same, of a host that is held.
fn mk_checked_and_held() -> Observation {
    Observation {
        bmh: mk_held().bmh,
        ..mk_checked()
    }
}

/// Pending, after an update was seen before the hold.
fn mk_waiting(o: &mut Observation) -> State {
    running(o, 0, 10);
    let (s, _) = writes(o, &mk_state(Step::Holding), 0);
    let (s, reason) = writes(o, &s, 1);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Pending, "FirmwareUpdateRunning")
    );
    s
}

/// The next command is a power-off, sent although an update runs or not.
fn sends_off(o: &Observation, s: &State, now: i64, although_updating: bool) {
    let command = does(o, s, now);
    assert!(
        matches!(command, Command::PowerOff { during_update, .. } if during_update == although_updating),
        "{command:?}"
    );
}

/// An operation that an update kept from sending anything.
fn mk_refused_for_update(percent: u8) -> OperationView {
    OperationView::Finished {
        outcome: OperationOutcome::FirmwareUpdate {
            update: mk_update(percent),
            why: "firmware is being updated".into(),
        },
        commands_sent: 0,
    }
}

#[test]
fn updates_are_read_before_the_hold_is_set() {
    let mut o = mk_checked();
    let s = mk_state(Step::Holding);
    assert_eq!(does(&o, &s, 0), Command::ReadUpdates);
    reads(&mut o, 0, UpdateStatus::Idle);
    assert_eq!(does(&o, &s, 1), Command::AddHold);
    assert_eq!(does(&o, &s, 10), Command::ReadUpdates, "too old");
    // What is not known holds nothing up.
    reads(&mut o, 10, UpdateStatus::Unknown("timeout".into()));
    assert_eq!(does(&o, &s, 11), Command::AddHold);
}

#[test]
fn update_that_runs_is_waited_for_without_a_hold_or_a_place() {
    let mut o = mk_checked();
    let s = mk_waiting(&mut o);
    let (reason, until) = waits(&o, &s, 2);
    assert!(reason.is_blocked() && reason.has_no_deadline());
    assert!(
        reason
            .to_string()
            .contains("job JID_1 \"BIOS\", Running, 10 %")
    );
    assert_eq!(until, 30);
    assert!(!decide(&o, Some(&s), at(2)).begins);
    assert_eq!(does(&o, &s, 30), Command::ReadUpdates);
    // It has ended.
    reads(&mut o, 30, UpdateStatus::Idle);
    let (s, _) = writes(&o, &s, 31);
    assert_eq!(s.attempt.update, None);
    let (s, _) = writes(&o, &s, 32);
    assert_eq!(s.step, Step::Holding);
    assert_eq!(does(&o, &s, 33), Command::AddHold);
}

#[test]
fn stalled_update_is_told_and_still_asks_a_person() {
    let mut o = mk_checked();
    let mut s = mk_waiting(&mut o);
    running(&mut o, 600, 20);
    s = writes(&o, &s, 601).0;
    assert_eq!(s.attempt.update.as_ref().unwrap().last_moved, at(600));
    running(&mut o, 600 + 34 * 60, 20);
    let (reason, _) = waits(&o, &s, 601 + 34 * 60);
    let text = reason.to_string();
    assert!(
        text.contains("it has not moved for 34 min, so it counts as stalled"),
        "{text}"
    );
    assert!(text.contains("kubectl rackhand approve"), "{text}");
    // A BMC that does not answer meanwhile shows no movement.
    reads(
        &mut o,
        700 + 34 * 60,
        UpdateStatus::Unknown("timeout".into()),
    );
    assert_eq!(
        waits(&o, &s, 701 + 34 * 60).0.label(),
        "FirmwareUpdateRunning"
    );
    o.approved = true;
    assert_eq!(writes(&o, &s, 702 + 34 * 60).0.step, Step::Holding);
}

#[test]
fn approval_or_policy_reaches_the_agent() {
    let mut o = mk_checked();
    let s = mk_waiting(&mut o);
    let of = |o: &Observation, s: &State| {
        let held = Observation {
            bmh: mk_held().bmh,
            ..o.clone()
        };
        let off = State {
            step: Step::PoweringOff,
            agent_holds: true,
            ..s.clone()
        };
        match does(&held, &off, 2) {
            Command::PowerOff { during_update, .. } => during_update,
            other => panic!("{other:?}"),
        }
    };
    assert!(!of(&o, &s), "nobody has let it through");
    assert!(!of(&o, &mk_state(Step::PoweringOff)), "no update was seen");
    o.approved = true;
    assert!(of(&o, &s));
    o.approved = false;
    o.update_rules.proceed_after = Some(secs(1));
    assert!(of(&o, &s));
}

#[test]
fn host_under_its_taint_is_switched_off_whatever_its_bmc_reports() {
    let o = mk_checked_and_held();
    let mut s = mk_state(Step::PoweringOff);
    s.attempt.taint = Some(TaintOwner::Us);
    let off = does(&o, &s, 0);
    assert!(
        matches!(
            off,
            Command::PowerOff {
                during_update: true,
                ..
            }
        ),
        "{off:?}"
    );
}

#[test]
fn refusal_of_the_agent_takes_back_what_was_begun() {
    let mut o = mk_checked_and_held();
    let mut s = mk_state(Step::PoweringOff);
    s.agent_holds = true;
    let id = operation_id(UID, &s);
    o.operation = Some(mk_refused_for_update(1));
    assert_eq!(does(&o, &s, 5), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    o.operation = None;
    // The key is gone; the outcome is still that of the operation.
    o.operation = Some(mk_refused_for_update(1));
    let (s, reason) = writes(&o, &s, 7);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Pending, "FirmwareUpdateRunning")
    );
    // Its withdrawal ends the hold at the agent; a release would say that the host was handed back.
    assert!(s.agent_holds && s.attempt.update.is_some());
    let again = State {
        step: Step::PoweringOff,
        ..s
    };
    assert_ne!(operation_id(UID, &again), id, "an id is used once");
}

/// A further attempt whose power-off was taken back because of an update.
fn mk_taken_back(step: Step) -> State {
    let mut s = mk_state(step);
    s.record_attempt(Reason::BootTimeout, at(0));
    s.attempt.number = 2;
    s.agent_holds = true;
    s.power_off_repeats = 1;
    s.attempt.update_refusals = 1;
    s
}

#[test]
fn recovery_after_a_power_off_was_taken_back_ends_the_hold_at_the_agent() {
    for (step, holds) in [(Step::Retrying, true), (Step::Retrying, false)] {
        let mut o = mk_checked();
        node(&mut o).ready = true;
        o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
        let mut s = mk_taken_back(step);
        if !holds {
            (
                s.agent_holds,
                s.power_off_repeats,
                s.attempt.update_refusals,
            ) = (false, 0, 0);
        }
        let (s, reason) = writes(&o, &s, 5);
        assert_eq!(reason, Reason::Recovered);
        if !holds {
            assert_eq!(s.step, Step::Succeeded, "there is nothing to take back");
            continue;
        }
        assert_eq!(s.step, Step::Aborting);
        assert_eq!(does(&o, &s, 6), Command::Release);
        o.completed.insert(Command::Release);
        let (s, reason) = writes(&o, &s, 7);
        assert_eq!((s.step, reason), (Step::Succeeded, Reason::Recovered));
        let last = s.attempts.last().unwrap();
        assert_eq!((last.number, last.reason.clone()), (2, Reason::Recovered));
    }
}

#[test]
fn f6_power_off_after_one_that_was_taken_back_is_a_first_one_again() {
    let mut o = mk_checked_and_held();
    let grace = |o: &Observation, s: &State| match does(o, s, 5) {
        Command::PowerOff { command_after, .. } => command_after,
        other => panic!("{other:?}"),
    };
    let mut first = mk_state(Step::PoweringOff);
    first.agent_holds = true;
    let again = mk_taken_back(Step::PoweringOff);
    assert!(grace(&o, &first) > secs(0));
    assert_eq!(
        grace(&o, &again),
        grace(&o, &first),
        "its owner switches it off again"
    );
    let repeated = State {
        power_off_repeats: 2,
        ..again.clone()
    };
    assert_eq!(grace(&o, &repeated), secs(0));

    // Another member of the control plane has failed meanwhile.
    (o.bmh, o.conflict) = (None, Some(Reason::ControlPlaneQuorum("1 of 3".into())));
    let direct = State {
        mode: Mode::Direct,
        ..again
    };
    let (s, reason) = writes(&o, &direct, 5);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Retrying, "ControlPlaneQuorum")
    );
}

#[test]
fn unknown_holds_only_where_a_policy_says_so() {
    let mut o = mk_checked();
    o.update_rules.on_unknown = OnUpdate::Wait;
    reads(&mut o, 0, UpdateStatus::Unknown("tasks: timeout".into()));
    let s = mk_state(Step::Holding);
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Pending, "FirmwareUpdateUnknown")
    );
    o.approved = true;
    assert_eq!(does(&o, &mk_state(Step::Holding), 1), Command::AddHold);
}

#[test]
fn time_for_the_boot_stands_still_while_firmware_is_written() {
    let mut o = mk_checked();
    o.bmh = None;
    let mut s = mk_state(Step::Booting);
    s.attempt.on = Some(at(0));
    let limit = i64::try_from(policy(&mut o).boot_timeout.as_secs()).unwrap();
    o.power = mk_power(limit, PowerState::On);
    assert_eq!(does(&o, &s, limit), Command::ReadUpdates);
    running(&mut o, limit, 10);
    let (s, reason) = writes(&o, &s, limit + 1);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Booting, "BootingThroughUpdate")
    );
    let (reason, until) = waits(&o, &s, limit + 2);
    assert_eq!(
        (reason.label(), until),
        ("BootingThroughUpdate", limit + 30)
    );
    // It has ended: the host boots only now.
    reads(&mut o, limit + 60, UpdateStatus::Idle);
    o.power = mk_power(limit + 60, PowerState::On);
    let (ended, _) = writes(&o, &s, limit + 61);
    assert_eq!(ended.retry_at, Some(at(2 * limit + 61)));
    assert_eq!(waits(&o, &ended, limit + 62).0, Reason::Booting);
    // It hangs: the time is over, and the next attempt asks.
    running(&mut o, limit + 1800, 10);
    o.power = mk_power(limit + 1800, PowerState::On);
    assert_eq!(writes(&o, &s, limit + 1800).1, Reason::BootTimeout);
}

#[test]
fn boot_without_an_update_ends_as_before() {
    let mut o = mk_checked();
    o.bmh = None;
    let mut s = mk_state(Step::Booting);
    s.attempt.on = Some(at(0));
    let limit = i64::try_from(policy(&mut o).boot_timeout.as_secs()).unwrap();
    for status in [
        UpdateStatus::Idle,
        UpdateStatus::Unknown("no answer".into()),
    ] {
        reads(&mut o, limit, status);
        assert_eq!(writes(&o, &s, limit + 1).1, Reason::BootTimeout);
    }
}

#[test]
fn watch_is_stored_and_shown_in_wall_time() {
    let mut o = mk_checked();
    let s = mk_waiting(&mut o);
    let text = serde_json::to_string(&s).unwrap();
    let back: State = serde_json::from_str(&text).unwrap();
    assert_eq!(back, s, "a new leader goes on with the same times");
    let shown = s.on_wall(jiff::SignedDuration::from_secs(100));
    assert_eq!(shown.attempt.update.unwrap().first_seen, at(100));
    // A state of an earlier version has none.
    let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
    old["attempt"].as_object_mut().unwrap().remove("update");
    let old: State = serde_json::from_value(old).unwrap();
    assert_eq!(old.attempt.update, None);
}

#[test]
fn health_check_that_may_end_the_wait_is_named() {
    let mut o = mk_checked();
    o.object.by_node = true;
    o.object.made_by_check = Some(at(0));
    let s = mk_waiting(&mut o);
    let text = waits(&o, &s, 2).0.to_string();
    assert!(text.contains("escalatingRemediations"), "{text}");
}

/// An operation that found an update after it had sent a command.
fn mk_update_after_command(percent: u8) -> OperationView {
    OperationView::Finished {
        outcome: OperationOutcome::UpdateAfterCommand {
            update: mk_update(percent),
            why: "firmware is being updated".into(),
        },
        commands_sent: 1,
    }
}

/// A remediation whose power-off found an update after its first command, and waits.
fn mk_interrupted_off(o: &mut Observation) -> State {
    let mut s = mk_state(Step::PoweringOff);
    s.agent_holds = true;
    o.operation = Some(mk_update_after_command(10));
    let (s, reason) = writes(o, &s, 5);
    assert_eq!(
        (s.step, reason.label()),
        (Step::PoweringOff, "UpdateDuringPowerOff")
    );
    o.operation = None;
    s
}

#[test]
fn update_after_a_command_keeps_the_hold_and_costs_no_try() {
    let mut o = mk_checked_and_held();
    let before = operation_id(UID, &mk_state(Step::PoweringOff));
    let mut s = mk_interrupted_off(&mut o);
    assert!(s.agent_holds && s.failure.is_none());
    assert_eq!((s.tries, s.attempt.update_refusals), (0, 0));
    assert_ne!(operation_id(UID, &s), before, "an id is used once");
    let (reason, until) = waits(&o, &s, 6);
    assert!(reason.is_blocked() && reason.has_no_deadline());
    let text = reason.to_string();
    assert!(text.contains("going down in order"), "{text}");
    assert!(text.contains("job JID_1 \"BIOS\", Running, 10 %"), "{text}");
    assert_eq!(until, 35);
    // It is no power-off that failed, however long the update takes, and no operation is begun for it.
    for round in 1..20 {
        let now = 35 * round;
        assert_eq!(does(&o, &s, now), Command::ReadUpdates, "round {round}");
        running(&mut o, now, 10 + u8::try_from(round).unwrap());
        s = writes(&o, &s, now).0;
        assert_eq!(waits(&o, &s, now).0.label(), "UpdateDuringPowerOff");
        assert_eq!((s.step, s.tries), (Step::PoweringOff, 0), "round {round}");
    }
    // It has ended.
    reads(&mut o, 700, UpdateStatus::Idle);
    s = writes(&o, &s, 700).0;
    assert_eq!(s.attempt.update, None);
    sends_off(&o, &s, 701, false);
}

#[test]
fn refusal_after_a_shutdown_was_asked_for_keeps_the_hold() {
    let mut o = mk_checked_and_held();
    let mut s = mk_state(Step::PoweringOff);
    s.agent_holds = true;
    s.attempt.soft_off = true;
    o.operation = Some(mk_refused_for_update(1));
    let (s, reason) = writes(&o, &s, 5);
    assert_eq!(
        (s.step, reason.label()),
        (Step::PoweringOff, "UpdateDuringPowerOff")
    );
}

#[test]
fn shutdown_that_an_update_refused_was_not_asked_for() {
    let mut o = mk_checked_and_held();
    policy(&mut o).soft_off_timeout = secs(60);
    let mut s = mk_state(Step::ShuttingDown);
    s.agent_holds = true;
    s.attempt.soft_off = true;
    o.operation = Some(mk_refused_for_update(1));
    let (s, _) = writes(&o, &s, 5);
    assert_eq!((s.step, s.attempt.soft_off), (Step::PoweringOff, false));
}

#[test]
fn person_or_policy_ends_the_wait_after_a_command() {
    let mut o = mk_checked_and_held();
    let s = mk_interrupted_off(&mut o);
    o.approved = true;
    sends_off(&o, &s, 35, true);
    o.approved = false;
    o.update_rules.proceed_after = Some(secs(60));
    assert_eq!(does(&o, &s, 35), Command::ReadUpdates);
    sends_off(&o, &s, 65, true);
}

#[test]
fn remediation_withdrawn_while_it_waits_switches_the_host_on_again() {
    let mut o = mk_checked_and_held();
    let s = mk_interrupted_off(&mut o);
    o.object.deleting = true;
    let (s, _) = writes(&o, &s, 6);
    assert_eq!(s.step, Step::PoweringOn);
}

#[test]
fn off_with_unknown_updates_is_said_and_recorded() {
    let mut o = mk_checked_and_held();
    let mut s = mk_state(Step::PoweringOff);
    s.agent_holds = true;
    let why = "tasks: not read in time";
    o.operation = Some(OperationView::Finished {
        outcome: OperationOutcome::Confirmed {
            readings: mk_proof(),
            taken: Some(CommandTaken {
                updates_unknown: Some(why.into()),
                ..mk_taken()
            }),
        },
        commands_sent: 1,
    });
    let d = decide(&o, Some(&s), at(5));
    assert_eq!(d.state.step, Step::ConfirmingOff);
    let warns = |note: &Note| {
        note.warning && note.reason == "FirmwareUpdateUnknown" && note.message.contains(why)
    };
    assert!(d.notes.iter().any(warns), "{:?}", d.notes);
    let stored = serde_json::to_string(&d.state).unwrap();
    assert!(stored.contains(why), "{stored}");
}
