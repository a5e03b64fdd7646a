//! F6: who goes first.

use super::{
    super::{Active, Because, ControlPlane, EtcdGuard, conflict},
    build::at,
};

fn mk(uid: &str, created: i64) -> Active {
    Active {
        name: format!("PowerRemediation default/{uid}"),
        uid: uid.into(),
        created: at(created),
        begun: false,
        machine: None,
        node: None,
        bmc: None,
        control_plane_of: None,
    }
}

fn first(other: &str) -> Option<Because> {
    Some(Because::OtherRemediation(format!(
        "PowerRemediation default/{other}"
    )))
}

#[test]
fn f6_of_two_that_share_a_machine_a_node_or_a_bmc_the_older_goes_first() {
    let share: [fn(&mut Active); 3] = [
        |a| a.machine = Some("default/m1".into()),
        |a| a.node = Some("c1/node-7".into()),
        |a| a.bmc = Some("10.0.0.7".into()),
    ];
    for set in share {
        let (mut old, mut young) = (mk("z-old", 0), mk("a-young", 1));
        set(&mut old);
        set(&mut young);
        let all = [old.clone(), young.clone()];
        assert_eq!(conflict(&old, &all, None), None);
        assert_eq!(conflict(&young, &all, None), first("z-old"));
    }
}

#[test]
fn f6_one_that_has_begun_goes_on_before_an_older_one() {
    let (mut old, mut young) = (mk("old", 0), mk("young", 1));
    old.bmc = Some("10.0.0.7".into());
    young.bmc.clone_from(&old.bmc);
    young.begun = true;
    let all = [old.clone(), young.clone()];
    assert_eq!(conflict(&old, &all, None), first("young"));
    assert_eq!(conflict(&young, &all, None), None);
}

#[test]
fn f6_of_two_of_the_same_second_exactly_one_goes() {
    let (mut a, mut b) = (mk("a", 0), mk("b", 0));
    a.node = Some("c1/node-7".into());
    b.node.clone_from(&a.node);
    let all = [b.clone(), a.clone()];
    assert_eq!(conflict(&a, &all, None), None);
    assert_eq!(conflict(&b, &all, None), first("a"));
}

#[test]
fn f6_what_is_not_known_is_not_shared() {
    assert_eq!(conflict(&mk("b", 1), &[mk("a", 0), mk("b", 1)], None), None);
}

#[test]
fn f6_two_control_plane_machines_of_one_cluster_go_one_after_the_other() {
    let (mut a, mut b, mut c) = (mk("a", 0), mk("b", 1), mk("c", 2));
    a.control_plane_of = Some("default/c1".into());
    b.control_plane_of = Some("default/c1".into());
    c.control_plane_of = Some("default/c2".into());
    let all = [a, b.clone(), c.clone()];
    assert_eq!(conflict(&b, &all, None), first("a"));
    assert_eq!(conflict(&c, &all, None), None);
}

#[test]
fn f6_a_control_plane_machine_is_fenced_only_while_a_majority_stays_without_it() {
    let quorum = |total, healthy_others| {
        conflict(
            &mk("a", 0),
            &[],
            Some(ControlPlane {
                total,
                healthy_others,
                guard: None,
            }),
        )
    };
    assert_eq!(quorum(3, 2), None);
    assert_eq!(quorum(5, 3), None);
    for (total, healthy) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
        let because = quorum(total, healthy).unwrap();
        assert_eq!(because.label(), "ControlPlaneQuorum");
        assert!(because.is_blocked());
    }
}

#[test]
fn f6_the_quorum_is_asked_for_again_before_a_further_attempt() {
    let mut me = mk("a", 0);
    me.begun = true;
    let because = conflict(
        &me,
        &[],
        Some(ControlPlane {
            total: 3,
            healthy_others: 1,
            guard: None,
        }),
    );
    assert_eq!(
        because.unwrap().to_string(),
        "switching off this control-plane machine could cost etcd its quorum: 1 of 3 members \
         would be left, 2 are needed"
    );
}

#[test]
fn f6_openshifts_guard_of_etcd_has_a_say_too() {
    let ask = |guard: Result<EtcdGuard, String>| {
        let quorum = ControlPlane {
            total: 3,
            healthy_others: 2,
            guard: Some(guard),
        };
        conflict(&mk("a", 0), &[], Some(quorum)).map(|b| b.to_string())
    };
    let guard = |budgets, allowed, member_ready| {
        ask(Ok(EtcdGuard {
            budgets,
            allowed,
            member_ready,
        }))
    };
    assert_eq!(guard(1, 1, true), None);
    assert_eq!(guard(1, 0, false), None, "a member that is down already");
    for (refused, why) in [
        (guard(1, 0, true), "no disruption"),
        (guard(0, 9, true), "0 PodDisruptionBudgets"),
        (guard(2, 9, false), "2 PodDisruptionBudgets"),
        (ask(Err("403".into())), "cannot be asked: 403"),
    ] {
        let refused = refused.unwrap();
        assert!(refused.contains(why), "{refused}");
    }
}
