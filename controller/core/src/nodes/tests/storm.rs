use super::*;

fn stormy(nodes: Vec<NodeFacts>) -> Fixture {
    let check = Check {
        storm_cooldown: Some(MINUTE),
        limit: Limit::MinHealthy(IntOrPercent::Int(2)),
        ..check()
    };
    Fixture::new(check, nodes)
}

fn on(flag: Option<&Flag>) -> Option<bool> {
    flag.map(|flag| flag.on)
}

fn state(plan: &Plan) -> (Option<bool>, Option<bool>) {
    (
        on(plan.memory.storm.as_ref()),
        on(plan.memory.cooldown.as_ref()),
    )
}

#[test]
fn a_storm_begins_at_the_limit_cools_down_and_ends() {
    let mut scene = stormy(vec![good("a"), good("b"), bad("c")]);
    let plan = scene.look(at(301));
    assert_eq!(
        (state(&plan), created(&plan).len()),
        ((None, None), 1),
        "none before the first"
    );
    *scene.node("b") = bad("b");
    let plan = scene.look(at(302));
    assert_eq!(state(&plan), (Some(true), None));
    assert!(created(&plan).is_empty());
    assert!(reasons(&plan).contains(&"StormRecoveryStarted"));
    *scene.node("b") = good("b");
    let plan = scene.look(at(400));
    assert_eq!(state(&plan), (Some(true), Some(true)));
    assert!(created(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(at(460)));
    assert!(created(&scene.look(at(459))).is_empty());
    let plan = scene.look(at(460));
    assert_eq!(state(&plan), (Some(false), Some(false)));
    assert_eq!(created(&plan), [("c", "t")]);
    assert!(reasons(&plan).contains(&"StormRecoveryEnded"));
}

#[test]
fn a_breach_during_the_cooldown_restarts_it() {
    let mut scene = stormy(vec![good("a"), bad("b"), bad("c")]);
    scene.look(at(301));
    *scene.node("b") = good("b");
    scene.look(at(400));
    *scene.node("b") = bad("b");
    let plan = scene.look(at(430));
    assert_eq!(state(&plan), (Some(true), Some(false)));
    *scene.node("b") = good("b");
    assert_eq!(scene.look(at(440)).wake_at, Some(at(500)));
    assert!(created(&scene.look(at(499))).is_empty());
    assert_eq!(created(&scene.look(at(500))).len(), 1);
}

#[test]
fn a_storm_whose_nodes_all_recover_ends_by_itself() {
    let mut scene = stormy(vec![good("a"), bad("b"), bad("c")]);
    assert_eq!(state(&scene.look(at(301))), (Some(true), None));
    *scene.node("b") = good("b");
    *scene.node("c") = good("c");
    assert_eq!(state(&scene.look(at(400))), (Some(true), Some(true)));
    assert_eq!(state(&scene.look(at(460))), (Some(false), Some(false)));
    // The next failure is acted on at once.
    *scene.node("c") = bad("c");
    assert_eq!(created(&scene.look(at(500))), [("c", "t")]);
}

#[test]
fn without_a_cooldown_there_is_no_storm_and_an_old_one_is_over() {
    let mut scene = stormy(vec![good("a"), bad("b"), bad("c")]);
    scene.look(at(301));
    scene.check.storm_cooldown = None;
    *scene.node("b") = good("b");
    let plan = scene.look(at(302));
    assert_eq!(state(&plan), (Some(false), None));
    assert_eq!(created(&plan).len(), 1);
}
