//! The life of one remediation: unhealthy, made; healthy, deleted; the status says so each time.

use super::*;

#[test]
fn unhealthy_a_remediation_is_made_healthy_it_goes() {
    let mut scene = Fixture::new(check(), vec![good("a"), bad("b")]);
    let soon = scene.look(at(300));
    assert!(soon.actions.is_empty() && soon.memory.nodes.is_empty());
    assert_eq!((soon.memory.observed, soon.memory.healthy), (2, 1));
    assert_eq!(soon.memory.phase, Some(Phase::Enabled));
    assert!(
        soon.wake_at
            .is_some_and(|at_| at_ > at(300) && at_ < at(301))
    );

    let made = scene.look(at(301));
    assert_eq!(created(&made), [("b", "t")]);
    assert_eq!(reasons(&made), ["DetectedUnhealthy"]);
    assert_eq!(made.memory.phase, Some(Phase::Enabled), "none is there yet");

    // While it is being made, nothing is made.
    scene.outside.creating.insert("b".into());
    assert!(created(&scene.look(at(302))).is_empty());
    scene.outside.creating.clear();
    scene.requests.push(request("b", "t", at(302)));
    scene.outside.leases.insert("b".into(), renewed(at(302)));
    let there = scene.look(at(303));
    assert!(there.actions.is_empty() && there.events.is_empty());
    assert_eq!(there.memory.phase, Some(Phase::Remediating));
    let entry = &there.memory.nodes["b"];
    assert_eq!(entry.tried[0].started, at(302));
    assert_eq!(entry.tried[0].template.as_deref(), Some("t"));

    *scene.node("b") = good("b");
    let back = scene.look(at(400));
    assert_eq!(deleted(&back), ["b-t"]);
    assert_eq!(back.memory.nodes["b"].healthy_since, Some(at(400)));
    assert_eq!(back.memory.healthy, 1, "not before its remediation is gone");
    scene.requests[0].deleting = true;
    assert!(
        scene.look(at(401)).actions.is_empty(),
        "its finalizer holds it"
    );
    scene.requests.clear();
    let over = scene.look(at(402));
    assert_eq!(over.actions, [Action::ReleaseLease { node: "b".into() }]);
    assert_eq!(over.memory.phase, Some(Phase::Enabled));
    assert!(over.memory.nodes.is_empty());
    assert_eq!(over.memory.healthy, 2);
    assert_eq!(over.finished[0].lasted, Duration::from_secs(100));
    assert!(scene.look(at(403)).actions.is_empty());
}

#[test]
fn a_recovered_node_is_cleaned_up_while_the_check_is_paused() {
    let mut scene = Fixture::new(check(), vec![good("a"), good("b"), bad("c")]);
    scene.check.pauses = vec!["upgrade".into()];
    scene.requests.push(request("b", "t", at(0)));
    let plan = scene.look(at(301));
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
fn while_disabled_nothing_is_touched() {
    let mut scene = Fixture::new(check(), vec![good("a"), good("b"), bad("c")]);
    scene.requests.push(request("b", "t", at(0)));
    scene.outside.disabled = Some(Disabled {
        reason: "RemediationTemplateNotFound",
        message: "it is not there".into(),
    });
    let plan = scene.look(at(301));
    assert!(plan.actions.is_empty());
    assert_eq!(reasons(&plan), ["Disabled"]);
    assert_eq!(plan.memory.phase, Some(Phase::Disabled));
    assert!(scene.look(at(302)).events.is_empty(), "once");
    scene.outside.disabled = None;
    let plan = scene.look(at(303));
    assert!(reasons(&plan).contains(&"Enabled"));
    assert_eq!(
        (created(&plan), deleted(&plan)),
        (vec![("c", "t")], vec!["b-t"])
    );
}

#[test]
fn an_excluded_node_is_left_alone_and_a_label_without_a_meaning_is_said() {
    let mut scene = Fixture::new(check(), vec![good("a"), good("x"), bad("b"), bad("c")]);
    scene.node("b").exclusion = Exclusion::Excluded;
    scene.node("c").exclusion = Exclusion::Unclear;
    let plan = scene.look(at(301));
    assert_eq!(created(&plan), [("c", "t")]);
    assert!(reasons(&plan).contains(&"InvalidNodeLabel"));
    assert_eq!(plan.memory.nodes.len(), 2, "both are unhealthy");
}

#[test]
fn a_node_that_is_gone_takes_its_remediation_along() {
    let mut scene = Fixture::new(check(), vec![good("a")]);
    scene.requests.push(request("gone", "t", at(0)));
    let plan = scene.look(at(10));
    assert_eq!(deleted(&plan), ["gone-t"]);
    // One that is about the end of the Node waits for its own.
    scene.requests[0].node_goes = true;
    assert!(deleted(&scene.look(at(11))).is_empty());
    scene.requests[0].succeeded = Some(true);
    assert_eq!(deleted(&scene.look(at(12))), ["gone-t"]);
    scene.requests.clear();
    let plan = scene.look(at(13));
    assert!(plan.memory.nodes.is_empty());
    assert_eq!(plan.actions.len(), 1, "the Lease");
}

#[test]
fn a_node_that_only_lost_its_label_keeps_its_remediation_until_it_is_healthy() {
    let mut scene = Fixture::new(check(), vec![good("a"), bad("b")]);
    scene.requests.push(request("b", "t", at(302)));
    scene.nodes[1].1 = false;
    let plan = scene.look(at(303));
    assert!(plan.actions.is_empty(), "{:?}", plan.actions);
    assert_eq!(plan.memory.observed, 1);
    *scene.node("b") = good("b");
    assert_eq!(deleted(&scene.look(at(304))), ["b-t"]);
}

#[test]
fn a_remediation_that_somebody_deleted_is_made_anew() {
    let mut scene = Fixture::new(check(), vec![good("a"), bad("b")]);
    scene.requests.push(request("b", "t", at(302)));
    scene.look(at(303));
    scene.requests.clear();
    let plan = scene.look(at(304));
    assert_eq!(created(&plan), [("b", "t")]);
    assert!(plan.memory.nodes["b"].tried.is_empty());
}

#[test]
fn one_that_is_very_old_is_told_of_once() {
    let mut scene = Fixture::new(escalating(), vec![good("a"), bad("b")]);
    scene.check.steps[0].timeout = Some(MINUTE * 60 * 100);
    scene.requests.push(request("b", "a", at(302)));
    let after = at(302 + 48 * 3600 + 1);
    let old = |plan: &Plan| {
        let is = |a: &&Action| matches!(a, Action::TellOld { .. });
        plan.actions.iter().filter(is).count()
    };
    assert_eq!(old(&scene.look(after)), 1);
    scene.requests[0].told_old = true;
    assert_eq!(old(&scene.look(after)), 0);
}
