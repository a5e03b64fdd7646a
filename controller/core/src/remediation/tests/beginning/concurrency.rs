//! F6: the order of remediations.

use super::{
    super::{Command, Progress, Reason, State, Step, progress_again, step},
    build::{
        at, bmh, does, mk_direct, mk_direct_state, mk_observation, mk_state, node, waits, writes,
    },
};
use crate::{
    fleet::roles::Roles,
    limits::concurrency::{
        ActiveRemediation, ControlPlane, EtcdGuard, OtherMachine, Urgency, check_concurrency,
    },
};

fn mk(uid: &str, created: i64) -> ActiveRemediation {
    ActiveRemediation {
        name: format!("PowerRemediation default/{uid}"),
        uid: uid.into(),
        created: at(created),
        progress: Progress::Ready,
        machine: None,
        node: None,
        bmc: None,
        control_plane_of: Vec::new(),
        urgency: Urgency::unknown(),
        policy: crate::fleet::placement::PolicyFacts::default(),
    }
}

fn conflict(me: &ActiveRemediation, others: &[ActiveRemediation]) -> Option<Reason> {
    check_concurrency(me, others, None).reason
}

fn other_remediation(other: &str) -> Option<Reason> {
    Some(Reason::OtherRemediation(format!(
        "PowerRemediation default/{other}"
    )))
}

#[test]
fn f6_older_remediation_of_one_machine_node_or_bmc_goes_first() {
    let share: [fn(&mut ActiveRemediation); 3] = [
        |a| a.machine = Some("default/m1".into()),
        |a| a.node = Some("c1/node-7".into()),
        |a| a.bmc = Some("10.0.0.7".into()),
    ];
    for set in share {
        let (mut old, mut young) = (mk("z-old", 0), mk("a-young", 1));
        set(&mut old);
        set(&mut young);
        let all = [old.clone(), young.clone()];
        assert_eq!(conflict(&old, &all), None);
        assert_eq!(conflict(&young, &all), other_remediation("z-old"));
    }
}

#[test]
fn f6_begun_remediation_precedes_an_older_one() {
    let (mut old, mut young) = (mk("old", 0), mk("young", 1));
    old.bmc = Some("10.0.0.7".into());
    young.bmc.clone_from(&old.bmc);
    young.progress = Progress::Begun;
    let all = [old.clone(), young.clone()];
    assert_eq!(conflict(&old, &all), other_remediation("young"));
    assert_eq!(conflict(&young, &all), None);
}

#[test]
fn f6_uid_breaks_ties_of_equal_creation_times() {
    let (mut a, mut b) = (mk("a", 0), mk("b", 0));
    a.node = Some("c1/node-7".into());
    b.node.clone_from(&a.node);
    let all = [b.clone(), a.clone()];
    assert_eq!(conflict(&a, &all), None);
    assert_eq!(conflict(&b, &all), other_remediation("a"));
}

#[test]
fn f6_unknown_keys_do_not_conflict() {
    assert_eq!(conflict(&mk("b", 1), &[mk("a", 0), mk("b", 1)]), None);
}

#[test]
fn f6_control_plane_machines_of_one_cluster_go_one_after_another() {
    let (mut a, mut b, mut c) = (mk("a", 0), mk("b", 1), mk("c", 2));
    a.control_plane_of = vec!["default/c1".into()];
    b.control_plane_of = vec!["default/c1".into()];
    c.control_plane_of = vec!["default/c2".into()];
    let all = [a, b.clone(), c.clone()];
    assert_eq!(conflict(&b, &all), other_remediation("a"));
    assert_eq!(conflict(&c, &all), None);
    // A cluster that manages itself is known by two names.
    c.control_plane_of.push("default/c1".into());
    assert_eq!(conflict(&c, &all), other_remediation("a"));
}

#[test]
fn f6_control_plane_machine_is_fenced_only_if_a_majority_remains() {
    let quorum = |total, healthy_others| {
        check_concurrency(&mk("a", 0), &[], Some(plane(total, healthy_others))).reason
    };
    assert_eq!(quorum(3, 2), None);
    assert_eq!(quorum(5, 3), None);
    for (total, healthy) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
        let reason = quorum(total, healthy).unwrap();
        assert_eq!(reason.label(), "ControlPlaneQuorum");
        assert!(reason.is_blocked());
    }
}

#[test]
fn f6_quorum_is_checked_before_a_further_attempt() {
    let mut me = mk("a", 0);
    me.progress = Progress::of(Some(&mk_state(Step::Retrying)));
    let decision = check_concurrency(&me, &[], without_quorum());
    assert_eq!(
        decision.reason.unwrap().to_string(),
        "switching off this control-plane machine could cost etcd its quorum: 1 of 3 members \
         would be left, 2 are needed; repair the other members first. If nothing can be lost, because the \
         majority is lost already or there is no etcd, annotate this remediation with \
         rackhand.dev/override-quorum=<its UID>"
    );
    assert_eq!(decision.progress, Progress::Waiting);
}

/// Members of etcd, this one included.
fn plane(total: u32, healthy_others: u32) -> ControlPlane {
    ControlPlane {
        total,
        healthy_others,
        unhealthy: Vec::new(),
        guard: None,
        unread: None,
        overruled: false,
    }
}

/// A control plane that would lose its quorum.
fn without_quorum() -> Option<ControlPlane> {
    Some(plane(3, 1))
}

/// Other machines with their roles, such as `ec` for a server of RKE2 with all roles, and whether they are healthy.
fn others(all: &[(&str, bool)]) -> Vec<OtherMachine> {
    let of = |(number, (roles, is_healthy)): (usize, &(&str, bool))| OtherMachine {
        name: format!("n{number}"),
        roles: roles_of(roles),
        is_healthy: *is_healthy,
    };
    all.iter().enumerate().map(of).collect()
}

fn roles_of(letters: &str) -> Roles {
    Roles {
        etcd: letters.contains('e'),
        control_plane: letters.contains('c'),
    }
}

#[test]
fn f6_members_are_the_machines_with_the_etcd_role_where_any_has_it() {
    for (me, all, counted) in [
        // Dedicated members of etcd beside servers without it.
        (
            "e",
            vec![("e", true), ("e", false), ("c", true), ("", true)],
            Some((3, 1)),
        ),
        (
            "c",
            vec![("e", true), ("e", true), ("e", true), ("c", true)],
            None,
        ),
        // The role that only the other object of the machine shows counts as well.
        ("ec", vec![("ec", true), ("ec", true)], Some((3, 2))),
        (
            "c",
            vec![("c", true), ("c", false), ("", true)],
            Some((3, 1)),
        ),
        ("", vec![("c", true), ("e", true)], None),
        ("e", vec![("c", true), ("c", true)], Some((1, 0))),
        ("c", Vec::new(), Some((1, 0))),
    ] {
        let plane = ControlPlane::of(roles_of(me), &others(&all));
        let found = plane.map(|plane| (plane.total, plane.healthy_others));
        assert_eq!(found, counted, "{me} {all:?}");
    }
}

#[test]
fn refusal_names_the_members_that_are_not_healthy() {
    let all = [("e", false), ("e", true), ("c", false), ("e", false)];
    let plane = ControlPlane::of(roles_of("e"), &others(&all)).unwrap();
    let text = plane.refuses().unwrap().to_string();
    assert!(
        text.contains("left (not healthy: n0, n3), 3 are needed"),
        "{text}"
    );
    let many = vec![("e", false); 100];
    let plane = ControlPlane::of(roles_of("e"), &others(&many)).unwrap();
    assert_eq!(plane.unhealthy.len(), 5, "a message has a bound");
}

#[test]
fn f6_person_overrules_the_quorum_but_not_that_one_goes_at_a_time() {
    let unread = || ControlPlane::unknown("no answer".into());
    let guarded = || ControlPlane {
        guard: Some(Err("403".into())),
        ..plane(3, 2)
    };
    let all = pair(Progress::Ready, Progress::Ready);
    let alone = pair(Progress::Ready, Progress::Waiting);
    // Two servers on an external database, a single member, a majority that is lost, and what is not known.
    for quorum in [plane(2, 1), plane(1, 0), plane(3, 0), unread(), guarded()] {
        let refused = check_concurrency(&all[0], &alone, Some(quorum.clone()));
        let why = refused.reason.clone().unwrap();
        assert_eq!(why.label(), "ControlPlaneQuorum");
        assert_eq!(
            (refused.progress, refused.overruled),
            (Progress::Waiting, None)
        );
        let said = || {
            Some(ControlPlane {
                overruled: true,
                ..quorum.clone()
            })
        };
        let begins = check_concurrency(&all[0], &alone, said());
        assert_eq!((begins.reason, begins.progress), (None, Progress::Begun));
        assert_eq!(begins.overruled, Some(why), "what was overruled is told");
        // Another member goes first, or is under way.
        let waits = check_concurrency(&all[1], &all, said());
        assert_eq!(waits.reason, other_remediation("old"));
        assert_eq!((waits.progress, waits.overruled), (Progress::Ready, None));
        let begun = pair(Progress::Begun, Progress::Ready);
        let waits = check_concurrency(&begun[1], &begun, said());
        assert_eq!(waits.reason, other_remediation("old"));
        // The second look, before the first power-off.
        let mut me = all[0].clone();
        me.progress = Progress::Begun;
        assert_eq!(check_concurrency(&me, &all, said()).reason, None);
    }
    // Nothing is overruled where nothing would be lost.
    let kept = ControlPlane {
        overruled: true,
        ..plane(3, 2)
    };
    assert_eq!(
        check_concurrency(&all[0], &alone, Some(kept)).overruled,
        None
    );
}

fn pair(old: Progress, young: Progress) -> [ActiveRemediation; 2] {
    let (mut a, mut b) = (mk("old", 0), mk("young", 1));
    (a.progress, b.progress) = (old, young);
    for one in [&mut a, &mut b] {
        one.control_plane_of = vec!["default/c1".into()];
    }
    [a, b]
}

#[test]
fn f6_older_waiting_remediation_blocks_no_other() {
    let all = pair(Progress::Waiting, Progress::Ready);
    let decision = check_concurrency(&all[1], &all, None);
    assert_eq!(
        (decision.reason, decision.progress),
        (None, Progress::Begun)
    );
    // Once it is ready again, the other one has begun.
    let all = pair(Progress::Ready, Progress::Begun);
    let decision = check_concurrency(&all[0], &all, None);
    assert_eq!(
        (decision.reason, decision.progress),
        (other_remediation("young"), Progress::Ready)
    );
    // If it is ready in time, it goes first.
    let all = pair(Progress::Ready, Progress::Ready);
    assert_eq!(
        check_concurrency(&all[0], &all, None).progress,
        Progress::Begun
    );
    let decision = check_concurrency(&all[1], &all, None);
    assert_eq!(
        (decision.reason, decision.progress),
        (other_remediation("old"), Progress::Ready)
    );
}

/// The missing member may be the younger one's, which must not wait for the older one.
#[test]
fn f6_remediation_without_quorum_blocks_no_other() {
    let all = pair(Progress::Ready, Progress::Ready);
    let decision = check_concurrency(&all[0], &all, without_quorum());
    assert_eq!(decision.progress, Progress::Waiting);
    assert_eq!(decision.reason.unwrap().label(), "ControlPlaneQuorum");
    // A begun remediation takes precedence as the reason.
    let all = pair(Progress::Ready, Progress::Begun);
    let decision = check_concurrency(&all[0], &all, without_quorum());
    assert_eq!(
        (decision.reason, decision.progress),
        (other_remediation("young"), Progress::Waiting)
    );
}

#[test]
fn f6_begun_remediation_continues_regardless_of_others() {
    for other in [Progress::Waiting, Progress::Ready, Progress::Begun] {
        let all = pair(other, Progress::Begun);
        let decision = check_concurrency(&all[1], &all, None);
        assert_eq!(
            (decision.reason, decision.progress),
            (None, Progress::Begun)
        );
    }
}

#[test]
fn f6_progress_is_ready_only_before_and_between_attempts() {
    assert_eq!(Progress::of(None), Progress::Ready);
    for step in super::waiting::STEPS {
        let between = matches!(step, Step::Pending | Step::Retrying);
        let progress = Progress::of(Some(&mk_state(step)));
        assert_eq!(progress == Progress::Ready, between, "{step:?}");
        assert_eq!(
            progress == Progress::Waiting,
            step.is_terminal(),
            "{step:?}"
        );
    }
}

#[test]
fn f6_decision_begins_unless_already_begun_or_prevented() {
    let mut o = mk_observation();
    let begins = |o: &super::super::Observation, s: Option<&State>| step(o, s, at(0)).begins;
    for finalizer in [false, true] {
        o.object.finalizer = finalizer;
        assert!(begins(&o, None));
        for step in super::waiting::STEPS {
            let between = matches!(step, Step::Pending | Step::Retrying);
            assert_eq!(begins(&o, Some(&mk_state(step))), between, "{step:?}");
        }
    }
    let causes: [fn(&mut super::super::Observation); 12] = [
        |o| o.object.paused = true,
        |o| o.object.deleting = true,
        |o| o.object.timed_out = true,
        |o| o.object.policy = Err(super::super::PolicyError::NoStrategy),
        |o| o.machine = None,
        |o| o.agent = super::super::AgentView::Unreachable { why: "dark".into() },
        |o| o.host = super::super::HostView::NotFound(Reason::HostNotFound("n".into())),
        |o| bmh(o).paused = true,
        |o| bmh(o).online = false,
        |o| bmh(o).disable_power_off = true,
        |o| o.conflict = Some(Reason::RivalController("k".into())),
        |o| {
            o.object.by_node = true;
            o.workload = super::super::WorkloadView::Missing { name: "n".into() };
        },
    ];
    for (i, cause) in causes.iter().enumerate() {
        let mut o = mk_observation();
        cause(&mut o);
        assert!(!begins(&o, Some(&mk_state(Step::Pending))), "cause {i}");
    }
    // The node recovers between two attempts.
    let n = node(&mut o);
    (n.ready, n.ready_unknown) = (true, false);
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert!(!begins(&o, Some(&mk_state(Step::Retrying))));
    // F11: before the first attempt too, unless the node was always Ready.
    assert!(!begins(&o, Some(&mk_state(Step::Pending))));
    let ready = State {
        node_was_down: false,
        ..mk_state(Step::Pending)
    };
    assert!(begins(&o, Some(&ready)));
}

#[test]
fn f6_openshift_etcd_guard_is_respected() {
    let refusal = |guard: Result<EtcdGuard, String>| {
        let quorum = ControlPlane {
            guard: Some(guard),
            ..plane(3, 2)
        };
        let decision = check_concurrency(&mk("a", 0), &[], Some(quorum));
        decision.reason.map(|b| b.to_string())
    };
    let guard = |budgets, allowed, member_ready| {
        refusal(Ok(EtcdGuard {
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
        (
            refusal(Err("403".into())),
            "cannot query the etcd guard: 403",
        ),
    ] {
        let refused = refused.unwrap();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn f6_quorum_is_checked_before_the_first_power_off() {
    let lost = Reason::ControlPlaneQuorum("1 of 3 members would be left, 2 are needed".into());
    let mut o = mk_observation();
    o.conflict = Some(lost.clone());
    // Nothing is switched yet: the remediation waits again.
    let (s, reason) = writes(&o, &mk_state(Step::Holding), 1);
    assert_eq!((s.step, &reason), (Step::Pending, &lost));
    let mut direct = mk_direct();
    direct.conflict = Some(lost.clone());
    let (s, _) = writes(&direct, &mk_direct_state(Step::PoweringOff), 1);
    assert_eq!(s.step, Step::Pending);
    assert_eq!(waits(&direct, &s, 2).0, lost);
    let mut again = mk_state(Step::Holding);
    again.record_attempt(Reason::BootTimeout, at(0));
    assert_eq!(writes(&o, &again, 1).0.step, Step::Retrying);
    // With our hold set, baremetal-operator may have switched the host off already.
    bmh(&mut o).our_hold = true;
    assert_eq!(
        writes(&o, &mk_state(Step::Holding), 1).0.step,
        Step::PoweringOff
    );
    let off = does(&o, &mk_state(Step::PoweringOff), 1);
    assert!(matches!(off, Command::PowerOff { .. }));
}

#[test]
fn host_that_is_frozen_before_its_first_power_off_waits_again() {
    let frozen = Reason::HeldByPolicy("PowerPolicy p: within its freeze".into());
    let mut o = mk_observation();
    o.conflict = Some(frozen.clone());
    let (s, reason) = writes(&o, &mk_state(Step::Holding), 1);
    assert_eq!((s.step, &reason), (Step::Pending, &frozen));
    assert_eq!(waits(&o, &s, 2).0, frozen);
    let mut direct = mk_direct();
    direct.conflict = Some(frozen);
    let (s, _) = writes(&direct, &mk_direct_state(Step::PoweringOff), 1);
    assert_eq!(s.step, Step::Pending);
}

#[test]
fn f6_begun_remediation_reports_a_lost_quorum() {
    let mut me = mk("a", 0);
    me.progress = Progress::Begun;
    assert_eq!(check_concurrency(&me, [], Some(plane(3, 2))).reason, None);
    let decision = check_concurrency(&me, [], without_quorum());
    assert_eq!(decision.progress, Progress::Begun);
    assert_eq!(
        decision.reason.map(|b| b.label()),
        Some("ControlPlaneQuorum")
    );
    // Members that cannot be read count as unhealthy.
    let unread = check_concurrency(&me, [], Some(ControlPlane::unknown("no answer".into())));
    assert!(
        unread
            .reason
            .is_some_and(|b| b.to_string().contains("no answer"))
    );
}

#[test]
fn f6_beginning_whose_write_had_no_response_keeps_its_place() {
    let (ready, begun, waiting) = (Progress::Ready, Progress::Begun, Progress::Waiting);
    let pending = State::new(at(0));
    let retrying = State {
        step: Step::Retrying,
        ..State::new(at(0))
    };
    for state in [None, Some(&pending)] {
        assert_eq!(progress_again(ready, true, Some(begun), state), begun);
        assert_eq!(progress_again(ready, true, Some(ready), state), ready);
        assert_eq!(progress_again(ready, true, None, state), ready);
        // What cannot begin blocks no other.
        assert_eq!(progress_again(ready, false, Some(begun), state), waiting);
    }
    // Before the next attempt, concurrency and policies are evaluated again.
    assert_eq!(
        progress_again(ready, true, Some(begun), Some(&retrying)),
        ready
    );
    assert_eq!(progress_again(begun, true, None, Some(&pending)), begun);
}
