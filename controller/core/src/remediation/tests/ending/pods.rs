//! F1: pods are deleted only of the pinned Node, while its host is confirmed off in this attempt.

use super::{
    super::*,
    build::*,
    driver::Run,
    faults::{Fault, Plan, Rng},
    liveness::{random_observation, random_pod, random_state},
};

/// A Node that was tainted by this attempt, whose host is off since a moment, with one pod.
fn mk_draining() -> Observation {
    let mut o = mk_held();
    policy(&mut o).pod_deletion = PodDeletion::Immediate;
    node(&mut o).taint = Taint::Ours;
    o.power = mk_power(1, PowerState::Off);
    o.drain = Some(Drain {
        pods: vec![mk_pod("db-0")],
        volumes: vec![],
    });
    o
}

fn pods(o: &mut Observation) -> &mut Vec<BoundPod> {
    &mut o.drain.as_mut().unwrap().pods
}

fn deletion(names: &[&str]) -> Command {
    Command::DeletePods {
        node: "n7".into(),
        pods: names.iter().map(|name| mk_pod(name).id).collect(),
    }
}

#[test]
fn terminating_pods_of_a_host_that_is_off_are_deleted_once() {
    let mut o = mk_draining();
    pods(&mut o).push(mk_pod("db-1"));
    let s = mk_state(Step::Draining);
    assert_eq!(does(&o, &s, 2), deletion(&["db-0", "db-1"]));
    let [first, second] = ["db-0", "db-1"].map(|name| mk_pod(name).id);
    o.pod_deletions.deleted.insert(first);
    o.pod_deletions.refused.insert(second, "forbidden".into());
    assert_eq!(waits(&o, &s, 2).0.label(), "Draining");
    // A later version of the pod is another one.
    pods(&mut o)[1].id.version = "2".into();
    assert!(matches!(
        does(&o, &s, 2),
        Command::DeletePods { pods, .. } if pods.len() == 1 && pods[0].version == "2"
    ));
}

#[test]
fn deleted_pods_are_counted_for_the_attempt() {
    let mut o = mk_draining();
    o.pod_deletions.deleted.insert(mk_pod("db-0").id);
    pods(&mut o).clear();
    let d = decide(&o, Some(&mk_state(Step::Draining)), at(2));
    assert_eq!(
        (d.state.step, d.state.attempt.pods_deleted),
        (Step::PoweringOn, 1)
    );
    assert_eq!(
        d.notes[0].message,
        "no pod and no volume is left on the node; 1 pod was deleted by Rackhand"
    );
}

#[test]
fn a_batch_is_bounded() {
    let mut o = mk_draining();
    *pods(&mut o) = (0..100).map(|i| mk_pod(&format!("db-{i}"))).collect();
    match does(&o, &mk_state(Step::Draining), 2) {
        Command::DeletePods { pods, .. } => assert_eq!(pods.len(), 32),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pods_that_do_not_keep_from_drain_or_would_stay_are_not_deleted() {
    let cases: [fn(&mut BoundPod); 4] = [
        |pod| pod.is_mirror = true,
        |pod| pod.tolerates_taint = true,
        |pod| pod.is_terminating = false,
        |pod| pod.has_finalizers = true,
    ];
    for (i, change) in cases.into_iter().enumerate() {
        let mut o = mk_draining();
        change(&mut pods(&mut o)[0]);
        let d = decide(&o, Some(&mk_state(Step::Draining)), at(2));
        assert!(!matches!(d.next, Next::Do(_)), "case {i}: {d:?}");
    }
}

#[test]
fn f1_pods_are_deleted_only_with_the_proof_of_this_attempt() {
    type Change = fn(&mut Observation, &mut State);
    let cases: [(&str, Change); 10] = [
        ("the user's policy", |o, _| {
            policy(o).pod_deletion = PodDeletion::PodGc;
        }),
        ("not confirmed", |_, s| s.attempt.off = None),
        ("not read since", |o, _| {
            o.power = mk_power(-10, PowerState::Off);
        }),
        ("read as on", |o, _| o.power = mk_power(1, PowerState::On)),
        ("read as PoweringOff", |o, _| {
            o.power = mk_power(1, PowerState::PoweringOff);
        }),
        ("not our taint", |o, _| node(o).taint = Taint::Other),
        ("the taint was there before", |_, s| {
            s.attempt.taint = Some(TaintOwner::Other);
        }),
        ("another Node", |o, _| node(o).uid = "n8".into()),
        ("a Node that nothing identifies", |_, s| {
            s.attempt.node.as_mut().unwrap().unproven = true;
        }),
        ("a kubelet that reports", |o, _| {
            node(o).lease.as_mut().unwrap().renewed = "09:00:10".into();
        }),
    ];
    for (what, change) in cases {
        let (mut o, mut s) = (mk_draining(), mk_state(Step::Draining));
        change(&mut o, &mut s);
        let d = decide(&o, Some(&s), at(2));
        let deletes = matches!(d.next, Next::Do(Command::DeletePods { .. }));
        assert!(!deletes, "{what}: {d:?}");
    }
}

#[test]
fn f1_power_is_read_again_before_each_batch() {
    let mut o = mk_draining();
    let s = mk_state(Step::Draining);
    assert_eq!(does(&o, &s, 4), Command::ReadPower);
    o.power = mk_power(4, PowerState::Off);
    assert_eq!(does(&o, &s, 5), deletion(&["db-0"]));
}

#[test]
fn silent_bmc_leaves_pods_to_the_garbage_collector() {
    let mut o = mk_draining();
    o.power = mk_no_power(1);
    let s = mk_state(Step::Draining);
    assert_eq!(
        waits(&o, &s, 2),
        (Reason::Draining("1 pod (shop/db-0)".into()), 3)
    );
    pods(&mut o).clear();
    o.power = mk_power(2, PowerState::Off);
    assert_eq!(writes(&o, &s, 3).0.step, Step::PoweringOn);
}

#[test]
fn pods_are_listed_often_only_until_they_are_evicted() {
    let mut o = mk_draining();
    pods(&mut o)[0].is_terminating = false;
    let s = mk_state(Step::Draining);
    let until = |o: &Observation, now| match decide(o, Some(&s), at(now)).next {
        Next::Wait(until) => until.duration_since(at(now)).as_millis(),
        other => panic!("{other:?}"),
    };
    assert_eq!(until(&o, 2), 200);
    o.power = mk_power(3, PowerState::Off);
    assert_eq!(until(&o, 3), 1000);
    policy(&mut o).pod_deletion = PodDeletion::PodGc;
    o.power = mk_power(1, PowerState::Off);
    assert_eq!(until(&o, 2), 1000);
}

#[test]
fn f12_node_is_compared_again_before_pods_are_deleted() {
    let mut node = mk_node();
    node.taint = Taint::Ours;
    assert_eq!(deletion_is_justified(Some(&node), "n7"), Ok(()));
    assert!(deletion_is_justified(None, "n7").is_err());
    assert!(deletion_is_justified(Some(&node), "n8").is_err());
    for taint in [Taint::Absent, Taint::Other] {
        let node = NodeFacts {
            taint,
            ..node.clone()
        };
        assert!(deletion_is_justified(Some(&node), "n7").is_err());
    }
}

#[test]
fn workload_moves_at_once_when_rackhand_deletes_its_pods() {
    let moved = |deletes_pods| {
        let mut plan = Plan::calm(true);
        (plan.deletes_pods, plan.no_volume) = (deletes_pods, true);
        let mut run = Run::new(plan);
        run.go();
        let deleted = run
            .commands
            .iter()
            .filter(|c| matches!(c, Command::DeletePods { .. }))
            .count();
        let s = run.state.unwrap();
        let off = s.attempts[0].off.unwrap();
        let drained = s.attempts[0].drained.unwrap();
        (deleted, drained.duration_since(off).as_secs())
    };
    let (deletions, took) = moved(true);
    assert_eq!(deletions, 1);
    assert!(took <= 3, "{took} s");
    let (deletions, waited) = moved(false);
    assert_eq!(deletions, 0);
    assert!(waited > took, "{waited} s and {took} s");
}

#[test]
fn f3_no_pod_is_deleted_of_a_host_that_somebody_switched_on() {
    for seed in 0..40 {
        let mut plan = Plan::calm(seed % 2 == 0);
        (plan.seed, plan.deletes_pods) = (seed, true);
        let at = 10_000 + i64::try_from(seed).unwrap() * 500;
        plan.faults = vec![(at, Fault::Button)];
        // The world fails if a pod is deleted without proof, or runs twice.
        Run::new(plan).go();
    }
}

/// One random observation and state, close to a deletion more often than not.
fn random_draining(r: &mut Rng) -> (Observation, State, i64) {
    let (mut o, mut s) = (random_observation(r), random_state(r));
    let now = r.range(0, 30);
    s.step = Step::Draining;
    if !r.one_in(4) {
        o = mk_draining();
        *pods(&mut o) = ["db-0", "db-1", "db-2"]
            .map(|name| BoundPod {
                id: mk_pod(name).id,
                ..random_pod(r)
            })
            .into();
        let state = r.pick(&[PowerState::Off, PowerState::Off, PowerState::On]);
        o.power = mk_power(r.range(now - 4, now + 1), state);
        node(&mut o).taint = r.pick(&[Taint::Ours, Taint::Ours, Taint::Other]);
        let off = [mk_state(Step::Draining).attempt.off, s.attempt.off, None];
        s = mk_state(Step::Draining);
        s.attempt.off = r.pick(&off);
        s.attempt.taint = r.pick(&[Some(TaintOwner::Us), Some(TaintOwner::Us), None]);
        s.attempt.node.as_mut().unwrap().unproven = r.one_in(8);
        s.attempt.lease_at_off = s.attempt.lease_at_off.filter(|_| !r.one_in(8));
    }
    (o, s, now)
}

#[test]
fn f1_every_random_deletion_has_its_proof() {
    let mut deletions = 0;
    for seed in 0..20_000 {
        let mut r = Rng(seed);
        let (o, s, now) = random_draining(&mut r);
        let d = step(&o, Some(&s), at(now));
        let Next::Do(Command::DeletePods { node, pods }) = d.next else {
            continue;
        };
        deletions += 1;
        let WorkloadView::Present(there) = &o.workload else {
            panic!("pods of a Node that was not read: {seed}");
        };
        let pinned = s.attempt.node.as_ref().unwrap();
        assert!(
            node == there.uid && pinned.uid == node && !pinned.unproven,
            "{seed}"
        );
        assert!(
            there.taint == Taint::Ours && s.attempt.taint == Some(TaintOwner::Us),
            "{seed}"
        );
        assert!(
            s.attempt.lease_at_off.is_some() && o.object.policy.is_ok(),
            "{seed}"
        );
        let by_person = matches!(s.attempt.off, Some(OffEvidence::Person { .. }));
        let reads_off = o.power.as_ref().is_some_and(|power| {
            let fresh = at(now).duration_since(power.answered) < jiff::SignedDuration::from_secs(2);
            fresh
                && power
                    .result
                    .as_ref()
                    .is_ok_and(|r| r.state == PowerState::Off)
        });
        assert!(by_person || s.attempt.off.is_some() && reads_off, "{seed}");
        let all = &o.drain.as_ref().unwrap().pods;
        for pod in &pods {
            let bound = all.iter().find(|bound| bound.id == *pod).unwrap();
            assert!(bound.is_terminating && bound.keeps_from_drain(), "{seed}");
            assert!(!bound.has_finalizers, "{seed}");
        }
    }
    assert!(deletions > 500, "only {deletions} random deletions");
}
