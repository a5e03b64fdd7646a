//! Tests of the actions for a fleet (docs/reference/cluster-api.md, Remediation).

use super::*;

fn planned(check: &Check, fleet: &[Target]) -> Plan {
    plan(check, &mk_cluster(), fleet, at(300))
}

fn owner_remediates() -> Check {
    Check {
        external: false,
        ..mk_check()
    }
}

/// A check whose limit one unhealthy machine exceeds.
fn closed() -> Check {
    Check {
        limit: max(0),
        ..mk_check()
    }
}

fn deleting(mut target: Target) -> Target {
    target.machine.deleting = true;
    target
}

#[test]
fn healthy_fleet_needs_no_action() {
    let plan = planned(&mk_check(), &[mk_healthy("b"), mk_healthy("a")]);
    assert_eq!(
        plan.status,
        CheckStatus {
            expected: 2,
            healthy: 2,
            unhealthy: 0,
            targets: vec!["a".into(), "b".into()],
        }
    );
    assert!(plan.gate.open);
    assert_eq!(plan.actions, []);
    assert!(plan.conditions.is_empty());
    assert_eq!(plan.wake_at, None);
}

#[test]
fn q10_every_unhealthy_machine_gets_a_remediation() {
    let fleet = [
        mk_unhealthy("c"),
        with_remediation(mk_unhealthy("a"), MachineRemediation::Open),
        mk_unhealthy("b"),
        with_remediation(
            mk_unhealthy("d"),
            MachineRemediation::Foreign {
                owner: "old/d".into(),
            },
        ),
    ];
    let plan = planned(&mk_check(), &fleet);
    let report = Action::ReportForeignRemediation {
        machine: "d".into(),
        owner: "old/d".into(),
    };
    assert_eq!(plan.actions, [create("b"), create("c"), report]);
    assert_eq!(plan.conditions.len(), 4, "each condition is written");
}

#[test]
fn q1_limit_allows_all_unhealthy_machines_or_none() {
    let fleet: Vec<_> = (0..5)
        .map(|i| mk_unhealthy(&format!("sick-{i}")))
        .chain((0..5).map(|i| mk_healthy(&format!("well-{i}"))))
        .collect();
    let check = Check {
        limit: max(5),
        ..mk_check()
    };
    assert_eq!(planned(&check, &fleet).actions.len(), 5);
    let check = Check {
        limit: max(4),
        ..mk_check()
    };
    assert_eq!(planned(&check, &fleet).actions, []);
}

#[test]
fn remediation_being_deleted_is_not_created_again() {
    let fleet = [with_remediation(
        mk_unhealthy("a"),
        MachineRemediation::Deleting,
    )];
    assert_eq!(planned(&mk_check(), &fleet).actions, []);
    assert_eq!(
        planned(&mk_check(), &[mk_unhealthy("a")]).actions,
        [create("a")]
    );
}

#[test]
fn deleting_machine_gets_no_remediation_and_no_owner_mark() {
    let fleet = [deleting(mk_unhealthy("a"))];
    for check in [mk_check(), owner_remediates()] {
        let plan = planned(&check, &fleet);
        assert_eq!(plan.actions, []);
        assert!(
            !plan.conditions["a"].succeeded,
            "its condition is still written"
        );
    }
}

#[test]
fn recovered_machine_loses_its_remediation_once() {
    let open = [with_remediation(mk_healthy("a"), MachineRemediation::Open)];
    assert_eq!(planned(&mk_check(), &open).actions, [delete("a")]);
    for remediation in [
        MachineRemediation::Deleting,
        MachineRemediation::Foreign { owner: "b".into() },
    ] {
        let fleet = [with_remediation(mk_healthy("a"), remediation)];
        assert_eq!(planned(&mk_check(), &fleet).actions, []);
    }
}

#[test]
fn remediation_is_kept_until_its_machine_is_healthy() {
    let fleet = [
        with_remediation(mk_starting("a"), MachineRemediation::Open),
        mk_target("b", unreachable(), MachineRemediation::Open),
        mk_target("c", mk_node("False", at(299)), MachineRemediation::Open),
        with_remediation(deleting(mk_healthy("d")), MachineRemediation::Open),
    ];
    let plan = planned(&mk_check(), &fleet);
    assert_eq!(plan.actions, []);
    assert!(plan.conditions.is_empty());
}

#[test]
fn q8_recovered_machine_loses_its_remediation_over_the_limit() {
    let fleet = [
        with_remediation(mk_healthy("a"), MachineRemediation::Open),
        mk_unhealthy("b"),
    ];
    let plan = planned(&closed(), &fleet);
    assert!(!plan.gate.open);
    assert_eq!(plan.actions, [delete("a")]);
}

#[test]
fn q6_deadline_timer_runs_over_the_limit() {
    let fleet = [
        mk_target("a", mk_node("False", at(200)), MachineRemediation::None),
        mk_unhealthy("b"),
    ];
    let plan = planned(&closed(), &fleet);
    assert!(!plan.gate.open);
    assert_eq!(plan.wake_at, Some(at(500)));
}

#[test]
fn q11_recovered_machine_loses_its_false_condition() {
    for remediation in [
        MachineRemediation::None,
        MachineRemediation::Open,
        MachineRemediation::Deleting,
    ] {
        for check in [mk_check(), closed(), owner_remediates()] {
            let mut target = with_remediation(mk_healthy("a"), remediation.clone());
            target.machine.health_condition = Some(false);
            assert!(planned(&check, &[target]).conditions["a"].succeeded);
        }
    }
}

#[test]
fn conditions_are_written_over_the_limit() {
    let mut recovered = mk_healthy("a");
    recovered.machine.health_condition = None;
    let plan = planned(&closed(), &[recovered, mk_unhealthy("b")]);
    assert!(plan.conditions["a"].succeeded);
    assert!(!plan.conditions["b"].succeeded);
    assert_eq!(plan.actions, []);
}

#[test]
fn without_template_the_owner_is_marked_unless_it_took_over() {
    let mut fleet = [
        mk_unhealthy("a"),
        mk_unhealthy("b"),
        mk_unhealthy("c"),
        mk_healthy("d"),
    ];
    fleet[1].machine.owner_remediated = Some(true);
    fleet[2].machine.owner_remediated = Some(false);
    assert_eq!(
        planned(&owner_remediates(), &fleet).actions,
        [mark("a"), mark("b")]
    );
    let check = Check {
        limit: max(0),
        ..owner_remediates()
    };
    assert_eq!(planned(&check, &fleet).actions, []);
}

#[test]
fn without_template_existing_remediations_are_not_touched() {
    let fleet = [
        with_remediation(mk_healthy("a"), MachineRemediation::Open),
        with_remediation(mk_unhealthy("b"), MachineRemediation::Open),
    ];
    assert_eq!(planned(&owner_remediates(), &fleet).actions, [mark("b")]);
}

#[test]
fn paused_check_or_cluster_evaluates_without_acting() {
    let fleet = [
        mk_unhealthy("a"),
        mk_starting("b"),
        with_remediation(mk_healthy("c"), MachineRemediation::Open),
    ];
    let check = Check {
        paused: true,
        ..mk_check()
    };
    let cluster = ClusterFacts {
        paused: true,
        ..mk_cluster()
    };
    for plan in [
        plan(&check, &mk_cluster(), &fleet, at(300)),
        plan(&mk_check(), &cluster, &fleet, at(300)),
    ] {
        assert_eq!((plan.status.expected, plan.status.unhealthy), (3, 1));
        assert_eq!(plan.verdicts.len(), 3);
        assert_eq!(plan.actions, []);
        assert!(plan.conditions.is_empty());
        assert_eq!(plan.wake_at, None);
    }
}

#[test]
fn plan_wakes_at_the_earliest_deadline() {
    let fleet = [
        mk_starting("a"),
        mk_target("b", mk_node("False", at(100)), MachineRemediation::None),
        mk_target("c", mk_node("False", at(200)), MachineRemediation::None),
    ];
    assert_eq!(planned(&mk_check(), &fleet).wake_at, Some(at(400)));
}

#[test]
fn annotated_machine_is_remediated_while_its_cluster_is_unreachable() {
    let mut target = mk_target("a", unreachable(), MachineRemediation::None);
    target.machine.remediate_annotation = true;
    assert_eq!(planned(&mk_check(), &[target]).actions, [create("a")]);
}
