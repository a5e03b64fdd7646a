//! F5: the evidence covers only the Node that ran on the host, not any Node of its name.

use super::{super::*, build::*};

const OURS: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
const OTHER: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";

fn after_off() -> [Step; 3] {
    [Step::Tainting, Step::Draining, Step::Fenced]
}

/// Off and held, and the Node was deleted and registered anew, Ready, by the machine with that UUID.
fn mk_replaced(step: Step, system_uuid: &str) -> (Observation, State) {
    let mut o = mk_held();
    o.power = mk_power(9, PowerState::Off);
    o.drain = Some(Drain::default());
    let n = node(&mut o);
    n.uid = "n8".into();
    n.system_uuid = system_uuid.into();
    (n.ready, n.ready_unknown) = (true, false);
    let lease = n.lease.as_mut().unwrap();
    lease.renewed = "09:00:09".into();
    lease.unchanged_since = at(9);
    let mut s = mk_state(step);
    s.attempt.node.as_mut().unwrap().system_uuid = OURS.into();
    (o, s)
}

#[test]
fn f5_node_of_another_machine_is_neither_tainted_nor_undone() {
    for step in after_off().into_iter().chain([Step::ConfirmingOff]) {
        let (mut o, s) = mk_replaced(step, OTHER);
        let (reason, _) = waits(&o, &s, 10);
        assert_eq!(reason.label(), "NodeMismatch", "{step:?}");
        assert!(reason.is_blocked() && reason.to_string().contains("Remove that Node"));
        // Renewals of the Lease change nothing.
        node(&mut o).lease.as_mut().unwrap().renewed = "09:00:10".into();
        assert_eq!(waits(&o, &s, 11).0.label(), "NodeMismatch", "{step:?}");
        // F3 still applies.
        o.power = mk_power(11, PowerState::On);
        assert_eq!(writes(&o, &s, 11).1.label(), "FenceViolated", "{step:?}");
    }
}

#[test]
fn mismatched_node_causes_a_power_reading_every_30_s() {
    for step in after_off().into_iter().chain([Step::ConfirmingOff]) {
        let (mut o, s) = mk_replaced(step, OTHER);
        assert_eq!(waits(&o, &s, 10).1, 39, "{step:?}");
        assert_eq!(waits(&o, &s, 38).1, 39, "{step:?}");
        assert_eq!(does(&o, &s, 39), Command::ReadPower, "{step:?}");
        // A BMC that cannot be read is tried at the same interval.
        o.agent = AgentView::Unreachable { why: "dark".into() };
        assert_eq!(waits(&o, &s, 39).1, 69, "{step:?}");
    }
}

#[test]
fn f1_replaced_node_needs_a_quiet_lease_before_the_taint() {
    for step in after_off() {
        for uuid in [OURS, ""] {
            let (mut o, s) = mk_replaced(step, uuid);
            let (s, reason) = writes(&o, &s, 10);
            assert_eq!(
                (
                    s.step,
                    reason.label(),
                    s.attempt.lease_at_off.clone(),
                    s.attempt.drained
                ),
                (Step::ConfirmingOff, "NodeReplaced", None, None),
                "{step:?}"
            );
            let (s, _) = writes(&o, &s, 10);
            let mark = s.attempt.node.as_ref().unwrap();
            assert_eq!((mark.uid.as_str(), mark.unproven), ("n8", uuid.is_empty()));
            assert_eq!(waits(&o, &s, 10).0.label(), "WaitingForQuietLease");
            // The Lease has been quiet for a quarter of its duration and the slack.
            o.power = mk_power(21, PowerState::Off);
            assert_eq!(writes(&o, &s, 21).0.step, Step::Tainting);
        }
    }
}

#[test]
fn f5_live_replaced_node_undoes_the_power_off_only_on_the_same_machine() {
    for (uuid, label) in [(OURS, "LeaseRenewed"), ("", "NodeMismatch")] {
        let (mut o, s) = mk_replaced(Step::Draining, uuid);
        let (s, _) = writes(&o, &s, 10);
        let (s, _) = writes(&o, &s, 10);
        let lease = node(&mut o).lease.as_mut().unwrap();
        lease.renewed = "09:00:19".into();
        lease.unchanged_since = at(19);
        o.power = mk_power(20, PowerState::Off);
        let d = decide(&o, Some(&s), at(20));
        assert_eq!(d.reason.label(), label);
        assert_eq!(d.state.step == Step::Aborting, uuid == OURS);
        // Nor is it undone before the power-on, which comes next after the drain.
        let mut s = s;
        (s.step, s.mode, o.bmh) = (Step::PoweringOn, Mode::Direct, None);
        let aborts = decide(&o, Some(&s), at(20)).state.step == Step::Aborting;
        assert_eq!(aborts, uuid == OURS);
    }
}

/// The workload API was unreachable when the power-off began, so that no identity was sent to the agent.
#[test]
fn f5_bmc_identity_is_compared_once_the_node_is_known() {
    let proof = |identity: &str| {
        let mut readings = mk_proof();
        readings[1].identity = identity.into();
        Some(OffEvidence::Bmc {
            at: at(0),
            readings,
            taken: mk_taken(),
        })
    };
    for (identity, uuid, serial, tainted) in [
        (OTHER, OURS, None, false),
        (OURS, OURS, None, true),
        ("", OURS, None, true),
        (OTHER, "", None, true),
        ("SN8", OURS, Some("SN7"), false),
        ("sn7", OURS, Some("SN7"), true),
        (OURS, OURS, Some("SN8"), true),
    ] {
        let mut o = mk_held();
        bmh(&mut o).serial = serial.map(str::to_owned);
        node(&mut o).system_uuid = uuid.into();
        o.power = mk_power(1, PowerState::Off);
        let mut s = mk_state(Step::ConfirmingOff);
        (s.attempt.node, s.attempt.lease_at_off, s.attempt.off) = (None, None, proof(identity));
        let mut d = decide(&o, Some(&s), at(2));
        for _ in 0..2 {
            if d.next == Next::Write {
                s = d.state;
                d = decide(&o, Some(&s), at(2));
            }
        }
        let label = d.reason.label();
        assert_eq!(
            s.step == Step::Tainting,
            tainted,
            "{identity} {uuid}: {label}"
        );
        assert_eq!(
            label == "NodeMismatch",
            !tainted,
            "{identity} {uuid}: {label}"
        );
    }
}

#[test]
fn f5_bmc_identity_of_a_later_reading_is_compared() {
    for step in [Step::Tainting, Step::Draining] {
        let mut o = mk_held();
        node(&mut o).system_uuid = OURS.into();
        o.power = mk_power(1, PowerState::Off);
        o.power.as_mut().unwrap().result.as_mut().unwrap().identity = OTHER.into();
        let d = decide(&o, Some(&mk_state(step)), at(2));
        assert_eq!(d.reason.label(), "NodeMismatch", "{step:?}");
        // With the taint, pods may be gone from the API already.
        assert_eq!(d.state.step == Step::Aborting, step == Step::Tainting);
    }
}

/// Confirmed off at second 0 by a BMC of this identity; the workload API was unreachable before that.
fn mk_first_seen(step: Step, identity: &str) -> (Observation, State) {
    let mut o = mk_held();
    node(&mut o).system_uuid = OURS.into();
    o.power = mk_power(1, PowerState::Off);
    let mut readings = mk_proof();
    for reading in &mut readings {
        reading.identity = identity.into();
    }
    let mut s = mk_state(step);
    (s.attempt.node, s.attempt.lease_at_off, s.attempt.taint) = (None, None, None);
    s.attempt.off = Some(OffEvidence::Bmc {
        at: at(0),
        readings,
        taken: mk_taken(),
    });
    (o, s)
}

#[test]
fn f5_mismatch_with_a_node_from_before_the_off_undoes_the_power_off_at_once() {
    for step in after_off().into_iter().chain([Step::ConfirmingOff]) {
        for mode in [Mode::Cooperative, Mode::Direct] {
            let (mut o, mut s) = mk_first_seen(step, OTHER);
            s.mode = mode;
            if mode == Mode::Direct {
                o.bmh = None;
            }
            let (mut s, reason) = writes(&o, &s, 2);
            assert_eq!((s.step, reason.label()), (Step::Aborting, "NodeMismatch"));
            let text = reason.to_string();
            assert!(
                text.contains("is switched on again") && text.contains(OTHER),
                "{text}"
            );
            if mode == Mode::Cooperative {
                assert_eq!(does(&o, &s, 2), Command::RemoveHold, "{step:?}");
                bmh(&mut o).our_hold = false;
                bmh(&mut o).powered_on = Some(true);
            }
            let on = Command::PowerOn {
                id: format!("{UID}/1@1800000000/undo/0.0"),
                device: PowerDevice::Bmc,
            };
            assert_eq!(does(&o, &s, 2), on, "{step:?}");
            o.operation = finished(OperationOutcome::Confirmed {
                readings: vec![],
                taken: None,
            });
            (s, _) = writes(&o, &s, 3);
            assert_eq!(
                (s.step, s.attempt.end_reason.clone()),
                (Step::Blocked, Some(reason))
            );
        }
    }
}

/// The Node is out of reach, or the Machine has none, and the BareMetalHost shows another serial number by now.
#[test]
fn f5_mismatch_with_the_bare_metal_host_is_undone_without_a_node() {
    for workload in [
        WorkloadView::Unreachable { why: "down".into() },
        WorkloadView::NotJoined,
        WorkloadView::Missing { name: "n".into() },
    ] {
        let (mut o, s) = mk_first_seen(Step::ConfirmingOff, "SN8");
        o.workload = workload.clone();
        bmh(&mut o).serial = Some("SN7".into());
        let (s, reason) = writes(&o, &s, 2);
        assert_eq!(
            (s.step, reason.label()),
            (Step::Aborting, "NodeMismatch"),
            "{workload:?}"
        );
    }
    // A Node that registered later is no cause of that.
    let (mut o, s) = mk_first_seen(Step::ConfirmingOff, "SN8");
    bmh(&mut o).serial = Some("SN7".into());
    node(&mut o).created = Some(at(60));
    assert_eq!(writes(&o, &s, 61).0.step, Step::Aborting);
}

#[test]
fn f5_mismatch_is_not_undone_for_what_this_attempt_did_not_switch_off() {
    let stays = |o: &Observation, s: &State, why: &str| {
        let (reason, _) = waits(o, s, 2);
        assert_eq!(reason.label(), "NodeMismatch", "{why}");
        assert!(reason.to_string().contains("stays off"), "{why}: {reason}");
    };
    let mk = || mk_first_seen(Step::ConfirmingOff, OTHER);
    let (mut o, s) = mk();
    node(&mut o).created = Some(at(1));
    stays(&o, &s, "the Node registered after the off");
    let (o, mut s) = mk();
    s.attempt.taint = Some(TaintOwner::Us);
    stays(&o, &s, "pods may have moved");
    let (mut o, s) = mk();
    node(&mut o).taint = Taint::Other;
    stays(&o, &s, "a person has tainted the Node");
    let (mut o, s) = mk_first_seen(Step::ConfirmingOff, OURS);
    o.power.as_mut().unwrap().result.as_mut().unwrap().identity = OTHER.into();
    stays(
        &o,
        &s,
        "another BMC answers than the one that took the command",
    );
    let (mut o, mut s) = mk();
    s.attempt.off = Some(OffEvidence::Person { at: at(0) });
    o.power.as_mut().unwrap().result.as_mut().unwrap().identity = OTHER.into();
    stays(&o, &s, "a person switched it off");
}

#[test]
fn f1_node_appearing_after_the_evidence_needs_a_quiet_lease() {
    let (o, mut s) = mk_replaced(Step::Draining, OURS);
    (s.attempt.node, s.attempt.lease_at_off, s.attempt.taint) = (None, None, None);
    let (s, _) = writes(&o, &s, 10);
    assert_eq!((s.step, s.attempt.taint), (Step::ConfirmingOff, None));
}

#[test]
fn another_machine_with_the_node_name_does_not_end_the_boot() {
    for step in [Step::Booting, Step::Restoring] {
        let (mut o, s) = mk_replaced(step, OTHER);
        node(&mut o).boot_id = "boot-2".into();
        o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
        bmh(&mut o).our_hold = false;
        o.power = mk_power(9, PowerState::On);
        assert!(
            matches!(decide(&o, Some(&s), at(10)).next, Next::Wait(_)),
            "{step:?}"
        );
        node(&mut o).system_uuid = OURS.into();
        let next = decide(&o, Some(&s), at(10)).state.step;
        assert!(
            matches!(next, Step::Restoring | Step::Succeeded),
            "{next:?}"
        );
    }
}
