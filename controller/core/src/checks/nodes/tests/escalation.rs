use super::*;

fn fixture() -> Fixture {
    let mut fixture = Fixture::new(escalating(), vec![good("x"), bad("n")]);
    assert_eq!(
        created(&fixture.decide(at(301))),
        [("n", "a")],
        "the first template"
    );
    fixture.remediations.push(remediation("n", "a", at(301)));
    fixture
}

#[test]
fn next_template_starts_after_the_timeout_and_the_first_remediation_stays() {
    let mut fixture = fixture();
    assert!(
        created(&fixture.decide(at(361))).is_empty(),
        "strictly after"
    );
    let plan = fixture.decide(at(362));
    assert_eq!(timeouts(&plan), ["n-a"]);
    assert_eq!(created(&plan), [("n", "b")]);
    assert!(deleted(&plan).is_empty());
    fixture.remediations[0].timed_out = Some(at(362));
    fixture.remediations.push(remediation("n", "b", at(363)));
    let plan = fixture.decide(at(364));
    assert!(created(&plan).is_empty() && timeouts(&plan).is_empty());
    let tried = &plan.memory.nodes["n"].tried;
    assert_eq!(tried.len(), 2, "two of one kind have two entries");
    assert!(tried[0].timed_out.is_some() && tried[1].timed_out.is_none());
    // The second template has its own timeout.
    let plan = fixture.decide(at(484));
    assert_eq!(timeouts(&plan), ["n-b"]);
    assert_eq!(reasons(&plan), ["NoTemplateLeft"]);
    let skipped = &plan.skipped["n"];
    assert!(skipped.ends_with("timed out. Repair the host"), "{skipped}");
    fixture.remediations[1].timed_out = Some(at(484));
    // No template is left until the Node is healthy; then both remediations are deleted.
    assert!(created(&fixture.decide(at(9999))).is_empty());
    *fixture.node("n") = good("n");
    assert_eq!(deleted(&fixture.decide(at(10_000))), ["n-a", "n-b"]);
}

#[test]
fn failed_remediation_escalates_at_once() {
    let mut fixture = fixture();
    fixture.remediations[0].succeeded = Some(false);
    let plan = fixture.decide(at(302));
    assert_eq!(
        (timeouts(&plan), created(&plan)),
        (vec!["n-a"], vec![("n", "b")])
    );
}

#[test]
fn succeeded_remediation_is_not_timed_out() {
    let mut fixture = fixture();
    fixture.remediations[0].succeeded = Some(true);
    let plan = fixture.decide(at(362));
    assert!(timeouts(&plan).is_empty());
    assert_eq!(created(&plan), [("n", "b")]);
}

#[test]
fn crash_between_status_and_timeout_annotation_loses_neither() {
    let mut fixture = fixture();
    fixture.decide(at(362));
    // The status records the timeout, the remediation lacks the annotation.
    assert_eq!(timeouts(&fixture.decide(at(363))), ["n-a"]);
    // The remediation has the annotation, the status does not record the timeout.
    fixture.memory = NodeCheckStatus::default();
    fixture.remediations[0].timed_out = Some(at(362));
    let plan = fixture.decide(at(364));
    assert_eq!(plan.memory.nodes["n"].tried[0].timed_out, Some(at(362)));
    assert_eq!(created(&plan), [("n", "b")]);
}

#[test]
fn single_template_times_out_after_30_min_and_is_retried_once_its_remediation_is_deleted() {
    let mut fixture = Fixture::new(check(), vec![good("x"), bad("n")]);
    fixture.remediations.push(remediation("n", "t", at(301)));
    assert!(timeouts(&fixture.decide(at(301 + 1800))).is_empty());
    let plan = fixture.decide(at(301 + 1801));
    assert_eq!(timeouts(&plan), ["n-t"]);
    let release = Action::ReleaseLease { node: "n".into() };
    assert!(plan.actions.contains(&release));
    assert_eq!(reasons(&plan), ["NoTemplateLeft"]);
    let skipped = &plan.skipped["n"];
    assert!(skipped.contains("delete that remediation"), "{skipped}");
    assert!(created(&fixture.decide(at(9999))).is_empty());
    fixture.remediations.clear();
    assert_eq!(created(&fixture.decide(at(10_000))), [("n", "t")]);
    let mut next = remediation("n", "t", at(10_001));
    next.uid = "next".into();
    fixture.remediations.push(next);
    assert!(timeouts(&fixture.decide(at(10_002))).is_empty());
    assert_eq!(timeouts(&fixture.decide(at(10_001 + 1801))), ["n-t"]);
}

#[test]
fn closed_limit_renews_the_lease_without_escalation() {
    let mut fixture = fixture();
    *fixture.node("x") = bad("x");
    let plan = fixture.decide(at(400));
    assert!(timeouts(&plan).is_empty() && created(&plan).is_empty());
    let renewed = |a: &Action| matches!(a, Action::RenewLease { node, .. } if node == "n");
    assert!(plan.actions.iter().any(renewed));
}

#[test]
fn f6_only_one_control_plane_node_escalates() {
    let master = |name: &str| NodeFacts {
        roles: PLANE,
        ..bad(name)
    };
    let mut fixture = Fixture::new(
        escalating(),
        vec![good("x"), good("y"), master("m"), master("n")],
    );
    for node in ["m", "n"] {
        fixture.remediations.push(remediation(node, "a", at(0)));
    }
    fixture.decide(at(301));
    assert_eq!(created(&fixture.decide(at(362))), [("m", "b")]);
}
