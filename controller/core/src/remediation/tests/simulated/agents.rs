//! Tests with agents that are replaced or lost, and with two agents of one rack (F6, F12).

use jiff::Timestamp;

use super::{super::*, build::*};

fn agent(name: &str, journal: &str) -> AgentId {
    AgentId {
        agent: name.into(),
        journal: journal.into(),
    }
}

/// Agent `name` with this journal answers that it does not know the operation.
fn unknown_at(o: Observation, name: &str, journal: &str) -> Observation {
    Observation {
        agent_id: Some(agent(name, journal)),
        answered: Some(agent(name, journal)),
        operation: None,
        ..o
    }
}

fn deleted(mut o: Observation) -> Observation {
    o.object.deleting = true;
    o
}

/// Powering off, begun at agent `a` with journal `1`, which may command until second 90.
fn mk_begun(step: Step) -> State {
    let mut s = mk_direct_state(step);
    s.pinned = Some(AgentPin {
        agent: agent("a", "1"),
        operation: operation_id(UID, &s).unwrap(),
        until: Some(at(90)),
    });
    s
}

#[test]
fn f12_agent_pin_is_written_before_the_operation_begins() {
    let o = unknown_at(mk_direct(), "a", "1");
    let s = mk_direct_state(Step::PoweringOff);
    let d = step(&o, Some(&s), at(1));
    assert_eq!(d.next, Next::Write);
    let pin = d.state.pinned.clone().unwrap();
    assert_eq!(pin.agent, agent("a", "1"));
    assert_eq!(Some(&pin.operation), operation_id(UID, &s).as_ref());
    assert!(pin.until.unwrap() > at(1) + Policy::default().power_off_timeout);
    let d = step(&o, Some(&d.state), at(2));
    assert!(matches!(d.next, Next::Do(Command::PowerOff { id, .. }) if id == pin.operation));
}

#[test]
fn f12_power_off_unknown_to_another_journal_counts_as_lost() {
    let s = mk_begun(Step::PoweringOff);
    // The journal of the pin does not know the operation: it was never begun, and the host is released.
    let known = step(&deleted(unknown_at(mk_direct(), "a", "1")), Some(&s), at(5));
    assert_eq!(known.state.step, Step::Aborting);
    for (name, journal) in [("a", "2"), ("b", "1")] {
        let o = deleted(unknown_at(mk_direct(), name, journal));
        let d = step(&o, Some(&s), at(5));
        assert_eq!(
            (d.next.clone(), d.state.step),
            (Next::Write, Step::PoweringOn),
            "{d:?}"
        );
        assert!(matches!(d.reason, Reason::OperationLost(_)));
        assert_eq!(d.state.attempt.end_reason, Some(Reason::WithdrawnAfterOff));
        assert!(d.notes[0].warning && d.notes[0].reason == "OperationLost");
        assert!(d.notes[0].message.contains(name), "{}", d.notes[0].message);
    }
}

#[test]
fn f12_hold_without_an_operation_ends_with_a_power_on() {
    let s = mk_direct_state(Step::PoweringOff);
    let held = Observation {
        held: true,
        ..deleted(unknown_at(mk_direct(), "a", "1"))
    };
    let d = step(&held, Some(&s), at(5));
    assert_eq!(d.state.step, Step::PoweringOn, "{d:?}");
    assert!(matches!(d.reason, Reason::OperationLost(_)));
    // The stored state is lost as well.
    for lost in [None, Some(State::new(at(0)))] {
        let d = step(&held, lost.as_ref(), at(5));
        assert_eq!(d.state.step, Step::PoweringOn, "{d:?}");
        assert!(d.state.agent_holds && d.state.host.is_some());
        let mut unheld = Observation {
            held: false,
            ..held.clone()
        };
        node(&mut unheld).ready = true;
        let d = step(&unheld, lost.as_ref(), at(5));
        assert!(
            matches!(d.next, Next::Do(Command::RemoveFinalizer(_))),
            "{d:?}"
        );
    }
}

#[test]
fn f6_second_agent_begins_only_after_the_pin_of_the_first_expires() {
    for (step_of, at_second_agent) in [
        (Step::PoweringOff, unknown_at(mk_direct(), "b", "9")),
        (Step::PoweringOn, unknown_at(mk_direct(), "b", "9")),
    ] {
        let (mut s, mut now) = (mk_begun(step_of), 5);
        let mut waited = false;
        let begun = loop {
            let d = step(&at_second_agent, Some(&s), at(now));
            match d.next {
                Next::Write => s = d.state,
                Next::Wait(until) => {
                    let busy = matches!(d.reason, Reason::OtherAgentBusy(_));
                    waited |= busy;
                    assert!(!busy || d.reason.to_string().contains("agent a until"));
                    now = until.as_second() - at(0).as_second();
                }
                Next::Do(Command::PowerOff { id, .. } | Command::PowerOn { id, .. }) => break id,
                Next::Do(_) | Next::Done(_) => panic!("{d:?}"),
            }
        };
        assert!(waited && now >= 90, "{step_of:?}: begun at {now}");
        let pin = s.pinned.unwrap();
        assert_eq!((pin.agent, &pin.operation), (agent("b", "9"), &begun));
        assert_ne!(Some(begun), operation_id(UID, &mk_begun(step_of)));
    }
}

#[test]
fn f6_ended_operation_does_not_delay_the_second_agent() {
    let s = mk_begun(Step::PoweringOff);
    let mut o = unknown_at(mk_direct(), "a", "1");
    o.operation = finished(OperationOutcome::Failed {
        why: "no route".into(),
    });
    let d = step(&o, Some(&s), at(5));
    assert_eq!(d.state.pinned.as_ref().unwrap().until, None);
    let later = d.state.retry_at.unwrap();
    let d = step(&unknown_at(mk_direct(), "b", "9"), Some(&d.state), later);
    assert_eq!(
        d.state.pinned.as_ref().unwrap().agent,
        agent("b", "9"),
        "{d:?}"
    );
    // A standby agent that reports that it never began the operation causes no delay either.
    let mut o = unknown_at(mk_direct(), "a", "1");
    o.agent_id = Some(agent("b", "9"));
    let d = step(&o, Some(&s), at(5));
    let pin = d.state.pinned.unwrap();
    assert_eq!(
        (pin.agent, Some(pin.operation)),
        (agent("b", "9"), operation_id(UID, &s))
    );
}

/// Begun at `a`, which no longer answers; `b` serves the rack, and the power-off is tried there under
/// another id.
fn mk_taken_over() -> (Observation, State) {
    let o = unknown_at(mk_direct(), "b", "9");
    let d = step(&o, Some(&mk_begun(Step::PoweringOff)), at(5));
    assert_eq!(d.state.tries, 1, "{d:?}");
    let waits = step(&o, Some(&d.state), at(6));
    assert!(
        matches!(waits.reason, Reason::OtherAgentBusy(_)),
        "{waits:?}"
    );
    (o, d.state)
}

#[test]
fn f6_second_agent_begins_once_the_first_reports_the_end() {
    let (mut o, s) = mk_taken_over();
    o.pinned = PinnedOperation::Ended;
    let d = step(&o, Some(&s), at(7));
    let pin = d.state.pinned.clone().unwrap();
    assert_eq!(pin.agent, agent("b", "9"), "{d:?}");
    assert!(pin.until.is_some(), "it may command now");
    o.pinned = PinnedOperation::Unknown;
    let begun = step(&o, Some(&d.state), at(8));
    assert!(
        matches!(begun.next, Next::Do(Command::PowerOff { .. })),
        "{begun:?}"
    );
}

#[test]
fn f6_operation_at_a_standby_agent_is_cancelled_first() {
    let (mut o, s) = mk_taken_over();
    o.pinned = PinnedOperation::Running;
    let cancel = does(&o, &s, 7);
    assert_eq!(
        cancel,
        Command::Cancel {
            id: s.pinned.clone().unwrap().operation
        }
    );
    o.completed.insert(cancel);
    let d = step(&o, Some(&s), at(8));
    assert!(matches!(d.next, Next::Wait(_)), "{d:?}");
    assert!(matches!(d.reason, Reason::OtherAgentBusy(_)));
}

#[test]
fn f6_staged_power_on_extends_its_pin() {
    let s = mk_begun(Step::PoweringOn);
    let mut o = unknown_at(mk_direct(), "a", "1");
    o.operation = Some(OperationView::Staged {
        why: "waits".into(),
        due: at(3600),
    });
    let d = step(&o, Some(&s), at(5));
    assert_eq!(d.next, Next::Write);
    assert!(d.state.pinned.as_ref().unwrap().until.unwrap() > at(3600));
    let d = step(&o, Some(&d.state), at(5));
    assert!(matches!(d.next, Next::Wait(_)), "written once: {d:?}");
    // The extension is bounded, whatever time the agent reports.
    o.operation = Some(OperationView::Staged {
        why: "waits".into(),
        due: Timestamp::MAX,
    });
    let d = step(&o, Some(&d.state), at(5));
    assert!(d.state.pinned.unwrap().until.unwrap() < at(24 * 3600));
}

#[test]
fn f12_state_without_a_pin_is_still_parsed() {
    let s = mk_begun(Step::PoweringOff);
    let mut stored = serde_json::to_value(&s).unwrap();
    assert_eq!(stored["pinned"]["agent"], "a");
    let read: State = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(read, s);
    stored.as_object_mut().unwrap().remove("pinned");
    let read: State = serde_json::from_value(stored).unwrap();
    assert_eq!(read.pinned, None);
    // An agent of an earlier version does not report its journal: no contradiction.
    let o = deleted(unknown_at(mk_direct(), "a", ""));
    assert_eq!(step(&o, Some(&s), at(5)).state.step, Step::Aborting);
}

/// A remediation with the power-on next, whose power-off was begun at agent `a` until second 90, while
/// agent `b` serves the rack.
fn mk_power_on_elsewhere(step: Step) -> (Observation, State) {
    let mut s = mk_state(step);
    s.pinned = Some(AgentPin {
        agent: agent("a", "1"),
        operation: "power-off".into(),
        until: Some(at(90)),
    });
    (unknown_at(mk_held(), "b", "9"), s)
}

#[test]
fn f6_hold_stays_while_another_agent_may_switch_the_host_off() {
    let (mut o, s) = mk_power_on_elsewhere(Step::PoweringOn);
    let (reason, until) = waits(&o, &s, 5);
    assert_eq!((reason.label(), until), ("OtherAgentBusy", 90));
    o.pinned = PinnedOperation::Running;
    let id = s.pinned.clone().unwrap().operation;
    assert_eq!(does(&o, &s, 5), Command::Cancel { id });
    assert_eq!(does(&o, &s, 90), Command::RemoveHold);
    o.pinned = PinnedOperation::Ended;
    assert_eq!(does(&o, &s, 5), Command::RemoveHold);
}

#[test]
fn f9_remediation_does_not_end_while_another_agent_may_command() {
    let (mut o, mut s) = mk_power_on_elsewhere(Step::Aborting);
    s.attempt.end_reason = Some(Reason::Withdrawn);
    bmh(&mut o).our_hold = false;
    let (reason, until) = waits(&o, &s, 5);
    assert_eq!((reason.label(), until), ("OtherAgentBusy", 90));
    o.pinned = PinnedOperation::Running;
    let id = s.pinned.clone().unwrap().operation;
    assert_eq!(does(&o, &s, 5), Command::Cancel { id });
    o.pinned = PinnedOperation::Ended;
    let d = decide(&o, Some(&s), at(5));
    assert!(!matches!(d.next, Next::Wait(_)), "{d:?}");
}
