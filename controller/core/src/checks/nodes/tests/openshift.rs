//! OpenShift's MachineHealthChecks, control-plane topology, upgrades and reconfiguration.

use super::*;

fn of(conditions: &[&str]) -> MachineCheck {
    MachineCheck {
        name: "openshift-machine-api/workers".into(),
        conditions: conditions.iter().map(|c| (*c).to_owned()).collect(),
    }
}

fn conflict(checks: &[MachineCheck]) -> String {
    match mhc_conflict(MachineChecks::Known(checks)) {
        MhcConflict::Conflict(disabled) => {
            assert_eq!(disabled.reason, "ConflictingMachineHealthCheckDetected");
            disabled.message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn single_mhc_for_terminating_nodes_is_no_conflict() {
    let known = |checks: &[MachineCheck]| mhc_conflict(MachineChecks::Known(checks));
    assert_eq!(known(&[]), MhcConflict::Nothing);
    assert_eq!(known(&[of(&["Terminating"])]), MhcConflict::Terminating);
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
fn f12_unknown_mhcs_conflict_with_bounded_cause() {
    let why = "x".repeat(10_000);
    let MhcConflict::Conflict(disabled) = mhc_conflict(MachineChecks::Unknown(&why)) else {
        panic!("unknown is not none");
    };
    assert_eq!(disabled.reason, "ConflictingMachineHealthCheckDetected");
    assert!(disabled.message.contains("are unknown"), "{disabled:?}");
    assert!(disabled.message.len() < 500);
}

#[test]
fn f12_unknown_topology_disables() {
    let disabled = unknown_topology("denied");
    assert_eq!(disabled.reason, "UnsupportedControlPlaneTopology");
    assert!(disabled.message.contains("unknown: denied"), "{disabled:?}");
}

#[test]
fn terminating_node_is_healthy_if_an_mhc_handles_it() {
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
fn self_fencing_control_plane_topology_disables_the_check() {
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
fn upgrade_blocks_new_remediations_but_not_cleanup() {
    let mut fixture = Fixture::new(check(), vec![good("a"), good("b"), bad("c")]);
    fixture.remediations.push(remediation("b", "t", at(0)));
    fixture.outside.upgrading = Some("ClusterVersion version is Progressing".into());
    let plan = fixture.decide(at(301));
    assert!(created(&plan).is_empty());
    assert_eq!(deleted(&plan), ["b-t"]);
    assert_eq!((plan.memory.observed, plan.memory.healthy), (3, 1));
    let skipped: Vec<_> = plan
        .events
        .iter()
        .filter(|e| e.reason == "RemediationSkipped")
        .collect();
    assert!(
        !skipped[0].warning
            && skipped[0]
                .message
                .contains("upgraded: ClusterVersion version")
    );
    assert!(plan.skipped["c"].contains("upgraded"));
    fixture.remediations.clear();
    fixture.outside.upgrading = None;
    assert_eq!(created(&fixture.decide(at(302))), [("c", "t")]);
}

#[test]
fn running_remediation_keeps_lease_and_step_during_an_upgrade() {
    let mut fixture = Fixture::new(escalating(), vec![good("a"), bad("b")]);
    fixture.remediations.push(remediation("b", "a", at(301)));
    fixture.outside.upgrading = Some("it is".into());
    let plan = fixture.decide(at(3000));
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::RenewLease { .. }]
    ));
    fixture.outside.upgrading = None;
    let plan = fixture.decide(at(3001));
    assert_eq!(
        (timeouts(&plan), created(&plan)),
        (vec!["b-a"], vec![("b", "b")])
    );
}

#[test]
fn unhealthy_node_under_reconfiguration_stops_the_check() {
    let nodes = vec![good("a"), good("d"), bad("b"), bad("c")];
    let mut fixture = Fixture::new(check(), nodes);
    fixture.node("a").reconfiguring = true;
    assert_eq!(
        created(&fixture.decide(at(301))).len(),
        2,
        "a healthy Node under reconfiguration blocks nothing"
    );
    fixture.node("b").reconfiguring = true;
    let plan = fixture.decide(at(302));
    assert!(created(&plan).is_empty());
    assert!(plan.skipped["c"].contains("the configuration of Node b"));
}
