//! What an abort ends before it lets go of the host.

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
fn f9_an_abort_cancels_a_queued_power_on_and_sees_it_cancelled() {
    let (mut o, s) = mk_on_running();
    let staged = OperationView::Staged {
        why: "the PDU is busy".into(),
        due: at(60),
    };
    for queued in [OperationView::Running, staged] {
        o.completed.clear();
        o.operation = Some(queued);
        assert_eq!(does(&o, &s, 1), cancel(&s));
        // Asked for is not done: the end of the operation is awaited.
        o.completed.insert(cancel(&s));
        assert_eq!(waits(&o, &s, 2).0.label(), "HostOffline");
    }
    o.operation = cancelled();
    let (s, reason) = writes(&o, &s, 3);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "HostOffline"));
}

#[test]
fn f9_an_abort_ends_no_remediation_before_the_agent_has_said_what_is_queued() {
    let (mut o, s) = mk_on_running();
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    for operation in [None, Some(OperationView::Running)] {
        o.operation = operation;
        assert_eq!(waits(&o, &s, 1).0.label(), "AgentUnreachable");
    }
    // It is back, and has never heard of the power-on.
    (o.agent, o.operation) = (AgentView::Ready, None);
    assert_eq!(writes(&o, &s, 2).0.step, Step::Aborting);
}

#[test]
fn f9_a_host_that_is_given_back_is_given_back_without_a_queued_power_on() {
    let (mut o, s) = mk_on_running();
    o.request.deleting = true;
    let host = bmh(&mut o);
    (host.online, host.provisioned) = (true, false);
    assert_eq!(does(&o, &s, 1), cancel(&s));
    o.operation = cancelled();
    assert_eq!(writes(&o, &s, 2).0.step, Step::Aborting);
}

#[test]
fn a_power_on_that_was_faster_than_its_cancellation_is_told() {
    let (mut o, s) = mk_on_running();
    o.operation = confirmed();
    let d = decide(&o, Some(&s), at(1));
    assert_eq!(d.state.step, Step::Aborting);
    let told = d.notes.iter().find(|n| n.reason == "PowerOnNotCancelled");
    assert!(told.is_some_and(|note| note.warning));
}

#[test]
fn f9_an_undo_that_is_queued_ends_when_the_host_is_wanted_off() {
    let mut o = mk_observation();
    let mut s = mk_state(Step::Aborting);
    s.end_reason = Some(Reason::LeaseRenewed("node-7".into()));
    s.node = None;
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
fn f9_a_detached_host_is_left_as_its_owner_wants_it() {
    let mut o = mk_observation();
    let mut s = mk_state(Step::Aborting);
    s.end_reason = Some(Reason::IdentityMismatch("another system".into()));
    // baremetal-operator switches it on once our key is gone.
    assert_eq!(does(&o, &s, 1), Command::Release);
    // It was detached since: nobody else does.
    bmh(&mut o).detached = true;
    assert!(matches!(does(&o, &s, 1), Command::PowerOn { .. }));
    bmh(&mut o).online = false;
    assert_eq!(does(&o, &s, 1), Command::Release);
    // Never switched off for us.
    bmh(&mut o).online = true;
    s.agent_holds = false;
    o.completed.insert(Command::RemoveHold);
    assert!(matches!(decide(&o, Some(&s), at(1)).next, Next::Write));
}
