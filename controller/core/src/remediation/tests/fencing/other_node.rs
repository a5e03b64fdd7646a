//! F14: one host, one Node.

use super::{super::*, build::*};

fn with_other(mut o: Observation, life: NodeLife) -> Observation {
    o.other_nodes = OtherNodes::Compared(vec![mk_other(life)]);
    o
}

fn not_joined(mut o: Observation) -> Observation {
    o.workload = WorkloadView::NotJoined;
    o.machine.as_mut().unwrap().provider_id = "metal3://metal/host-7/m".into();
    o
}

fn silent() -> NodeLife {
    NodeLife::Silent
}

#[test]
fn f14_remediation_for_a_host_under_another_name_waits_and_names_both() {
    let o = with_other(mk_observation(), NodeLife::Ready);
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 1);
    let text = reason.to_string();
    assert_eq!((s.step, reason.label()), (Step::Pending, "OtherNodeOnHost"));
    assert!(reason.is_blocked() && text.contains(OTHER));
    assert!(text.contains("Delete node node-7"), "{text}");
    assert!(text.contains("rackhand.dev/override-other-node"), "{text}");
    assert_eq!(waits(&o, &s, 2).0, reason);
    // It stays the host of that Node, whose own check decides when it fails.
    for life in [NodeLife::NotReady, silent()] {
        let failed = with_other(mk_observation(), life);
        assert_eq!(waits(&failed, &s, 3).0.label(), "OtherNodeOnHost");
    }
    // The Node was deleted: the remediation goes on.
    let (s, _) = writes(&mk_observation(), &s, 4);
    assert_eq!((s.step, s.other_node), (Step::Holding, None));
}

#[test]
fn f14_person_overrules_it_for_one_remediation() {
    let mut o = with_other(mk_observation(), NodeLife::Ready);
    o.object.override_other_node = Some("of another one".into());
    assert_eq!(
        writes(&o, &mk_state(Step::Pending), 1).1.label(),
        "OtherNodeOnHost"
    );
    o.object.override_other_node = Some(UID.into());
    let mut s = mk_state(Step::Pending);
    s.other_node = Some(OTHER.into());
    assert_eq!(writes(&o, &s, 1).0.step, Step::Holding);
    let held = Observation {
        bmh: mk_held().bmh,
        ..o
    };
    assert!(matches!(
        does(&held, &mk_state(Step::PoweringOff), 1),
        Command::PowerOff { .. }
    ));
}

#[test]
fn f14_nothing_is_held_or_sent_once_another_node_runs_on_the_host() {
    for life in [NodeLife::Ready, NodeLife::Renewing] {
        // Neither evidence is collected nor the hold set.
        let mut o = with_other(mk_observation(), life.clone());
        policy(&mut o).evidence_timeout = secs(5);
        let s = mk_state(Step::Holding);
        assert_eq!(
            does(&o, &s, 1),
            Command::RemoveHold,
            "a late hold is refused"
        );
        o.completed.insert(Command::RemoveHold);
        let (s, reason) = writes(&o, &s, 1);
        assert_eq!((s.step, reason.label()), (Step::Pending, "OtherNodeOnHost"));
        assert_eq!(s.other_node.as_deref(), Some(OTHER));
        // The hold is handed back.
        let o = with_other(mk_held(), life.clone());
        let s = mk_state(Step::PoweringOff);
        assert_eq!(does(&o, &s, 1), Command::RemoveHold);
        let o = with_other(mk_direct(), life);
        let mut s = mk_direct_state(Step::PoweringOff);
        assert_eq!(writes(&o, &s, 1).0.step, Step::Pending);
        s.record_attempt(Reason::BootTimeout, at(-1));
        assert_eq!(writes(&o, &s, 1).0.step, Step::Retrying);
    }
}

#[test]
fn f14_silent_lease_of_a_stale_node_stops_nothing() {
    let o = with_other(mk_observation(), silent());
    assert_eq!(
        writes(&o, &mk_state(Step::Pending), 1).0.step,
        Step::Holding
    );
    assert_eq!(does(&o, &mk_state(Step::Holding), 1), Command::AddHold);
    let o = with_other(mk_held(), silent());
    assert!(matches!(
        does(&o, &mk_state(Step::PoweringOff), 1),
        Command::PowerOff { .. }
    ));
}

#[test]
fn f14_lease_is_watched_before_the_off_and_before_the_taint() {
    let watched = NodeLife::Undecided { until: at(12) };
    let o = with_other(mk_observation(), watched.clone());
    let (reason, until) = waits(&o, &mk_state(Step::Holding), 1);
    assert_eq!((reason.label(), until), ("CheckingOtherNode", 12));
    let mut o = with_other(mk_held(), watched);
    let (reason, until) = waits(&o, &mk_state(Step::PoweringOff), 1);
    assert_eq!((reason.label(), until), ("CheckingOtherNode", 12));
    o.power = mk_power(10, PowerState::Off);
    let (reason, until) = waits(&o, &mk_state(Step::Tainting), 11);
    assert_eq!((reason.label(), until), ("CheckingOtherNode", 12));
}

#[test]
fn f14_later_power_off_is_not_sent_to_a_host_that_runs_under_another_name() {
    let o = with_other(mk_held(), NodeLife::Ready);
    for step in [Step::PoweringOff, Step::AwaitingConfirmation] {
        let mut s = mk_state(step);
        s.tries = 2;
        let (s, reason) = writes(&o, &s, 1);
        assert_eq!(
            (s.step, reason.label()),
            (Step::PoweringOn, "OtherNodeOnHost")
        );
        // The earlier power-off may still take effect.
        assert_eq!(s.retry_at, Some(at(16)));
        // While pods are moved, the host has to be off.
        let mut s = mk_state(step);
        (s.tries, s.attempt.taint) = (2, Some(TaintOwner::Us));
        assert!(matches!(does(&o, &s, 1), Command::PowerOff { .. }));
    }
}

#[test]
fn f14_host_off_is_returned_untainted_if_another_node_runs_on_it() {
    for life in [NodeLife::Ready, NodeLife::Renewing] {
        let mut o = with_other(mk_held(), life);
        o.power = mk_power(10, PowerState::Off);
        let (s, reason) = writes(&o, &mk_state(Step::Tainting), 11);
        assert_eq!(
            (s.step, reason.label()),
            (Step::PoweringOn, "OtherNodeOnHost")
        );
        assert_eq!(s.attempt.taint, None);
        let (s, _) = writes(&o, &s, 11);
        assert_eq!(does(&o, &s, 11), Command::RemoveHold);
    }
}

#[test]
fn f14_failed_comparison_stops_while_the_workload_api_answers() {
    let failed = |mut o: Observation| {
        o.other_nodes = OtherNodes::Failed { why: "403".into() };
        o
    };
    for (o, step) in [
        (failed(mk_observation()), Step::Holding),
        (failed(mk_held()), Step::PoweringOff),
    ] {
        assert_eq!(
            waits(&o, &mk_state(step), 1).0.label(),
            "WorkloadUnreachable"
        );
    }
    let mut o = failed(mk_held());
    o.power = mk_power(10, PowerState::Off);
    let reason = waits(&o, &mk_state(Step::Tainting), 11).0;
    assert_eq!(reason.label(), "WorkloadUnreachable");
    // A workload API that is away does not prevent a power-off, only the taint.
    o.other_nodes = OtherNodes::NotCompared;
    o.workload = WorkloadView::Unreachable { why: "gone".into() };
    assert!(matches!(
        does(&o, &mk_state(Step::PoweringOff), 1),
        Command::PowerOff { .. }
    ));
    // Not if it was seen to run under another name before.
    let mut s = mk_direct_state(Step::PoweringOff);
    s.other_node = Some(OTHER.into());
    o.bmh = None;
    assert_eq!(writes(&o, &s, 1).1.label(), "OtherNodeOnHost");
}

/// Follows the decisions from a boot that ends under another name, until the next wait.
fn after_rename(mut o: Observation, mut s: State) -> (State, Reason) {
    for _ in 0..20 {
        let d = decide(&o, Some(&s), at(700));
        match d.next {
            Next::Write => s = d.state,
            Next::Do(Command::RemoveTaint) => node(&mut o).taint = Taint::Absent,
            Next::Do(Command::CollectBootLog) => {
                o.completed.insert(Command::CollectBootLog);
            }
            Next::Do(other) => panic!("{other:?}"),
            Next::Wait(_) => return (d.state, d.reason),
            Next::Done(outcome) => panic!("{outcome:?}"),
        }
    }
    panic!("it writes for ever: {s:?}")
}

#[test]
fn f14_rename_in_the_boot_after_our_own_cycle_begins_no_second_one() {
    for (attempt, retry_limit) in [(1, 0), (1, 3), (2, 1)] {
        let mut o = with_other(mk_direct(), NodeLife::Ready);
        node(&mut o).taint = Taint::Ours;
        policy(&mut o).retry_limit = retry_limit;
        let mut s = mk_direct_state(Step::Booting);
        s.attempt.number = attempt;
        let (s, reason) = after_rename(o.clone(), s);
        assert_eq!(
            (s.step, reason.label()),
            (Step::Retrying, "OtherNodeOnHost")
        );
        assert_eq!(
            (s.attempt.number, s.attempt.taint, s.attempt.node.clone()),
            (attempt, None, None)
        );
        // The other Node fails for a moment: that is for its own check.
        node(&mut o).taint = Taint::Absent;
        let failed = with_other(o.clone(), silent());
        assert_eq!(waits(&failed, &s, 701).0.label(), "OtherNodeOnHost");
        // The stale Node is deleted, and nothing is left to do.
        o.object.by_node = true;
        o.workload = WorkloadView::Missing {
            name: "node-7".into(),
        };
        assert_eq!(writes(&o, &s, 702).0.step, Step::Succeeded);
    }
}

#[test]
fn f14_boot_timeout_begins_no_attempt_while_the_other_node_is_known() {
    let mut o = with_other(mk_direct(), NodeLife::NotReady);
    o.power = mk_power(699, PowerState::On);
    let mut s = mk_direct_state(Step::Booting);
    s.attempt.taint = None;
    s.other_node = Some(OTHER.into());
    let early = decide(&o, Some(&s), at(300)).reason;
    assert_eq!(early, Reason::Booting, "it may still boot");
    let (s, reason) = after_rename(o, s);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Retrying, "OtherNodeOnHost")
    );
}

#[test]
fn f14_node_that_comes_back_under_its_own_name_has_recovered() {
    let mut o = with_other(mk_direct(), silent());
    let n = node(&mut o);
    (n.boot_id, n.ready, n.ready_unknown) = ("boot-2".into(), true, false);
    o.machine = Some(MachineView::not_asked());
    let mut s = mk_direct_state(Step::Retrying);
    s.other_node = Some(OTHER.into());
    s.attempt.node = None;
    assert_eq!(writes(&o, &s, 1).0.step, Step::Succeeded);
}

#[test]
fn f14_node_that_is_linked_to_its_machine_meanwhile_is_not_switched_off() {
    let stopped = not_joined(with_other(mk_direct(), NodeLife::Ready));
    for step in [Step::Pending, Step::Retrying] {
        let mut s = State::new(at(0));
        s.step = step;
        let (s, _) = writes(&stopped, &s, 1);
        let mut linked = mk_direct();
        let n = node(&mut linked);
        (n.ready, n.ready_unknown) = (true, false);
        // The health check has not evaluated the Machine yet.
        let (s, reason) = writes(&linked, &s, 2);
        assert_eq!((s.step, reason), (step, Reason::WaitingForHealth));
        assert_eq!(waits(&linked, &s, 3).0, Reason::WaitingForHealth);
        linked.machine = Some(MachineView::not_asked());
        assert_eq!(writes(&linked, &s, 4).0.step, Step::Succeeded);
    }
}

#[test]
fn f14_machine_is_not_replaced_while_its_host_runs_under_another_name() {
    let mut o = with_other(mk_observation(), NodeLife::Ready);
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    policy(&mut o).node_gone = NodeGonePolicy::Replace;
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 1);
    assert_eq!((s.step, reason.label()), (Step::Pending, "OtherNodeOnHost"));
    o.other_nodes = OtherNodes::Compared(Vec::new());
    assert_eq!(
        writes(&o, &mk_state(Step::Pending), 1).0.step,
        Step::Escalated
    );
}

#[test]
fn f14_attempts_are_not_exhausted_by_policy_while_the_host_runs_under_another_name() {
    let mut o = with_other(mk_observation(), NodeLife::Ready);
    o.conflict = Some(Reason::PolicyLimitReached("2 attempts in a day".into()));
    let (_, reason) = writes(&o, &mk_state(Step::Pending), 1);
    assert_eq!(reason.label(), "OtherNodeOnHost");
}

#[test]
fn f14_machine_without_noderef_whose_node_runs_is_not_switched() {
    let mut o = not_joined(with_other(mk_direct(), NodeLife::Ready));
    if let OtherNodes::Compared(nodes) = &mut o.other_nodes {
        nodes[0].provider_id = "k3s://node-7".into();
    }
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 1);
    let text = reason.to_string();
    assert_eq!((s.step, reason.label()), (Step::Pending, "OtherNodeOnHost"));
    for part in [
        OTHER,
        "k3s://node-7",
        "metal3://metal/host-7/m",
        "no nodeRef",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn f14_machine_without_noderef_is_compared_by_the_identity_of_its_bmc() {
    let mut o = not_joined(mk_observation());
    let mut s = mk_state(Step::Holding);
    s.attempt.node = None;
    assert_eq!(does(&o, &s, 1), Command::ReadPower);
    // A BMC that does not answer does not prevent the attempt.
    o.power = mk_no_power(1);
    assert_eq!(does(&o, &s, 2), Command::AddHold);
}

#[test]
fn f14_host_of_a_machine_without_noderef_is_not_switched_on_over_a_node_that_is_not_drained() {
    let mut o = not_joined(with_other(mk_held(), silent()));
    o.power = mk_power(10, PowerState::Off);
    let mut s = mk_state(Step::ConfirmingOff);
    s.attempt.node = None;
    let (s, reason) = writes(&o, &s, 11);
    assert_eq!(reason.label(), "OtherNodeOnHost");
    assert!(
        reason
            .to_string()
            .contains("Delete node node-7.example.org if it is stale")
    );
    assert_eq!(waits(&o, &s, 11).0, reason);
    assert_eq!(s.step, Step::ConfirmingOff);
    // Linked by now, it is the Node of the host, and is drained.
    o.workload = WorkloadView::Present(mk_node());
    o.other_nodes = OtherNodes::NotCompared;
    assert_eq!(writes(&o, &s, 11).0.attempt.node.unwrap().name, "node-7");
    // Its kubelet runs: the host was healthy.
    let o = not_joined(with_other(o, NodeLife::Renewing));
    let mut s = mk_state(Step::ConfirmingOff);
    s.attempt.node = None;
    assert_eq!(writes(&o, &s, 11).0.step, Step::PoweringOn);
    // No Node has its identity.
    let mut o = not_joined(mk_held());
    o.power = mk_power(10, PowerState::Off);
    assert_eq!(writes(&o, &s, 11).0.step, Step::PoweringOn);
}

#[test]
fn f14_machine_that_joins_after_the_power_on_is_waited_for() {
    let mut o = not_joined(with_other(mk_direct(), NodeLife::Ready));
    o.power = mk_power(59, PowerState::On);
    let mut s = mk_direct_state(Step::Booting);
    (s.attempt.node, s.attempt.taint) = (None, None);
    assert_eq!(waits(&o, &s, 60).0, Reason::Booting);
    let (s, reason) = after_rename(o, s);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Retrying, "OtherNodeOnHost")
    );
}

#[test]
fn f14_nodes_are_compared_live_once_the_lease_is_quiet_and_the_taint_is_next() {
    let comparison = |s: &State, o: &Observation, now| {
        node_comparison(Some(s), (None, false), &o.workload, at(now))
    };
    let mut o = mk_held();
    // Kubernetes reports by itself that a kubelet has been silent for long enough.
    node(&mut o).ready_unknown = false;
    let mut state = mk_state(Step::ConfirmingOff);
    let quiet = node(&mut o).lease_quiet_at().unwrap();
    let quiet = quiet.duration_since(at(0)).as_secs();
    assert_eq!(
        comparison(&state, &o, quiet - 1),
        NodeComparison::None,
        "waited for"
    );
    assert_eq!(comparison(&state, &o, quiet), NodeComparison::Live);
    state.attempt.taint = Some(TaintOwner::Us);
    assert_eq!(
        comparison(&state, &o, quiet),
        NodeComparison::None,
        "moved before"
    );
    state.attempt.taint = None;
    node(&mut o).lease = None;
    assert_eq!(comparison(&state, &o, 0), NodeComparison::Live, "no Lease");
}
