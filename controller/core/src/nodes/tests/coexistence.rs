//! Nodes that others care for too: other checks, the control plane, whoever holds the Lease.

use super::*;

fn masters(good_ones: usize, bad_ones: usize) -> Vec<NodeFacts> {
    let good = (0..good_ones).map(|i| good(&format!("g{i}")));
    let bad = (0..bad_ones).map(|i| bad(&format!("b{i}")));
    let master = |node| NodeFacts {
        control_plane: true,
        ..node
    };
    good.chain(bad).map(master).collect()
}

fn permissive() -> Check {
    Check {
        limit: Limit::MaxUnhealthy(IntOrPercent::Percent(100)),
        ..check()
    }
}

#[test]
fn several_checks_of_one_node_and_one_acts() {
    let mut scene = Fixture::new(permissive(), vec![good("a"), bad("n")]);
    let mut others = request("n", "other", at(300));
    others.owners = vec!["another-check".into()];
    scene.requests.push(others);
    let plan = scene.look(at(301));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.memory.nodes.len(), 1, "it is unhealthy all the same");
    assert!(
        plan.memory.nodes["n"].tried.is_empty(),
        "and not remediated by this one"
    );
    assert_eq!(plan.memory.phase, Some(Phase::Enabled));
    assert!(reasons(&plan).contains(&"RemediationSkipped"));
    scene.requests.clear();
    scene.outside.elsewhere.insert("n".into(), "another".into());
    assert!(
        created(&scene.look(at(302))).is_empty(),
        "it is on its way there"
    );
    scene.outside.elsewhere.clear();
    assert_eq!(created(&scene.look(at(303))), [("n", "t")]);
}

#[test]
fn another_checks_remediation_is_not_deleted() {
    let mut scene = Fixture::new(check(), vec![good("n")]);
    let mut others = request("n", "other", at(300));
    others.owners = vec!["another-check".into()];
    scene.requests.push(others);
    let plan = scene.look(at(301));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.memory.healthy, 1);
}

#[test]
fn f6_one_node_of_the_control_plane_at_a_time() {
    let mut scene = Fixture::new(permissive(), masters(4, 2));
    let plan = scene.look(at(301));
    assert_eq!(created(&plan), [("b0", "t")], "not even in one round");
    assert!(reasons(&plan).contains(&"RemediationSkipped"));
    scene.requests.push(request("b0", "t", at(302)));
    let plan = scene.look(at(303));
    assert!(created(&plan).is_empty());
    assert!(plan.wake_at.is_some());
}

#[test]
fn f6_another_checks_control_plane_node_counts_too() {
    let mut scene = Fixture::new(permissive(), masters(4, 1));
    let mut others = request("g0", "other", at(300));
    others.owners = vec!["another-check".into()];
    scene.requests.push(others);
    assert!(created(&scene.look(at(301))).is_empty());
    scene.requests.clear();
    assert_eq!(created(&scene.look(at(302))).len(), 1);
}

#[test]
fn f6_the_quorum_is_kept_without_openshift() {
    for (good_ones, bad_ones, acts) in [
        (2, 1, true),
        (1, 1, false),
        (1, 2, false),
        (0, 1, false),
        (3, 2, true),
        (2, 3, false),
    ] {
        let mut scene = Fixture::new(permissive(), masters(good_ones, bad_ones));
        let plan = scene.look(at(301));
        assert_eq!(
            !created(&plan).is_empty(),
            acts,
            "{good_ones} and {bad_ones}"
        );
    }
    // Workers are nobody's quorum.
    let mut scene = Fixture::new(permissive(), vec![bad("w0"), bad("w1")]);
    assert_eq!(created(&scene.look(at(301))).len(), 2);
}

#[test]
fn f6_an_escalation_goes_on_at_the_same_node_of_the_control_plane() {
    let check = Check {
        limit: Limit::MaxUnhealthy(IntOrPercent::Percent(100)),
        ..escalating()
    };
    let mut scene = Fixture::new(check, masters(2, 1));
    scene.look(at(301));
    scene.requests.push(request("b0", "a", at(301)));
    assert_eq!(created(&scene.look(at(362))), [("b0", "b")]);
}

#[test]
fn a_lease_that_another_holds_is_waited_for() {
    let mut scene = Fixture::new(permissive(), vec![good("a"), bad("n")]);
    let until = at(361);
    let why = "its Lease is held by SomebodyElse".to_owned();
    scene.outside.blocked.insert("n".into(), (until, why));
    let plan = scene.look(at(301));
    assert!(created(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(until));
    assert!(
        plan.events
            .iter()
            .any(|e| e.message.contains("SomebodyElse"))
    );
    assert_eq!(created(&scene.look(until)), [("n", "t")]);
}

#[test]
fn the_lease_is_renewed_at_half_its_time() {
    let mut scene = Fixture::new(permissive(), vec![good("a"), bad("n")]);
    scene.requests.push(request("n", "t", at(301)));
    let renewal = Action::RenewLease {
        node: "n".into(),
        lease: Duration::from_secs(660),
    };
    assert_eq!(
        scene.look(at(302)).actions,
        std::slice::from_ref(&renewal),
        "nobody knows when"
    );
    scene.outside.leases.insert("n".into(), renewed(at(302)));
    let plan = scene.look(at(303));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.wake_at, Some(at(302 + 330)));
    assert_eq!(scene.look(at(302 + 330)).actions, [renewal]);
}
