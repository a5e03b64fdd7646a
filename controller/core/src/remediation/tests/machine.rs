//! What a Machine says about its remediation: the annotation that requests one, and an update in place.

use super::{super::*, build::*};

#[test]
fn one_annotation_of_the_machine_requests_one_power_cycle() {
    let mut o = mk_observation();
    o.machine.as_mut().unwrap().is_requested = true;
    let s = mk_state(Step::Restoring);
    node(&mut o).boot_id = "boot-2".into();
    let ends = |o: &Observation, now: i64| {
        decide(o, Some(&s), at(now)).next == Next::Do(Command::EndMachineRequest)
    };
    assert!(!ends(&o, 30), "not before the Node is Ready");
    node(&mut o).ready = true;
    assert!(ends(&o, 30));
    o.machine.as_mut().unwrap().is_requested = false;
    // Another cause keeps the Machine unhealthy.
    let d = decide(&o, Some(&s), at(31));
    assert_eq!(d.reason, Reason::WaitingForHealth);
    o.machine.as_mut().unwrap().health_check_succeeded = Some(true);
    bmh(&mut o).powered_on = Some(true);
    assert_eq!(writes(&o, &s, 32).0.step, Step::Succeeded);
}

#[test]
fn update_in_place_holds_the_beginning_for_a_bounded_time() {
    let mut o = mk_observation();
    let machine = |o: &mut Observation, updating: bool| {
        o.machine.as_mut().unwrap().updating = updating.then(|| "condition Updating".into());
    };
    machine(&mut o, true);
    let (s, reason) = writes(&o, &mk_state(Step::Pending), 0);
    assert_eq!(reason.label(), "MachineUpdating");
    let (reason, until) = waits(&o, &s, 1);
    assert_eq!((reason.label(), until), ("MachineUpdating", 1800));
    assert!(reason.is_blocked());
    assert!(!decide(&o, Some(&s), at(1)).begins);
    // It goes on when the update has ended, or has taken too long.
    assert_eq!(writes(&o, &s, 1800).0.step, Step::Holding);
    machine(&mut o, false);
    assert_eq!(writes(&o, &s, 9).0.step, Step::Holding);
    // Other reasons not to begin are reported first, and their time does not count.
    machine(&mut o, true);
    o.object.paused = true;
    assert_eq!(waits(&o, &mk_state(Step::Pending), 0).0, Reason::Paused);
}

#[test]
fn f4_volume_of_pods_that_stay_on_the_node_is_not_waited_for() {
    let stays = BoundPod {
        tolerates_taint: true,
        is_terminating: false,
        claims: ["shop/data".to_owned()].into(),
        ..mk_pod("log-shipper")
    };
    let volume = BoundVolume {
        name: "csi-1".into(),
        claim: Some("shop/data".into()),
    };
    let drain = |pods: &[BoundPod], volume: &BoundVolume| Drain {
        pods: pods.to_vec(),
        volumes: vec![volume.clone()],
    };
    assert!(drain(std::slice::from_ref(&stays), &volume).is_finished());
    // Somebody else may wait for it, or it is not known whose it is.
    let of = |change: fn(&mut BoundPod)| {
        let mut pod = stays.clone();
        change(&mut pod);
        pod
    };
    for pods in [
        vec![],
        vec![stays.clone(), of(|pod| pod.tolerates_taint = false)],
        vec![of(|pod| pod.is_terminating = true)],
        vec![of(|pod| pod.is_ended = true)],
        vec![of(|pod| pod.claims.clear())],
    ] {
        let drain = drain(&pods, &volume);
        assert!(!drain.is_finished(), "{drain:?}");
        assert!(drain.describe().contains("1 volume (csi-1)"));
    }
    assert!(!drain(&[stays], &"csi-1".into()).is_finished());
}

#[test]
fn volume_of_a_node_that_is_gone_is_reported_with_the_ways_out() {
    let mut o = mk_held();
    o.power = mk_power(9, PowerState::Off);
    o.workload = WorkloadView::Missing {
        name: "node-7".into(),
    };
    o.drain = Some(Drain {
        pods: vec![],
        volumes: vec!["csi-1".into()],
    });
    for (now, label) in [(10, "Draining"), (700, "DrainBlocked")] {
        o.power = mk_power(now - 1, PowerState::Off);
        let (reason, _) = waits(&o, &mk_state(Step::Draining), now);
        assert_eq!(reason.label(), label);
        let text = reason.to_string();
        for part in [
            "csi-1",
            "Node node-7 does not exist",
            "remove the finalizers",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
    // A pod alone goes by itself.
    o.drain = Some(Drain {
        pods: vec![mk_pod("db")],
        volumes: vec![],
    });
    o.power = mk_power(9, PowerState::Off);
    let (reason, _) = waits(&o, &mk_state(Step::Draining), 10);
    assert!(!reason.to_string().contains("does not exist"), "{reason}");
}
