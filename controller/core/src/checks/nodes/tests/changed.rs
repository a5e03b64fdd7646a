//! A check that is changed while it remediates, and remediations that others delete.
//!
//! medik8s refuses the change at admission; the admission policy is optional here, and the object may be
//! deleted at any time.

use super::*;

fn retemplated() -> Fixture {
    let mut fixture = Fixture::new(check(), vec![good("a"), bad("b")]);
    fixture.remediations.push(remediation("b", "t", at(302)));
    fixture.decide(at(303));
    fixture.check.steps[0].template = template("other");
    fixture
}

#[test]
fn remediation_of_a_removed_template_continues_without_a_second_one() {
    let mut fixture = retemplated();
    let plan = fixture.decide(at(304));
    assert!(created(&plan).is_empty(), "no two remediators on one Node");
    let why = &plan.skipped["b"];
    assert!(
        why.contains("b-t exists, and the check no longer names its template"),
        "{why}"
    );
    assert_eq!(plan.memory.phase, Some(Phase::Remediating));
    *fixture.node("b") = good("b");
    assert_eq!(deleted(&fixture.decide(at(305))), ["b-t"]);
}

#[test]
fn new_template_is_used_after_the_old_remediation_ends() {
    let mut over = retemplated();
    over.remediations[0].succeeded = Some(false);
    assert_eq!(created(&over.decide(at(304))), [("b", "other")]);
    let mut deleted = retemplated();
    deleted.remediations.clear();
    assert_eq!(created(&deleted.decide(at(304))), [("b", "other")]);
}

#[test]
fn externally_deleted_remediation_is_removed_from_the_status() {
    let mut fixture = Fixture::new(check(), vec![good("a"), bad("b")]);
    fixture.remediations.push(remediation("b", "t", at(302)));
    fixture.decide(at(303));
    fixture.check.pauses = vec!["by hand".into()];
    fixture.remediations.clear();
    let plan = fixture.decide(at(402));
    assert!(
        plan.memory.nodes["b"].tried.is_empty(),
        "an empty status allows changes of the check"
    );
    assert_eq!(plan.finished[0].lasted, Duration::from_secs(100));
    let release = Action::ReleaseLease { node: "b".into() };
    assert_eq!(plan.actions, [release]);
    assert!(fixture.decide(at(403)).actions.is_empty(), "once");
    fixture.check.pauses.clear();
    assert_eq!(created(&fixture.decide(at(404))), [("b", "t")]);
}

#[test]
fn timed_out_remediation_stays_in_the_status_after_its_deletion() {
    let mut fixture = Fixture::new(escalating(), vec![good("a"), bad("b")]);
    let mut first = remediation("b", "a", at(301));
    first.timed_out = Some(at(361));
    fixture.remediations = vec![first, remediation("b", "b", at(362))];
    fixture.decide(at(363));
    fixture.remediations.remove(0);
    let plan = fixture.decide(at(364));
    assert!(
        created(&plan).is_empty(),
        "step a has timed out: {:?}",
        plan.actions
    );
    assert_eq!(plan.memory.nodes["b"].tried.len(), 2);
}
