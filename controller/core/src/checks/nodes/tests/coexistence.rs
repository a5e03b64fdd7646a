//! Nodes that others remediate too: other checks, the control plane, holders of the Node's Lease.

use super::*;

fn masters(good_ones: usize, bad_ones: usize) -> Vec<NodeFacts> {
    let good = (0..good_ones).map(|i| good(&format!("g{i}")));
    let bad = (0..bad_ones).map(|i| bad(&format!("b{i}")));
    let master = |node| NodeFacts {
        roles: PLANE,
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
fn only_one_of_several_checks_remediates_a_node() {
    let mut fixture = Fixture::new(permissive(), vec![good("a"), bad("n")]);
    let mut others = remediation("n", "other", at(300));
    others.owners = vec!["another-check".into()];
    fixture.remediations.push(others);
    let plan = fixture.decide(at(301));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.memory.nodes.len(), 1, "it is still unhealthy");
    assert!(
        plan.memory.nodes["n"].tried.is_empty(),
        "this check does not remediate it"
    );
    assert_eq!(plan.memory.phase, Some(Phase::Enabled));
    assert!(reasons(&plan).contains(&"RemediationSkipped"));
    fixture.remediations.clear();
    fixture
        .outside
        .elsewhere
        .insert("n".into(), "another".into());
    assert!(
        created(&fixture.decide(at(302))).is_empty(),
        "another check is creating a remediation"
    );
    fixture.outside.elsewhere.clear();
    assert_eq!(created(&fixture.decide(at(303))), [("n", "t")]);
}

#[test]
fn remediation_of_another_check_is_not_deleted() {
    let mut fixture = Fixture::new(check(), vec![good("n")]);
    let mut others = remediation("n", "other", at(300));
    others.owners = vec!["another-check".into()];
    fixture.remediations.push(others);
    let plan = fixture.decide(at(301));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.memory.healthy, 1);
}

#[test]
fn f6_one_control_plane_node_is_remediated_at_a_time() {
    let mut fixture = Fixture::new(permissive(), masters(4, 2));
    let plan = fixture.decide(at(301));
    assert_eq!(created(&plan), [("b0", "t")], "not even in one round");
    assert!(reasons(&plan).contains(&"RemediationSkipped"));
    fixture.remediations.push(remediation("b0", "t", at(302)));
    let plan = fixture.decide(at(303));
    assert!(created(&plan).is_empty());
    assert!(plan.wake_at.is_some());
}

#[test]
fn f6_control_plane_node_of_another_check_counts() {
    let mut fixture = Fixture::new(permissive(), masters(4, 1));
    let mut others = remediation("g0", "other", at(300));
    others.owners = vec!["another-check".into()];
    fixture.remediations.push(others);
    assert!(created(&fixture.decide(at(301))).is_empty());
    fixture.remediations.clear();
    assert_eq!(created(&fixture.decide(at(302))).len(), 1);
}

#[test]
fn f6_quorum_is_kept_without_openshift() {
    for (good_ones, bad_ones, acts) in [
        (2, 1, true),
        (1, 1, false),
        (1, 2, false),
        (0, 1, false),
        (3, 2, true),
        (2, 3, false),
    ] {
        let mut fixture = Fixture::new(permissive(), masters(good_ones, bad_ones));
        let plan = fixture.decide(at(301));
        assert_eq!(
            !created(&plan).is_empty(),
            acts,
            "{good_ones} and {bad_ones}"
        );
    }
    // Workers have no quorum.
    let mut fixture = Fixture::new(permissive(), vec![bad("w0"), bad("w1")]);
    assert_eq!(created(&fixture.decide(at(301))).len(), 2);
}

fn with(roles: Roles, nodes: impl IntoIterator<Item = NodeFacts>) -> Vec<NodeFacts> {
    let nodes = nodes.into_iter();
    nodes.map(|node| NodeFacts { roles, ..node }).collect()
}

#[test]
fn f6_nodes_that_only_run_etcd_are_remediated_one_at_a_time_and_keep_the_majority() {
    let plane = || with(PLANE, ["p0", "p1"].map(good));
    let etcd = |nodes: Vec<NodeFacts>| [plane(), with(ETCD, nodes)].concat();
    // Two of three have lost their kubelets: the third alone is no majority.
    let nodes = etcd(vec![bad("e0"), bad("e1"), good("e2")]);
    let mut fixture = Fixture::new(permissive(), nodes);
    assert!(created(&fixture.decide(at(301))).is_empty());
    // Two of five have.
    let nodes = ["e2", "e3", "e4"].map(good).into_iter();
    let nodes = etcd(nodes.chain(["e0", "e1"].map(bad)).collect());
    let mut fixture = Fixture::new(permissive(), nodes);
    let plan = fixture.decide(at(301));
    assert_eq!(created(&plan), [("e0", "t")], "not even in one round");
    fixture.remediations.push(remediation("e0", "t", at(302)));
    assert!(created(&fixture.decide(at(303))).is_empty());
}

#[test]
fn f6_majority_is_that_of_the_nodes_with_the_etcd_role_where_any_has_it() {
    let etcd = with(ETCD, ["e0", "e1", "e2"].map(good));
    let one = with(PLANE, [bad("p0")]);
    // It runs no etcd, so no majority is at stake, and etcd's members do not count for it.
    let mut fixture = Fixture::new(permissive(), [etcd.clone(), one].concat());
    assert_eq!(created(&fixture.decide(at(301))), [("p0", "t")]);
    // One at a time holds for both.
    let two = [with(PLANE, [bad("p0")]), with(ETCD, [bad("e3")])].concat();
    let mut fixture = Fixture::new(permissive(), [etcd, two].concat());
    assert_eq!(created(&fixture.decide(at(301))), [("e3", "t")]);
    fixture.remediations.push(remediation("p0", "t", at(302)));
    assert!(created(&fixture.decide(at(303))).is_empty());
    // Members of the control plane are none of etcd where others have its role.
    let plane = with(PLANE, ["p0", "p1", "p2"].map(good));
    let few = with(ETCD, [bad("e0"), good("e1")]);
    let mut fixture = Fixture::new(permissive(), [plane, few].concat());
    let plan = fixture.decide(at(301));
    assert!(created(&plan).is_empty());
    let told = |e: &Event| {
        e.message.contains("1 other Nodes are ready, 2 are needed")
            && e.message.contains("rackhand.dev/override-quorum")
    };
    assert!(plan.events.iter().any(told), "{:?}", plan.events);
}

#[test]
fn f6_escalation_continues_on_the_same_control_plane_node() {
    let check = Check {
        limit: Limit::MaxUnhealthy(IntOrPercent::Percent(100)),
        ..escalating()
    };
    let mut fixture = Fixture::new(check, masters(2, 1));
    fixture.decide(at(301));
    fixture.remediations.push(remediation("b0", "a", at(301)));
    assert_eq!(created(&fixture.decide(at(362))), [("b0", "b")]);
}

#[test]
fn lease_of_another_holder_delays_the_remediation() {
    let mut fixture = Fixture::new(permissive(), vec![good("a"), bad("n")]);
    let until = at(361);
    let why = "its Lease is held by SomebodyElse".to_owned();
    fixture.outside.blocked.insert("n".into(), (until, why));
    let plan = fixture.decide(at(301));
    assert!(created(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(until));
    assert!(
        plan.events
            .iter()
            .any(|e| e.message.contains("SomebodyElse"))
    );
    assert_eq!(created(&fixture.decide(until)), [("n", "t")]);
}

#[test]
fn lease_is_renewed_at_half_its_duration() {
    let mut fixture = Fixture::new(permissive(), vec![good("a"), bad("n")]);
    fixture.remediations.push(remediation("n", "t", at(301)));
    let renewal = Action::RenewLease {
        node: "n".into(),
        lease: Duration::from_secs(660),
    };
    assert_eq!(
        fixture.decide(at(302)).actions,
        std::slice::from_ref(&renewal),
        "the Lease is unknown"
    );
    fixture.outside.leases.insert("n".into(), renewed(at(302)));
    let plan = fixture.decide(at(303));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.wake_at, Some(at(302 + 330)));
    assert_eq!(fixture.decide(at(302 + 330)).actions, [renewal]);
}
