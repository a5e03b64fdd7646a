//! The life cycle of one remediation, and the status of its check at each stage.

use super::*;

#[test]
fn remediation_is_created_for_an_unhealthy_node_and_deleted_on_recovery() {
    let mut fixture = Fixture::new(check(), vec![good("a"), bad("b")]);
    let soon = fixture.decide(at(300));
    assert!(soon.actions.is_empty() && soon.memory.nodes.is_empty());
    assert_eq!((soon.memory.observed, soon.memory.healthy), (2, 1));
    assert_eq!(soon.memory.phase, Some(Phase::Enabled));
    assert!(
        soon.wake_at
            .is_some_and(|at_| at_ > at(300) && at_ < at(301))
    );

    let made = fixture.decide(at(301));
    assert_eq!(created(&made), [("b", "t")]);
    assert_eq!(reasons(&made), ["DetectedUnhealthy"]);
    assert_eq!(
        made.memory.phase,
        Some(Phase::Enabled),
        "no remediation exists yet"
    );

    // While one is being created, no second one is.
    fixture.outside.creating.insert("b".into());
    assert!(created(&fixture.decide(at(302))).is_empty());
    fixture.outside.creating.clear();
    fixture.remediations.push(remediation("b", "t", at(302)));
    fixture.outside.leases.insert("b".into(), renewed(at(302)));
    let there = fixture.decide(at(303));
    assert!(there.actions.is_empty() && there.events.is_empty());
    assert_eq!(there.memory.phase, Some(Phase::Remediating));
    let entry = &there.memory.nodes["b"];
    assert_eq!(entry.tried[0].started, at(302));
    assert_eq!(entry.tried[0].template.as_deref(), Some("t"));

    *fixture.node("b") = good("b");
    let back = fixture.decide(at(400));
    assert_eq!(deleted(&back), ["b-t"]);
    assert_eq!(back.memory.nodes["b"].healthy_since, Some(at(400)));
    assert_eq!(back.memory.healthy, 1, "not while its remediation exists");
    fixture.remediations[0].deleting = true;
    assert!(
        fixture.decide(at(401)).actions.is_empty(),
        "a finalizer delays the deletion"
    );
    fixture.remediations.clear();
    let over = fixture.decide(at(402));
    assert_eq!(over.actions, [Action::ReleaseLease { node: "b".into() }]);
    assert_eq!(over.memory.phase, Some(Phase::Enabled));
    assert!(over.memory.nodes.is_empty());
    assert_eq!(over.memory.healthy, 2);
    assert_eq!(over.finished[0].lasted, Duration::from_secs(100));
    assert!(fixture.decide(at(403)).actions.is_empty());
}

#[test]
fn recovered_node_is_cleaned_up_while_the_check_is_paused() {
    let mut fixture = Fixture::new(check(), vec![good("a"), good("b"), bad("c")]);
    fixture.check.pauses = vec!["upgrade".into()];
    fixture.remediations.push(remediation("b", "t", at(0)));
    let plan = fixture.decide(at(301));
    assert_eq!(deleted(&plan), ["b-t"]);
    assert!(created(&plan).is_empty());
    assert_eq!(plan.memory.phase, Some(Phase::Paused));
    assert_eq!((plan.memory.observed, plan.memory.healthy), (3, 1));
    assert!(reasons(&plan).contains(&"RemediationSkipped"));
    assert!(
        !plan.events.iter().any(|e| e.warning),
        "a pause is no warning"
    );
}

#[test]
fn disabled_check_changes_nothing() {
    let mut fixture = Fixture::new(check(), vec![good("a"), good("b"), bad("c")]);
    fixture.remediations.push(remediation("b", "t", at(0)));
    fixture.outside.disabled = Some(Disabled {
        reason: "RemediationTemplateNotFound",
        message: "it is not there".into(),
    });
    let plan = fixture.decide(at(301));
    assert!(plan.actions.is_empty());
    assert_eq!(reasons(&plan), ["Disabled"]);
    assert_eq!(plan.memory.phase, Some(Phase::Disabled));
    assert!(fixture.decide(at(302)).events.is_empty(), "once");
    fixture.outside.disabled = None;
    let plan = fixture.decide(at(303));
    assert!(reasons(&plan).contains(&"Enabled"));
    assert_eq!(
        (created(&plan), deleted(&plan)),
        (vec![("c", "t")], vec!["b-t"])
    );
}

#[test]
fn excluded_node_is_skipped_and_an_invalid_label_is_reported() {
    let mut fixture = Fixture::new(check(), vec![good("a"), good("x"), bad("b"), bad("c")]);
    fixture.node("b").exclusion = Exclusion::Excluded;
    fixture.node("c").exclusion = Exclusion::Unclear;
    let plan = fixture.decide(at(301));
    assert_eq!(created(&plan), [("c", "t")]);
    assert!(reasons(&plan).contains(&"InvalidNodeLabel"));
    assert_eq!(plan.memory.nodes.len(), 2, "both are unhealthy");
}

#[test]
fn node_on_whose_host_planned_work_is_done_is_skipped_with_its_reason() {
    let mut fixture = Fixture::new(check(), vec![good("a"), good("x"), bad("b"), bad("c")]);
    let by = "HostMaintenance ns/dimm".to_owned();
    fixture.outside.maintenance.insert("b".into(), by.clone());
    let plan = fixture.decide(at(301));
    assert_eq!(created(&plan), [("c", "t")]);
    assert!(plan.skipped["b"].contains(&by), "{:?}", plan.skipped);
    assert_eq!(plan.memory.nodes.len(), 2, "both are unhealthy");
    // Once the work is over, the Node counts as before.
    fixture.outside.maintenance.clear();
    let again = fixture.decide(at(302));
    assert!(created(&again).contains(&("b", "t")));
}

#[test]
fn remediation_of_a_deleted_node_is_deleted() {
    let mut fixture = Fixture::new(check(), vec![good("a")]);
    fixture.remediations.push(remediation("gone", "t", at(0)));
    let plan = fixture.decide(at(10));
    assert_eq!(deleted(&plan), ["gone-t"]);
    // A remediation that expects the deletion of the Node is kept until it has succeeded.
    fixture.remediations[0].node_goes = true;
    assert!(deleted(&fixture.decide(at(11))).is_empty());
    fixture.remediations[0].succeeded = Some(true);
    assert_eq!(deleted(&fixture.decide(at(12))), ["gone-t"]);
    fixture.remediations.clear();
    let plan = fixture.decide(at(13));
    assert!(plan.memory.nodes.is_empty());
    assert_eq!(plan.actions.len(), 1, "the release of the Lease");
}

#[test]
fn deselected_node_keeps_its_remediation_until_healthy() {
    let mut fixture = Fixture::new(check(), vec![good("a"), bad("b")]);
    fixture.remediations.push(remediation("b", "t", at(302)));
    fixture.nodes[1].1 = false;
    let plan = fixture.decide(at(303));
    assert!(plan.actions.is_empty(), "{:?}", plan.actions);
    assert_eq!(plan.memory.observed, 1);
    *fixture.node("b") = good("b");
    assert_eq!(deleted(&fixture.decide(at(304))), ["b-t"]);
}

#[test]
fn deleted_remediation_is_created_again() {
    let mut fixture = Fixture::new(check(), vec![good("a"), bad("b")]);
    fixture.remediations.push(remediation("b", "t", at(302)));
    fixture.decide(at(303));
    fixture.remediations.clear();
    let plan = fixture.decide(at(304));
    assert_eq!(created(&plan), [("b", "t")]);
    assert!(plan.memory.nodes["b"].tried.is_empty());
}

#[test]
fn remediation_older_than_two_days_is_reported_once() {
    let mut fixture = Fixture::new(escalating(), vec![good("a"), bad("b")]);
    fixture.check.steps[0].timeout = Some(MINUTE * 60 * 100);
    fixture.remediations.push(remediation("b", "a", at(302)));
    let after = at(302 + 48 * 3600 + 1);
    let old = |plan: &Plan| {
        let is = |a: &&Action| matches!(a, Action::TellOld { .. });
        plan.actions.iter().filter(is).count()
    };
    assert_eq!(old(&fixture.decide(after)), 1);
    fixture.remediations[0].told_old = true;
    assert_eq!(old(&fixture.decide(after)), 0);
}
