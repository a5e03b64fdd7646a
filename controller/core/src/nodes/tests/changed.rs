//! A check that was changed under its remediations, and remediations that others took away.
//!
//! medik8s refuses the change at admission; the admission policy is optional here, and the object may go at any
//! time.

use super::*;

fn retemplated() -> Fixture {
    let mut scene = Fixture::new(check(), vec![good("a"), bad("b")]);
    scene.requests.push(request("b", "t", at(302)));
    scene.look(at(303));
    scene.check.steps[0].template = template("other");
    scene
}

#[test]
fn a_remediation_whose_template_is_named_no_more_goes_on_alone() {
    let mut scene = retemplated();
    let plan = scene.look(at(304));
    assert!(created(&plan).is_empty(), "no two remediators on one Node");
    let why = &plan.skipped["b"];
    assert!(
        why.contains("b-t is there, whose template the check names no more"),
        "{why}"
    );
    assert_eq!(plan.memory.phase, Some(Phase::Remediating));
    *scene.node("b") = good("b");
    assert_eq!(deleted(&scene.look(at(305))), ["b-t"]);
}

#[test]
fn once_it_is_over_the_new_template_is_used() {
    let mut over = retemplated();
    over.requests[0].succeeded = Some(false);
    assert_eq!(created(&over.look(at(304))), [("b", "other")]);
    let mut deleted = retemplated();
    deleted.requests.clear();
    assert_eq!(created(&deleted.look(at(304))), [("b", "other")]);
}

#[test]
fn what_somebody_took_away_is_not_shown_as_if_it_were_there() {
    let mut scene = Fixture::new(check(), vec![good("a"), bad("b")]);
    scene.requests.push(request("b", "t", at(302)));
    scene.look(at(303));
    scene.check.pauses = vec!["by hand".into()];
    scene.requests.clear();
    let plan = scene.look(at(402));
    assert!(
        plan.memory.nodes["b"].tried.is_empty(),
        "so that the check can be changed"
    );
    assert_eq!(plan.finished[0].lasted, Duration::from_secs(100));
    let release = Action::ReleaseLease { node: "b".into() };
    assert_eq!(plan.actions, [release]);
    assert!(scene.look(at(403)).actions.is_empty(), "once");
    scene.check.pauses.clear();
    assert_eq!(created(&scene.look(at(404))), [("b", "t")]);
}

#[test]
fn one_that_had_timed_out_is_remembered_though_somebody_took_it_away() {
    let mut scene = Fixture::new(escalating(), vec![good("a"), bad("b")]);
    let mut first = request("b", "a", at(301));
    first.timed_out = Some(at(361));
    scene.requests = vec![first, request("b", "b", at(362))];
    scene.look(at(363));
    scene.requests.remove(0);
    let plan = scene.look(at(364));
    assert!(
        created(&plan).is_empty(),
        "its turn is over: {:?}",
        plan.actions
    );
    assert_eq!(plan.memory.nodes["b"].tried.len(), 2);
}
