//! Pods leave a host that is still on before anything is switched, and what was cordoned is uncordoned (F9).

use super::{super::*, build::*};

/// A Node that is Ready, on a host that is on, whose remediation evicts.
fn mk_ready() -> Observation {
    let mut o = mk_observation();
    policy(&mut o).eviction_timeout = secs(300);
    let n = node(&mut o);
    (n.ready, n.ready_unknown) = (true, false);
    n.lease.as_mut().unwrap().unchanged_since = at(0);
    o.power = mk_power(0, PowerState::On);
    o
}

/// The same, cordoned by this remediation, with two pods.
fn mk_cordoned() -> Observation {
    let mut o = mk_ready();
    node(&mut o).cordon = Cordon::Rackhand { uid: UID.into() };
    o.drain = Some(Drain {
        pods: ["db-1", "db-0"].map(mk_running).into(),
        volumes: vec![],
    });
    o
}

fn mk_running(name: &str) -> BoundPod {
    BoundPod {
        is_terminating: false,
        ..mk_pod(name)
    }
}

/// The state of an eviction that began at second 0.
fn mk_evicting(ready: bool, seconds: i64) -> State {
    let mut s = mk_state(Step::Evicting);
    s.node_was_down = !ready;
    s.agent_holds = false;
    s.cordoned = Some(CordonedNode {
        name: "node-7".into(),
        uid: "n7".into(),
        seen: false,
        removed: 0,
        again: None,
    });
    s.attempt.eviction = Some(Box::new(Eviction {
        until: at(seconds),
        ready,
        left: None,
        moved: at(0),
        evicted: 0,
        pods: vec![],
        forbidden: vec![],
        finished: false,
    }));
    s
}

fn pending() -> State {
    let mut s = mk_state(Step::Pending);
    s.node_was_down = false;
    s
}

fn keep_alive(o: &mut Observation, now: i64) {
    node(o).lease.as_mut().unwrap().unchanged_since = at(now);
}

fn answer(o: &mut Observation, pod: &str, now: i64, result: EvictionResult) {
    let answer = EvictionAnswer {
        pod: mk_pod(pod).id,
        at: at(now),
        result,
    };
    o.evictions.answers.insert(mk_pod(pod).id.uid, answer);
}

fn eviction(names: &[&str]) -> Command {
    Command::EvictPods {
        node: "n7".into(),
        pods: names.iter().map(|name| mk_pod(name).id).collect(),
    }
}

const N7: &str = "n7";

fn uncordon() -> Command {
    Command::Uncordon { node: N7.into() }
}

#[test]
fn pods_of_a_node_that_is_ready_leave_before_anything_is_held() {
    let mut o = mk_ready();
    let (s, _) = writes(&o, &pending(), 0);
    assert_eq!(s.step, Step::Evicting);
    assert_eq!(s.attempt.eviction.as_ref().unwrap().until, at(300));
    // F9: the cordon is recorded before it is set.
    assert_eq!(s.cordoned.as_ref().unwrap().uid, N7);
    assert_eq!(does(&o, &s, 0), Command::Cordon { node: N7.into() });
    node(&mut o).cordon = Cordon::Rackhand { uid: UID.into() };
    o.drain = mk_cordoned().drain;
    assert_eq!(does(&o, &s, 1), eviction(&["db-0", "db-1"]));
    for pod in ["db-0", "db-1"] {
        answer(&mut o, pod, 1, EvictionResult::Evicted);
    }
    for pod in &mut o.drain.as_mut().unwrap().pods {
        pod.is_terminating = true;
    }
    let (reason, until) = waits(&o, &s, 1);
    assert_eq!((reason.label(), until), ("Evicting", 3));
    o.drain = Some(Drain::default());
    let d = decide(&o, Some(&s), at(4));
    assert_eq!((d.next, d.state.step), (Next::Write, Step::Holding));
    assert_eq!(d.notes[0].reason, "EvictionFinished");
    assert_eq!(d.state.attempt.eviction.unwrap().evicted, 2);
}

#[test]
fn no_eviction_where_none_is_wanted_or_nothing_can_end_a_pod() {
    type Change = fn(&mut Observation);
    let cases: [(&str, Change); 6] = [
        ("CAPM3's way", |o| {
            policy(o).eviction_timeout = secs(0);
        }),
        ("only cycled", |o| {
            policy(o).strategy = Strategy::PowerCycleFirst;
        }),
        ("the control plane misses the kubelet", |o| {
            (node(o).ready, node(o).ready_unknown) = (false, true);
        }),
        ("not Ready, and a silent Lease", |o| {
            node(o).ready = false;
            node(o).lease.as_mut().unwrap().unchanged_since = at(-13);
        }),
        ("read as off", |o| o.power = mk_power(-1, PowerState::Off)),
        ("the cluster does not answer", |o| {
            o.workload = WorkloadView::Unreachable { why: "x".into() };
        }),
    ];
    for (what, change) in cases {
        let mut o = mk_ready();
        change(&mut o);
        assert_eq!(writes(&o, &pending(), 0).0.step, Step::Holding, "{what}");
    }
}

#[test]
fn host_that_fails_during_the_eviction_is_switched_off_at_once() {
    let s = mk_evicting(true, 300);
    let mut o = mk_cordoned();
    // The kubelet of a Node that is not Ready has not renewed its Lease for longer than it ever takes.
    node(&mut o).ready = false;
    assert_eq!(writes(&o, &s, 12).0.step, Step::Holding);
    node(&mut o).ready = true;
    o.power = mk_power(5, PowerState::Off);
    assert_eq!(writes(&o, &s, 6).0.step, Step::Holding);
    // Whoever waits for the pods waits for the word of the control plane.
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    o.power = mk_power(0, PowerState::On);
    assert_eq!(does(&o, &s, 12), eviction(&["db-0", "db-1"]));
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    assert_eq!(writes(&o, &s, 40).0.step, Step::Holding);
}

/// A BMC that was reset may report off for a host that runs.
#[test]
fn reading_of_off_ends_no_pod_that_is_waited_for() {
    for blocked in [EvictionPolicy::Wait, EvictionPolicy::Abort] {
        let s = mk_evicting(true, 300);
        let mut o = mk_cordoned();
        policy(&mut o).eviction_blocked = blocked;
        o.power = mk_power(5, PowerState::Off);
        keep_alive(&mut o, 6);
        assert_eq!(does(&o, &s, 6), eviction(&["db-0", "db-1"]));
        // What is off is soon unknown.
        (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
        assert_eq!(writes(&o, &s, 40).0.step, Step::Holding);
    }
}

#[test]
fn a_budget_that_blocks_is_named_and_tried_again_until_the_time_is_over() {
    let s = mk_evicting(true, 300);
    let mut o = mk_cordoned();
    keep_alive(&mut o, 10);
    answer(
        &mut o,
        "db-0",
        10,
        EvictionResult::Blocked("shop/db".into()),
    );
    answer(
        &mut o,
        "db-1",
        10,
        EvictionResult::Blocked("shop/db".into()),
    );
    let (reason, until) = waits(&o, &s, 11);
    assert_eq!((reason.label(), until), ("EvictionBlocked", 13));
    let text = reason.to_string();
    assert!(text.contains("2 pods (shop/db-1, shop/db-0)"), "{text}");
    assert!(
        text.contains("kept by PodDisruptionBudget shop/db"),
        "{text}"
    );
    assert_eq!(does(&o, &s, 15), eviction(&["db-0", "db-1"]));
    keep_alive(&mut o, 300);
    let d = decide(&o, Some(&s), at(300));
    assert_eq!((d.next, d.state.step), (Next::Write, Step::Holding));
    assert_eq!(d.reason.label(), "EvictionUnfinished");
    assert!(d.notes[0].warning && d.notes[0].message.contains("shop/db"));
}

#[test]
fn whoever_waits_or_aborts_is_not_switched_off_after_the_time() {
    let s = mk_evicting(true, 300);
    let mut o = mk_cordoned();
    keep_alive(&mut o, 400);
    answer(
        &mut o,
        "db-0",
        400,
        EvictionResult::Blocked("shop/db".into()),
    );
    answer(
        &mut o,
        "db-1",
        400,
        EvictionResult::Refused("forbidden".into()),
    );
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    let (reason, _) = waits(&o, &s, 400);
    assert_eq!(reason.label(), "EvictionWaits");
    assert!(reason.is_blocked());
    assert!(matches!(does(&o, &s, 9000), Command::EvictPods { .. }));
    policy(&mut o).eviction_blocked = EvictionPolicy::Abort;
    let (s, reason) = writes(&o, &s, 400);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Aborting, "EvictionAborted")
    );
    assert_eq!(does(&o, &s, 400), uncordon());
    node(&mut o).cordon = Cordon::Absent;
    o.completed.insert(Command::RemoveHold);
    let (s, _) = writes(&o, &s, 400);
    assert_eq!((s.step, s.attempt.off), (Step::Blocked, None));
}

#[test]
fn without_the_right_to_evict_a_host_is_not_waited_for() {
    let s = mk_evicting(true, 300);
    let mut o = mk_cordoned();
    for pod in ["db-0", "db-1"] {
        answer(&mut o, pod, 1, EvictionResult::Refused("forbidden".into()));
    }
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!(
        (s.step, reason.label()),
        (Step::Holding, "EvictionUnfinished")
    );
}

#[test]
fn node_that_is_not_ready_gets_thirty_seconds_and_twenty_without_progress() {
    let mut o = mk_cordoned();
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, false);
    let (begun, _) = writes(&o, &pending(), 0);
    let eviction = begun.attempt.eviction.unwrap();
    assert_eq!((begun.step, eviction.until), (Step::Evicting, at(30)));
    assert!(begun.node_was_down);
    for pod in ["db-0", "db-1"] {
        answer(&mut o, pod, 0, EvictionResult::Evicted);
    }
    for pod in &mut o.drain.as_mut().unwrap().pods {
        pod.is_terminating = true;
    }
    // The pods are counted first.
    let (s, _) = writes(&o, &mk_evicting(false, 30), 0);
    assert_eq!(s.attempt.eviction.as_ref().unwrap().left, Some(2));
    keep_alive(&mut o, 20);
    assert_eq!(waits(&o, &s, 19).0.label(), "Evicting");
    assert_eq!(writes(&o, &s, 20).1.label(), "EvictionUnfinished");
    // One that leaves is progress.
    o.drain.as_mut().unwrap().pods.pop();
    let (s, _) = writes(&o, &s, 19);
    let eviction = s.attempt.eviction.as_ref().unwrap();
    assert_eq!((eviction.left, eviction.moved), (Some(1), at(19)));
    assert_eq!(waits(&o, &s, 29).0.label(), "Evicting");
    assert_eq!(writes(&o, &s, 30).0.step, Step::Holding);
}

#[test]
fn at_most_half_of_what_the_check_leaves_is_used() {
    let mut o = mk_ready();
    o.object.given_up_at = Some(at(120));
    let (s, _) = writes(&o, &pending(), 0);
    assert_eq!(s.attempt.eviction.unwrap().until, at(60));
    o.object.given_up_at = Some(at(-5));
    let (s, _) = writes(&o, &pending(), 0);
    assert_eq!(s.attempt.eviction.unwrap().until, at(0));
}

#[test]
fn f11_node_that_recovers_during_the_eviction_is_not_switched() {
    let s = mk_evicting(false, 30);
    let mut o = mk_cordoned();
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    assert_eq!(does(&o, &s, 5), uncordon());
    node(&mut o).cordon = Cordon::Absent;
    let (s, _) = writes(&o, &s, 5);
    assert_eq!((s.step, s.cordoned.clone()), (Step::Pending, None));
    assert_eq!(writes(&o, &s, 5).0.step, Step::Succeeded);
}

#[test]
fn f9_only_our_own_cordon_is_removed_on_every_way_out() {
    type Change = fn(&mut Observation);
    let ways: [(&str, Change); 6] = [
        ("frozen", |o| {
            o.conflict = Some(Reason::HeldByPolicy("freeze".into()));
        }),
        ("withdrawn", |o| o.object.deleting = true),
        ("stopped by its check", |o| o.object.timed_out = true),
        ("to be off", |o| bmh(o).online = false),
        ("serviced", |o| bmh(o).servicing = true),
        ("paused", |o| o.object.paused = true),
    ];
    for (what, change) in ways {
        for theirs in [false, true] {
            let mut o = mk_cordoned();
            change(&mut o);
            if theirs {
                node(&mut o).cordon = Cordon::Other;
            }
            let mut s = mk_evicting(true, 300);
            let mut uncordoned = false;
            for _ in 0..8 {
                let d = decide(&o, Some(&s), at(1));
                match d.next {
                    Next::Write => s = d.state,
                    Next::Do(command) => {
                        uncordoned |= command == uncordon();
                        assert!(
                            !matches!(command, Command::PowerOff { .. } | Command::AddHold),
                            "{what}"
                        );
                        if command == uncordon() {
                            node(&mut o).cordon = Cordon::Absent;
                        }
                        o.completed.insert(command);
                    }
                    Next::Wait(_) | Next::Done(_) => break,
                }
            }
            assert_eq!(uncordoned, !theirs, "{what}, {theirs}");
        }
    }
}

#[test]
fn f9_remediation_does_not_end_before_its_cordon_is_known_to_be_gone() {
    let mut o = mk_cordoned();
    o.object.deleting = true;
    let mut s = mk_evicting(true, 300);
    s.step = Step::Aborting;
    s.attempt.end_reason = Some(Reason::Withdrawn);
    o.completed.insert(Command::RemoveHold);
    o.workload = WorkloadView::Unreachable { why: "x".into() };
    assert_eq!(waits(&o, &s, 1).0.label(), "WorkloadUnreachable");
    // A Node that was replaced is another one.
    o.workload = mk_ready().workload;
    node(&mut o).uid = "n8".into();
    assert!(matches!(does(&o, &s, 1), Command::RemoveFinalizer(_)));
}

#[test]
fn f9_node_that_is_back_is_uncordoned_with_its_taint() {
    let mut o = mk_held();
    node(&mut o).cordon = Cordon::Rackhand { uid: UID.into() };
    let s = mk_state(Step::Restoring);
    assert_eq!(does(&o, &s, 1), uncordon());
    node(&mut o).cordon = Cordon::Rackhand {
        uid: "another".into(),
    };
    assert_eq!(does(&o, &s, 1), Command::RemoveHold);
}

#[test]
fn pods_of_daemon_sets_and_static_and_finished_pods_stay() {
    let cases: [fn(&mut BoundPod); 3] = [
        |pod| pod.is_mirror = true,
        |pod| pod.is_of_daemon_set = true,
        |pod| pod.is_ended = true,
    ];
    for change in cases {
        let mut o = mk_cordoned();
        let pods = &mut o.drain.as_mut().unwrap().pods;
        pods.iter_mut().for_each(change);
        assert_eq!(writes(&o, &mk_evicting(true, 300), 1).0.step, Step::Holding);
    }
}

#[test]
fn a_batch_of_evictions_is_bounded_and_in_order() {
    let mut o = mk_cordoned();
    o.drain.as_mut().unwrap().pods = (0..100)
        .rev()
        .map(|i| mk_running(&format!("db-{i:03}")))
        .collect();
    match does(&o, &mk_evicting(true, 300), 1) {
        Command::EvictPods { pods, .. } => {
            assert_eq!(pods.len(), 32);
            assert_eq!((&*pods[0].name, &*pods[31].name), ("db-000", "db-031"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn strategy_evict_keeps_the_host_on_and_its_node_cordoned_until_it_is_deleted() {
    let mut o = mk_ready();
    policy(&mut o).strategy = Strategy::Evict;
    let (s, _) = writes(&o, &pending(), 0);
    assert_eq!((s.step, s.strategy), (Step::Evicting, Strategy::Evict));
    node(&mut o).cordon = Cordon::Rackhand { uid: UID.into() };
    o.drain = Some(Drain::default());
    let (s, reason) = writes(&o, &s, 1);
    assert_eq!((s.step, reason), (Step::Evicted, Reason::Evicted));
    assert_eq!(waits(&o, &s, 2), (Reason::Evicted, 32));
    // A person who works on the host starts it again.
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    assert_eq!(waits(&o, &s, 2).0, Reason::Evicted);
    (node(&mut o).ready, node(&mut o).ready_unknown) = (true, false);
    // What somebody binds to it is evicted again.
    o.drain = mk_cordoned().drain;
    let (again, _) = writes(&o, &s, 1000);
    let until = again.attempt.eviction.unwrap().until;
    assert_eq!((again.step, until), (Step::Evicting, at(1300)));
    o.object.deleting = true;
    let (s, _) = writes(&o, &s, 1000);
    assert_eq!((s.step, does(&o, &s, 1000)), (Step::Aborting, uncordon()));
}

#[test]
fn f1_host_that_a_check_empties_is_fenced_if_it_fails_before_its_pods_have_left() {
    let mut o = mk_cordoned();
    policy(&mut o).strategy = Strategy::Evict;
    o.object.made_by_check = Some(at(-60));
    let mut s = mk_evicting(true, 300);
    s.strategy = Strategy::Evict;
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    assert_eq!(writes(&o, &s, 50).0.step, Step::Holding);
    s.step = Step::Evicted;
    assert_eq!(writes(&o, &s, 50).0.step, Step::Holding);
    let mut begun = pending();
    begun.node_was_down = true;
    assert_eq!(writes(&o, &begun, 50).0.step, Step::Holding);
    let mut drained = mk_state(Step::Draining);
    drained.strategy = Strategy::Evict;
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(10, PowerState::Off);
    o.drain = Some(Drain::default());
    assert_eq!(writes(&o, &drained, 10).0.step, Step::Fenced);
}

/// A host that a person has asked to be emptied and left on, whose Node is Unknown since second 5.
fn mk_silent() -> Observation {
    let mut o = mk_cordoned();
    policy(&mut o).strategy = Strategy::Evict;
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    let n = node(&mut o);
    (n.ready, n.ready_unknown, n.ready_since) = (false, true, Some(at(5)));
    o
}

fn mk_left_on(step: Step) -> State {
    let mut s = mk_evicting(true, 300);
    (s.step, s.strategy) = (step, Strategy::Evict);
    s
}

#[test]
fn host_that_is_left_on_is_not_switched_however_long_its_node_is_silent() {
    let policies = [
        EvictionPolicy::Wait,
        EvictionPolicy::Proceed,
        EvictionPolicy::Abort,
    ];
    let beginnings = [
        pending(),
        mk_left_on(Step::Evicting),
        mk_left_on(Step::Evicted),
    ];
    for (blocked, begun) in policies
        .into_iter()
        .flat_map(|policy| beginnings.clone().map(|s| (policy, s)))
    {
        for power in [PowerState::On, PowerState::Off] {
            let mut o = mk_silent();
            policy(&mut o).eviction_blocked = blocked;
            let mut s = begun.clone();
            for now in 0..500 {
                o.power = mk_power(now, power);
                let d = decide(&o, Some(&s), at(now));
                match d.next {
                    Next::Write => s = d.state,
                    Next::Do(command) => {
                        let harmless = matches!(
                            command,
                            Command::Uncordon { .. }
                                | Command::RemoveHold
                                | Command::UnblockMove
                                | Command::RemoveFinalizer(_)
                        );
                        assert!(harmless, "{blocked:?} {:?}: {command:?}", begun.step);
                        if matches!(command, Command::Uncordon { .. }) {
                            node(&mut o).cordon = Cordon::Absent;
                        }
                        o.completed.insert(command);
                    }
                    Next::Wait(_) | Next::Done(_) => {}
                }
                assert!(!s.agent_holds && s.step != Step::Holding, "{blocked:?}");
            }
            let expected = match (blocked, begun.step) {
                (_, Step::Evicted) | (EvictionPolicy::Proceed, _) => Step::Evicted,
                (EvictionPolicy::Wait, _) => Step::Evicting,
                (EvictionPolicy::Abort, _) => Step::Blocked,
            };
            assert_eq!(s.step, expected, "{blocked:?} from {:?}", begun.step);
        }
    }
}

#[test]
fn silent_host_that_is_left_on_says_which_pods_wait_since_when_and_what_to_do() {
    for step in [Step::Evicting, Step::Evicted] {
        let o = mk_silent();
        let (reason, _) = waits(&o, &mk_left_on(step), 50);
        assert_eq!(reason.label(), "SilentHostLeftOn");
        assert!(reason.is_blocked());
        let text = reason.to_string();
        for part in [
            &*format!("node node-7 is shown as Unknown since {}", at(5)),
            "2 pods (shop/db-1, shop/db-0)",
            "powerOff true",
            "end the maintenance",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    // A kubelet that comes back finds its Node cordoned, and only once health checks are told.
    for step in [Step::Evicting, Step::Evicted] {
        let mut o = mk_silent();
        node(&mut o).cordon = Cordon::Absent;
        let cordon = Command::Cordon { node: N7.into() };
        assert_eq!(does(&o, &mk_left_on(step), 50), cordon);
    }
    let mut o = mk_silent();
    node(&mut o).cordon = Cordon::Absent;
    o.conflict = Some(Reason::WaitingForMarks("HostMaintenance ns/m".into()));
    let (reason, _) = waits(&o, &mk_left_on(Step::Evicting), 50);
    assert_eq!(reason.label(), "WaitingForMarks");
    // What has left, waits for nothing.
    let mut o = mk_silent();
    o.drain = Some(Drain::default());
    assert_eq!(waits(&o, &mk_left_on(Step::Evicted), 50).0, Reason::Evicted);
    assert_eq!(
        writes(&o, &mk_left_on(Step::Evicting), 50).0.step,
        Step::Evicted
    );
}

#[test]
fn person_who_changes_the_strategy_has_a_host_switched_that_was_left_on() {
    for step in [Step::Evicting, Step::Evicted] {
        let mut o = mk_silent();
        policy(&mut o).strategy = Strategy::PowerOff;
        let mut s = mk_left_on(step);
        s.attempt.eviction.as_mut().unwrap().evicted = 2;
        let (s, _) = writes(&o, &s, 50);
        assert_eq!((s.step, s.strategy), (Step::Evicting, Strategy::PowerOff));
        assert_eq!(
            s.policy.as_ref().map(|p| p.strategy),
            Some(Strategy::PowerOff)
        );
        assert_eq!(writes(&o, &s, 50).0.step, Step::Holding);
        // The pods of a host that works leave first, and in the time that they have.
        let n = node(&mut o);
        (n.ready, n.ready_unknown) = (true, false);
        keep_alive(&mut o, 50);
        o.power = mk_power(50, PowerState::On);
        let mut s = s;
        if step == Step::Evicted {
            s = writes(&o, &s, 50).0;
        }
        assert_eq!(does(&o, &s, 50), eviction(&["db-0", "db-1"]));
        let eviction = s.attempt.eviction.as_ref().unwrap();
        let until = match step {
            Step::Evicted => 350,
            _ => 300,
        };
        assert_eq!((eviction.evicted, eviction.until), (2, at(until)));
    }
    // Nothing else switches it, and nobody takes a power-off back this way.
    let mut o = mk_cordoned();
    policy(&mut o).strategy = Strategy::Evict;
    o.power = mk_power(1, PowerState::On);
    keep_alive(&mut o, 1);
    let mut s = mk_evicting(true, 300);
    s.strategy = Strategy::PowerOff;
    assert_eq!(does(&o, &s, 1), eviction(&["db-0", "db-1"]));
}

#[test]
fn f6_host_that_was_emptied_is_in_the_hands_of_its_remediation() {
    for step in [Step::Evicting, Step::Evicted] {
        assert_eq!(Progress::of(Some(&mk_left_on(step))), Progress::Begun);
    }
}

#[test]
fn event_names_the_pods_of_a_failed_host_whose_budget_forbade_their_eviction() {
    let mut o = mk_cordoned();
    o.drain.as_mut().unwrap().pods = (0..20).map(|i| mk_running(&format!("db-{i:02}"))).collect();
    for i in 0..9 {
        let blocked = EvictionResult::Blocked("shop/db".into());
        answer(&mut o, &format!("db-{i:02}"), 10, blocked);
    }
    answer(&mut o, "db-19", 10, EvictionResult::Evicted);
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    let d = decide(&o, Some(&mk_evicting(true, 300)), at(50));
    assert_eq!((d.next, d.state.step), (Next::Write, Step::Holding));
    let [note] = &*d.notes else {
        panic!("{:?}", d.notes);
    };
    assert_eq!((note.warning, note.reason), (true, "FailedWithPods"));
    let text = &note.message;
    assert!(
        text.contains(
            "PodDisruptionBudget shop/db forbade the eviction of 9 pods (shop/db-00, shop/db-01, shop/db-02, shop/db-03, \
             shop/db-04 and 4 more)"
        ),
        "{text}"
    );
    assert!(text.contains("20 pods ("), "{text}");
    // What was evicted before is on record.
    let eviction = d.state.attempt.eviction.unwrap();
    assert_eq!(
        (eviction.evicted, &*eviction.pods),
        (1, &["shop/db-19".to_owned()][..])
    );
    // Nothing is said where nothing is left.
    o.drain = Some(Drain::default());
    let d = decide(&o, Some(&mk_evicting(true, 300)), at(50));
    assert!(d.notes.iter().all(|note| !note.warning), "{:?}", d.notes);
}

#[test]
fn pods_of_a_node_that_is_deleted_are_waited_for_until_they_are_gone() {
    let mut o = mk_cordoned();
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    let s = mk_evicting(true, 300);
    assert_eq!(waits(&o, &s, 10).0.label(), "Evicting");
    assert_eq!(waits(&o, &s, 300).0.label(), "EvictionWaits");
    policy(&mut o).eviction_blocked = EvictionPolicy::Abort;
    assert_eq!(writes(&o, &s, 300).1.label(), "EvictionAborted");
    policy(&mut o).eviction_blocked = EvictionPolicy::Proceed;
    assert_eq!(waits(&o, &s, 10).0.label(), "Evicting");
    assert_eq!(writes(&o, &s, 300).1.label(), "EvictionUnfinished");
    o.drain = Some(Drain::default());
    assert_eq!(writes(&o, &s, 10).0.step, Step::Holding);
}

#[test]
fn finalizers_that_keep_a_pod_are_named() {
    let mut o = mk_cordoned();
    keep_alive(&mut o, 10);
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    let pod = &mut o.drain.as_mut().unwrap().pods[0];
    (pod.is_terminating, pod.has_finalizers) = (true, true);
    o.drain.as_mut().unwrap().pods.truncate(1);
    let (reason, _) = waits(&o, &mk_evicting(true, 5), 10);
    let text = reason.to_string();
    assert!(
        text.contains("kept by the finalizers of shop/db-1"),
        "{text}"
    );
}

#[test]
fn first_pods_that_were_evicted_and_deleted_are_on_record_by_name() {
    let mut o = mk_cordoned();
    o.drain = Some(Drain::default());
    for i in 0..12 {
        answer(&mut o, &format!("db-{i:02}"), 1, EvictionResult::Evicted);
    }
    answer(&mut o, "db-99", 1, EvictionResult::Gone);
    let (mut s, _) = writes(&o, &mk_evicting(true, 300), 2);
    let eviction = s.attempt.eviction.as_ref().unwrap();
    let first: Vec<String> = (0..5).map(|i| format!("shop/db-{i:02}")).collect();
    assert_eq!((eviction.evicted, &eviction.pods), (12, &first));
    s.record_attempt(Reason::BootTimeout, at(9));
    let record = s.attempts.last().unwrap();
    assert_eq!((record.pods_evicted, &record.evicted_pods), (12, &first));
}

fn cordoned() -> Command {
    Command::Cordon { node: N7.into() }
}

/// Somebody who uncordons the Node whenever it is cordoned: the times of our cordons until `end`.
fn cordons_against(o: &mut Observation, begun: State, end: i64) -> (Vec<i64>, State) {
    let (mut s, mut times) = (begun, Vec::new());
    for now in 0..end {
        keep_alive(o, now);
        let power = if s.step == Step::Fenced {
            PowerState::Off
        } else {
            PowerState::On
        };
        o.power = mk_power(now, power);
        // Several turns of one second.
        for _ in 0..4 {
            let d = decide(o, Some(&s), at(now));
            match d.next {
                Next::Write => {
                    o.completed.clear();
                    s = d.state;
                }
                Next::Do(command) => {
                    times.extend((command == cordoned()).then_some(now));
                    o.completed.insert(command);
                }
                Next::Wait(until) => {
                    assert!(until > at(now));
                    break;
                }
                Next::Done(_) => panic!("it has ended"),
            }
        }
    }
    (times, s)
}

#[test]
fn cordon_that_is_removed_each_time_is_set_again_after_growing_pauses() {
    let mut wait = mk_ready();
    wait.drain = mk_cordoned().drain;
    policy(&mut wait).eviction_blocked = EvictionPolicy::Wait;
    let mut emptied = mk_ready();
    emptied.drain = Some(Drain::default());
    policy(&mut emptied).strategy = Strategy::Evict;
    let mut fenced = mk_state(Step::Fenced);
    fenced.cordoned = mk_evicting(true, 300).cordoned;
    for (what, o, begun) in [
        ("evicting", wait, mk_evicting(true, 300)),
        ("emptied", emptied, mk_left_on(Step::Evicted)),
        ("off", mk_off_and_drained(), fenced),
    ] {
        let mut o = o;
        let step = begun.step;
        let (times, s) = cordons_against(&mut o, begun, 2000);
        assert_eq!(s.step, step, "{what}");
        let expected = [0, 0, 10, 40, 130, 430, 730, 1030, 1330, 1630, 1930];
        assert_eq!(times, expected, "{what}");
        assert_eq!(s.cordoned.unwrap().removed, 10, "{what}");
    }
}

fn mk_off_and_drained() -> Observation {
    let mut o = mk_held();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    o
}

#[test]
fn host_that_is_off_keeps_the_cordon_that_it_was_emptied_with_and_no_other() {
    let mut o = mk_off_and_drained();
    o.power = mk_power(5, PowerState::Off);
    let mut s = mk_state(Step::Fenced);
    assert_eq!(waits(&o, &s, 5).0, Reason::Fenced, "it never had one");
    s.cordoned = mk_evicting(true, 300).cordoned;
    s.cordoned.as_mut().unwrap().seen = true;
    let (s, reason) = writes(&o, &s, 5);
    assert_eq!(reason, Reason::Fenced);
    assert_eq!(does(&o, &s, 5), cordoned());
    // While it may not be set again, the host is watched as ever, and it is said who keeps it from that.
    o.completed.insert(cordoned());
    let (reason, until) = waits(&o, &s, 6);
    assert_eq!((reason.label(), until), ("CordonRemoved", 15));
    assert!(reason.to_string().contains("node node-7"), "{reason}");
    o.power = None;
    let d = decide(&o, Some(&s), at(6));
    assert_eq!(d.next, Next::Do(Command::ReadPower));
    assert_eq!(d.reason.label(), "CordonRemoved");
    o.power = mk_power(5, PowerState::Off);
    node(&mut o).cordon = Cordon::Other;
    o.completed.clear();
    assert_eq!(waits(&o, &s, 6).0, Reason::Fenced);
}

#[test]
fn removal_of_a_cordon_is_counted_and_forgotten_after_a_calm() {
    let mut o = mk_cordoned();
    o.power = mk_power(1, PowerState::On);
    keep_alive(&mut o, 1);
    let mut s = mk_evicting(true, 300);
    s.attempt.eviction.as_mut().unwrap().ready = false;
    // Any write notes that the cordon is there, so that a new leader knows who has removed it.
    let (s, _) = writes(&o, &s, 1);
    assert!(s.cordoned.as_ref().unwrap().seen);
    node(&mut o).cordon = Cordon::Absent;
    let (s, _) = writes(&o, &s, 1);
    let mut shell = Shell::new(UID);
    shell.written(Some(&s));
    assert_eq!(
        (shell.cordon_removed(N7), shell.cordon_removed("n8")),
        (1, 0)
    );
    o.completed.insert(cordoned());
    let (reason, until) = waits(&o, &s, 2);
    assert_eq!((reason.label(), until), ("CordonRemoved", 11));
    assert!(reason.is_blocked() && reason.to_string().contains("node node-7"));
    keep_alive(&mut o, 1801);
    o.power = mk_power(1801, PowerState::On);
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    let (s, _) = writes(&o, &s, 1801);
    assert_eq!(s.cordoned.unwrap().removed, 1, "the first one was long ago");
}

#[test]
fn time_of_pods_ends_although_somebody_uncordons_their_node() {
    for (blocked, expected) in [
        (EvictionPolicy::Proceed, Step::Holding),
        (EvictionPolicy::Abort, Step::Aborting),
    ] {
        let mut o = mk_cordoned();
        policy(&mut o).eviction_blocked = blocked;
        node(&mut o).cordon = Cordon::Absent;
        let (_, s) = cordons_against(&mut o, mk_evicting(true, 300), 299);
        assert_eq!(s.step, Step::Evicting);
        keep_alive(&mut o, 300);
        o.power = mk_power(300, PowerState::On);
        assert_eq!(writes(&o, &s, 300).0.step, expected, "{blocked:?}");
    }
}

#[test]
fn short_silence_of_a_node_that_is_ready_is_no_death() {
    for blocked in [
        EvictionPolicy::Proceed,
        EvictionPolicy::Wait,
        EvictionPolicy::Abort,
    ] {
        let mut o = mk_cordoned();
        policy(&mut o).eviction_blocked = blocked;
        o.power = mk_power(40, PowerState::On);
        keep_alive(&mut o, 0);
        assert_eq!(
            writes(&o, &pending(), 40).0.step,
            Step::Evicting,
            "{blocked:?}"
        );
        let s = mk_evicting(true, 300);
        assert_eq!(does(&o, &s, 40), eviction(&["db-0", "db-1"]), "{blocked:?}");
        // The control plane has seen nothing of its kubelet for its grace period.
        (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
        assert_eq!(writes(&o, &s, 41).0.step, Step::Holding, "{blocked:?}");
    }
    // A Node that says itself that it is not Ready, and then nothing, has failed before.
    let mut o = mk_cordoned();
    o.power = mk_power(40, PowerState::On);
    node(&mut o).ready = false;
    let s = mk_evicting(false, 300);
    assert_eq!(writes(&o, &s, 40).0.step, Step::Holding);
}

#[test]
fn what_is_kept_until_it_is_deleted_says_so_at_its_end() {
    let mut o = mk_off_and_drained();
    o.object.deleting = true;
    o.power = mk_power(5, PowerState::Off);
    let (s, reason) = writes(&o, &mk_state(Step::Fenced), 5);
    assert_eq!(
        (s.step, reason),
        (Step::PoweringOn, Reason::KeptOffUntilDeleted)
    );
    let mut failed = mk_state(Step::Fenced);
    failed.keep_off = Some(Reason::ExhaustedKeptOff(2));
    assert_eq!(writes(&o, &failed, 5).1, Reason::WithdrawnAfterOff);
    let mut o = mk_cordoned();
    o.object.deleting = true;
    o.power = mk_power(5, PowerState::On);
    let (s, reason) = writes(&o, &mk_left_on(Step::Evicted), 5);
    assert_eq!(
        (s.step, reason),
        (Step::Aborting, Reason::EmptiedUntilDeleted)
    );
    node(&mut o).cordon = Cordon::Absent;
    o.object.finalizer = true;
    for _ in 0..8 {
        match decide(&o, Some(&s), at(6)).next {
            Next::Do(Command::RemoveFinalizer(outcome)) => {
                assert_eq!(outcome, RemediationOutcome::Withdrawn);
                return;
            }
            Next::Do(command) => drop(o.completed.insert(command)),
            next => panic!("{next:?}"),
        }
    }
    panic!("its finalizer is not removed");
}

#[test]
fn without_time_for_an_eviction_only_proceed_switches_what_a_budget_keeps() {
    for (blocked, expected) in [
        (EvictionPolicy::Proceed, Step::Holding),
        (EvictionPolicy::Wait, Step::Evicting),
        (EvictionPolicy::Abort, Step::Evicting),
    ] {
        let mut o = mk_ready();
        policy(&mut o).eviction_timeout = secs(0);
        policy(&mut o).eviction_blocked = blocked;
        assert_eq!(writes(&o, &pending(), 0).0.step, expected, "{blocked:?}");
    }
}

#[test]
fn nothing_is_cordoned_evicted_or_held_before_health_checks_are_told() {
    let missing = || Some(Reason::WaitingForMarks("HostMaintenance ns/m".into()));
    let reason = |o: &Observation, s: &State| {
        let (reason, until) = waits(o, s, 0);
        assert!(until <= 2, "looked for soon");
        reason.label()
    };
    let mut o = mk_ready();
    o.conflict = missing();
    assert_eq!(reason(&o, &pending()), "WaitingForMarks");
    // A mark that goes missing stops what has begun.
    assert_eq!(reason(&o, &mk_evicting(true, 300)), "WaitingForMarks");
    let mut o = mk_cordoned();
    o.conflict = missing();
    assert_eq!(reason(&o, &mk_evicting(true, 300)), "WaitingForMarks");
    let mut holding = mk_state(Step::Holding);
    holding.agent_holds = false;
    o.bmh.as_mut().unwrap().our_hold = false;
    assert_eq!(reason(&o, &holding), "WaitingForMarks");
    o.conflict = Some(Reason::SettingMarks("HostMaintenance ns/m".into()));
    assert_eq!(reason(&o, &holding), "SettingMarks");
    // A host that has failed is fenced.
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    let d = decide(&o, Some(&holding), at(0));
    assert!(!matches!(d.next, Next::Wait(_)), "{:?}", d.next);
    let d = decide(&o, Some(&mk_evicting(true, 300)), at(0));
    assert_eq!((d.next, d.state.step), (Next::Write, Step::Holding));
}

#[test]
fn mark_that_is_lost_in_the_last_moment_keeps_a_host_on_that_works() {
    let mut o = mk_cordoned();
    o.bmh = None;
    o.drain = Some(Drain::default());
    o.power = mk_power(0, PowerState::On);
    keep_alive(&mut o, 0);
    let begun = |step| {
        let mut s = mk_state(step);
        (s.mode, s.tries) = (Mode::Direct, 0);
        s.attempt.off = None;
        s
    };
    let cuts = |o: &Observation| {
        let d = decide(o, Some(&begun(Step::PoweringOff)), at(0));
        !matches!(d.next, Next::Wait(_))
    };
    assert!(cuts(&o), "with its marks");
    o.conflict = Some(Reason::WaitingForMarks("HostMaintenance ns/m".into()));
    let (reason, until) = waits(&o, &begun(Step::PoweringOff), 0);
    assert_eq!((reason.label(), until), ("WaitingForMarks", 2));
    let (back, reason) = writes(&o, &begun(Step::ShuttingDown), 0);
    assert_eq!(
        (back.step, reason.label()),
        (Step::Holding, "WaitingForMarks")
    );
    assert!(!back.attempt.soft_off);
    assert_eq!(waits(&o, &back, 0).0.label(), "WaitingForMarks");
    // A host that has failed is fenced, and so is one that may be off already.
    let mut off = begun(Step::PoweringOff);
    off.tries = 1;
    let d = decide(&o, Some(&off), at(0));
    assert!(!d.reason.is_of_marks(), "{:?}", d.reason);
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    assert!(cuts(&o), "its pods wait for that");
}

/// A host that is to be fenced because its Node failed while its pods were waited for, and whose Node is Ready again.
/// The agent has been away meanwhile, so nothing was sent.
fn mk_ready_again(step: Step) -> (Observation, State) {
    let mut o = mk_cordoned();
    o.bmh = None;
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    keep_alive(&mut o, 100);
    let mut s = mk_evicting(true, 300);
    s.attempt.eviction.as_mut().unwrap().evicted = 2;
    s.mode = Mode::Direct;
    s.host.as_mut().unwrap().bmh = None;
    s.step = step;
    s.agent_holds = step != Step::Holding;
    (o, s)
}

fn assert_resumed(o: &Observation, s: &State, what: &str) -> State {
    let d = decide(o, Some(s), at(100));
    assert_eq!(
        (d.next, d.state.step),
        (Next::Write, Step::Evicting),
        "{what}"
    );
    assert_eq!(d.notes[0].reason, "EvictionResumed", "{what}");
    let eviction = d.state.attempt.eviction.as_ref().unwrap();
    assert_eq!((eviction.evicted, eviction.until), (2, at(400)), "{what}");
    let node = |s: &State| s.cordoned.as_ref().map(|of| of.uid.clone());
    assert_eq!(node(&d.state), node(s), "{what}");
    d.state
}

#[test]
fn node_that_is_ready_again_before_anything_was_sent_keeps_the_pods_that_are_waited_for() {
    for step in [
        Step::Holding,
        Step::ShuttingDown,
        Step::PoweringOff,
        Step::AwaitingConfirmation,
    ] {
        for blocked in [EvictionPolicy::Wait, EvictionPolicy::Abort] {
            let (mut o, s) = mk_ready_again(step);
            policy(&mut o).eviction_blocked = blocked;
            let what = format!("{step:?} {blocked:?}");
            let resumed = assert_resumed(&o, &s, &what);
            assert_eq!(resumed.power_off_repeats, 0, "{what}");
            o.power = mk_power(100, PowerState::On);
            assert_eq!(does(&o, &resumed, 101), eviction(&["db-0", "db-1"]));
        }
    }
}

#[test]
fn power_off_of_which_nothing_was_sent_is_taken_back() {
    let (mut o, s) = mk_ready_again(Step::PoweringOff);
    o.operation = Some(OperationView::Running);
    assert!(matches!(does(&o, &s, 100), Command::Cancel { .. }));
    let ended = [
        OperationOutcome::Cancelled,
        OperationOutcome::Interrupted,
        OperationOutcome::Unconfirmed {
            why: "no answer".into(),
        },
    ];
    let ended = ended.map(|outcome| OperationView::Finished {
        outcome,
        commands_sent: 0,
    });
    let refused = OperationView::Rejected { why: "x".into() };
    for view in ended.into_iter().chain([refused]) {
        o.operation = Some(view.clone());
        let resumed = assert_resumed(&o, &s, &format!("{view:?}"));
        // The id is not used again.
        assert_eq!(resumed.power_off_repeats, 1);
    }
    // A BMC that did not answer is not asked to cut the power once it does.
    let (mut o, s) = mk_ready_again(Step::PoweringOff);
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    o.operation = Some(OperationView::Finished {
        outcome: OperationOutcome::Unconfirmed {
            why: "no answer".into(),
        },
        commands_sent: 0,
    });
    let (s, _) = writes(&o, &s, 100);
    assert_eq!((s.step, s.tries, s.unsent), (Step::PoweringOff, 1, 1));
    o.operation = None;
    (node(&mut o).ready, node(&mut o).ready_unknown) = (true, false);
    assert_eq!(assert_resumed(&o, &s, "dead BMC").power_off_repeats, 1);
}

#[test]
fn power_off_goes_on_where_it_may_have_been_sent_or_the_node_is_not_surely_back() {
    type Change = fn(&mut Observation, &mut State);
    let cases: [(&str, Change); 10] = [
        ("the control plane misses the kubelet", |o, _| {
            (node(o).ready, node(o).ready_unknown) = (false, true);
        }),
        ("a silent Lease", |o, _| keep_alive(o, 80)),
        ("not Ready", |o, _| node(o).ready = false),
        ("Proceed", |o, _| {
            policy(o).eviction_blocked = EvictionPolicy::Proceed;
        }),
        ("all have left", |_, s| {
            s.attempt.eviction.as_mut().unwrap().finished = true;
        }),
        ("tried before", |_, s| s.tries = 1),
        ("repeated", |_, s| s.power_off_repeats = 1),
        ("the operating system was asked", |_, s| {
            s.attempt.soft_off = true;
        }),
        ("sent", |o, _| {
            o.operation = finished(OperationOutcome::Cancelled);
        }),
        ("the agent is away", |o, _| {
            o.agent = AgentView::Unreachable { why: "x".into() };
        }),
    ];
    for (what, change) in cases {
        let (mut o, mut s) = mk_ready_again(Step::PoweringOff);
        change(&mut o, &mut s);
        let d = decide(&o, Some(&s), at(100));
        assert_ne!(d.state.step, Step::Evicting, "{what}");
        let cancels = matches!(d.next, Next::Do(Command::Cancel { .. }));
        assert!(!cancels, "{what}");
    }
}

#[test]
fn f9_node_that_recovers_after_its_power_off_was_taken_back_succeeds_with_the_hold_released() {
    for step in [Step::Pending, Step::Evicting] {
        let (mut o, mut s) = mk_ready_again(step);
        (s.node_was_down, s.agent_holds) = (true, true);
        s.attempt.update_refusals = 1;
        o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
        let (mut s, reason) = writes(&o, &s, 100);
        assert_eq!(
            (s.step, reason),
            (Step::Aborting, Reason::Recovered),
            "{step:?}"
        );
        let mut done = Vec::new();
        for _ in 0..8 {
            match decide(&o, Some(&s), at(101)) {
                Decision {
                    next: Next::Do(command),
                    ..
                } => {
                    if command == uncordon() {
                        node(&mut o).cordon = Cordon::Absent;
                    }
                    done.push(command.clone());
                    o.completed.insert(command);
                }
                Decision {
                    next: Next::Write,
                    state,
                    ..
                } => {
                    o.completed.clear();
                    s = state;
                    break;
                }
                d => panic!("{:?}", d.next),
            }
        }
        assert_eq!(s.step, Step::Succeeded, "{step:?}: {done:?}");
        assert!(done.contains(&Command::Release), "{step:?}: {done:?}");
        assert_eq!(s.attempts.last().unwrap().reason, Reason::Recovered);
    }
}

#[test]
fn pods_whose_eviction_was_forbidden_are_told_although_the_host_fails_in_a_freeze() {
    let mut o = mk_cordoned();
    policy(&mut o).eviction_blocked = EvictionPolicy::Wait;
    policy(&mut o).strategy = Strategy::PowerOff;
    let mut s = mk_evicting(true, 300);
    s.strategy = Strategy::PowerOff;
    answer(&mut o, "db-0", 1, EvictionResult::Evicted);
    answer(&mut o, "db-1", 1, EvictionResult::Blocked("shop/db".into()));
    o.conflict = Some(Reason::HeldByPolicy("a freeze".into()));
    assert_eq!(does(&o, &s, 2), uncordon());
    node(&mut o).cordon = Cordon::Absent;
    let (s, _) = writes(&o, &s, 3);
    assert_eq!(s.step, Step::Pending);
    // Nothing is asked of the API server about them from here on.
    (o.evictions, o.drain, o.conflict) = (Evictions::default(), None, None);
    let n = node(&mut o);
    (n.ready, n.ready_unknown) = (false, true);
    let mut s = s;
    s.node_was_down = true;
    let d = decide(&o, Some(&s), at(100));
    assert_eq!((d.next.clone(), d.state.step), (Next::Write, Step::Holding));
    let [note] = &d.notes[..] else {
        panic!("{:?}", d.notes);
    };
    assert_eq!((note.warning, note.reason), (true, "FailedWithPods"));
    for part in ["PodDisruptionBudget shop/db", "1 pod (shop/db-1)", "before"] {
        assert!(note.message.contains(part), "{part}: {}", note.message);
    }
    assert_eq!(d.state.attempt.eviction.unwrap().evicted, 1);
    // A Node that is Ready is asked anew.
    let n = node(&mut o);
    (n.ready, n.ready_unknown) = (true, false);
    keep_alive(&mut o, 100);
    s.node_was_down = false;
    assert_eq!(writes(&o, &s, 100).0.step, Step::Evicting);
}
