//! F1 to F4: off is confirmed, and lasts until the node is drained.

use super::{super::*, build::*};

#[test]
fn failed_node_passes_through_all_steps_in_order() {
    let mut o = mk_observation();
    o.object.finalizer = false;
    o.object.finalizer_is_shared = true;
    let (s, _) = {
        let d = decide(&o, None, at(0));
        assert_eq!(d.next, Next::Write);
        (d.state, d.reason)
    };
    let (s, _) = writes(&o, &s, 0);
    assert!(s.finalizer, "recorded before it is added (F9)");
    assert_eq!((s.step, s.mode), (Step::Holding, Mode::Cooperative));
    assert_eq!(does(&o, &s, 0), Command::AddFinalizer);
    o.object.finalizer = true;
    assert_eq!(does(&o, &s, 0), Command::AddHold);
    bmh(&mut o).our_hold = true;
    let (s, _) = writes(&o, &s, 0);
    assert_eq!(s.step, Step::PoweringOff);
    let off = Command::PowerOff {
        id: format!("{UID}/1@1800000000/off/0.0"),
        device: PowerDevice::Bmc,
        command_after: secs(20),
        system_uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
        serial: "SN7".into(),
        during_update: true,
    };
    assert_eq!(does(&o, &s, 0), off);
    o.operation = Some(OperationView::Running);
    assert_eq!(waits(&o, &s, 1), (Reason::PowerOffRunning, 16));
    o.operation = confirmed();
    let (s, _) = writes(&o, &s, 25);
    assert_eq!(s.step, Step::ConfirmingOff);
    o.operation = None;
    let (s, _) = writes(&o, &s, 25);
    assert_eq!(s.attempt.lease_at_off.as_deref(), Some("09:00:00"));
    assert_eq!(does(&o, &s, 25), Command::ReadPower);
    o.power = mk_power(25, PowerState::Off);
    let (s, _) = writes(&o, &s, 26);
    assert_eq!((s.step, s.attempt.taint), (Step::Tainting, None));
    let (s, _) = writes(&o, &s, 26);
    assert_eq!(s.attempt.taint, Some(TaintOwner::Us));
    assert_eq!(s.step, Step::Draining);
    assert_eq!(does(&o, &s, 26), Command::AddTaint);
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain {
        pods: vec![mk_pod("db-0")],
        volumes: vec![],
    });
    let reason = Reason::Draining("1 pod (shop/db-0)".into());
    assert_eq!(waits(&o, &s, 27), (reason, 28));
    o.drain = Some(Drain::default());
    // The last reading before the power-on is at most two seconds old.
    assert_eq!(does(&o, &s, 28), Command::ReadPower);
    o.power = mk_power(28, PowerState::Off);
    let (s, _) = writes(&o, &s, 29);
    assert_eq!(s.step, Step::PoweringOn);
    assert_eq!(does(&o, &s, 29), Command::RenewHold);
    bmh(&mut o).powered_on = Some(false);
    let (s, _) = writes(&o, &s, 29);
    assert_eq!(s.attempt.handover.released, Some(at(29)));
    assert_eq!(does(&o, &s, 29), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    assert_eq!(does(&o, &s, 29), Command::ReadPower);
    bmh(&mut o).powered_on = Some(true);
    o.power = mk_power(29, PowerState::On);
    assert_eq!(does(&o, &s, 29), Command::Release);
    o.completed.insert(Command::Release);
    let (s, _) = writes(&o, &s, 29);
    assert_eq!((s.step, s.attempt.on), (Step::Booting, Some(at(29))));
    assert_eq!(waits(&o, &s, 30), (Reason::Booting, 44));
    o.power = mk_power(80, PowerState::On);
    node(&mut o).boot_id = "boot-2".into();
    assert_eq!(does(&o, &s, 90), Command::RemoveTaint);
    node(&mut o).taint = Taint::Absent;
    let (s, _) = writes(&o, &s, 90);
    assert_eq!(s.step, Step::Restoring);
    node(&mut o).ready = true;
    assert_eq!(waits(&o, &s, 91).0, Reason::WaitingForHealth);
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    let (s, reason) = writes(&o, &s, 92);
    assert_eq!((s.step, reason), (Step::Succeeded, Reason::Recovered));
    assert_eq!(s.attempts.len(), 1);
    assert_eq!(
        does(&o, &s, 92),
        Command::RemoveFinalizer(RemediationOutcome::Succeeded)
    );
    o.object.finalizer = false;
    assert_eq!(
        decide(&o, Some(&s), at(92)).next,
        Next::Done(RemediationOutcome::Succeeded)
    );
}

#[test]
fn f1_power_is_read_again_immediately_before_the_taint() {
    let mut o = mk_held();
    let mut s = mk_state(Step::Tainting);
    s.attempt.taint = Some(TaintOwner::Us);
    // The evidence may have waited at the agent for hours.
    assert_eq!(does(&o, &s, 1), Command::ReadPower);
    o.power = mk_power(-1, PowerState::Off);
    assert_eq!(does(&o, &s, 1), Command::ReadPower);
    o.power = mk_power(1, PowerState::Off);
    assert_eq!(does(&o, &s, 2), Command::AddTaint);
    assert_eq!(does(&o, &s, 7), Command::ReadPower);
}

#[test]
fn f1_taint_requires_exactly_off() {
    for state in [
        PowerState::On,
        PowerState::PoweringOn,
        PowerState::PoweringOff,
        PowerState::Unknown,
    ] {
        let mut o = mk_held();
        o.power = mk_power(1, state);
        let (s, reason) = writes(&o, &mk_state(Step::Tainting), 2);
        assert_eq!(
            (s.step, s.attempt.off.clone(), s.power_off_repeats),
            (Step::PoweringOff, None, 1)
        );
        assert_eq!(reason, Reason::FenceViolated(format!("\"{state:?}\"")));
    }
    let mut o = mk_held();
    o.power = mk_no_power(1);
    let (reason, _) = waits(&o, &mk_state(Step::Tainting), 2);
    assert_eq!(
        reason,
        Reason::PowerUnreadable("the BMC did not answer in 5s".into())
    );
}

#[test]
fn f1_reading_of_a_bmc_slower_than_the_hold_watch_counts() {
    let mut o = mk_held();
    let mut s = mk_state(Step::Tainting);
    s.attempt.taint = Some(TaintOwner::Us);
    o.power = mk_power(1, PowerState::Off);
    o.power.as_mut().unwrap().answered = at(9);
    assert_eq!(does(&o, &s, 9), Command::AddTaint);
    assert_eq!(does(&o, &s, 30), Command::ReadPower);
}

#[test]
fn f1_lost_hold_invalidates_the_evidence() {
    for step in [Step::ConfirmingOff, Step::Tainting, Step::Draining] {
        let mut o = mk_observation();
        o.power = mk_power(1, PowerState::Off);
        let (s, reason) = writes(&o, &mk_state(step), 2);
        assert_eq!(
            (s.step, s.attempt.off.clone(), s.power_off_repeats),
            (Step::PoweringOff, None, 1)
        );
        assert_eq!(reason, Reason::HoldLost("metal/host-7".into()));
        assert_eq!(does(&o, &s, 2), Command::AddHold);
    }
}

#[test]
fn f9_power_off_with_a_lost_hold_is_cancelled_before_the_next() {
    let mut o = mk_observation();
    o.operation = Some(OperationView::Running);
    let s = mk_state(Step::PoweringOff);
    let cancel = Command::Cancel {
        id: operation_id(UID, &s).unwrap(),
    };
    assert_eq!(does(&o, &s, 2), cancel);
    o.completed.insert(cancel);
    assert_eq!(waits(&o, &s, 2).0.label(), "HoldLost");
    o.operation = finished(OperationOutcome::Cancelled);
    assert_eq!(writes(&o, &s, 2).0.power_off_repeats, 1);
}

#[test]
fn f1_outcome_of_an_operation_without_our_hold_does_not_count() {
    let mut o = mk_observation();
    o.operation = confirmed();
    let s = mk_state(Step::PoweringOff);
    let (next, _) = writes(&o, &s, 2);
    assert_ne!(operation_id(UID, &next), operation_id(UID, &s));
    o.operation = None;
    assert_eq!(does(&o, &next, 2), Command::AddHold);
}

#[test]
fn f2_hold_and_step_are_durable_before_the_power_off() {
    let o = mk_observation();
    assert_eq!(does(&o, &mk_state(Step::Holding), 0), Command::AddHold);
    assert_eq!(does(&o, &mk_state(Step::PoweringOff), 0), Command::AddHold);
    let (s, _) = writes(&mk_held(), &mk_state(Step::Holding), 0);
    assert!(s.step == Step::PoweringOff && s.agent_holds);
}

#[test]
fn f3_tainted_host_seen_on_is_switched_off_again_and_stays_tainted() {
    for step in [Step::ConfirmingOff, Step::Tainting, Step::Draining] {
        let mut o = mk_held();
        node(&mut o).taint = Taint::Ours;
        node(&mut o).lease.as_mut().unwrap().unchanged_since = at(0);
        node(&mut o).ready_unknown = false;
        o.drain = Some(Drain::default());
        o.power = mk_power(3, PowerState::On);
        let mut s = mk_state(step);
        s.attempt.taint = Some(TaintOwner::Us);
        let (s, reason) = writes(&o, &s, 4);
        assert_eq!(
            (s.step, s.attempt.drained, s.attempt.taint),
            (Step::PoweringOff, None, Some(TaintOwner::Us))
        );
        assert_eq!(reason, Reason::FenceViolated("\"On\"".into()));
        // At once, because the grace of baremetal-operator has been used.
        match does(&o, &s, 4) {
            Command::PowerOff {
                id, command_after, ..
            } => {
                assert!(id.ends_with("/off/1.0") && command_after.is_zero());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn f3_power_is_read_periodically_while_draining() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain {
        pods: vec![mk_pod("db-0")],
        volumes: vec![],
    });
    let s = mk_state(Step::Draining);
    assert_eq!(does(&o, &s, 1), Command::ReadPower);
    o.power = mk_power(1, PowerState::Off);
    o.completed.insert(Command::ReadPower);
    assert_eq!(waits(&o, &s, 2).1, 3);
    assert_eq!(does(&o, &s, 6), Command::ReadPower);
}

#[test]
fn f4_no_power_on_while_a_pod_or_volume_is_left() {
    for left in [
        Drain {
            pods: vec![mk_pod("db-0")],
            volumes: vec![],
        },
        Drain {
            pods: vec![],
            volumes: vec!["csi-1".into()],
        },
    ] {
        let mut o = mk_held();
        node(&mut o).taint = Taint::Ours;
        o.power = mk_power(9_999, PowerState::Off);
        o.drain = Some(left);
        let (reason, until) = waits(&o, &mk_state(Step::Draining), 10_000);
        assert_eq!(reason.label(), "DrainBlocked");
        assert_eq!(until, 10_001);
    }
}

#[test]
fn f4_drain_that_could_not_be_listed_is_not_finished() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(9, PowerState::Off);
    assert_eq!(
        waits(&o, &mk_state(Step::Draining), 10).0.label(),
        "Draining"
    );
}

#[test]
fn f4_empty_drain_counts_only_while_the_bmc_reports_off() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    assert_eq!(does(&o, &mk_state(Step::Draining), 10), Command::ReadPower);
    o.power = mk_no_power(10);
    assert_eq!(
        waits(&o, &mk_state(Step::Draining), 11).0.label(),
        "PowerUnreadable"
    );
    o.power = mk_power(10, PowerState::Off);
    let d = decide(&o, Some(&mk_state(Step::Draining)), at(11));
    assert_eq!(
        (d.state.step, d.notes[0].reason),
        (Step::PoweringOn, "Drained")
    );
}

#[test]
fn f4_policy_may_end_a_blocked_drain_with_a_warning() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    policy(&mut o).drain_blocked = DrainPolicy::PowerOn;
    o.drain = Some(Drain {
        pods: vec![mk_pod("db-0")],
        volumes: vec![],
    });
    o.power = mk_power(599, PowerState::Off);
    assert_eq!(
        waits(&o, &mk_state(Step::Draining), 599).0.label(),
        "Draining"
    );
    let d = decide(&o, Some(&mk_state(Step::Draining)), at(600));
    assert_eq!(d.state.step, Step::PoweringOn);
    assert!(d.notes[0].warning && d.notes[0].reason == "DrainSkipped");
    assert!(
        d.notes[0].message.contains("1 pod (shop/db-0)"),
        "{:?}",
        d.notes
    );
}

#[test]
fn f4_pods_of_a_deleted_node_are_drained() {
    for step in [Step::ConfirmingOff, Step::Tainting, Step::Draining] {
        let mut o = mk_held();
        o.workload = WorkloadView::Missing {
            name: "node-7".into(),
        };
        o.power = mk_power(1, PowerState::Off);
        let mut s = mk_state(step);
        if step != Step::Draining {
            (s, _) = writes(&o, &s, 1);
            assert_eq!(s.step, Step::Draining);
        }
        o.drain = Some(Drain {
            pods: vec![mk_pod("db-0")],
            volumes: vec![],
        });
        assert_eq!(waits(&o, &s, 2).0.label(), "Draining");
        o.drain = Some(Drain::default());
        assert_eq!(writes(&o, &s, 2).0.step, Step::PoweringOn);
    }
}

#[test]
fn f4_drain_message_names_at_most_five_objects_of_a_kind() {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(1, PowerState::Off);
    let pods = (0..7).map(|i| mk_pod(&format!("db-{i}"))).collect();
    o.drain = Some(Drain {
        pods,
        volumes: vec!["csi-1".into()],
    });
    assert_eq!(
        waits(&o, &mk_state(Step::Draining), 2).0.to_string(),
        "waiting until these are deleted: 7 pods (shop/db-0, shop/db-1, shop/db-2, shop/db-3, shop/db-4 and 2 more) \
         and 1 volume (csi-1)"
    );
}
