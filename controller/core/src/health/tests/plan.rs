//! What is done about a fleet (docs/reference/cluster-api.md, Remediation).

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
fn a_healthy_fleet_needs_nothing() {
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
fn q10_every_unhealthy_machine_gets_its_request_though_others_have_one() {
    let fleet = [
        mk_unhealthy("c"),
        with_request(mk_unhealthy("a"), RequestView::Open),
        mk_unhealthy("b"),
        with_request(
            mk_unhealthy("d"),
            RequestView::Foreign {
                owner: "old/d".into(),
            },
        ),
    ];
    let plan = planned(&mk_check(), &fleet);
    let report = Action::ReportForeignRequest {
        machine: "d".into(),
        owner: "old/d".into(),
    };
    assert_eq!(plan.actions, [create("b"), create("c"), report]);
    assert_eq!(plan.conditions.len(), 4, "each shows that it is unhealthy");
}

#[test]
fn q1_the_limit_is_a_gate_and_not_a_budget() {
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
fn a_request_that_is_being_deleted_is_not_created_again_yet() {
    let fleet = [with_request(mk_unhealthy("a"), RequestView::Deleting)];
    assert_eq!(planned(&mk_check(), &fleet).actions, []);
    assert_eq!(
        planned(&mk_check(), &[mk_unhealthy("a")]).actions,
        [create("a")]
    );
}

#[test]
fn a_machine_that_is_being_deleted_gets_no_request_and_no_mark() {
    let fleet = [deleting(mk_unhealthy("a"))];
    for check in [mk_check(), owner_remediates()] {
        let plan = planned(&check, &fleet);
        assert_eq!(plan.actions, []);
        assert!(!plan.conditions["a"].succeeded, "it still shows");
    }
}

#[test]
fn a_recovered_machine_loses_its_request_once() {
    let open = [with_request(mk_healthy("a"), RequestView::Open)];
    assert_eq!(planned(&mk_check(), &open).actions, [delete("a")]);
    for request in [
        RequestView::Deleting,
        RequestView::Foreign { owner: "b".into() },
    ] {
        let fleet = [with_request(mk_healthy("a"), request)];
        assert_eq!(planned(&mk_check(), &fleet).actions, []);
    }
}

#[test]
fn a_request_is_kept_while_its_machine_is_not_known_to_be_healthy() {
    let fleet = [
        with_request(mk_starting("a"), RequestView::Open),
        mk_target("b", unreachable(), RequestView::Open),
        mk_target("c", mk_node("False", at(299)), RequestView::Open),
        with_request(deleting(mk_healthy("d")), RequestView::Open),
    ];
    let plan = planned(&mk_check(), &fleet);
    assert_eq!(plan.actions, []);
    assert!(plan.conditions.is_empty());
}

#[test]
fn q8_a_recovered_machine_loses_its_request_while_the_gate_is_closed_too() {
    let fleet = [
        with_request(mk_healthy("a"), RequestView::Open),
        mk_unhealthy("b"),
    ];
    let plan = planned(&closed(), &fleet);
    assert!(!plan.gate.open);
    assert_eq!(plan.actions, [delete("a")]);
}

#[test]
fn q6_the_timer_runs_while_the_gate_is_closed_too() {
    let fleet = [
        mk_target("a", mk_node("False", at(200)), RequestView::None),
        mk_unhealthy("b"),
    ];
    let plan = planned(&closed(), &fleet);
    assert!(!plan.gate.open);
    assert_eq!(plan.wake_at, Some(at(500)));
}

#[test]
fn q11_a_recovered_machine_loses_its_false_condition_with_or_without_a_request() {
    for request in [RequestView::None, RequestView::Open, RequestView::Deleting] {
        for check in [mk_check(), closed(), owner_remediates()] {
            let mut target = with_request(mk_healthy("a"), request.clone());
            target.machine.health_condition = Some(false);
            assert!(planned(&check, &[target]).conditions["a"].succeeded);
        }
    }
}

#[test]
fn conditions_are_written_while_the_gate_is_closed_too() {
    let mut recovered = mk_healthy("a");
    recovered.machine.health_condition = None;
    let plan = planned(&closed(), &[recovered, mk_unhealthy("b")]);
    assert!(plan.conditions["a"].succeeded);
    assert!(!plan.conditions["b"].succeeded);
    assert_eq!(plan.actions, []);
}

#[test]
fn without_a_template_the_owner_is_asked_unless_it_has_taken_over() {
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
fn without_a_template_requests_are_left_alone() {
    let fleet = [
        with_request(mk_healthy("a"), RequestView::Open),
        with_request(mk_unhealthy("b"), RequestView::Open),
    ];
    assert_eq!(planned(&owner_remediates(), &fleet).actions, [mark("b")]);
}

#[test]
fn a_paused_check_or_cluster_judges_and_does_nothing() {
    let fleet = [
        mk_unhealthy("a"),
        mk_starting("b"),
        with_request(mk_healthy("c"), RequestView::Open),
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
fn the_earliest_deadline_of_the_fleet_wakes() {
    let fleet = [
        mk_starting("a"),
        mk_target("b", mk_node("False", at(100)), RequestView::None),
        mk_target("c", mk_node("False", at(200)), RequestView::None),
    ];
    assert_eq!(planned(&mk_check(), &fleet).wake_at, Some(at(400)));
}

#[test]
fn a_marked_machine_is_remediated_while_its_cluster_cannot_be_asked() {
    let mut target = mk_target("a", unreachable(), RequestView::None);
    target.machine.remediate_annotation = true;
    assert_eq!(planned(&mk_check(), &[target]).actions, [create("a")]);
}
