use rackhand_core::remediation::PowerReading as CoreReading;
use rackhand_core::remediation::{CommandTaken, OffProof, PinnedNode, PowerState, Strategy};
use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn state(step: Step) -> State {
    let mut s = State::new(at(0));
    s.step = step;
    s.attempt.node = Some(PinnedNode {
        name: "n1".into(),
        uid: "u".into(),
        boot_id: "b".into(),
        system_uuid: "x".into(),
        unproven: false,
    });
    s
}

fn off() -> OffEvidence {
    let reading = CoreReading {
        state: PowerState::Off,
        raw: "Off".into(),
        protocol: "Redfish".into(),
        identity: "4c4c".into(),
        at: at(9),
        since_start_ms: 1,
        bmc: "192.0.2.7".into(),
    };
    OffEvidence::Bmc {
        at: at(10),
        readings: vec![reading.clone(), reading],
        taken: CommandTaken {
            command: "ForceOff".into(),
            answer: "204".into(),
            since_start_ms: 0,
            proof: Some(OffProof::Taken),
            updates_unknown: None,
        },
    }
}

fn shown_at(
    old: &PowerRemediationStatus,
    state: &State,
    reason: &Reason,
    now: i64,
) -> PowerRemediationStatus {
    shown_on_wall(old, state, reason, now, SignedDuration::ZERO)
}

fn shown_on_wall(
    old: &PowerRemediationStatus,
    state: &State,
    reason: &Reason,
    now: i64,
    ahead: SignedDuration,
) -> PowerRemediationStatus {
    let facts = Facts {
        state: Some(state),
        reason,
        generation: Some(3),
        node: None,
        held: true,
        until: Some(at(100)),
        now: at(now),
        ahead,
    };
    status(old, &facts)
}

fn says(status: &PowerRemediationStatus, name: &str) -> Option<ConditionStatus> {
    let found = status.conditions.iter().find(|c| c.condition_type == name);
    found.map(|c| c.status)
}

#[test]
fn succeeded_condition_is_unknown_until_remediation_ends() {
    use ConditionStatus::{False, True, Unknown};
    let none = PowerRemediationStatus::default();
    let read = |state: &State, reason: &Reason| {
        let status = shown_at(&none, state, reason, 1);
        (
            says(&status, "Processing").unwrap(),
            says(&status, "Succeeded").unwrap(),
            status.phase.unwrap(),
        )
    };
    let started = read(&state(Step::Pending), &Reason::Started);
    assert_eq!(started, (True, Unknown, PowerPhase::Pending));
    let going = read(&state(Step::Booting), &Reason::Booting);
    assert_eq!(going, (True, Unknown, PowerPhase::Running));
    let stuck = read(&state(Step::Draining), &Reason::DrainBlocked("x".into()));
    assert_eq!(stuck, (True, Unknown, PowerPhase::Waiting));
    let back = read(&state(Step::Succeeded), &Reason::Recovered);
    assert_eq!(back, (False, True, PowerPhase::Succeeded));
    let mut fenced = state(Step::Fenced);
    fenced.strategy = Strategy::PowerOff;
    let kept = read(&fenced, &Reason::Fenced);
    assert_eq!(kept, (False, True, PowerPhase::Succeeded));
    fenced.keep_off = Some(Reason::ExhaustedKeptOff(2));
    let failed = read(&fenced, &Reason::ExhaustedKeptOff(2));
    assert_eq!(failed, (False, False, PowerPhase::Failed));
    let mut blocked = state(Step::Blocked);
    let untouched = read(&blocked, &Reason::TimedOut);
    assert_eq!(untouched, (False, False, PowerPhase::Aborted));
    blocked.attempt.off = Some(off());
    assert_eq!(read(&blocked, &Reason::TimedOut).2, PowerPhase::Failed);
    assert_eq!(
        read(&state(Step::Escalated), &Reason::Exhausted(2)).2,
        PowerPhase::Failed
    );
}

#[test]
fn condition_keeps_transition_time_until_status_changes() {
    let none = PowerRemediationStatus::default();
    let mut s = state(Step::AwaitingConfirmation);
    let reason = Reason::FenceUnconfirmed("no answer".into());
    let first = shown_at(&none, &s, &reason, 5);
    assert_eq!(
        says(&first, "FenceUnconfirmed"),
        Some(ConditionStatus::True)
    );
    assert_eq!(says(&first, "DrainBlocked"), None);
    let second = shown_at(&first, &s, &reason, 50);
    let time = |status: &PowerRemediationStatus, name: &str| {
        let found = status.conditions.iter().find(|c| c.condition_type == name);
        found.unwrap().last_transition_time
    };
    assert_eq!(time(&second, "FenceUnconfirmed"), at(5));
    s.step = Step::ConfirmingOff;
    s.attempt.off = Some(off());
    let third = shown_at(&second, &s, &Reason::WaitingForQuietLease, 60);
    assert_eq!(
        says(&third, "FenceUnconfirmed"),
        Some(ConditionStatus::False)
    );
    assert_eq!(time(&third, "FenceUnconfirmed"), at(60));
    assert_eq!(time(&third, "Processing"), at(5));
    assert_eq!(says(&third, "Fenced"), Some(ConditionStatus::True));
}

#[test]
fn step_past_deadline_is_overdue_until_it_ends() {
    let none = PowerRemediationStatus::default();
    let s = state(Step::Tainting);
    let reason = Reason::Tainting;
    assert_eq!(says(&shown_at(&none, &s, &reason, 99), "Overdue"), None);
    let late = shown_at(&none, &s, &reason, 100);
    assert_eq!(says(&late, "Overdue"), Some(ConditionStatus::True));
    let done = shown_at(&late, &state(Step::Succeeded), &Reason::Recovered, 200);
    assert_eq!(says(&done, "Overdue"), Some(ConditionStatus::False));
}

#[test]
fn status_shows_attempts_and_evidence_without_bmc_address() {
    let mut s = state(Step::Draining);
    s.attempt.number = 2;
    s.attempt.started = at(60);
    s.attempt.off = Some(off());
    s.attempt.taint = Some(TaintOwner::Us);
    s.agent_holds = true;
    s.attempts.push(AttemptRecord {
        number: 1,
        started: at(0),
        off: Some(at(10)),
        drained: Some(at(20)),
        outlets: Vec::new(),
        pods_evicted: 0,
        evicted_pods: Vec::new(),
        pods_deleted: 3,
        deleted_pods: Vec::new(),
        on: Some(at(30)),
        ended: at(60),
        step: Some(Step::Restoring),
        reason: Reason::BootTimeout,
    });
    let shown = shown_at(
        &PowerRemediationStatus::default(),
        &s,
        &Reason::Draining("1 pod".into()),
        70,
    );
    assert_eq!(shown.attempts.len(), 2);
    assert_eq!(shown.attempts[0].failed_step, Some(Step::Restoring));
    assert_eq!(shown.attempts[0].reason.as_deref(), Some("BootTimeout"));
    assert_eq!(shown.attempts[0].pods_deleted, Some(3));
    assert_eq!(shown.attempts[1].pods_deleted, None);
    assert_eq!(
        (shown.attempts[1].number, shown.attempts[1].finished_at),
        (2, None)
    );
    assert_eq!(shown.attempts[1].powered_off_at, Some(at(10)));
    assert_eq!(
        shown.in_place,
        [InPlace::Hold, InPlace::PowerOff, InPlace::Taint]
    );
    let evidence = shown.power_off.clone().unwrap();
    assert_eq!(evidence.readings.len(), 2);
    assert_eq!(evidence.readings[0].identity.as_deref(), Some("4c4c"));
    assert_eq!(shown.node_name.as_deref(), Some("n1"));
    let text = serde_json::to_string(&evidence).unwrap();
    assert!(!text.contains("192.0.2.7"), "{text}");
}

#[test]
fn f2_status_cursor_round_trips_to_state() {
    let mut s = state(Step::Draining);
    s.attempt.off = Some(off());
    s.attempt.end_reason = Some(Reason::DrainGivenUp("1 pod".into()));
    let shown = shown_at(&PowerRemediationStatus::default(), &s, &Reason::Booting, 70);
    let cursor = shown.cursor.unwrap();
    assert_eq!(serde_json::from_value::<State>(cursor).unwrap(), s);
}

/// Applies a JSON merge patch (RFC 7386) like an API server.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let object = target.as_object_mut().unwrap();
    for (key, value) in fields {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[test]
fn f2_merge_patch_replaces_old_cursor_completely() {
    let values = [
        json!({}),
        json!({ "cursor": { "step": "Tainting", "off": { "Bmc": { "at": 1, "readings": [1] } } } }),
        json!({ "cursor": { "step": "Holding" }, "conditions": [{ "type": "A" }] }),
        json!({ "cursor": { "step": "Tainting", "off": { "Person": { "at": 2 } } } }),
        json!({ "cursor": { "taint": "Us", "attempts": [] }, "phase": "Running" }),
    ];
    for old in &values {
        for new in &values {
            let mut merged = old.clone();
            merge(&mut merged, &merge_diff(old, new));
            assert_eq!(&merged, new, "from {old}");
        }
    }
}

#[test]
fn l1_status_shows_reason_and_deadline_of_every_wait() {
    let steps = [
        Step::Pending,
        Step::PoweringOff,
        Step::AwaitingConfirmation,
        Step::Draining,
        Step::PoweringOn,
        Step::Booting,
        Step::Aborting,
    ];
    let reasons = [
        Reason::Paused,
        Reason::PowerOffRunning,
        Reason::AgentUnreachable("dark".into()),
        Reason::OtherRemediation("PowerRemediation ns/n2".into()),
        Reason::HeldByOthers("reboot.metal3.io/firmware".into()),
        Reason::StaysOff(4),
        Reason::ActionFailed("BareMetalHost ns/h: 403".into()),
    ];
    let none = PowerRemediationStatus::default();
    for step in steps {
        for reason in &reasons {
            let shown = shown_at(&none, &state(step), reason, 1);
            assert_eq!(shown.reason.as_deref(), Some(reason.label()));
            assert_eq!(shown.message, Some(reason.to_string()));
            assert_eq!(shown.step_until, Some(at(100)));
            let blocked = says(&shown, BLOCKED) == Some(ConditionStatus::True);
            assert_eq!(blocked, reason.is_blocked(), "{step:?} {reason}");
            for condition in &shown.conditions {
                assert_eq!(condition.message, reason.to_string());
            }
        }
    }
}

#[test]
fn f8_malformed_cursor_is_kept_and_reported_as_blocked() {
    let there = json!({
        "step": "Draining", "observedGeneration": 3, "cursor": { "step": 7 },
        "conditions": [
            { "type": "Processing", "status": "True", "reason": "Draining", "message": "m",
              "lastTransitionTime": at(0).to_string() },
        ],
    });
    let reason = Reason::StateUnreadable("status.cursor: odd".into());
    let mut patched = there.clone();
    let patch = unreadable(&there, &reason, at(9), SignedDuration::ZERO);
    for (key, value) in patch.as_object().unwrap() {
        patched[key] = value.clone();
    }
    assert_eq!(patched["cursor"], there["cursor"]);
    assert_eq!(patched["step"], "Draining");
    let read: PowerRemediationStatus = serde_json::from_value(patched).unwrap();
    assert_eq!(read.reason.as_deref(), Some("StateUnreadable"));
    assert_eq!(says(&read, BLOCKED), Some(ConditionStatus::True));
    assert_eq!(says(&read, PROCESSING), Some(ConditionStatus::True));
}

#[test]
fn times_of_a_status_follow_a_step_of_the_wall_clock() {
    let mut s = state(Step::Draining);
    s.since = at(20);
    s.attempt.off = Some(off());
    s.attempt.drained = Some(at(30));
    let none = PowerRemediationStatus::default();
    let hour = SignedDuration::from_hours(1);
    // The deadline, at 100, has not passed, however the wall clock was set.
    for ahead in [hour, -hour] {
        let shown = shown_on_wall(&none, &s, &Reason::Working, 40, ahead);
        let moved = |second| Some(at(second) + ahead);
        assert_eq!(says(&shown, OVERDUE), None);
        assert_eq!(
            (shown.step_since, shown.step_until),
            (moved(20), moved(100))
        );
        let off = shown.power_off.unwrap();
        assert_eq!(off.confirmed_at, moved(10));
        // The time of the agent.
        assert_eq!(off.readings[0].read_at, at(9));
        let attempt = shown.attempts.last().unwrap();
        assert_eq!(Some(attempt.started_at), moved(0));
        assert_eq!(
            (attempt.powered_off_at, attempt.drained_at),
            (moved(10), moved(30))
        );
        let condition = &shown.conditions[0];
        assert_eq!(Some(condition.last_transition_time), moved(40));
        // What is decided with is not moved.
        let stored = super::super::state_format::decode(shown.cursor.as_ref()).unwrap();
        assert_eq!(stored.as_ref(), Some(&s));
    }
}
