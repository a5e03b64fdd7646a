use super::*;

fn scene(delay: Delay) -> Fixture {
    let mut scene = Fixture::new(Check { delay, ..check() }, vec![good("x"), bad("n")]);
    scene.look(at(301));
    scene.requests.push(request("n", "t", at(301)));
    scene.outside.leases.insert("n".into(), renewed(at(301)));
    *scene.node("n") = good("n");
    scene
}

fn stamps(plan: &Plan) -> Vec<Option<Timestamp>> {
    let stamps = plan.actions.iter().filter_map(|action| match action {
        Action::Delay { since, .. } => Some(*since),
        _ => None,
    });
    stamps.collect()
}

#[test]
fn a_remediation_goes_once_its_node_has_been_healthy_for_the_delay() {
    let mut scene = scene(Delay::For(MINUTE));
    let plan = scene.look(at(400));
    assert_eq!(stamps(&plan), [Some(at(400))]);
    assert!(plan.memory.nodes["n"].delayed && deleted(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(at(460)));
    scene.requests[0].delayed_since = Some(at(400));
    assert!(scene.look(at(459)).actions.is_empty());
    let plan = scene.look(at(460));
    assert_eq!(deleted(&plan), ["n-t"]);
    assert!(!plan.memory.nodes["n"].delayed);
}

#[test]
fn unhealthy_again_during_the_delay_it_begins_anew() {
    let mut scene = scene(Delay::For(MINUTE));
    scene.requests[0].delayed_since = Some(at(400));
    *scene.node("n") = node("n", "Unknown", at(410));
    let plan = scene.look(at(711));
    assert_eq!(stamps(&plan), [None]);
    assert!(!plan.memory.nodes["n"].delayed);
    scene.requests[0].delayed_since = None;
    *scene.node("n") = good("n");
    assert_eq!(stamps(&scene.look(at(720))), [Some(at(720))]);
}

#[test]
fn below_zero_a_person_has_to_confirm_and_is_not_asked_twice() {
    let mut scene = scene(Delay::UntilConfirmed);
    let plan = scene.look(at(400));
    assert!(plan.memory.nodes["n"].delayed, "it waits, and says so");
    scene.requests[0].delayed_since = Some(at(400));
    assert!(scene.look(at(1_000_000)).actions.is_empty());
    scene.node("n").confirmed = true;
    assert_eq!(deleted(&scene.look(at(1_000_001))), ["n-t"]);
    scene.requests.clear();
    let plan = scene.look(at(1_000_002));
    let unconfirm = Action::Unconfirm { node: "n".into() };
    assert!(plan.actions.contains(&unconfirm));
    assert!(scene.look(at(1_000_003)).actions.is_empty());
}
