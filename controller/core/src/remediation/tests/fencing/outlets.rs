//! The outlets of the PDUs, the second way to cut the power of a host.

use super::{super::*, build::*};

fn mk_outlets() -> Vec<String> {
    vec!["a/12".into(), "b/12".into()]
}

fn mk_outlet_reading(state: PowerState, since_start_ms: u64) -> PowerReading {
    PowerReading {
        protocol: OUTLETS_PROTOCOL.into(),
        ..mk_reading(state, since_start_ms)
    }
}

fn mk_outlet_proof() -> Vec<PowerReading> {
    vec![
        mk_outlet_reading(PowerState::Off, 10_000),
        mk_outlet_reading(PowerState::Off, 12_000),
    ]
}

fn outlets_are(state: PowerState) -> Option<OperationView> {
    finished(OperationOutcome::Confirmed {
        readings: vec![
            mk_outlet_reading(state, 10_000),
            mk_outlet_reading(state, 12_000),
        ],
        taken: Some(mk_taken()),
    })
}

fn mk_outlet_power(asked: i64, state: PowerState) -> Option<PowerView> {
    Some(PowerView {
        asked: at(asked),
        answered: at(asked),
        lease: None,
        result: Ok(mk_outlet_reading(state, 0)),
    })
}

/// A held host with two known outlets.
fn mk_fed() -> Observation {
    Observation {
        outlets: mk_outlets(),
        ..mk_held()
    }
}

/// The same without a BareMetalHost.
fn mk_direct_fed() -> Observation {
    Observation {
        outlets: mk_outlets(),
        ..mk_direct()
    }
}

/// The state after the BMC could not prove off.
fn mk_cut(step: Step, stage: OutletStage) -> State {
    let mut s = mk_state(step);
    s.attempt.outlets = Some(Box::new(OutletUse {
        outlets: mk_outlets(),
        because: "no answer from 10.0.0.7".into(),
        stage,
    }));
    s.tries = 1;
    if s.attempt.off.is_some() {
        s.attempt.off = Some(OffEvidence::Outlets {
            at: at(0),
            readings: mk_outlet_proof(),
            taken: mk_taken(),
        });
    }
    s
}

fn stage(s: &State) -> Option<OutletStage> {
    s.attempt.outlets.as_deref().map(|used| used.stage)
}

#[test]
fn f2_outlets_follow_an_unconfirmed_power_off_and_are_written_first() {
    let mut o = mk_fed();
    o.operation = unconfirmed();
    let (s, reason) = writes(&o, &mk_state(Step::PoweringOff), 30);
    assert_eq!(
        (s.step, stage(&s)),
        (Step::PoweringOff, Some(OutletStage::Off))
    );
    assert_eq!(s.tries, 1, "an operation id is used once");
    assert_eq!(reason.label(), "OutletsOffRunning");
    let text = reason.to_string();
    assert!(
        text.contains("a/12, b/12") && text.contains("no answer"),
        "{text}"
    );
    o.operation = None;
    match does(&o, &s, 30) {
        Command::PowerOff {
            id,
            device: PowerDevice::Outlets,
            command_after,
            system_uuid,
            ..
        } => {
            assert_eq!(id, format!("{UID}/1@1800000000/outlets-off/0.1"));
            assert!(command_after.is_zero() && system_uuid.is_empty());
        }
        other => panic!("{other:?}"),
    }
    bmh(&mut o).our_hold = false;
    assert_eq!(
        does(&o, &s, 30),
        Command::AddHold,
        "F2: the hold key is set first"
    );
}

#[test]
fn outlets_are_not_used_where_a_rule_forbids_it() {
    let s = mk_state(Step::PoweringOff);
    let cases: [Case<Observation>; 8] = [
        (|o| o.outlets.clear(), "the outlets are not known"),
        (|o| node(o).ready = true, "F11: the Node is Ready"),
        (
            |o| o.conflict = Some(Reason::ControlPlaneQuorum("2 of 3".into())),
            "F6: the quorum",
        ),
        (
            |o| o.operation = finished(OperationOutcome::IdentityMismatch { why: "X".into() }),
            "F5: the BMC belongs to another system",
        ),
        (
            |o| o.operation = finished(OperationOutcome::Cancelled),
            "the operation was cancelled",
        ),
        (
            |o| o.operation = finished(OperationOutcome::Interrupted),
            "the agent was restarted",
        ),
        (
            |o| o.operation = Some(OperationView::Running),
            "F6: the operation runs",
        ),
        (
            |o| o.operation = Some(OperationView::Rejected { why: "term".into() }),
            "F7: the agent refused it",
        ),
    ];
    for (change, what) in cases {
        let mut o = mk_fed();
        o.operation = unconfirmed();
        change(&mut o);
        let d = decide(&o, Some(&s), at(30));
        assert_eq!(stage(&d.state), None, "{what}");
        if matches!(d.next, Next::Do(_)) {
            assert!(!matches!(
                d.next,
                Next::Do(Command::PowerOff {
                    device: PowerDevice::Outlets,
                    ..
                })
            ));
        }
    }
}

#[test]
fn f6_outlets_wait_for_an_operation_that_another_agent_may_carry_out() {
    let mut o = mk_fed();
    let agent = |name: &str| AgentId {
        agent: name.into(),
        journal: String::new(),
    };
    o.agent_id = Some(agent("b"));
    let mut s = mk_cut(Step::PoweringOff, OutletStage::Off);
    s.pinned = Some(AgentPin {
        agent: agent("a"),
        operation: format!("{UID}/1@1800000000/off/0.0"),
        until: Some(at(300)),
    });
    let d = decide(&o, Some(&s), at(30));
    assert_eq!(d.reason.label(), "OtherAgentBusy");
    assert!(matches!(d.next, Next::Wait(_)));
}

#[test]
fn f1_only_readings_of_the_outlets_prove_that_they_are_off() {
    let s = mk_cut(Step::PoweringOff, OutletStage::Off);
    let mut o = mk_fed();
    o.operation = outlets_are(PowerState::Off);
    let (off, _) = writes(&o, &s, 40);
    assert_eq!(off.step, Step::ConfirmingOff);
    assert!(matches!(off.attempt.off, Some(OffEvidence::Outlets { .. })) && off.reads_outlets());
    // An agent of an earlier version ignores the device.
    o.operation = confirmed();
    let (s, reason) = writes(&o, &s, 40);
    assert_eq!(
        (s.step, stage(&s)),
        (Step::AwaitingConfirmation, Some(OutletStage::Unproven))
    );
    assert!(
        s.attempt.off.is_none() && reason.to_string().contains("update rackhand-agent"),
        "{reason}"
    );
}

#[test]
fn f8_pdu_that_fails_too_asks_for_a_person_and_the_bmc_is_tried_again() {
    let mut o = mk_fed();
    o.operation = finished(OperationOutcome::Failed {
        why: "PDU b does not answer".into(),
    });
    let (s, reason) = writes(&o, &mk_cut(Step::PoweringOff, OutletStage::Off), 40);
    assert_eq!(
        (s.step, stage(&s)),
        (Step::AwaitingConfirmation, Some(OutletStage::Unproven))
    );
    let text = reason.to_string();
    assert_eq!(reason.label(), "FenceUnconfirmed");
    assert!(
        text.contains("PDU b") && text.contains("no answer from"),
        "{text}"
    );
    o.operation = None;
    assert!(matches!(
        does(&o, &s, 400),
        Command::PowerOff {
            device: PowerDevice::Bmc,
            ..
        }
    ));
    // The BMC fails again: the PDUs may answer now.
    o.operation = unconfirmed();
    let (again, _) = writes(&o, &s, 500);
    assert_eq!(stage(&again), Some(OutletStage::Off));
    assert!(again.tries > s.tries, "an operation id is used once");
}

#[test]
fn f3_taint_requires_the_outlets_off_and_a_silent_bmc_does_not_matter() {
    let s = mk_cut(Step::Tainting, OutletStage::Off);
    let mut o = mk_fed();
    assert_eq!(does(&o, &s, 5), Command::ReadPower);
    o.power = mk_power(5, PowerState::Off);
    assert_eq!(
        does(&o, &s, 5),
        Command::ReadPower,
        "the BMC proves nothing here"
    );
    o.power = mk_outlet_power(5, PowerState::Off);
    let (s, _) = writes(&o, &s, 5);
    assert_eq!(s.attempt.taint, Some(TaintOwner::Us));
    assert_eq!(does(&o, &s, 5), Command::AddTaint);
    assert!(latest_reading_stands(s.attempt.off.as_ref(), o.power.as_ref(), at(6)).is_ok());
    let bmc = mk_power(5, PowerState::Off);
    assert!(latest_reading_stands(s.attempt.off.as_ref(), bmc.as_ref(), at(6)).is_err());
}

#[test]
fn f3_outlet_that_is_on_again_is_switched_off_by_the_outlets_and_a_bmc_that_is_on_refutes_them() {
    let s = mk_cut(Step::Draining, OutletStage::Off);
    let mut o = mk_fed();
    node(&mut o).taint = Taint::Ours;
    o.power = mk_outlet_power(5, PowerState::On);
    let (again, reason) = writes(&o, &s, 5);
    assert_eq!(reason.label(), "FenceViolated");
    assert_eq!(
        (again.step, again.device()),
        (Step::PoweringOff, PowerDevice::Outlets)
    );
    o.power = mk_power(5, PowerState::On);
    let (by_bmc, _) = writes(&o, &s, 5);
    assert_eq!(
        (by_bmc.step, by_bmc.device()),
        (Step::PoweringOff, PowerDevice::Bmc)
    );
    assert!(
        by_bmc.outlets_may_be_off(),
        "they are switched on again later"
    );
    o.operation = unconfirmed();
    let (s, _) = writes(&o, &by_bmc, 60);
    assert_eq!(
        stage(&s),
        Some(OutletStage::Refuted),
        "they are not used again"
    );
}

#[test]
fn reading_of_the_outlets_counts_unless_the_bmc_reports_on() {
    let outlets = || mk_outlet_power(5, PowerState::Off).unwrap();
    for bmc in [None, mk_no_power(5), mk_power(5, PowerState::Off)] {
        let view = PowerView::of_outlets(outlets(), bmc);
        assert_eq!(view, outlets());
    }
    let on = mk_power(5, PowerState::On).unwrap();
    assert_eq!(PowerView::of_outlets(outlets(), Some(on.clone())), on);
    let ignored = mk_power(5, PowerState::Off).unwrap();
    let view = PowerView::of_outlets(ignored, None);
    assert!(view.result.unwrap_err().contains("update rackhand-agent"));
}

#[test]
fn f9_outlets_are_on_before_the_bmc_is_and_a_dead_bmc_does_not_block_the_boot() {
    let mut o = mk_direct_fed();
    node(&mut o).taint = Taint::Ours;
    o.drain = Some(Drain::default());
    o.power = mk_outlet_power(5, PowerState::Off);
    let mut s = mk_cut(Step::Draining, OutletStage::Off);
    s.mode = Mode::Direct;
    let (s, _) = writes(&o, &s, 5);
    assert_eq!(
        (s.step, s.device()),
        (Step::PoweringOn, PowerDevice::Outlets)
    );
    match does(&o, &s, 6) {
        Command::PowerOn {
            id,
            device: PowerDevice::Outlets,
        } => {
            assert!(id.ends_with("/outlets-on/0.0"), "{id}");
        }
        other => panic!("{other:?}"),
    }
    o.operation = outlets_are(PowerState::On);
    let (s, reason) = writes(&o, &s, 10);
    assert_eq!(
        (s.step, stage(&s)),
        (Step::PoweringOn, Some(OutletStage::Restored))
    );
    assert_eq!(reason.label(), "OutletsRestored");
    o.operation = None;
    match does(&o, &s, 11) {
        Command::PowerOn {
            id,
            device: PowerDevice::Bmc,
        } => {
            assert!(id.ends_with("/on/0.1"), "{id}");
        }
        other => panic!("{other:?}"),
    }
    o.operation = unconfirmed();
    let (s, reason) = writes(&o, &s, 200);
    assert_eq!((s.step, s.attempt.on), (Step::Booting, Some(at(200))));
    assert!(reason.to_string().contains("restore policy"), "{reason}");
}

#[test]
fn l1_outlets_that_cannot_be_switched_on_are_named_with_who_ends_the_wait() {
    let mut o = mk_direct_fed();
    let mut s = mk_cut(Step::PoweringOn, OutletStage::On);
    s.mode = Mode::Direct;
    s.tries = 5;
    o.operation = finished(OperationOutcome::Failed {
        why: "PDU a does not answer".into(),
    });
    let (failed, reason) = writes(&o, &s, 50);
    assert_eq!(reason.label(), "OutletsNotOn");
    let text = reason.to_string();
    assert!(
        text.contains("a/12, b/12: PDU a") && text.contains("inventory"),
        "{text}"
    );
    assert!(reason.is_blocked() && failed.outlets_may_be_off());
    // The object is deleted: the host is not left without power for that.
    o.object.deleting = true;
    let (s, _) = writes(&o, &s, 50);
    assert_eq!((s.step, s.device()), (Step::Aborting, PowerDevice::Outlets));
    o.operation = None;
    assert!(matches!(
        does(&o, &s, 51),
        Command::PowerOn { device: PowerDevice::Outlets, id } if id.ends_with("/outlets-undo/0.0")
    ));
    // Whoever takes them out of the inventory answers for them.
    o.outlets.clear();
    let d = decide(&o, Some(&s), at(52));
    assert_eq!(stage(&d.state), Some(OutletStage::Restored));
    assert!(
        d.notes
            .iter()
            .any(|note| note.warning && note.reason == "OutletsNotListed")
    );
}

#[test]
fn f11_withdrawal_switches_the_outlets_on_again_whatever_became_of_them() {
    for operation in [
        None,
        finished(OperationOutcome::Cancelled),
        outlets_are(PowerState::Off),
        unconfirmed(),
    ] {
        let mut o = mk_direct_fed();
        o.object.deleting = true;
        let mut s = mk_cut(Step::PoweringOff, OutletStage::Off);
        s.mode = Mode::Direct;
        o.operation = operation.clone();
        let (s, _) = writes(&o, &s, 40);
        assert_eq!(
            (s.step, s.device()),
            (Step::PoweringOn, PowerDevice::Outlets),
            "{operation:?}"
        );
    }
}

#[test]
fn f11_outlets_of_a_host_that_came_back_are_switched_on_and_not_off() {
    for stage in [OutletStage::Off, OutletStage::Unproven] {
        let mut o = mk_fed();
        node(&mut o).ready = true;
        if stage == OutletStage::Unproven {
            o.operation = unconfirmed();
        }
        let (s, _) = writes(&o, &mk_cut(Step::AwaitingConfirmation, stage), 40);
        assert_eq!(
            (s.step, s.device()),
            (Step::PoweringOn, PowerDevice::Outlets),
            "{stage:?}"
        );
    }
}

#[test]
fn f5_abort_returns_the_outlets_before_anything_else_is_switched() {
    let mut o = mk_direct_fed();
    node(&mut o).lease.as_mut().unwrap().renewed = "09:05:00".into();
    node(&mut o).lease.as_mut().unwrap().unchanged_since = at(3);
    o.power = mk_outlet_power(5, PowerState::Off);
    let mut s = mk_cut(Step::Tainting, OutletStage::Off);
    s.mode = Mode::Direct;
    let (s, reason) = writes(&o, &s, 5);
    assert_eq!((s.step, reason.label()), (Step::Aborting, "LeaseRenewed"));
    assert!(matches!(
        does(&o, &s, 6),
        Command::PowerOn {
            device: PowerDevice::Outlets,
            ..
        }
    ));
    o.operation = outlets_are(PowerState::On);
    let (s, _) = writes(&o, &s, 8);
    o.operation = None;
    assert!(matches!(
        does(&o, &s, 9),
        Command::PowerOn {
            device: PowerDevice::Bmc,
            ..
        }
    ));
    // The BMC stays dead: the remediation ends nevertheless.
    o.operation = unconfirmed();
    let (s, _) = writes(&o, &s, 200);
    assert_eq!(s.step, Step::Blocked);
}

#[test]
fn state_without_outlets_is_read_and_written_as_before() {
    let s = mk_state(Step::Tainting);
    let text = serde_json::to_string(&s).unwrap();
    assert!(!text.contains("outlets"), "{text}");
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), s);
    let s = mk_cut(Step::Tainting, OutletStage::Off);
    let text = serde_json::to_string(&s).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), s);
}

#[test]
fn f12_state_from_before_the_outlets_were_on_again_is_outdated() {
    let entry = |what: &str, is_off| JournalEntry {
        id: format!("{UID}/1@1800000000/{what}"),
        host: mk_host().host,
        is_off,
        is_release: false,
        progress: EntryProgress::Ended,
    };
    let s = mk_cut(Step::PoweringOff, OutletStage::Off);
    let off = entry("outlets-off/0.1", true);
    assert!(!is_outdated(UID, Some(&s), std::slice::from_ref(&off)));
    let on = entry("outlets-on/0.0", false);
    assert!(is_outdated(UID, Some(&s), &[on, off]));
}
