//! L1: every wait has a reason, no step loops, and nothing is decided on missing observations.

use jiff::Timestamp;

use super::{super::*, build::*};

pub(in crate::remediation::tests) const STEPS: [Step; 16] = [
    Step::Pending,
    Step::Holding,
    Step::PoweringOff,
    Step::AwaitingConfirmation,
    Step::ConfirmingOff,
    Step::Tainting,
    Step::Draining,
    Step::Fenced,
    Step::PoweringOn,
    Step::Booting,
    Step::Restoring,
    Step::Retrying,
    Step::Aborting,
    Step::Succeeded,
    Step::Escalated,
    Step::Blocked,
];

#[test]
fn l1_causes_without_an_event_are_rechecked() {
    let cases: [Case<Observation>; 5] = [
        (
            |o| o.object.policy = Err(PolicyError::NoStrategy),
            "InvalidSpec",
        ),
        (|o| o.object.paused = true, "Paused"),
        (|o| o.machine = None, "MachineNotFound"),
        (
            |o| o.host = HostView::NotFound(Reason::HostNotFound("node-7".into())),
            "HostNotFound",
        ),
        (
            |o| o.agent = AgentView::Unreachable { why: "dark".into() },
            "AgentUnreachable",
        ),
    ];
    for (set, label) in cases {
        let mut o = mk_observation();
        set(&mut o);
        for step in [Step::Pending, Step::Retrying] {
            let (reason, until) = waits(&o, &mk_state(step), 0);
            assert_eq!((reason.label(), until), (label, 15));
        }
    }
}

/// With agent and workload API unreachable, each step reports which of them it waits for, or continues.
#[test]
fn l1_every_step_waits_with_a_reason_without_agent_and_workload() {
    for step in STEPS {
        for deleting in [false, true] {
            let mut o = mk_held();
            o.object.deleting = deleting;
            o.agent = AgentView::Unreachable { why: "dark".into() };
            o.workload = WorkloadView::Unreachable {
                why: "refused".into(),
            };
            let mut s = mk_state(step);
            let mut seen = Vec::new();
            for _ in 0..20 {
                let d = decide(&o, Some(&s), at(1));
                seen.push((d.state.step, d.next.clone()));
                match d.next {
                    Next::Write => {
                        s = d.state;
                        o.completed.clear();
                    }
                    Next::Do(Command::AddHold) => bmh(&mut o).our_hold = true,
                    Next::Do(Command::RemoveHold) => {
                        bmh(&mut o).our_hold = false;
                        o.completed.insert(Command::RemoveHold);
                    }
                    Next::Do(Command::RemoveFinalizer(_)) => o.object.finalizer = false,
                    Next::Do(Command::Escalate { .. }) => {
                        o.machine.as_mut().unwrap().owner_remediated_false = true;
                        bmh(&mut o).unhealthy_mark = true;
                    }
                    Next::Do(other) => panic!("{other:?} without agent and workload at {step:?}"),
                    Next::Wait(_) => {
                        let timed = o.step_until(&s).is_some();
                        assert!(timed || d.reason.has_no_deadline(), "{step:?}: {seen:?}");
                        break;
                    }
                    Next::Done(_) => break,
                }
            }
            assert!(
                seen.len() < 20,
                "{step:?} deleting {deleting} goes on for ever: {seen:?}"
            );
        }
    }
}

#[test]
fn l1_every_step_reaches_a_wait_or_a_command() {
    // Commands that show no effect are repeated by the shell, with a pause; everything else must
    // come to a wait within a few turns.
    for step in STEPS {
        for state in [
            PowerState::On,
            PowerState::Off,
            PowerState::PoweringOff,
            PowerState::Unknown,
        ] {
            let mut o = mk_held();
            o.power = mk_power(1, state);
            o.drain = Some(Drain::default());
            let mut s = mk_state(step);
            let mut turns = 0;
            loop {
                let d = decide(&o, Some(&s), at(2));
                turns += 1;
                assert!(turns < 30, "{step:?} {state:?}: {d:?}");
                match d.next {
                    Next::Write => s = d.state,
                    _ => break,
                }
            }
        }
    }
}

#[test]
fn boot_timeout_does_not_expire_during_a_workload_outage() {
    let mut o = mk_observation();
    let up = o.workload.clone();
    for step in [Step::Booting, Step::Restoring] {
        o.workload = WorkloadView::Unreachable {
            why: "refused".into(),
        };
        let mut s = mk_state(step);
        s.attempt.taint = None;
        (s, _) = writes(&o, &s, 600);
        assert_eq!(s.step, step);
        o.power = mk_power(900, PowerState::On);
        assert_eq!(waits(&o, &s, 900).0.label(), "WorkloadUnreachable");
        o.workload = up.clone();
        (s, _) = writes(&o, &s, 1000);
        assert_eq!(s.retry_at, Some(at(1060)));
        o.power = mk_power(1001, PowerState::On);
        if step == Step::Booting {
            assert_eq!(waits(&o, &s, 1001), (Reason::Booting, 1016));
        }
        assert_ne!(writes(&o, &s, 1060).0.step, step);
    }
}

#[test]
fn invalid_policy_stops_only_the_next_attempt() {
    let mut o = mk_observation();
    o.object.policy = Err(PolicyError::UnknownStrategy("Reprovision".into()));
    let mut s = mk_state(Step::Restoring);
    s.attempt.end_reason = Some(Reason::BootTimeout);
    assert_eq!(waits(&o, &s, 600).0.label(), "InvalidSpec");
    let mut o = mk_held();
    o.object.policy = Err(PolicyError::NoStrategy);
    o.operation = confirmed();
    assert_eq!(
        writes(&o, &mk_state(Step::PoweringOff), 5).0.step,
        Step::ConfirmingOff
    );
}

#[test]
fn health_is_rechecked_without_a_node_event() {
    let mut o = mk_observation();
    let back = node(&mut o);
    (back.ready, back.boot_id) = (true, "boot-2".into());
    let s = mk_state(Step::Restoring);
    o.power = mk_power(10, PowerState::On);
    assert_eq!(waits(&o, &s, 10), (Reason::WaitingForHealth, 25));
    o.power = mk_power(595, PowerState::On);
    assert_eq!(waits(&o, &s, 595), (Reason::WaitingForHealth, 600));
    o.machine.as_mut().unwrap().not_checked = true;
    assert_eq!(writes(&o, &s, 10).0.step, Step::Succeeded);
}

#[test]
fn operation_ids_are_unique_per_attempt_repeat_and_try() {
    let mut ids = std::collections::BTreeSet::new();
    for (attempt, started) in [(1, 0), (2, 600)] {
        for step in [Step::PoweringOff, Step::PoweringOn, Step::Aborting] {
            for (power_off_repeats, tries) in [(0, 0), (0, 1), (1, 0)] {
                let mut s = State {
                    power_off_repeats,
                    tries,
                    ..mk_state(step)
                };
                (s.attempt.number, s.attempt.started) = (attempt, at(started));
                assert!(ids.insert(operation_id(UID, &s).unwrap()));
            }
        }
    }
    // AwaitingConfirmation continues with the operation that is under way.
    let s = mk_state(Step::PoweringOff);
    let waiting = State {
        step: Step::AwaitingConfirmation,
        ..s.clone()
    };
    assert_eq!(operation_id(UID, &s), operation_id(UID, &waiting));
    // A new state after a lost one does not get the old evidence.
    let mut anew = s.clone();
    anew.attempt.started = at(9);
    assert_ne!(operation_id(UID, &s), operation_id(UID, &anew));
    // The stored form has the same operation id.
    let stored = serde_json::to_string(&s).unwrap();
    let read: State = serde_json::from_str(&stored).unwrap();
    assert_eq!(operation_id(UID, &read), operation_id(UID, &s));
}

#[test]
fn state_survives_serialization_and_missing_newer_fields() {
    for step in STEPS {
        let s = mk_state(step);
        let json = serde_json::to_value(&s).unwrap();
        assert_eq!(serde_json::from_value::<State>(json.clone()).unwrap(), s);
        let mut old = json;
        let map = old.as_object_mut().unwrap();
        map.remove("agentHolds");
        map.remove("personHeard");
        assert_eq!(serde_json::from_value::<State>(old).unwrap().step, step);
    }
}

#[test]
fn l1_staged_power_on_is_reported_and_extends_the_deadline() {
    const REASON: &str = "waits for the turn of its PDU a, 3 before it";
    let mut o = mk_direct();
    let s = mk_direct_state(Step::PoweringOn);
    let own = o.step_until(&s).unwrap();
    let staged = |due: Timestamp| {
        Some(OperationView::Staged {
            why: REASON.into(),
            due,
        })
    };
    o.operation = staged(at(5000));
    let reason = waits(&o, &s, 4000).0;
    assert_eq!(reason, Reason::PowerOnStaged(REASON.into()));
    assert!(!reason.is_blocked());
    assert!(reason.to_string().contains(REASON), "{reason}");
    assert_eq!(o.step_until(&s), Some(at(5000 + 180)));
    // The power-on is due: the time of one power-on is left.
    assert_eq!(waits(&o, &s, 5001).0, Reason::PowerOnRunning);
    assert_eq!(o.step_until(&s), Some(at(5000 + 180)));
    // A short wait does not shorten the deadline, and an endless one is bounded.
    o.operation = staged(at(10));
    assert_eq!(o.step_until(&s), Some(own));
    o.operation = staged(Timestamp::MAX);
    let longest = o.step_until(&s).unwrap().duration_since(own);
    assert!(longest.as_hours() < 24, "{longest:?}");
    // Other steps are not affected.
    o.operation = staged(at(50_000));
    assert_eq!(
        o.step_until(&mk_direct_state(Step::Draining)),
        Policy::default().step_until(&mk_direct_state(Step::Draining))
    );
}
