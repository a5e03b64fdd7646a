use super::*;

fn fixture(delay: Delay) -> Fixture {
    let mut fixture = Fixture::new(Check { delay, ..check() }, vec![good("x"), bad("n")]);
    fixture.decide(at(301));
    fixture.remediations.push(remediation("n", "t", at(301)));
    fixture.outside.leases.insert("n".into(), renewed(at(301)));
    *fixture.node("n") = good("n");
    fixture
}

fn stamps(plan: &Plan) -> Vec<Option<Timestamp>> {
    let stamps = plan.actions.iter().filter_map(|action| match action {
        Action::Delay { since, .. } => Some(*since),
        _ => None,
    });
    stamps.collect()
}

#[test]
fn remediation_is_deleted_after_its_node_was_healthy_for_the_delay() {
    let mut fixture = fixture(Delay::For(MINUTE));
    let plan = fixture.decide(at(400));
    assert_eq!(stamps(&plan), [Some(at(400))]);
    assert!(plan.memory.nodes["n"].delayed && deleted(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(at(460)));
    fixture.remediations[0].delayed_since = Some(at(400));
    assert!(fixture.decide(at(459)).actions.is_empty());
    let plan = fixture.decide(at(460));
    assert_eq!(deleted(&plan), ["n-t"]);
    assert!(!plan.memory.nodes["n"].delayed);
}

#[test]
fn unhealthy_node_restarts_the_delay() {
    let mut fixture = fixture(Delay::For(MINUTE));
    fixture.remediations[0].delayed_since = Some(at(400));
    *fixture.node("n") = node("n", "Unknown", at(410));
    let plan = fixture.decide(at(711));
    assert_eq!(stamps(&plan), [None]);
    assert!(!plan.memory.nodes["n"].delayed);
    fixture.remediations[0].delayed_since = None;
    *fixture.node("n") = good("n");
    assert_eq!(stamps(&fixture.decide(at(720))), [Some(at(720))]);
}

#[test]
fn delay_until_confirmed_needs_one_confirmation() {
    let mut fixture = fixture(Delay::UntilConfirmed);
    let plan = fixture.decide(at(400));
    assert!(plan.memory.nodes["n"].delayed, "the status shows the delay");
    fixture.remediations[0].delayed_since = Some(at(400));
    assert!(fixture.decide(at(1_000_000)).actions.is_empty());
    fixture.node("n").confirmed = true;
    assert_eq!(deleted(&fixture.decide(at(1_000_001))), ["n-t"]);
    fixture.remediations.clear();
    let plan = fixture.decide(at(1_000_002));
    let unconfirm = Action::Unconfirm { node: "n".into() };
    assert!(plan.actions.contains(&unconfirm));
    assert!(fixture.decide(at(1_000_003)).actions.is_empty());
}
