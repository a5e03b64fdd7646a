//! F5 and F6: the identity of the host, and concurrent remediations.

use super::{super::*, build::*};

/// Confirmed off, and the Lease of the node was nevertheless renewed at second 5.
fn mk_other_host() -> Observation {
    let mut o = mk_held();
    let lease = node(&mut o).lease.as_mut().unwrap();
    lease.renewed = "09:00:10".into();
    lease.unchanged_since = at(5);
    o
}

#[test]
fn f5_lease_renewal_after_confirmed_off_undoes_the_remediation() {
    for step in [Step::ConfirmingOff, Step::Tainting, Step::Draining] {
        let mut o = mk_other_host();
        let mut s = mk_state(step);
        if step == Step::Draining {
            node(&mut o).taint = Taint::Ours;
        }
        assert_eq!(
            does(&o, &s, 6),
            Command::ReadPower,
            "the BMC is read first: {step:?}"
        );
        o.power = mk_power(6, PowerState::Off);
        (s, _) = writes(&o, &s, 6);
        assert_eq!(s.step, Step::Aborting);
        if step == Step::Draining {
            assert_eq!(does(&o, &s, 6), Command::RemoveTaint);
            node(&mut o).taint = Taint::Absent;
        }
        assert_eq!(does(&o, &s, 6), Command::RemoveHold);
        bmh(&mut o).our_hold = false;
        bmh(&mut o).powered_on = Some(true);
        assert_eq!(
            does(&o, &s, 6),
            Command::PowerOn {
                id: format!("{UID}/1@1800000000/undo/0.0"),
                device: PowerDevice::Bmc,
            }
        );
        o.operation = finished(OperationOutcome::Confirmed {
            readings: vec![],
            taken: None,
        });
        (s, _) = writes(&o, &s, 7);
        assert_eq!(
            (s.step, s.attempt.end_reason.clone()),
            (Step::Blocked, Some(Reason::LeaseRenewed("node-7".into())))
        );
        assert_eq!(
            does(&o, &s, 7),
            Command::RemoveFinalizer(RemediationOutcome::Failed)
        );
        o.object.finalizer = false;
        assert_eq!(
            decide(&o, Some(&s), at(7)).next,
            Next::Done(RemediationOutcome::Failed)
        );
    }
}

#[test]
fn f5_lease_renewal_of_a_host_that_is_on_is_a_fence_violation() {
    let mut o = mk_other_host();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(6, PowerState::On);
    let (s, reason) = writes(&o, &mk_state(Step::Draining), 7);
    assert_eq!(
        (s.step, reason.label()),
        (Step::PoweringOff, "FenceViolated")
    );
}

#[test]
fn f5_deleted_lease_is_not_a_renewal() {
    let mut o = mk_held();
    node(&mut o).lease = None;
    o.power = mk_power(1, PowerState::Off);
    assert_eq!(
        writes(&o, &mk_state(Step::ConfirmingOff), 2).0.step,
        Step::Tainting
    );
}

#[test]
fn f5_lease_is_checked_immediately_before_power_on() {
    let mut o = mk_other_host();
    o.bmh = None;
    o.power = mk_power(6, PowerState::Off);
    let s = mk_direct_state(Step::PoweringOn);
    assert_eq!(writes(&o, &s, 7).0.step, Step::Aborting);
    // A host that came on after the drain is in the desired state.
    o.power = mk_power(6, PowerState::On);
    assert!(matches!(does(&o, &s, 7), Command::PowerOn { .. }));
}

/// baremetal-operator switched on late in its grace: readings from before that do not apply to the
/// kubelet that reports since.
#[test]
fn f5_only_an_off_reading_after_the_renewal_shows_another_host() {
    let mut o = mk_other_host();
    bmh(&mut o).our_hold = false;
    bmh(&mut o).powered_on = Some(true);
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(20);
    let s = mk_state(Step::PoweringOn);
    for asked in [16, 19] {
        o.power = mk_power(asked, PowerState::Off);
        assert_eq!(does(&o, &s, 20), Command::ReadPower);
    }
    // The host came on meanwhile: the remediation continues.
    o.power = mk_power(20, PowerState::On);
    o.completed.insert(Command::Release);
    assert_eq!(writes(&o, &s, 21).0.step, Step::Booting);
    // The host is still off: the kubelet runs on another host.
    o.power = mk_power(20, PowerState::Off);
    assert_eq!(writes(&o, &s, 21).1.label(), "LeaseRenewed");
    // A reading that is neither on nor off does not show that.
    for state in [PowerState::PoweringOff, PowerState::Unknown] {
        o.power = mk_power(20, state);
        assert!(matches!(does(&o, &s, 21), Command::PowerOn { .. }));
    }
    // A Lease that is renewed faster than the BMC answers was renewed when the BMC was queried.
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(22);
    o.power = mk_power(21, PowerState::Off);
    assert_eq!(does(&o, &s, 22), Command::ReadPower);
    o.power.as_mut().unwrap().lease = Some("09:00:00".into());
    assert_eq!(does(&o, &s, 22), Command::ReadPower);
    o.power.as_mut().unwrap().lease = Some("09:00:09".into());
    assert_eq!(writes(&o, &s, 22).1.label(), "LeaseRenewed");
}

#[test]
fn f5_reading_from_before_the_renewal_is_repeated() {
    for step in [Step::ConfirmingOff, Step::Tainting, Step::Draining] {
        let mut o = mk_other_host();
        node(&mut o).taint = Taint::Ours;
        o.power = mk_power(3, PowerState::Off);
        o.completed.insert(Command::ReadPower);
        let mut s = mk_state(step);
        s.attempt.taint = Some(TaintOwner::Us);
        assert_eq!(does(&o, &s, 6), Command::ReadPower, "{step:?}");
        o.power = mk_power(6, PowerState::On);
        assert_eq!(writes(&o, &s, 7).1.label(), "FenceViolated", "{step:?}");
    }
}

#[test]
fn f5_recently_renewed_lease_must_be_quiet_before_the_taint() {
    let mut o = mk_held();
    node(&mut o).ready_unknown = false;
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(0);
    o.power = mk_power(4, PowerState::Off);
    let s = mk_state(Step::ConfirmingOff);
    assert_eq!(waits(&o, &s, 5), (Reason::WaitingForQuietLease, 6));
    o.power = mk_power(11, PowerState::Off);
    assert_eq!(waits(&o, &s, 11), (Reason::WaitingForQuietLease, 12));
    assert_eq!(writes(&o, &s, 12).0.step, Step::Tainting);
}

#[test]
fn f5_power_off_carries_the_identity_of_node_and_host() {
    match does(&mk_held(), &mk_state(Step::PoweringOff), 0) {
        Command::PowerOff {
            system_uuid,
            serial,
            ..
        } => {
            assert_eq!(
                (system_uuid.as_str(), serial.as_str()),
                ("4c4c4544-0042-3510-8054-c2c04f4e4e32", "SN7")
            );
        }
        other => panic!("{other:?}"),
    }
    let mut o = mk_held();
    o.operation = finished(OperationOutcome::IdentityMismatch {
        why: "serial SN8, not SN7".into(),
    });
    let (s, reason) = writes(&o, &mk_state(Step::PoweringOff), 3);
    assert_eq!(s.step, Step::Aborting);
    assert_eq!(
        reason,
        Reason::IdentityMismatch("serial SN8, not SN7".into())
    );
}

#[test]
fn f5_refused_entry_is_tried_again_once_it_is_corrected() {
    let why = Reason::IdentityMismatch("system UUID X, expected Y".into());
    let entry = |uuid: &str| Some(format!("system UUID {uuid}"));
    let mut o = mk_held();
    o.host_identity = entry("Y");
    o.operation = finished(OperationOutcome::IdentityMismatch {
        why: "system UUID X, expected Y".into(),
    });
    let mut powering_off = mk_state(Step::PoweringOff);
    powering_off.agent_holds = true;
    let (s, reason) = writes(&o, &powering_off, 3);
    assert_eq!((s.step, &reason), (Step::Aborting, &why));
    // What was added is removed, and the host is free for others.
    assert_eq!(does(&o, &s, 3), Command::RemoveHold);
    bmh(&mut o).our_hold = false;
    assert_eq!(does(&o, &s, 3), Command::Release);
    o.completed.insert(Command::Release);
    o.operation = None;
    // Within the second in which the attempt began.
    let (s, reason) = writes(&o, &s, 0);
    assert_eq!((s.step, &reason), (Step::Pending, &why));
    assert_eq!(
        s.attempt.number, powering_off.attempt.number,
        "no attempt is used up"
    );
    assert_ne!(
        operation_id(UID, &powering_off),
        operation_id(
            UID,
            &State {
                step: Step::PoweringOff,
                ..s.clone()
            }
        ),
        "the agent must not answer with the old operation"
    );
    o.completed.clear();
    // The same entry is not tried again, whatever the time, and not as long as it is not known.
    for identity in [entry("Y"), None] {
        o.host_identity = identity;
        assert_eq!(waits(&o, &s, 10_000).0, why);
    }
    // A corrected UUID, and a corrected address.
    let mut corrected = o.clone();
    corrected.host_identity = entry("X");
    assert_eq!(writes(&corrected, &s, 20).0.step, Step::Holding);
    let mut moved = o.clone();
    moved.host_identity = entry("Y");
    let HostView::Found(host) = &mut moved.host else {
        panic!("{:?}", moved.host)
    };
    host.bmc = "10.0.0.8".into();
    let (begun, _) = writes(&moved, &s, 20);
    assert_eq!((begun.step, begun.refused_entry), (Step::Holding, None));
    // Nor does a leader that reads the agent's journal take the state for an old one.
    let entry = |id: Option<String>, is_release: bool| JournalEntry {
        id: id.unwrap_or_default(),
        host: "sn-7".into(),
        is_off: !is_release,
        is_release,
        progress: EntryProgress::Ended,
    };
    let refused = entry(operation_id(UID, &powering_off), false);
    assert!(!is_outdated(UID, Some(&s), &[entry(None, true), refused]));
    // A state of an earlier version has no such field.
    let mut old = serde_json::to_value(&s).unwrap();
    old.as_object_mut().unwrap().remove("refusedEntry");
    let old: State = serde_json::from_value(old).unwrap();
    assert_eq!(old.refused_entry, None);
    // A withdrawn remediation ends.
    o.object.deleting = true;
    assert_eq!(
        does(&o, &s, 20),
        Command::RemoveFinalizer(RemediationOutcome::Withdrawn)
    );
}

#[test]
fn f6_conflicting_remediation_prevents_any_change() {
    let mut o = mk_observation();
    let other = Reason::OtherRemediation("Metal3Remediation default/m1".into());
    o.conflict = Some(other.clone());
    o.object.finalizer = false;
    for step in [Step::Pending, Step::Retrying] {
        let (reason, until) = waits(&o, &mk_state(step), 3);
        assert_eq!(reason, other);
        // The end of another remediation does not wake this one.
        assert_eq!(until, 18);
    }
}

#[test]
fn boot_before_the_power_off_does_not_count_as_boot_after_it() {
    let mut o = mk_held();
    node(&mut o).boot_id = "boot-2".into();
    let mut s = mk_state(Step::ConfirmingOff);
    s.attempt.lease_at_off = None;
    let (s, _) = writes(&o, &s, 1);
    assert_eq!(s.attempt.node.unwrap().boot_id, "boot-2");
}
