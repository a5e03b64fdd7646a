//! The operating system shuts down before the power is cut, and nothing is concluded from that (F1).

use super::{super::*, build::*};

/// A host without a BareMetalHost whose Node is Ready, with a minute to shut down.
fn mk_soft() -> Observation {
    let mut o = mk_direct();
    policy(&mut o).soft_off_timeout = secs(60);
    ready(&mut o);
    o
}

fn ready(o: &mut Observation) {
    let n = node(o);
    (n.ready, n.ready_unknown) = (true, false);
    n.lease.as_mut().unwrap().unchanged_since = at(0);
}

fn mk_shutting_down() -> State {
    let mut s = mk_direct_state(Step::ShuttingDown);
    (s.agent_holds, s.attempt.soft_off) = (false, true);
    s
}

fn running() -> Option<OperationView> {
    Some(OperationView::Running)
}

#[test]
fn soft_off_is_recorded_then_sent_then_followed_by_the_power_off() {
    let mut o = mk_soft();
    let (s, reason) = writes(&o, &mk_direct_state(Step::Holding), 0);
    assert_eq!((s.step, s.attempt.soft_off), (Step::ShuttingDown, true));
    assert_eq!(reason, Reason::AskingToShutDown, "nothing was sent yet");
    match does(&o, &s, 1) {
        Command::SoftOff { id, limit, .. } => {
            assert!(id.ends_with("/soft-off/0.0"), "{id}");
            assert_eq!(limit, secs(60));
        }
        other => panic!("{other:?}"),
    }
    o.operation = running();
    let (reason, until) = waits(&o, &s, 2);
    assert_eq!((reason, until), (Reason::ShuttingDown, 60));
    // Whatever became of it, and after its time.
    for (operation, now) in [
        (confirmed(), 20),
        (unconfirmed(), 20),
        (Some(OperationView::Rejected { why: "x".into() }), 20),
        (running(), 60),
    ] {
        o.operation = operation;
        let (s, _) = writes(&o, &s, now);
        assert_eq!((s.step, s.agent_holds), (Step::PoweringOff, true));
        assert_eq!(s.attempt.off, None, "a soft off proves nothing");
    }
}

#[test]
fn operating_system_that_does_not_run_is_not_asked() {
    let mut o = mk_soft();
    (node(&mut o).ready, node(&mut o).ready_unknown) = (false, true);
    let (s, _) = writes(&o, &mk_direct_state(Step::Holding), 0);
    assert_eq!((s.step, s.attempt.soft_off), (Step::PoweringOff, false));
    let mut o = mk_soft();
    policy(&mut o).soft_off_timeout = secs(0);
    let (s, _) = writes(&o, &mk_direct_state(Step::Holding), 0);
    assert_eq!(s.step, Step::PoweringOff);
}

#[test]
fn f11_withdrawal_ends_the_step_only_before_the_soft_off_was_sent() {
    let mut o = mk_soft();
    o.object.deleting = true;
    let s = mk_shutting_down();
    let (aborted, _) = writes(&o, &s, 1);
    assert_eq!(aborted.step, Step::Aborting);
    // The host may go off at any moment: the power-off is finished, and the host switched on.
    o.operation = running();
    let (finishing, _) = writes(&o, &s, 1);
    assert_eq!(finishing.step, Step::PoweringOff);
    let end = finishing.attempt.end_reason.clone();
    assert_eq!(end, Some(Reason::WithdrawnAfterOff));
    o.operation = None;
    assert!(matches!(does(&o, &finishing, 2), Command::PowerOff { .. }));
    o.operation = confirmed();
    assert_eq!(writes(&o, &finishing, 9).0.step, Step::PoweringOn);
    // An agent that is away may have begun it.
    let mut o = mk_soft();
    o.object.deleting = true;
    o.agent = AgentView::Unreachable { why: "dark".into() };
    assert_eq!(waits(&o, &s, 500).0.label(), "AgentUnreachable");
}

#[test]
fn f16_owner_of_the_power_asks_the_operating_system_by_itself() {
    let mut o = mk_observation();
    policy(&mut o).soft_off_timeout = secs(60);
    ready(&mut o);
    let (s, _) = writes(&o, &mk_state(Step::Holding), 0);
    assert_eq!((s.step, s.attempt.soft_off), (Step::Holding, true));
    assert_eq!(does(&o, &s, 0), Command::AddHold);
    bmh(&mut o).our_hold = true;
    let (s, _) = writes(&o, &s, 1);
    assert_eq!(s.step, Step::PoweringOff);
    match does(&o, &s, 1) {
        Command::PowerOff { command_after, .. } => assert_eq!(command_after, secs(60)),
        other => panic!("{other:?}"),
    }
}
