//! Builders: an observation without faults, and states at each step.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::super::*;

/// A change of the input, and the label of the expected reason.
pub(super) type Case<T> = (fn(&mut T), &'static str);

pub(super) const UID: &str = "5b0c";

/// A time in seconds after an arbitrary origin.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn mk_reading(state: PowerState, since_start_ms: u64) -> PowerReading {
    PowerReading {
        state,
        raw: format!("{state:?}"),
        protocol: "Redfish".into(),
        identity: String::new(),
        at: at(0),
        since_start_ms,
        bmc: "10.0.0.7".into(),
    }
}

pub(super) fn mk_proof() -> Vec<PowerReading> {
    vec![
        mk_reading(PowerState::Off, 10_000),
        mk_reading(PowerState::Off, 12_000),
    ]
}

pub(super) fn mk_taken() -> CommandTaken {
    CommandTaken {
        command: "ForceOff".into(),
        answer: "204".into(),
        since_start_ms: 9000,
        proof: Some(OffProof::Taken),
        updates_unknown: None,
    }
}

pub(super) fn mk_power(asked: i64, state: PowerState) -> Option<PowerView> {
    Some(PowerView {
        asked: at(asked),
        answered: at(asked),
        lease: None,
        result: Ok(mk_reading(state, 0)),
    })
}

pub(super) fn mk_no_power(asked: i64) -> Option<PowerView> {
    Some(PowerView {
        asked: at(asked),
        answered: at(asked),
        lease: None,
        result: Err("the BMC did not answer in 5s".into()),
    })
}

pub(super) fn mk_node() -> NodeFacts {
    NodeFacts {
        name: "node-7".into(),
        uid: "n7".into(),
        created: Some(at(-1000)),
        boot_id: "boot-1".into(),
        system_uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
        ready_since: None,
        conditions: BTreeMap::new(),
        ready: false,
        ready_unknown: true,
        taint: Taint::Absent,
        tainted_by_rackhand: false,
        cordon: Cordon::Absent,
        lease: Some(LeaseFacts {
            renewed: "09:00:00".into(),
            duration: secs(40),
            unchanged_since: at(-60),
        }),
    }
}

/// Name of [`mk_other`].
pub(super) const OTHER: &str = "node-7.example.org";

/// Another Node with the system UUID of the host.
pub(super) fn mk_other(life: NodeLife) -> OtherNode {
    OtherNode {
        name: OTHER.into(),
        provider_id: String::new(),
        shares: "the system UUID 4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
        life,
    }
}

/// A pod of the namespace shop that is Terminating, as after the taint.
pub(super) fn mk_pod(name: &str) -> BoundPod {
    BoundPod {
        id: PodRef {
            namespace: "shop".into(),
            name: name.into(),
            uid: format!("uid-of-{name}"),
            version: "1".into(),
        },
        is_mirror: false,
        is_of_daemon_set: false,
        tolerates_taint: false,
        is_terminating: true,
        has_finalizers: false,
        is_ended: false,
        claims: BTreeSet::new(),
    }
}

pub(super) fn mk_bmh() -> BareMetalHostFacts {
    BareMetalHostFacts {
        name: "metal/host-7".into(),
        online: true,
        provisioned: true,
        powered_on: Some(true),
        serial: Some("SN7".into()),
        // Somebody else makes clusterctl wait, so that most tests need not do it.
        move_block: MoveBlock::Other,
        ..BareMetalHostFacts::default()
    }
}

pub(super) fn mk_host() -> HostRef {
    HostRef {
        rack: "r1".into(),
        host: "host-7".into(),
        bmh: Some("metal/host-7".into()),
        bmc: "10.0.0.7".into(),
    }
}

/// A failed node on a provisioned host; the finalizer is on, the BareMetalHost is not held yet.
pub(super) fn mk_observation() -> Observation {
    Observation {
        object: ObjectFacts {
            ended_by_copy: None,
            made_by_check: None,
            checked: None,
            uid: UID.into(),
            deleting: false,
            timed_out: false,
            given_up_at: None,
            by_node: false,
            node_backup: false,
            finalizer: true,
            finalizer_is_shared: false,
            finalizer_by_copy: None,
            uncut_by_copy: false,
            move_block: MoveBlock::Other,
            moved_away: false,
            confirm_fenced: None,
            override_other_node: None,
            override_owner: None,
            paused: false,
            policy: Ok(Policy::default()),
        },
        machine: Some(MachineView {
            created: None,
            provider_id: String::new(),
            health_check_succeeded: Some(false),
            owner_remediated_false: false,
            not_checked: false,
            is_requested: false,
            updating: None,
        }),
        cluster: None,
        cluster_removed: false,
        host_identity: None,
        host: HostView::Found(mk_host()),
        bmh: Some(mk_bmh()),
        workload: WorkloadView::Present(mk_node()),
        other_nodes: OtherNodes::Compared(Vec::new()),
        agent: AgentView::Ready,
        access: BmcAccess::Known,
        agent_id: None,
        answered: None,
        pinned: PinnedOperation::Unknown,
        held: false,
        journal: JournalFacts::default(),
        outlets: Vec::new(),
        operation: None,
        power: None,
        updates: None,
        // The updates have tests of their own; a host without them is not asked.
        update_rules: UpdateRules {
            on_running: OnUpdate::Proceed,
            ..UpdateRules::default()
        },
        approved: false,
        silent_since: None,
        drain: None,
        pod_deletions: PodDeletions::default(),
        evictions: Evictions::default(),
        collected: Collected::default(),
        node_action: NodeAction::Taint,
        conflict: None,
        completed: BTreeSet::new(),
        wall_ahead: jiff::SignedDuration::ZERO,
    }
}

/// The same without a BareMetalHost.
pub(super) fn mk_direct() -> Observation {
    Observation {
        bmh: None,
        ..mk_observation()
    }
}

/// The same with our hold, which the owner has followed.
pub(super) fn mk_held() -> Observation {
    let mut o = mk_observation();
    bmh(&mut o).our_hold = true;
    bmh(&mut o).powered_on = Some(false);
    o
}

/// The same, of a remediation that is being deleted.
pub(super) fn mk_deleted() -> Observation {
    let mut o = mk_held();
    o.object.deleting = true;
    o
}

/// Like [`mk_held`], of a BareMetalHost that its owner wants off.
pub(super) fn mk_offline() -> Observation {
    let mut o = mk_held();
    bmh(&mut o).online = false;
    o
}

pub(super) fn bmh(o: &mut Observation) -> &mut BareMetalHostFacts {
    o.bmh.as_mut().unwrap()
}

pub(super) fn node(o: &mut Observation) -> &mut NodeFacts {
    match &mut o.workload {
        WorkloadView::Present(node) => node,
        other => panic!("no Node in {other:?}"),
    }
}

pub(super) fn policy(o: &mut Observation) -> &mut Policy {
    o.object.policy.as_mut().unwrap()
}

/// The state that the state machine writes when it enters `step` at second 0.
pub(super) fn mk_state(step: Step) -> State {
    let mut s = State::new(at(0));
    s.step = step;
    s.node_was_down = true;
    if step == Step::Pending {
        return s;
    }
    s.mode = Mode::Cooperative;
    s.host = Some(mk_host());
    let n = mk_node();
    s.attempt.node = Some(PinnedNode {
        name: n.name,
        uid: n.uid,
        boot_id: n.boot_id,
        system_uuid: n.system_uuid,
        unproven: false,
    });
    s.agent_holds = step != Step::Holding;
    if matches!(
        step,
        Step::ConfirmingOff
            | Step::Tainting
            | Step::Draining
            | Step::Fenced
            | Step::PoweringOn
            | Step::Booting
            | Step::Restoring
    ) {
        s.attempt.off = Some(OffEvidence::Bmc {
            at: at(0),
            readings: mk_proof(),
            taken: mk_taken(),
        });
        s.attempt.lease_at_off = Some("09:00:00".into());
    }
    if matches!(
        step,
        Step::Draining | Step::Fenced | Step::PoweringOn | Step::Booting | Step::Restoring
    ) {
        s.attempt.taint = Some(TaintOwner::Us);
    }
    if step == Step::Fenced {
        s.strategy = Strategy::PowerOff;
    }
    if matches!(
        step,
        Step::Fenced | Step::PoweringOn | Step::Booting | Step::Restoring
    ) {
        s.attempt.drained = Some(at(0));
    }
    if matches!(step, Step::PoweringOn | Step::Booting | Step::Restoring) {
        s.attempt.handover.released = Some(at(0));
    }
    if matches!(step, Step::Booting | Step::Restoring) {
        s.attempt.on = Some(at(0));
        s.agent_holds = false;
    }
    s
}

pub(super) fn mk_direct_state(step: Step) -> State {
    State {
        mode: Mode::Direct,
        ..mk_state(step)
    }
}

pub(super) fn finished(outcome: OperationOutcome) -> Option<OperationView> {
    Some(OperationView::Finished {
        outcome,
        commands_sent: 1,
    })
}

pub(super) fn confirmed() -> Option<OperationView> {
    finished(OperationOutcome::Confirmed {
        readings: mk_proof(),
        taken: Some(mk_taken()),
    })
}

pub(super) fn unconfirmed() -> Option<OperationView> {
    finished(OperationOutcome::Unconfirmed {
        why: "no answer from 10.0.0.7".into(),
    })
}

/// Decides, and checks the invariants of every decision.
pub(super) fn decide(o: &Observation, s: Option<&State>, now: Timestamp) -> Decision {
    let d = step(o, s, now);
    let changed = s != Some(&d.state);
    match d.next {
        Next::Write => assert!(
            changed,
            "a write without a change would be repeated for ever: {d:?}"
        ),
        // Before the first write there is no state to differ from.
        _ => assert!(
            !changed || s.is_none(),
            "a change that is not written: {d:?}"
        ),
    }
    if let Next::Wait(until) = d.next {
        assert!(until > now, "the wait ends before it begins: {d:?}");
    }
    assert!(!d.reason.to_string().is_empty());
    d
}

/// The command that comes next, and nothing else.
#[track_caller]
pub(super) fn does(o: &Observation, s: &State, now: i64) -> Command {
    match decide(o, Some(s), at(now)).next {
        Next::Do(command) => command,
        other => panic!("{other:?} instead of a command"),
    }
}

/// The state that is written next.
#[track_caller]
pub(super) fn writes(o: &Observation, s: &State, now: i64) -> (State, Reason) {
    let d = decide(o, Some(s), at(now));
    assert_eq!(d.next, Next::Write, "{d:?}");
    (d.state, d.reason)
}

/// The reason of the wait, and its end in seconds.
#[track_caller]
pub(super) fn waits(o: &Observation, s: &State, now: i64) -> (Reason, i64) {
    let d = decide(o, Some(s), at(now));
    match d.next {
        Next::Wait(until) => (d.reason, until.as_second() - 1_800_000_000),
        other => panic!("{other:?} instead of a wait"),
    }
}

pub(in crate::remediation) fn mk_update(percent: u8) -> FirmwareUpdate {
    FirmwareUpdate {
        source: "job JID_1".into(),
        name: "BIOS".into(),
        state: "Running".into(),
        percent: Some(percent),
        message: String::new(),
    }
}
