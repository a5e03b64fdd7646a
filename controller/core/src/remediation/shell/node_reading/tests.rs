use super::*;
use crate::remediation::{
    Interrupt, OffEvidence, PinnedNode, PowerDevice, Reason, RemediationOutcome, Shell, TaintOwner,
    Turn,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn mk_node() -> NodeFacts {
    NodeFacts {
        name: "n".into(),
        uid: "u".into(),
        created: None,
        boot_id: "boot-1".into(),
        system_uuid: "s".into(),
        ready: false,
        ready_since: None,
        conditions: std::collections::BTreeMap::new(),
        ready_unknown: true,
        taint: crate::remediation::Taint::Absent,
        tainted_by_rackhand: true,
        cordon: crate::remediation::Cordon::Absent,
        lease: Some(crate::remediation::LeaseFacts {
            renewed: "r".into(),
            duration: Duration::from_secs(40),
            unchanged_since: at(0),
        }),
    }
}

/// As the watch shows it.
fn mk_seen() -> NodeFacts {
    NodeFacts {
        lease: None,
        tainted_by_rackhand: false,
        ..mk_node()
    }
}

fn mk_read(asked: i64) -> NodeReading {
    let mut reading = NodeReading::default();
    reading.read(&WorkloadView::Present(mk_node()), at(asked), false);
    reading
}

/// A reading that an observation uses again.
fn mk_kept(asked: i64) -> NodeReading {
    let mut reading = mk_read(asked);
    if let Some(kept) = &mut reading.kept {
        kept.is_live = false;
    }
    reading
}

fn mk_state(step: Step) -> State {
    State {
        step,
        ..State::new(at(0))
    }
}

fn mk_decision(state: State, next: Next) -> Decision {
    Decision {
        state,
        next,
        reason: Reason::Working,
        notes: Vec::new(),
        begins: false,
    }
}

fn write_needs(before: &State, after: State) -> Needed {
    needed(Some(before), &mk_decision(after, Next::Write))
}

#[test]
fn f12_reading_stands_only_while_the_watch_shows_the_same_node() {
    let state = mk_state(Step::Booting);
    let stands = |seen: Option<&NodeFacts>| {
        let mut reading = mk_read(0);
        reading.standing(seen, Some(&state), at(1)).is_some()
    };
    assert!(stands(Some(&mk_seen())));
    assert!(!stands(None), "a Node that the watch lacks is read live");
    let changes: [fn(&mut NodeFacts); 4] = [
        |node| node.uid = "v".into(),
        |node| node.ready = true,
        |node| node.boot_id = "boot-2".into(),
        |node| node.taint = crate::remediation::Taint::Ours,
    ];
    for change in changes {
        let mut seen = mk_seen();
        change(&mut seen);
        assert!(!stands(Some(&seen)), "{seen:?}");
    }
}

#[test]
fn f12_absence_and_silence_are_not_kept() {
    let views = [
        WorkloadView::NotJoined,
        WorkloadView::Missing { name: "n".into() },
        WorkloadView::Unreachable { why: "w".into() },
        WorkloadView::ClusterGone { name: "c".into() },
    ];
    for view in views {
        let mut reading = mk_read(0);
        reading.read(&view, at(1), false);
        assert_eq!(reading.kept, None);
    }
}

#[test]
fn f5_reading_is_kept_for_a_bounded_time() {
    let age_is_short = |step, asked, now| {
        let mut reading = mk_read(asked);
        let state = mk_state(step);
        let seen = mk_seen();
        let stands = reading.standing(Some(&seen), Some(&state), at(now));
        stands.is_some()
    };
    assert!(age_is_short(Step::Booting, 0, 29));
    assert!(!age_is_short(Step::Booting, 0, 30));
    assert!(age_is_short(Step::Tainting, 0, 9));
    assert!(!age_is_short(Step::Tainting, 0, 10));
    assert!(age_is_short(Step::Draining, 0, 9));
    assert!(!age_is_short(Step::Draining, 0, 10));
    assert!(!age_is_short(Step::Booting, 5, 0), "the clock was set back");
    let mut first = mk_read(0);
    let none = first.standing(Some(&mk_seen()), None, at(0));
    assert_eq!(none, None, "a process that has no state reads");
}

#[test]
fn live_reading_suffices_for_every_decision() {
    let state = mk_state(Step::Restoring);
    let end = mk_decision(state.clone(), Next::Done(RemediationOutcome::Succeeded));
    assert!(mk_read(0).suffices(Some(&state), &end, at(0)));
    assert!(NodeReading::default().suffices(Some(&state), &end, at(0)));
    assert!(!mk_kept(0).suffices(Some(&state), &end, at(0)));
}

#[test]
fn f5_kept_reading_does_not_pin_the_lease() {
    let mut state = mk_state(Step::ConfirmingOff);
    state.attempt.off = Some(OffEvidence::Person { at: at(5) });
    let mut pinned = state.clone();
    pinned.attempt.node = Some(PinnedNode::of(&mk_node()));
    pinned.attempt.lease_at_off = Some("r".into());
    let decision = mk_decision(pinned, Next::Write);
    assert!(!mk_kept(6).suffices(Some(&state), &decision, at(6)));
    assert!(mk_read(6).suffices(Some(&state), &decision, at(6)));
}

#[test]
fn recent_reading_is_younger_than_one_that_proves_off() {
    let mut state = mk_state(Step::Draining);
    state.attempt.drained = None;
    let drained = mk_decision(mk_state(Step::PoweringOn), Next::Write);
    assert_eq!(needed(Some(&state), &drained), Needed::Recent);
    let suffices = |asked, now| mk_kept(asked).suffices(Some(&state), &drained, at(now));
    assert!(suffices(0, 1));
    assert!(!suffices(0, 2));
    assert!(!suffices(5, 4), "the clock was set back");
}

fn mk_power_off() -> Command {
    Command::PowerOff {
        id: "o".into(),
        device: PowerDevice::Bmc,
        command_after: Duration::ZERO,
        system_uuid: String::new(),
        serial: String::new(),
        during_update: false,
    }
}

#[test]
fn effects_on_power_taint_and_end_rest_on_a_live_reading() {
    let state = mk_state(Step::PoweringOff);
    let needs =
        |command: Command| needed(Some(&state), &mk_decision(state.clone(), Next::Do(command)));
    let interrupt = Interrupt {
        id: "i".into(),
        system_uuid: String::new(),
        serial: String::new(),
    };
    let live = [
        Command::AddHold,
        mk_power_off(),
        Command::CollectEvidence {
            interrupt: Some(interrupt),
        },
        Command::AddTaint,
        Command::DeleteNode { uid: "u".into() },
        Command::RemoveFinalizer(RemediationOutcome::Withdrawn),
    ];
    for command in live {
        assert_eq!(needs(command.clone()), Needed::Live, "{command:?}");
    }
    let recent = [
        Command::RemoveHold,
        Command::PowerOn {
            id: "o".into(),
            device: PowerDevice::Bmc,
        },
        Command::Release,
        Command::RemoveTaint,
        Command::Uncordon { node: "u".into() },
        Command::EvictPods {
            node: "u".into(),
            pods: Vec::new(),
        },
        Command::DeletePods {
            node: "u".into(),
            pods: Vec::new(),
        },
    ];
    for command in recent {
        assert_eq!(needs(command.clone()), Needed::Recent, "{command:?}");
    }
    let kept = [
        Command::AddFinalizer,
        Command::ReadPower,
        Command::Cancel { id: "o".into() },
        Command::CollectEvidence { interrupt: None },
    ];
    for command in kept {
        assert_eq!(needs(command.clone()), Needed::Kept, "{command:?}");
    }
    let wait = mk_decision(state.clone(), Next::Wait(at(1)));
    assert_eq!(needed(Some(&state), &wait), Needed::Kept);
}

#[test]
fn f11_first_effect_rests_on_a_live_reading_whoever_owns_the_power() {
    let mut state = mk_state(Step::PoweringOff);
    let off = |state: &State| {
        let decision = mk_decision(state.clone(), Next::Do(mk_power_off()));
        needed(Some(state), &decision)
    };
    assert_eq!(off(&state), Needed::Live);
    // The hold, which switches it off, was set on a live reading.
    state.mode = Mode::Cooperative;
    assert_eq!(off(&state), Needed::Recent);
}

#[test]
fn end_that_was_decided_live_is_carried_out_without_another_reading() {
    let end = |step| {
        let state = mk_state(step);
        let next = Next::Do(Command::RemoveFinalizer(RemediationOutcome::Succeeded));
        needed(Some(&state), &mk_decision(state.clone(), next))
    };
    assert_eq!(end(Step::Restoring), Needed::Live);
    assert_eq!(end(Step::Succeeded), Needed::Kept);
}

#[test]
fn recovered_and_aborted_rest_on_a_live_reading_and_a_beginning_on_a_recent_one() {
    let all = [
        (Step::Restoring, Step::Succeeded, Needed::Live),
        (Step::Restoring, Step::Retrying, Needed::Live),
        (Step::Pending, Step::Succeeded, Needed::Live),
        (Step::PoweringOff, Step::Aborting, Needed::Live),
        (Step::ConfirmingOff, Step::PoweringOn, Needed::Live),
        (Step::Booting, Step::PoweringOn, Needed::Live),
        (Step::Pending, Step::Holding, Needed::Recent),
        (Step::Retrying, Step::Holding, Needed::Recent),
        (Step::Pending, Step::Evicting, Needed::Recent),
        (Step::Evicting, Step::Holding, Needed::Live),
        (Step::Draining, Step::PoweringOn, Needed::Recent),
        (Step::Holding, Step::PoweringOff, Needed::Kept),
        (Step::PoweringOff, Step::ConfirmingOff, Needed::Kept),
        (Step::ConfirmingOff, Step::Tainting, Needed::Kept),
        (Step::PoweringOn, Step::Booting, Needed::Kept),
        (Step::Booting, Step::Restoring, Needed::Kept),
    ];
    for (before, after, wanted) in all {
        let needs = write_needs(&mk_state(before), mk_state(after));
        assert_eq!(needs, wanted, "{before:?} {after:?}");
    }
    let first = mk_decision(mk_state(Step::Pending), Next::Write);
    assert_eq!(needed(None, &first), Needed::Live);
}

#[test]
fn what_is_concluded_from_the_node_is_written_on_a_recent_reading() {
    let before = mk_state(Step::Booting);
    let concluded: [fn(&mut State); 6] = [
        |s| s.attempt.node = Some(PinnedNode::of(&mk_node())),
        |s| s.attempt.taint = Some(TaintOwner::Us),
        |s| s.attempt.end_reason = Some(Reason::BootTimeout),
        |s| s.attempt.drained = Some(at(1)),
        |s| s.node_back = Some(at(1)),
        |s| s.other_node = Some("o".into()),
    ];
    for conclude in concluded {
        let mut after = before.clone();
        conclude(&mut after);
        let needs = write_needs(&before, after.clone());
        assert_eq!(needs, Needed::Recent, "{after:?}");
        // A step that is passed does not hide it.
        after.step = Step::Restoring;
        let needs = write_needs(&before, after.clone());
        assert_eq!(needs, Needed::Recent, "{after:?}");
    }
    let mut tried = before.clone();
    tried.tries = 1;
    tried.retry_at = Some(at(1));
    tried.failure = Some("f".into());
    tried.confirmation_used = true;
    assert_eq!(write_needs(&before, tried), Needed::Kept);
}

#[test]
fn answer_to_a_change_keeps_the_lease_that_was_read() {
    let mut reading = mk_read(0);
    let tainted = NodeFacts {
        taint: crate::remediation::Taint::Ours,
        ..mk_seen()
    };
    reading.changed(tainted.clone());
    let kept = reading.kept.clone().unwrap();
    assert_eq!(kept.node.taint, crate::remediation::Taint::Ours);
    assert_eq!(kept.node.lease, mk_node().lease);
    let other = NodeFacts {
        uid: "v".into(),
        ..tainted
    };
    reading.changed(other);
    assert_eq!(reading.kept, Some(kept), "of another Node");
}

#[test]
fn reading_is_read_again_after_a_failure_and_not_because_a_call_was_put_off() {
    let mut shell = Shell::new("uid");
    shell.node = mk_read(0);
    shell.turned(Turn::PutOff(Duration::from_secs(1)), at(0));
    assert!(shell.node.kept.is_some());
    assert_eq!(shell.failures, 1);
    shell.turned(Turn::Failed, at(0));
    assert_eq!((shell.node.kept, shell.failures), (None, 2));
}
