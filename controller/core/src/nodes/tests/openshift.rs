//! What OpenShift says beside its Nodes.

use super::*;

fn of(conditions: &[&str]) -> MachineCheck {
    MachineCheck {
        name: "openshift-machine-api/workers".into(),
        conditions: conditions.iter().map(|c| (*c).to_owned()).collect(),
    }
}

fn conflict(checks: &[MachineCheck]) -> String {
    match mhc_conflict(checks) {
        MhcConflict::Conflict(disabled) => {
            assert_eq!(disabled.reason, "ConflictingMachineHealthCheckDetected");
            disabled.message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_one_machine_health_check_and_only_for_nodes_that_are_to_end_is_no_conflict() {
    assert_eq!(mhc_conflict(&[]), MhcConflict::Nothing);
    assert_eq!(
        mhc_conflict(&[of(&["Terminating"])]),
        MhcConflict::Terminating
    );
    for checks in [
        vec![of(&["Ready"])],
        vec![of(&["Terminating", "Ready"])],
        vec![of(&[])],
        vec![of(&["Terminating"]), of(&["Terminating"])],
    ] {
        let why = conflict(&checks);
        assert!(why.contains("openshift-machine-api/workers"), "{why}");
    }
}

#[test]
fn a_node_that_is_to_end_is_healthy_where_that_check_cares_for_it() {
    let mut ending = bad("n");
    ending.conditions.push(Condition {
        type_: "Terminating".into(),
        status: "False".into(),
        reason: String::new(),
        last_transition: None,
    });
    let spares = Check {
        spares_terminating: true,
        ..check()
    };
    assert_eq!(classify(&spares, &ending, at(301)), Class::Healthy);
    assert!(matches!(
        classify(&check(), &ending, at(301)),
        Class::Matching(_)
    ));
    assert!(matches!(
        classify(&spares, &bad("m"), at(301)),
        Class::Matching(_)
    ));
}

#[test]
fn control_planes_that_fence_themselves_are_not_checked() {
    for known in [
        "",
        "HighlyAvailable",
        "SingleReplica",
        "HighlyAvailableArbiter",
        "External",
    ] {
        assert_eq!(unsupported(known), None, "{known}");
    }
    let disabled = unsupported("DualReplica").unwrap();
    assert_eq!(disabled.reason, "UnsupportedControlPlaneTopology");
    assert!(disabled.message.contains("DualReplica"));
}

#[test]
fn while_the_cluster_is_upgraded_nothing_is_begun_and_what_is_over_is_cleaned_up() {
    let mut scene = Fixture::new(check(), vec![good("a"), good("b"), bad("c")]);
    scene.requests.push(request("b", "t", at(0)));
    scene.outside.upgrading = Some("ClusterVersion version is Progressing".into());
    let plan = scene.look(at(301));
    assert!(created(&plan).is_empty());
    assert_eq!(deleted(&plan), ["b-t"]);
    assert_eq!((plan.memory.observed, plan.memory.healthy), (3, 1));
    let said: Vec<_> = plan
        .events
        .iter()
        .filter(|e| e.reason == "RemediationSkipped")
        .collect();
    assert!(!said[0].warning && said[0].message.contains("upgraded: ClusterVersion version"));
    assert!(plan.skipped["c"].contains("upgraded"));
    scene.requests.clear();
    scene.outside.upgrading = None;
    assert_eq!(created(&scene.look(at(302))), [("c", "t")]);
}

#[test]
fn a_running_remediation_keeps_its_lease_during_an_upgrade_and_does_not_escalate() {
    let mut scene = Fixture::new(escalating(), vec![good("a"), bad("b")]);
    scene.requests.push(request("b", "a", at(301)));
    scene.outside.upgrading = Some("it is".into());
    let plan = scene.look(at(3000));
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::RenewLease { .. }]
    ));
    scene.outside.upgrading = None;
    let plan = scene.look(at(3001));
    assert_eq!(
        (told_to_stop(&plan), created(&plan)),
        (vec!["b-a"], vec![("b", "b")])
    );
}

#[test]
fn an_unhealthy_node_that_gets_another_configuration_stops_the_whole_check() {
    let nodes = vec![good("a"), good("d"), bad("b"), bad("c")];
    let mut scene = Fixture::new(check(), nodes);
    scene.node("a").reconfiguring = true;
    assert_eq!(
        created(&scene.look(at(301))).len(),
        2,
        "a healthy one hinders nobody"
    );
    scene.node("b").reconfiguring = true;
    let plan = scene.look(at(302));
    assert!(created(&plan).is_empty());
    assert!(plan.skipped["c"].contains("the configuration of Node b"));
}
