//! The rows of the failure table that the state machine decides.

use super::{super::*, build::*};

fn off_id(s: &State) -> String {
    operation_id(UID, s).unwrap()
}

#[test]
fn unreachable_bmc_ends_in_fence_unconfirmed_and_is_retried() {
    let mut o = mk_held();
    let mut s = mk_state(Step::PoweringOff);
    let mut ids = vec![off_id(&s)];
    for t in [180, 365] {
        o.operation = unconfirmed();
        (s, _) = writes(&o, &s, t);
        assert_eq!(s.step, Step::PoweringOff);
        ids.push(off_id(&s));
        o.operation = None;
        let (reason, until) = waits(&o, &s, t);
        assert_eq!((reason.label(), until), ("FenceUnconfirmed", t + 5));
        assert!(matches!(does(&o, &s, t + 5), Command::PowerOff { .. }));
    }
    o.operation = unconfirmed();
    let d = decide(&o, Some(&s), at(550));
    s = d.state;
    assert_eq!(s.step, Step::AwaitingConfirmation);
    assert!(d.notes[0].warning && d.notes[0].message.contains("rackhand.dev/confirm-fenced"));
    ids.push(off_id(&s));
    o.operation = None;
    assert_eq!(waits(&o, &s, 560).1, 610);
    assert!(matches!(does(&o, &s, 610), Command::PowerOff { .. }));
    // The same failure again is written without an Event.
    o.operation = unconfirmed();
    let d = decide(&o, Some(&s), at(790));
    assert_eq!((d.next, d.notes), (Next::Write, vec![]));
    ids.push(off_id(&d.state));
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(
        unique.len(),
        ids.len(),
        "an operation id was used twice: {ids:?}"
    );
    // A successful retry continues normally.
    o.operation = confirmed();
    assert_eq!(writes(&o, &d.state, 860).0.step, Step::ConfirmingOff);
}

#[test]
fn bmc_login_failure_reports_the_cause() {
    let mut o = mk_held();
    o.operation = finished(OperationOutcome::Failed {
        why: "401: user admin refused".into(),
    });
    let (s, reason) = writes(&o, &mk_state(Step::PoweringOff), 3);
    assert_eq!((s.step, s.tries), (Step::PoweringOff, 1));
    assert_eq!(
        reason,
        Reason::FenceUnconfirmed("401: user admin refused".into())
    );
}

/// A dead BMC, and a person who confirms that the host is off.
pub(in crate::remediation::tests) fn mk_person() -> (Observation, State) {
    let mut o = mk_held();
    o.silent_since = Some(at(0));
    o.object.confirm_fenced = Some(UID.into());
    o.power = mk_no_power(600);
    let mut s = mk_state(Step::AwaitingConfirmation);
    s.tries = 3;
    s.failure = Some("no answer".into());
    s.retry_at = Some(at(660));
    (o, s)
}

#[test]
fn f8_person_may_confirm_for_an_unresponsive_bmc() {
    let (mut o, s) = mk_person();
    let (s, _) = writes(&o, &s, 601);
    assert_eq!(s.step, Step::ConfirmingOff);
    assert!(matches!(s.attempt.off, Some(OffEvidence::Person { .. })));
    let (s, _) = writes(&o, &s, 601);
    assert_eq!(does(&o, &s, 601), Command::ReadPower);
    o.power = mk_no_power(602);
    let (s, _) = writes(&o, &s, 603);
    assert_eq!((s.step, s.attempt.taint), (Step::Tainting, None));
    let (s, _) = writes(&o, &s, 603);
    assert_eq!(
        (s.step, s.attempt.taint),
        (Step::Draining, Some(TaintOwner::Us))
    );
    assert_eq!(does(&o, &s, 603), Command::AddTaint);
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    assert_eq!(writes(&o, &s, 603).0.step, Step::PoweringOn);
}

#[test]
fn f8_person_may_confirm_without_an_agent() {
    let (mut o, s) = mk_person();
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    o.power = None;
    let (mut s, _) = writes(&o, &s, 601);
    for _ in 0..3 {
        (s, _) = writes(&o, &s, 602);
    }
    assert_eq!(does(&o, &s, 602), Command::AddTaint);
}

#[test]
fn f8_bmc_is_read_before_a_confirmation_and_on_overrides_it() {
    let (mut o, s) = mk_person();
    o.power = None;
    assert_eq!(does(&o, &s, 601), Command::ReadPower);
    for state in [PowerState::On, PowerState::PoweringOn] {
        o.power = mk_power(601, state);
        assert_eq!(waits(&o, &s, 602).0.label(), "FenceUnconfirmed");
    }
    for state in [PowerState::Off, PowerState::Unknown] {
        o.power = mk_power(601, state);
        assert_eq!(writes(&o, &s, 602).0.step, Step::ConfirmingOff);
    }
}

#[test]
fn f8_person_may_confirm_what_a_bmc_reports_and_cannot_prove() {
    let (mut o, s) = mk_person();
    o.silent_since = None;
    o.power = mk_power(601, PowerState::Off);
    assert_eq!(writes(&o, &s, 602).0.step, Step::ConfirmingOff);
    // Not before it was tried: the BMC may still prove it.
    let trying = State {
        step: Step::PoweringOff,
        ..s
    };
    assert_eq!(waits(&o, &trying, 602).0.label(), "FenceUnconfirmed");
}

#[test]
fn f8_confirmation_for_another_remediation_does_not_count() {
    let (mut o, s) = mk_person();
    o.object.confirm_fenced = Some("true".into());
    assert_eq!(waits(&o, &s, 601).1, 660);
}

#[test]
fn f8_confirmation_counts_once() {
    let (mut o, s) = mk_person();
    let (mut s, _) = writes(&o, &s, 601);
    assert!(s.confirmation_used);
    // The host came on: the confirmation no longer applies.
    o.power = mk_power(602, PowerState::On);
    for _ in 0..2 {
        (s, _) = writes(&o, &s, 602);
    }
    assert_eq!((s.step, s.attempt.off.clone()), (Step::PoweringOff, None));
    o.power = mk_no_power(603);
    assert!(matches!(does(&o, &s, 603), Command::PowerOff { .. }));
    o.operation = unconfirmed();
    (s, _) = writes(&o, &s, 800);
    o.operation = None;
    let (reason, _) = waits(&o, &s, 800);
    assert!(
        reason.to_string().contains("or has been used. Remove it"),
        "{reason}"
    );
    // Removed and set again, it is a new confirmation.
    o.object.confirm_fenced = None;
    (s, _) = writes(&o, &s, 801);
    assert!(!s.confirmation_used);
    o.object.confirm_fenced = Some(UID.into());
    o.power = mk_no_power(801);
    o.silent_since = Some(at(603));
    assert_eq!(writes(&o, &s, 802).0.step, Step::ConfirmingOff);
}

#[test]
fn f8_running_power_off_is_cancelled_before_a_confirmation_counts() {
    let (mut o, s) = mk_person();
    o.operation = Some(OperationView::Running);
    let cancel = Command::Cancel { id: off_id(&s) };
    assert_eq!(does(&o, &s, 601), cancel);
    o.completed.insert(cancel);
    assert_eq!(waits(&o, &s, 601).1, 616);
    o.operation = finished(OperationOutcome::Cancelled);
    assert_eq!(writes(&o, &s, 602).0.step, Step::ConfirmingOff);
}

#[test]
fn bmc_reporting_on_is_unconfirmed_and_never_tainted() {
    let mut o = mk_held();
    o.operation = finished(OperationOutcome::Unconfirmed {
        why: "still On after 180s".into(),
    });
    let (s, reason) = writes(&o, &mk_state(Step::PoweringOff), 180);
    assert_eq!((s.tries, s.attempt.off), (1, None));
    assert_eq!(
        reason,
        Reason::FenceUnconfirmed("still On after 180s".into())
    );
}

#[test]
fn powering_off_for_minutes_is_not_off() {
    let mut o = mk_held();
    let readings = vec![
        mk_reading(PowerState::PoweringOff, 9000),
        mk_reading(PowerState::Off, 18_000),
    ];
    o.operation = finished(OperationOutcome::Confirmed {
        readings,
        taken: Some(mk_taken()),
    });
    let (s, reason) = writes(&o, &mk_state(Step::PoweringOff), 180);
    assert_eq!((s.step, s.attempt.off), (Step::PoweringOff, None));
    assert!(
        reason
            .to_string()
            .contains("\"PoweringOff\", which is not off"),
        "{reason}"
    );
}

#[test]
fn workload_outage_defers_the_taint_and_keeps_reading_power() {
    let mut o = mk_held();
    o.workload = WorkloadView::Unreachable {
        why: "connection refused".into(),
    };
    for step in [Step::ConfirmingOff, Step::Tainting, Step::Draining] {
        let s = mk_state(step);
        o.power = None;
        assert_eq!(does(&o, &s, 5), Command::ReadPower);
        o.power = mk_power(5, PowerState::Off);
        let (reason, until) = waits(&o, &s, 6);
        assert_eq!(
            reason,
            Reason::WorkloadUnreachable("connection refused".into())
        );
        // Five seconds after the last answer, regardless of other events.
        assert_eq!(until, 10);
        o.power = mk_power(5, PowerState::On);
        assert_eq!(writes(&o, &s, 6).0.step, Step::PoweringOff);
    }
    // The power-off itself does not need the workload API.
    assert!(matches!(
        does(&o, &mk_state(Step::PoweringOff), 0),
        Command::PowerOff { .. }
    ));
}

#[test]
fn never_joined_machine_is_power_cycled_without_taint_and_drain() {
    let mut o = mk_held();
    o.workload = WorkloadView::NotJoined;
    let mut s = mk_state(Step::ConfirmingOff);
    (s.attempt.node, s.attempt.lease_at_off) = (None, None);
    assert_eq!(writes(&o, &s, 1).0.step, Step::PoweringOn);
}

#[test]
fn interrupted_power_off_is_repeated_at_once_with_a_new_id() {
    let mut o = mk_held();
    o.operation = finished(OperationOutcome::Interrupted);
    let s = mk_state(Step::PoweringOff);
    let (next, _) = writes(&o, &s, 7);
    o.operation = None;
    assert_ne!(off_id(&next), off_id(&s));
    assert!(matches!(does(&o, &next, 7), Command::PowerOff { .. }));
}

#[test]
fn agent_outage_beyond_the_power_off_timeout_is_fence_unconfirmed() {
    let mut o = mk_held();
    o.agent = AgentView::Unreachable {
        why: "rack r1 is dark".into(),
    };
    let s = mk_state(Step::PoweringOff);
    assert_eq!(
        waits(&o, &s, 10),
        (Reason::AgentUnreachable("rack r1 is dark".into()), 180)
    );
    let (s, reason) = writes(&o, &s, 180);
    assert_eq!(
        (s.step, reason.label()),
        (Step::AwaitingConfirmation, "FenceUnconfirmed")
    );
    assert_eq!(waits(&o, &s, 500).0.label(), "FenceUnconfirmed");
    // An operation that the agent finished meanwhile counts, because its id is unchanged.
    o.agent = AgentView::Ready;
    o.operation = confirmed();
    assert_eq!(writes(&o, &s, 501).0.step, Step::ConfirmingOff);
}

#[test]
fn foreign_holds_and_servicing_delay_the_power_on() {
    let mut o = mk_observation();
    o.power = mk_power(1, PowerState::Off);
    bmh(&mut o)
        .foreign_holds
        .insert("reboot.metal3.io/firmware".into());
    let mut s = mk_state(Step::PoweringOn);
    s.attempt.handover.held_by_others = true;
    let (reason, until) = waits(&o, &s, 100);
    assert_eq!(
        reason,
        Reason::HeldByOthers("reboot.metal3.io/firmware".into())
    );
    assert_eq!(until, 115);
    bmh(&mut o).foreign_holds.clear();
    bmh(&mut o).servicing = true;
    let (s, reason) = writes(&o, &s, 100);
    assert_eq!(
        (s.step, reason.label()),
        (Step::PoweringOn, "HostServicing")
    );
    assert_eq!(waits(&o, &s, 100).0.label(), "HostServicing");
}

#[test]
fn agent_switches_on_after_the_grace_of_baremetal_operator() {
    let mut o = mk_observation();
    let s = mk_state(Step::PoweringOn);
    assert_eq!(does(&o, &s, 0), Command::ReadPower);
    o.power = mk_power(1, PowerState::Off);
    // A second after the last answer the BMC is read again, regardless of other events.
    assert_eq!(waits(&o, &s, 1), (Reason::PowerOnRunning, 2));
    assert_eq!(does(&o, &s, 2), Command::ReadPower);
    o.power = mk_power(19, PowerState::Off);
    assert!(matches!(does(&o, &s, 20), Command::PowerOn { .. }));
    // PoweringOn is not on.
    o.power = mk_power(19, PowerState::PoweringOn);
    assert_eq!(waits(&o, &s, 19).1, 20);
}

#[test]
fn host_booted_during_an_agent_outage_is_not_switched_off_again() {
    let mut o = mk_observation();
    node(&mut o).lease.as_mut().unwrap().renewed = "09:07:00".into();
    node(&mut o).taint = Taint::Ours;
    let s = mk_state(Step::PoweringOn);
    assert_eq!(does(&o, &s, 300), Command::ReadPower);
    o.power = mk_power(300, PowerState::On);
    o.completed.insert(Command::Release);
    assert_eq!(writes(&o, &s, 301).0.step, Step::Booting);
}

#[test]
fn refused_power_on_is_retried() {
    let mut o = mk_direct();
    let mut s = mk_direct_state(Step::PoweringOn);
    o.power = mk_power(1, PowerState::Off);
    for (t, pause) in [(10, 5), (20, 5), (30, 60), (95, 60)] {
        o.operation = finished(OperationOutcome::Failed {
            why: "409: busy".into(),
        });
        (s, _) = writes(&o, &s, t);
        o.operation = None;
        let (reason, until) = waits(&o, &s, t);
        assert_eq!(reason, Reason::PowerOnUnconfirmed("409: busy".into()));
        assert_eq!(until, t + pause);
        assert!(matches!(does(&o, &s, t + pause), Command::PowerOn { .. }));
    }
}

#[test]
fn unfenceable_host_is_refused_before_any_change() {
    let cases: [Case<BareMetalHostFacts>; 5] = [
        (|b| b.paused = true, "HostPaused"),
        (|b| b.servicing = true, "HostServicing"),
        (|b| b.provisioned = false, "HostNotProvisioned"),
        (|b| b.deleting = true, "HostDeleting"),
        (|b| b.disable_power_off = true, "UnsupportedHost"),
    ];
    for (set, label) in cases {
        let mut o = mk_observation();
        o.object.finalizer = false;
        set(bmh(&mut o));
        let (reason, _) = waits(&o, &mk_state(Step::Pending), 0);
        assert!(reason.label() == label && reason.is_blocked());
    }
}

#[test]
fn detached_host_is_switched_only_by_the_agent() {
    let mut o = mk_observation();
    bmh(&mut o).detached = true;
    bmh(&mut o).provisioned = false;
    assert_eq!(writes(&o, &mk_state(Step::Pending), 0).0.mode, Mode::Direct);
}
