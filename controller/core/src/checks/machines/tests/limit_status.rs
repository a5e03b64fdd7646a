//! The limit (docs/reference/cluster-api.md, The limit; rule F10).

use super::*;

fn gate_of(limit: Limit, fleet: &[Target]) -> LimitStatus {
    let check = Check {
        limit,
        ..mk_check()
    };
    plan(&check, &mk_cluster(), fleet, at(300)).gate
}

/// A fleet with these numbers of healthy and unhealthy machines.
fn mk_fleet(healthy: usize, unhealthy: usize) -> Vec<Target> {
    let healthy = (0..healthy).map(|i| mk_healthy(&format!("healthy-{i:02}")));
    healthy
        .chain((0..unhealthy).map(|i| mk_unhealthy(&format!("sick-{i:02}"))))
        .collect()
}

fn mk_deleting(name: &str) -> Target {
    let mut target = mk_healthy(name);
    target.machine.deleting = true;
    target
}

#[test]
fn percentage_limit_is_rounded_down() {
    for (share, expected, limit) in [
        (40, 6, 2),
        (40, 2, 0),
        (100, 7, 7),
        (0, 9, 0),
        (99, 1, 0),
        (150, 2, 3),
        (33, 0, 0),
    ] {
        assert_eq!(
            IntOrPercent::Percent(share).of(expected),
            limit,
            "{share}% of {expected}"
        );
    }
    assert_eq!(
        IntOrPercent::Percent(i32::MAX).of(u32::MAX),
        92_233_720_304_123_248
    );
}

#[test]
fn limit_closes_above_its_value_and_not_at_it() {
    // limit, healthy, unhealthy -> open, allowed
    let cases = [
        (percent(40), 4, 2, true, 0),
        (percent(40), 3, 3, false, 0),
        (percent(40), 5, 1, true, 1),
        (percent(40), 1, 1, false, 0),
        (percent(100), 0, 5, true, 0),
        (max(5), 5, 5, true, 0),
        (max(5), 4, 6, false, 0),
        (max(100), 2, 1, true, 99),
        (max(i32::MAX), 2, 1, true, 2_147_483_646),
        (max(i32::MIN), 2, 1, false, 0),
        (max(0), 3, 0, true, 0),
        (max(0), 3, 1, false, 0),
        (max(-1), 3, 0, false, 0),
    ];
    for (limit, healthy, unhealthy, open, allowed) in cases {
        let gate = gate_of(limit, &mk_fleet(healthy, unhealthy));
        assert_eq!(
            (gate.open, gate.remediations_allowed),
            (open, allowed),
            "{limit:?}"
        );
        assert_eq!(gate.message.is_empty(), open);
    }
}

#[test]
fn unhealthy_range_includes_both_ends() {
    let limit = Limit::Range { min: 2, max: 4 };
    for (unhealthy, open, allowed) in [
        (0, false, 0),
        (1, false, 0),
        (2, true, 2),
        (3, true, 1),
        (4, true, 0),
        (5, false, 0),
    ] {
        let gate = gate_of(limit, &mk_fleet(3, unhealthy));
        assert_eq!(
            (gate.open, gate.remediations_allowed),
            (open, allowed),
            "{unhealthy}"
        );
    }
}

#[test]
fn inverted_range_never_allows_remediation() {
    for unhealthy in 0..6 {
        assert!(!gate_of(Limit::Range { min: 4, max: 2 }, &mk_fleet(1, unhealthy)).open);
    }
}

#[test]
fn empty_fleet_is_within_the_limit_with_zero_remediations_allowed() {
    for limit in [
        percent(40),
        max(3),
        max(-3),
        Limit::Range { min: 2, max: 4 },
    ] {
        let gate = gate_of(limit, &[]);
        assert_eq!(
            (gate.open, gate.expected, gate.remediations_allowed),
            (true, 0, 0)
        );
    }
}

#[test]
fn q1_f10_machine_counts_until_its_remediation_is_gone() {
    for remediation in [MachineRemediation::Open, MachineRemediation::Deleting] {
        let fleet = [
            with_remediation(mk_healthy("a"), remediation.clone()),
            mk_unhealthy("b"),
        ];
        let check = Check {
            limit: max(1),
            ..mk_check()
        };
        let plan = plan(&check, &mk_cluster(), &fleet, at(300));
        assert_eq!(
            (plan.gate.open, plan.gate.not_healthy),
            (false, 2),
            "{remediation:?}"
        );
        assert!(!plan.actions.contains(&create("b")));
        assert_eq!(plan.status.healthy, 1, "healthy in the status");
    }
    let fleet = [mk_healthy("a"), mk_unhealthy("b")];
    assert_eq!(gate_of(max(1), &fleet).not_healthy, 1);
}

#[test]
fn f10_starting_machine_under_remediation_counts() {
    let fleet = [with_remediation(mk_starting("a"), MachineRemediation::Open)];
    assert_eq!(gate_of(max(1), &fleet).not_healthy, 1);
}

#[test]
fn f10_remediation_of_another_machine_does_not_count() {
    let foreign = MachineRemediation::Foreign {
        owner: "other".into(),
    };
    let fleet = [with_remediation(mk_healthy("a"), foreign)];
    assert_eq!(gate_of(max(1), &fleet).not_healthy, 0);
}

#[test]
fn f10_unknown_and_deleting_machines_count_against_the_limit() {
    let fleet = [
        mk_target("a", unreachable(), MachineRemediation::None),
        mk_deleting("b"),
        mk_unhealthy("c"),
        mk_healthy("d"),
    ];
    let gate = gate_of(max(2), &fleet);
    assert_eq!((gate.open, gate.expected, gate.not_healthy), (false, 4, 3));
}

#[test]
fn f10_suspect_machine_counts_before_its_deadline() {
    let fleet = [mk_target(
        "a",
        mk_node("False", at(200)),
        MachineRemediation::None,
    )];
    assert_eq!(gate_of(max(1), &fleet).not_healthy, 1);
}

#[test]
fn f10_limit_holds_after_a_restart() {
    let check = Check {
        limit: max(2),
        ..mk_check()
    };
    let mut fleet = mk_fleet(3, 2);
    let first = plan(&check, &mk_cluster(), &fleet, at(300));
    assert_eq!(first.actions, [create("sick-00"), create("sick-01")]);

    // After a restart the controller sees its remediations and remembers nothing.
    for target in &mut fleet[3..] {
        target.remediation = MachineRemediation::Open;
    }
    fleet.push(mk_unhealthy("sick-02"));
    let second = plan(&check, &mk_cluster(), &fleet, at(301));
    assert!(!second.gate.open);
    assert_eq!(second.actions, []);
}

#[test]
fn f10_limit_of_zero_or_less_only_observes() {
    for limit in [
        max(0),
        max(-1),
        max(i32::MIN),
        percent(0),
        Limit::Range { min: 0, max: 0 },
    ] {
        for external in [true, false] {
            let check = Check {
                limit,
                external,
                ..mk_check()
            };
            let plan = plan(&check, &mk_cluster(), &mk_fleet(3, 2), at(300));
            assert_eq!(plan.actions, [], "{limit:?}");
            assert_eq!(plan.conditions.len(), 2, "conditions are written");
        }
    }
}

#[test]
fn q5_f10_starting_machines_count_as_in_cluster_api() {
    let mut fleet: Vec<_> = (0..8).map(|i| mk_starting(&format!("new-{i}"))).collect();
    fleet.extend([mk_healthy("old-0"), mk_unhealthy("old-1")]);
    let of = |limit| {
        let check = Check {
            limit,
            ..mk_check()
        };
        plan(&check, &mk_cluster(), &fleet, at(300))
    };
    let closed = of(percent(80));
    assert_eq!(
        (
            closed.gate.open,
            closed.gate.not_healthy,
            closed.status.healthy
        ),
        (false, 9, 1)
    );
    assert_eq!(closed.actions, []);
    assert!(
        closed.gate.message.contains("not healthy: new-0"),
        "starting machines are named"
    );
    let open = of(percent(90));
    assert_eq!((open.gate.open, open.gate.remediations_allowed), (true, 0));
    assert_eq!(open.actions, [create("old-1")]);
}

#[test]
fn q4_machines_without_ready_infrastructure_count_as_in_cluster_api() {
    let cluster = ClusterFacts {
        infrastructure_ready: None,
        ..mk_cluster()
    };
    let mut new = mk_healthy("new");
    new.machine.health_condition = None;
    let mut marked = with_remediation(mk_unhealthy("marked"), MachineRemediation::Open);
    marked.machine.health_condition = Some(false);
    let fleet = [mk_unhealthy("a"), new, marked, mk_starting("none")];
    let plan = plan(&mk_check(), &cluster, &fleet, at(300));
    assert_eq!((plan.status.expected, plan.status.healthy), (4, 3));
    assert_eq!(
        plan.gate.not_healthy, 2,
        "the one without a Node, and the one under remediation"
    );
    assert_eq!(plan.actions, [], "nothing is created, nothing withdrawn");
    let written: Vec<&str> = plan.conditions.keys().map(String::as_str).collect();
    assert_eq!(written, ["new"], "a False stays until the cause is gone");
    assert!(plan.conditions["new"].succeeded);
}

#[test]
fn skipped_machines_are_not_expected() {
    let mut paused = mk_unhealthy("a");
    paused.machine.skipped = Some(SkipReason::Paused);
    let mut skipped = mk_unhealthy("b");
    skipped.machine.skipped = Some(SkipReason::SkipRemediation);
    let fleet = [paused, skipped, mk_healthy("c")];
    let plan = plan(&mk_check(), &mk_cluster(), &fleet, at(300));
    assert_eq!((plan.gate.expected, plan.gate.not_healthy), (1, 0));
    assert_eq!(plan.status.targets, ["c"]);
    assert_eq!(plan.verdicts.len(), 3);
}

#[test]
fn closed_limit_message_names_limit_counts_and_machines() {
    let mut fleet = mk_fleet(3, 2);
    fleet.push(mk_target("lost", unreachable(), MachineRemediation::None));
    assert_eq!(
        gate_of(percent(40), &fleet).message,
        "Remediation is not allowed: 3 of 6 machines are not healthy, 2 of them unhealthy; \
         maxUnhealthy 40% of 6 is 2; not healthy: lost, sick-00, sick-01"
    );
    assert!(
        gate_of(max(1), &fleet)
            .message
            .contains("; maxUnhealthy is 1; ")
    );
    let range = Limit::Range { min: 4, max: 5 };
    assert!(
        gate_of(range, &fleet)
            .message
            .contains("; unhealthyRange is [4-5]; ")
    );
}

#[test]
fn closed_limit_message_names_at_most_ten_machines() {
    let message = gate_of(max(0), &mk_fleet(0, 10)).message;
    assert!(message.ends_with("sick-08, sick-09"), "{message}");
    let message = gate_of(max(0), &mk_fleet(0, 13)).message;
    assert!(
        message.ends_with("sick-08, sick-09 and 3 more"),
        "{message}"
    );
}

#[test]
fn range_closed_from_below_names_no_machine() {
    let message = gate_of(Limit::Range { min: 1, max: 2 }, &mk_fleet(2, 0)).message;
    assert!(message.ends_with("unhealthyRange is [1-2]"), "{message}");
}

#[test]
fn removing_counts_reverts_adding_them() {
    let mut tally = FleetCounts::default();
    let verdicts = [Verdict::Healthy, Verdict::Unhealthy { causes: vec![] }];
    for verdict in &verdicts {
        tally.add(Counts::of(verdict, &MachineRemediation::Open));
    }
    assert_eq!(
        tally,
        FleetCounts {
            expected: 2,
            healthy: 1,
            unhealthy: 1,
            not_healthy: 2
        }
    );
    for verdict in &verdicts {
        tally.remove(Counts::of(verdict, &MachineRemediation::Open));
    }
    assert_eq!(tally, FleetCounts::default());
}
