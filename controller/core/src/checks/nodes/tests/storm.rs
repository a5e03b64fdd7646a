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
fn storm_begins_at_the_limit_cools_down_and_ends() {
    let mut fixture = stormy(vec![good("a"), good("b"), bad("c")]);
    let plan = fixture.decide(at(301));
    assert_eq!(
        (state(&plan), created(&plan).len()),
        ((None, None), 1),
        "no storm before the limit is reached"
    );
    *fixture.node("b") = bad("b");
    let plan = fixture.decide(at(302));
    assert_eq!(state(&plan), (Some(true), None));
    assert!(created(&plan).is_empty());
    assert!(reasons(&plan).contains(&"StormRecoveryStarted"));
    *fixture.node("b") = good("b");
    let plan = fixture.decide(at(400));
    assert_eq!(state(&plan), (Some(true), Some(true)));
    assert!(created(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(at(460)));
    assert!(created(&fixture.decide(at(459))).is_empty());
    let plan = fixture.decide(at(460));
    assert_eq!(state(&plan), (Some(false), Some(false)));
    assert_eq!(created(&plan), [("c", "t")]);
    assert!(reasons(&plan).contains(&"StormRecoveryEnded"));
}

#[test]
fn breach_during_the_cooldown_restarts_the_cooldown() {
    let mut fixture = stormy(vec![good("a"), bad("b"), bad("c")]);
    fixture.decide(at(301));
    *fixture.node("b") = good("b");
    fixture.decide(at(400));
    *fixture.node("b") = bad("b");
    let plan = fixture.decide(at(430));
    assert_eq!(state(&plan), (Some(true), Some(false)));
    *fixture.node("b") = good("b");
    assert_eq!(fixture.decide(at(440)).wake_at, Some(at(500)));
    assert!(created(&fixture.decide(at(499))).is_empty());
    assert_eq!(created(&fixture.decide(at(500))).len(), 1);
}

#[test]
fn storm_ends_after_all_nodes_recover() {
    let mut fixture = stormy(vec![good("a"), bad("b"), bad("c")]);
    assert_eq!(state(&fixture.decide(at(301))), (Some(true), None));
    *fixture.node("b") = good("b");
    *fixture.node("c") = good("c");
    assert_eq!(state(&fixture.decide(at(400))), (Some(true), Some(true)));
    assert_eq!(state(&fixture.decide(at(460))), (Some(false), Some(false)));
    // The next failure is remediated at once.
    *fixture.node("c") = bad("c");
    assert_eq!(created(&fixture.decide(at(500))), [("c", "t")]);
}

#[test]
fn without_cooldown_no_storm_begins_and_an_old_one_ends() {
    let mut fixture = stormy(vec![good("a"), bad("b"), bad("c")]);
    fixture.decide(at(301));
    fixture.check.storm_cooldown = None;
    *fixture.node("b") = good("b");
    let plan = fixture.decide(at(302));
    assert_eq!(state(&plan), (Some(false), None));
    assert_eq!(created(&plan).len(), 1);
}
