use super::*;

fn scene() -> Fixture {
    let mut scene = Fixture::new(escalating(), vec![good("x"), bad("n")]);
    assert_eq!(
        created(&scene.look(at(301))),
        [("n", "a")],
        "the lowest first"
    );
    scene.requests.push(request("n", "a", at(301)));
    scene
}

#[test]
fn after_its_time_the_next_template_is_tried_and_the_first_stays() {
    let mut scene = scene();
    assert!(created(&scene.look(at(361))).is_empty(), "strictly after");
    let plan = scene.look(at(362));
    assert_eq!(told_to_stop(&plan), ["n-a"]);
    assert_eq!(created(&plan), [("n", "b")]);
    assert!(deleted(&plan).is_empty());
    scene.requests[0].timed_out = Some(at(362));
    scene.requests.push(request("n", "b", at(363)));
    let plan = scene.look(at(364));
    assert!(created(&plan).is_empty() && told_to_stop(&plan).is_empty());
    let tried = &plan.memory.nodes["n"].tried;
    assert_eq!(tried.len(), 2, "of one kind, each with an entry of its own");
    assert!(tried[0].timed_out.is_some() && tried[1].timed_out.is_none());
    // The second one is given its own time.
    let plan = scene.look(at(484));
    assert_eq!(told_to_stop(&plan), ["n-b"]);
    assert_eq!(reasons(&plan), ["NoTemplateLeft"]);
    scene.requests[1].timed_out = Some(at(484));
    // For good, until it is healthy: then both go.
    assert!(created(&scene.look(at(9999))).is_empty());
    *scene.node("n") = good("n");
    assert_eq!(deleted(&scene.look(at(10_000))), ["n-a", "n-b"]);
}

#[test]
fn one_that_has_failed_is_not_waited_for() {
    let mut scene = scene();
    scene.requests[0].succeeded = Some(false);
    let plan = scene.look(at(302));
    assert_eq!(
        (told_to_stop(&plan), created(&plan)),
        (vec!["n-a"], vec![("n", "b")])
    );
}

#[test]
fn one_that_has_succeeded_is_not_told_to_stop() {
    let mut scene = scene();
    scene.requests[0].succeeded = Some(true);
    let plan = scene.look(at(362));
    assert!(told_to_stop(&plan).is_empty());
    assert_eq!(created(&plan), [("n", "b")]);
}

#[test]
fn a_crash_between_the_status_and_the_word_loses_neither() {
    let mut scene = scene();
    scene.look(at(362));
    // The status says that it timed out, the remediation was not told.
    assert_eq!(told_to_stop(&scene.look(at(363))), ["n-a"]);
    // The other way round: the remediation was told, and the status does not say it.
    scene.memory = NodeCheckStatus::default();
    scene.requests[0].timed_out = Some(at(362));
    let plan = scene.look(at(364));
    assert_eq!(plan.memory.nodes["n"].tried[0].timed_out, Some(at(362)));
    assert_eq!(created(&plan), [("n", "b")]);
}

#[test]
fn a_single_template_is_given_half_an_hour_and_is_not_tried_again() {
    let mut scene = Fixture::new(check(), vec![good("x"), bad("n")]);
    scene.requests.push(request("n", "t", at(301)));
    assert!(told_to_stop(&scene.look(at(301 + 1800))).is_empty());
    let plan = scene.look(at(301 + 1801));
    assert_eq!(told_to_stop(&plan), ["n-t"]);
    let release = Action::ReleaseLease { node: "n".into() };
    assert!(plan.actions.contains(&release));
    assert_eq!(reasons(&plan), ["NoTemplateLeft"]);
    assert!(created(&scene.look(at(9999))).is_empty());
}

#[test]
fn the_limit_freezes_what_is_there_but_its_lease() {
    let mut scene = scene();
    *scene.node("x") = bad("x");
    let plan = scene.look(at(400));
    assert!(told_to_stop(&plan).is_empty() && created(&plan).is_empty());
    let renewed = |a: &Action| matches!(a, Action::RenewLease { node, .. } if node == "n");
    assert!(plan.actions.iter().any(renewed));
}

#[test]
fn of_two_of_the_control_plane_only_one_gets_its_next_step_f6() {
    let master = |name: &str| NodeFacts {
        control_plane: true,
        ..bad(name)
    };
    let mut scene = Fixture::new(
        escalating(),
        vec![good("x"), good("y"), master("m"), master("n")],
    );
    for node in ["m", "n"] {
        scene.requests.push(request(node, "a", at(0)));
    }
    scene.look(at(301));
    assert_eq!(created(&scene.look(at(362))), [("m", "b")]);
}
