//! Tests of what an abort ends before it releases the host.

use super::{super::*, build::*};

fn mk_on_running() -> (Observation, State) {
    let mut o = mk_observation();
    bmh(&mut o).online = false;
    o.operation = Some(OperationView::Running);
    (o, mk_state(Step::PoweringOn))
}

fn cancel(s: &State) -> Command {
    let id = operation_id(UID, s).unwrap();
    Command::Cancel { id }
}

fn cancelled() -> Option<OperationView> {
    Some(OperationView::Finished {
        outcome: OperationOutcome::Cancelled,
        commands_sent: 0,
    })
}

#[test]
fn f9_abort_cancels_a_queued_power_on_and_waits_for_its_end() {
    let (mut o, s) = mk_on_running();
    let staged = OperationView::Staged {
        why: "the PDU is busy".into(),
        due: at(60),
    };
    for queued in [OperationView::Running, staged] {
        o.completed.clear();
        o.operation = Some(queued);
        assert_eq!(does(&o, &s, 1), cancel(&s));
        // The cancellation was requested; the end of the operation is awaited.
        o.completed.insert(cancel(&s));
        assert_eq!(waits(&o, &s, 2).0.label(), "HostOffline");
    }
    o.operation = cancelled();
    let (s, reason) = writes(&o, &s, 3);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "HostOffline"));
}

#[test]
fn f9_abort_waits_until_the_agent_reports_the_power_on() {
    let (mut o, s) = mk_on_running();
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    for operation in [None, Some(OperationView::Running)] {
        o.operation = operation;
        assert_eq!(waits(&o, &s, 1).0.label(), "AgentUnreachable");
    }
    // The agent is back, and does not know the power-on.
    (o.agent, o.operation) = (AgentView::Ready, None);
    assert_eq!(writes(&o, &s, 2).0.step, Step::Aborting);
}

#[test]
fn f9_queued_power_on_is_cancelled_before_the_host_is_returned() {
    let (mut o, s) = mk_on_running();
    o.object.deleting = true;
    let host = bmh(&mut o);
    (host.online, host.provisioned) = (true, false);
    assert_eq!(does(&o, &s, 1), cancel(&s));
    o.operation = cancelled();
    assert_eq!(writes(&o, &s, 2).0.step, Step::Aborting);
}

#[test]
fn power_on_confirmed_before_its_cancellation_is_reported() {
    let (mut o, s) = mk_on_running();
    o.operation = confirmed();
    let d = decide(&o, Some(&s), at(1));
    assert_eq!(d.state.step, Step::Aborting);
    let event = d.notes.iter().find(|n| n.reason == "PowerOnNotCancelled");
    assert!(event.is_some_and(|event| event.warning));
}

#[test]
fn f9_queued_undo_is_cancelled_when_the_host_must_be_off() {
    let mut o = mk_observation();
    let mut s = mk_state(Step::Aborting);
    s.attempt.end_reason = Some(Reason::LeaseRenewed("node-7".into()));
    s.attempt.node = None;
    assert!(matches!(does(&o, &s, 1), Command::PowerOn { .. }));
    o.operation = Some(OperationView::Running);
    bmh(&mut o).online = false;
    assert_eq!(does(&o, &s, 2), cancel(&s));
    o.completed.insert(cancel(&s));
    assert!(matches!(decide(&o, Some(&s), at(3)).next, Next::Wait(_)));
    o.operation = cancelled();
    assert_eq!(does(&o, &s, 4), Command::Release);
}

#[test]
fn f9_detached_host_is_left_in_its_desired_power_state() {
    let mut o = mk_observation();
    let mut s = mk_state(Step::Aborting);
    s.attempt.end_reason = Some(Reason::IdentityMismatch("another system".into()));
    // baremetal-operator switches it on once our key is gone.
    assert_eq!(does(&o, &s, 1), Command::Release);
    // The host was detached since, so nobody else switches it on.
    bmh(&mut o).detached = true;
    assert!(matches!(does(&o, &s, 1), Command::PowerOn { .. }));
    bmh(&mut o).online = false;
    assert_eq!(does(&o, &s, 1), Command::Release);
    // The host was never switched off on our behalf.
    bmh(&mut o).online = true;
    s.agent_holds = false;
    o.completed.insert(Command::RemoveHold);
    assert!(matches!(decide(&o, Some(&s), at(1)).next, Next::Write));
}
