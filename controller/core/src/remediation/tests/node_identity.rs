//! F5: the Node under the name is the one that the evidence is about.

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
    s.node.as_mut().unwrap().system_uuid = OURS.into();
    (o, s)
}

#[test]
fn f5_a_node_of_another_machine_under_the_same_name_is_never_tainted_nor_undone() {
    for step in after_off().into_iter().chain([Step::ConfirmingOff]) {
        let (mut o, s) = mk_replaced(step, OTHER);
        let (reason, _) = waits(&o, &s, 10);
        assert_eq!(reason.label(), "NodeMismatch", "{step:?}");
        assert!(reason.is_blocked() && reason.to_string().contains("Remove that Node"));
        // However its Lease moves.
        node(&mut o).lease.as_mut().unwrap().renewed = "09:00:10".into();
        assert_eq!(waits(&o, &s, 11).0.label(), "NodeMismatch", "{step:?}");
        // F3 is watched on.
        o.power = mk_power(11, PowerState::On);
        assert_eq!(writes(&o, &s, 11).1.label(), "FenceViolated", "{step:?}");
    }
}

#[test]
fn a_host_that_waits_for_a_node_of_another_machine_to_go_is_read_each_30_s() {
    for step in after_off().into_iter().chain([Step::ConfirmingOff]) {
        let (mut o, s) = mk_replaced(step, OTHER);
        assert_eq!(waits(&o, &s, 10).1, 39, "{step:?}");
        assert_eq!(waits(&o, &s, 38).1, 39, "{step:?}");
        assert_eq!(does(&o, &s, 39), Command::ReadPower, "{step:?}");
        // Where the BMC cannot be read, it is tried as often.
        o.agent = AgentView::Unreachable { why: "dark".into() };
        assert_eq!(waits(&o, &s, 39).1, 69, "{step:?}");
    }
}

#[test]
fn f1_a_node_with_another_uid_goes_back_to_confirming_and_its_lease_has_to_stand_still() {
    for step in after_off() {
        for uuid in [OURS, ""] {
            let (mut o, s) = mk_replaced(step, uuid);
            let (s, reason) = writes(&o, &s, 10);
            assert_eq!(
                (s.step, reason.label(), s.lease_at_off.clone(), s.drained),
                (Step::ConfirmingOff, "NodeReplaced", None, None),
                "{step:?}"
            );
            let (s, _) = writes(&o, &s, 10);
            let mark = s.node.as_ref().unwrap();
            assert_eq!((mark.uid.as_str(), mark.unproven), ("n8", uuid.is_empty()));
            assert_eq!(waits(&o, &s, 10).0.label(), "WaitingForQuietLease");
            // Silent for a quarter of its Lease and a little more: only now it is tainted.
            o.power = mk_power(21, PowerState::Off);
            assert_eq!(writes(&o, &s, 21).0.step, Step::Tainting);
        }
    }
}

#[test]
fn f5_a_node_that_came_later_and_lives_undoes_the_power_off_only_if_it_is_this_very_machine() {
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
        // Before power-on it is not undone, either: the drain is over, on is what comes next.
        let mut s = s;
        (s.step, s.mode, o.bmh) = (Step::PoweringOn, Mode::Direct, None);
        let aborts = decide(&o, Some(&s), at(20)).state.step == Step::Aborting;
        assert_eq!(aborts, uuid == OURS);
    }
}

/// The workload API was away when the power-off began: no agent was told whom to expect.
#[test]
fn f5_the_identity_in_the_bmcs_readings_is_compared_when_the_node_becomes_known() {
    let proof = |identity: &str| {
        let mut readings = mk_proof();
        readings[1].identity = identity.into();
        Some(OffEvidence::Bmc {
            at: at(0),
            readings,
            taken: Some(mk_taken()),
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
        (s.node, s.lease_at_off, s.off) = (None, None, proof(identity));
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
fn f5_an_identity_that_the_bmc_tells_only_later_is_compared_as_well() {
    for step in [Step::Tainting, Step::Draining] {
        let mut o = mk_held();
        node(&mut o).system_uuid = OURS.into();
        o.power = mk_power(1, PowerState::Off);
        o.power.as_mut().unwrap().result.as_mut().unwrap().identity = OTHER.into();
        let (reason, _) = waits(&o, &mk_state(step), 2);
        assert_eq!(reason.label(), "NodeMismatch", "{step:?}");
    }
}

#[test]
fn f1_a_node_that_appears_after_the_proof_is_not_tainted_before_its_lease_stood_still() {
    let (o, mut s) = mk_replaced(Step::Draining, OURS);
    (s.node, s.lease_at_off, s.taint) = (None, None, None);
    let (s, _) = writes(&o, &s, 10);
    assert_eq!((s.step, s.taint), (Step::ConfirmingOff, None));
}

#[test]
fn a_machine_that_took_the_name_while_the_host_boots_is_not_the_node_that_is_back() {
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
