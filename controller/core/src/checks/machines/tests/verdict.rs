//! Tests of the verdict on one machine (docs/reference/cluster-api.md, The verdict).

use super::*;

fn judged(check: &Check, machine: &MachineFacts, node: &NodeView, now: Timestamp) -> Verdict {
    verdict(check, &mk_cluster(), machine, node, now)
}

fn labels(verdict: &Verdict) -> Vec<&'static str> {
    match verdict {
        Verdict::Suspect { causes, .. } | Verdict::Unhealthy { causes } => {
            causes.iter().map(Cause::label).collect()
        }
        _ => vec![],
    }
}

fn failing(verdict: &Verdict) -> Vec<&'static str> {
    assert!(matches!(verdict, Verdict::Unhealthy { .. }), "{verdict}");
    labels(verdict)
}

/// The running rules, the deadline, and whether the machine is only starting.
fn running(verdict: &Verdict) -> (Vec<&'static str>, Timestamp, bool) {
    match verdict {
        Verdict::Suspect {
            until, starting, ..
        } => (labels(verdict), *until, *starting),
        other => panic!("not suspect: {other}"),
    }
}

fn unknown(verdict: Verdict) -> UnknownReason {
    match verdict {
        Verdict::Unknown(reason) => reason,
        other => panic!("not unknown: {other}"),
    }
}

#[test]
fn node_matching_no_rule_is_healthy() {
    let node = mk_node("True", at(0));
    assert_eq!(
        judged(&mk_check(), &mk_machine("m"), &node, at(9999)),
        Verdict::Healthy
    );
}

#[test]
fn node_rule_fires_at_its_deadline() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    let node = mk_node("Unknown", at_millis(250));
    let due = at_millis(300_250);

    let before = judged(&check, &machine, &node, at_millis(300_249));
    assert_eq!(running(&before), (vec!["node_condition"], due, false));
    assert_eq!(
        failing(&judged(&check, &machine, &node, due)),
        ["node_condition"]
    );
}

#[test]
fn timeout_keeps_fractions_of_a_second() {
    let mut check = mk_check();
    check.node_conditions[0].timeout = Duration::from_millis(1500);
    let verdict = judged(&check, &mk_machine("m"), &mk_node("Unknown", at(0)), at(1));
    assert_eq!(running(&verdict).1, at_millis(1500));
}

#[test]
fn zero_timeout_fires_at_once() {
    let mut check = mk_check();
    check.node_conditions = vec![mk_rule("Ready", "False", 0)];
    let node = mk_node("False", at(7));
    assert_eq!(
        failing(&judged(&check, &mk_machine("m"), &node, at(7))),
        ["node_condition"]
    );
}

#[test]
fn transition_time_in_the_future_delays_the_timeout() {
    let verdict = judged(
        &mk_check(),
        &mk_machine("m"),
        &mk_node("False", at(1000)),
        at(0),
    );
    assert_eq!(running(&verdict).1, at(1300));
}

#[test]
fn timeout_beyond_the_maximum_time_never_fires() {
    let mut check = mk_check();
    check.node_conditions = vec![ConditionRule {
        timeout: Duration::MAX,
        ..mk_rule("Ready", "False", 0)
    }];
    check.startup_timeout = Some(Duration::MAX);
    let node = mk_node("False", at(0));
    for node in [node, NodeView::NotJoined] {
        let verdict = judged(&check, &mk_machine("m"), &node, at(i64::from(u32::MAX)));
        assert_eq!(running(&verdict).1, Timestamp::MAX);
    }
}

#[test]
fn condition_without_transition_time_has_matched_for_long() {
    let node = NodeView::Present(NodeFacts {
        name: "node".into(),
        conditions: vec![Condition {
            last_transition: None,
            ..mk_condition("Ready", "Unknown", at(0))
        }],
    });
    let verdict = judged(&mk_check(), &mk_machine("m"), &node, at(9999));
    assert!(matches!(verdict, Verdict::Unhealthy { .. }), "{verdict:?}");
}

#[test]
fn absent_condition_does_not_match_unknown() {
    let node = NodeView::Present(NodeFacts {
        name: "node".into(),
        conditions: vec![],
    });
    assert_eq!(
        judged(&mk_check(), &mk_machine("m"), &node, at(9999)),
        Verdict::Healthy
    );
}

#[test]
fn suspect_verdict_names_all_running_rules_and_the_earliest_deadline() {
    let mut check = mk_check();
    check.machine_conditions = vec![mk_rule("BootstrapReady", "False", 900)];
    let mut machine = mk_machine("m");
    machine.conditions = vec![mk_condition("BootstrapReady", "False", at(0))];
    let verdict = judged(&check, &machine, &mk_node("Unknown", at(0)), at(10));
    assert_eq!(
        running(&verdict),
        (vec!["machine_condition", "node_condition"], at(300), false)
    );
}

#[test]
fn unhealthy_verdict_names_all_failed_rules_machine_rules_first() {
    let mut check = mk_check();
    check
        .node_conditions
        .push(mk_rule("DiskPressure", "True", 60));
    check.machine_conditions = vec![mk_rule("BootstrapReady", "False", 0)];
    let mut machine = mk_machine("m");
    machine.failure = Some("CreateError: no such image".into());
    machine.conditions = vec![mk_condition("BootstrapReady", "False", at(0))];
    let node = NodeView::Present(NodeFacts {
        name: "node".into(),
        conditions: vec![
            mk_condition("DiskPressure", "True", at(0)),
            mk_condition("Ready", "Unknown", at(0)),
        ],
    });
    let verdict = judged(&check, &machine, &node, at(300));
    let expected = [
        "machine_failure",
        "machine_condition",
        "node_condition",
        "node_condition",
    ];
    assert_eq!(failing(&verdict), expected);
}

#[test]
fn unhealthy_machine_is_reevaluated_when_its_next_rule_fails() {
    let mut check = mk_check();
    check.machine_conditions = vec![mk_rule("BootstrapReady", "False", 0)];
    let mut machine = mk_machine("m");
    machine.conditions = vec![mk_condition("BootstrapReady", "False", at(0))];
    let node = mk_node("Unknown", at(0));
    let judgement = judge(&check, &mk_cluster(), &machine, &node, at(10));
    assert_eq!(failing(&judgement.verdict), ["machine_condition"]);
    assert_eq!(judgement.changes_at, Some(at(300)));
}

#[test]
fn remediate_annotation_overrides_every_other_rule() {
    let mut machine = mk_machine("m");
    machine.remediate_annotation = true;
    machine.deleting = true;
    machine.failure = Some("broken".into());
    let cluster = ClusterFacts::default();
    for node in [NodeView::NotJoined, unreachable(), mk_node("True", at(0))] {
        let verdict = verdict(&mk_check(), &cluster, &machine, &node, at(0));
        assert_eq!(failing(&verdict), ["remediate_annotation"]);
    }
}

#[test]
fn paused_or_skipped_machine_is_skipped_before_any_rule() {
    let mut machine = mk_machine("m");
    machine.remediate_annotation = true;
    let node = mk_node("Unknown", at(0));
    for reason in [SkipReason::Paused, SkipReason::SkipRemediation] {
        machine.skipped = Some(reason);
        let verdict = judged(&mk_check(), &machine, &node, at(9999));
        assert_eq!(verdict, Verdict::Skipped(reason));
    }
}

#[test]
fn failed_machine_is_unhealthy_regardless_of_the_cluster() {
    let mut machine = mk_machine("m");
    machine.failure = Some("broken".into());
    let cluster = ClusterFacts::default();
    for node in [NodeView::NotJoined, unreachable(), mk_node("True", at(0))] {
        let verdict = verdict(&mk_check(), &cluster, &machine, &node, at(0));
        assert_eq!(failing(&verdict), ["machine_failure"]);
    }
}

#[test]
fn q4_machine_not_evaluated_is_neither_healthy_nor_unhealthy() {
    let (check, node) = (mk_check(), mk_node("True", at(0)));
    let no_control_plane = ClusterFacts {
        control_plane_initialized: None,
        ..mk_cluster()
    };
    let no_infrastructure = ClusterFacts {
        infrastructure_ready: None,
        ..mk_cluster()
    };
    let (worker, mut control_plane) = (mk_machine("w"), mk_machine("cp"));
    control_plane.control_plane = true;

    let of = |cluster: &ClusterFacts, machine: &MachineFacts| {
        verdict(&check, cluster, machine, &node, at(9999))
    };
    assert_eq!(
        unknown(of(&no_control_plane, &worker)),
        UnknownReason::ControlPlaneNotInitialized
    );
    assert_eq!(of(&no_control_plane, &control_plane), Verdict::Healthy);
    for machine in [&worker, &control_plane] {
        assert_eq!(
            of(&no_infrastructure, machine),
            Verdict::NotEvaluated(UnknownReason::InfrastructureNotReady)
        );
    }
}

#[test]
fn node_is_ignored_until_the_infrastructure_is_ready() {
    let cluster = ClusterFacts {
        infrastructure_ready: None,
        ..mk_cluster()
    };
    let missing = NodeView::Missing {
        name: "node".into(),
    };
    let unknown = Verdict::Unknown(UnknownReason::InfrastructureNotReady);
    let counted = Verdict::NotEvaluated(UnknownReason::InfrastructureNotReady);
    for (node, verdict) in [
        (missing, &unknown),
        (NodeView::NotJoined, &unknown),
        (mk_node("False", at(0)), &counted),
    ] {
        let judgement = judge(&mk_check(), &cluster, &mk_machine("m"), &node, at(9999));
        assert_eq!(judgement.verdict, *verdict);
        assert_eq!(judgement.changes_at, None);
    }
}

#[test]
fn deleted_node_is_unhealthy_at_once() {
    let mut check = mk_check();
    check.startup_timeout = None;
    let node = NodeView::Missing {
        name: "node".into(),
    };
    let verdict = judged(&check, &mk_machine("m"), &node, at(0));
    assert_eq!(
        verdict,
        Verdict::Unhealthy {
            causes: vec![Cause::NodeDeleted {
                name: "node".into()
            }]
        }
    );
}

#[test]
fn unreachable_workload_cluster_makes_the_verdict_unknown() {
    let verdict = judged(&mk_check(), &mk_machine("m"), &unreachable(), at(9999));
    let why = "connection refused".into();
    assert_eq!(unknown(verdict), UnknownReason::WorkloadUnreachable { why });
}

#[test]
fn unreachable_workload_cluster_does_not_hide_machine_conditions() {
    let mut check = mk_check();
    check.machine_conditions = vec![mk_rule("BootstrapReady", "False", 60)];
    let mut machine = mk_machine("m");
    machine.conditions = vec![mk_condition("BootstrapReady", "False", at(0))];

    let before = judged(&check, &machine, &unreachable(), at(59));
    assert_eq!(running(&before), (vec!["machine_condition"], at(60), false));
    let then = judged(&check, &machine, &unreachable(), at(60));
    assert_eq!(failing(&then), ["machine_condition"]);
}

#[test]
fn machine_without_node_is_starting_until_its_startup_timeout() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    let before = judged(&check, &machine, &NodeView::NotJoined, at_millis(599_999));
    assert_eq!(
        running(&before),
        (vec!["node_startup_timeout"], at(600), true)
    );
    let then = judged(&check, &machine, &NodeView::NotJoined, at(600));
    assert_eq!(failing(&then), ["node_startup_timeout"]);
}

#[test]
fn startup_timeout_never_fires_with_an_unreachable_workload_cluster() {
    let mut control_plane = mk_machine("cp");
    control_plane.control_plane = true;
    for machine in [mk_machine("w"), control_plane] {
        let judgement = judge(
            &mk_check(),
            &mk_cluster(),
            &machine,
            &never_seen(),
            at(99_999),
        );
        let why = "connection refused".into();
        assert_eq!(
            unknown(judgement.verdict),
            UnknownReason::WorkloadUnreachable { why }
        );
        assert_eq!(judgement.changes_at, None);
    }
}

#[test]
fn startup_timeout_fires_before_the_control_plane_is_initialized() {
    let cluster = ClusterFacts {
        control_plane_initialized: None,
        ..mk_cluster()
    };
    let mut machine = mk_machine("cp");
    machine.control_plane = true;
    let of = |node: &NodeView| verdict(&mk_check(), &cluster, &machine, node, at(600));
    assert_eq!(failing(&of(&never_seen())), ["node_startup_timeout"]);
    assert!(matches!(of(&unreachable()), Verdict::Unknown(_)));
}

#[test]
fn q15_machine_with_a_node_has_no_startup_timeout() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    let late = at(1_000_000);
    assert_eq!(
        judged(&check, &machine, &mk_node("True", at(0)), late),
        Verdict::Healthy
    );
    let lost = judged(&check, &machine, &unreachable(), late);
    assert!(matches!(lost, Verdict::Unknown(_)), "{lost}");
}

#[test]
fn startup_timeout_runs_from_the_latest_of_four_events() {
    let until = |created, initialized, infrastructure, machine_infrastructure| {
        let cluster = ClusterFacts {
            paused: false,
            infrastructure_ready: Some(at(infrastructure)),
            control_plane_initialized: initialized,
        };
        let mut machine = mk_machine("m");
        machine.control_plane = true;
        machine.starting_since = Some(at(created));
        machine.infrastructure_ready = machine_infrastructure;
        running(&verdict(
            &mk_check(),
            &cluster,
            &machine,
            &NodeView::NotJoined,
            at(0),
        ))
        .1
    };
    assert_eq!(until(40, Some(at(10)), 20, Some(at(30))), at(640));
    assert_eq!(until(10, Some(at(40)), 20, Some(at(30))), at(640));
    assert_eq!(until(10, Some(at(20)), 40, Some(at(30))), at(640));
    assert_eq!(until(10, Some(at(20)), 30, Some(at(40))), at(640));
    assert_eq!(until(10, None, 5, None), at(610));
}

#[test]
fn without_startup_timeout_a_machine_without_node_is_unknown() {
    for off in [None, Some(Duration::ZERO)] {
        let check = Check {
            startup_timeout: off,
            ..mk_check()
        };
        let judgement = judge(
            &check,
            &mk_cluster(),
            &mk_machine("m"),
            &NodeView::NotJoined,
            at(99_999),
        );
        assert_eq!(unknown(judgement.verdict), UnknownReason::NoNode);
        assert_eq!(judgement.changes_at, None);
    }
}

#[test]
fn machine_with_another_running_rule_is_not_starting() {
    let mut check = mk_check();
    check.machine_conditions = vec![mk_rule("BootstrapReady", "False", 900)];
    let mut machine = mk_machine("m");
    machine.conditions = vec![mk_condition("BootstrapReady", "False", at(0))];
    let verdict = judged(&check, &machine, &NodeView::NotJoined, at(0));
    let causes = vec!["machine_condition", "node_startup_timeout"];
    assert_eq!(running(&verdict), (causes, at(600), false));
}

#[test]
fn deleting_machine_is_never_healthy_nor_starting() {
    let mut machine = mk_machine("m");
    machine.deleting = true;
    let check = mk_check();
    let healthy_node = mk_node("True", at(0));
    for node in [&healthy_node, &unreachable()] {
        let verdict = judged(&check, &machine, node, at(0));
        assert_eq!(unknown(verdict), UnknownReason::Deleting);
    }
    let coming_up = judged(&check, &machine, &NodeView::NotJoined, at(0));
    assert_eq!(
        running(&coming_up),
        (vec!["node_startup_timeout"], at(600), false)
    );
    let failed = judged(&check, &machine, &mk_node("Unknown", at(0)), at(300));
    assert_eq!(failing(&failed), ["node_condition"]);
}
