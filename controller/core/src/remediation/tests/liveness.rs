//! L1 over random observations and states, consistent or not: each wait has a reason, a time, and an end,
//! which is either a deadline or an outside change that the reason names.

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};

use super::{super::*, build::*, faults::Rng, waiting::STEPS};

impl Rng {
    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        let length = i64::try_from(list.len()).unwrap();
        list[usize::try_from(self.range(0, length)).unwrap()].clone()
    }

    fn time(&mut self) -> i64 {
        self.range(-100, 900)
    }
}

const UUID: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";

const WORDS: [PowerState; 5] = [
    PowerState::On,
    PowerState::Off,
    PowerState::PoweringOn,
    PowerState::PoweringOff,
    PowerState::Unknown,
];

fn random_power(r: &mut Rng) -> Option<PowerView> {
    let (asked, state) = (r.time(), r.pick(&WORDS));
    let view = if r.one_in(5) {
        mk_no_power(asked)
    } else {
        mk_power(asked, state)
    };
    let lease = r.pick(&[
        None,
        Some("09:00:00".to_owned()),
        Some("09:05:00".to_owned()),
    ]);
    view.filter(|_| !r.one_in(5)).map(|mut view| {
        view.answered = at(asked + r.range(0, 9));
        view.lease = lease;
        if let Ok(reading) = &mut view.result {
            reading.identity = r.pick(&["", UUID, "SN7", "SN8"]).into();
        }
        view
    })
}

fn random_operation(r: &mut Rng) -> Option<OperationView> {
    let why = || "no answer".to_owned();
    let outcome = r.pick(&[
        OperationOutcome::Confirmed {
            readings: mk_proof(),
            taken: Some(mk_taken()),
        },
        OperationOutcome::Confirmed {
            readings: mk_proof(),
            taken: None,
        },
        OperationOutcome::Unconfirmed { why: why() },
        OperationOutcome::Failed { why: why() },
        OperationOutcome::IdentityMismatch { why: why() },
        OperationOutcome::Cancelled,
        OperationOutcome::Interrupted,
    ]);
    let commands_sent = u32::from(r.one_in(2));
    r.pick(&[
        None,
        Some(OperationView::Running),
        Some(OperationView::Rejected { why: why() }),
        Some(OperationView::Finished {
            outcome,
            commands_sent,
        }),
    ])
}

fn random_workload(r: &mut Rng) -> WorkloadView {
    let mut node = mk_node();
    node.boot_id = r.pick(&["boot-1", "boot-2"]).into();
    (node.ready, node.ready_unknown) = r.pick(&[(true, false), (false, true), (false, false)]);
    node.uid = r.pick(&["n7", "n7", "n8"]).into();
    node.system_uuid = r
        .pick(&[
            "4c4c4544-0042-3510-8054-c2c04f4e4e32",
            UUID,
            "5c4c4544-0042-3510-8054-c2c04f4e4e33",
        ])
        .into();
    node.taint = r.pick(&[Taint::Absent, Taint::Ours, Taint::Other]);
    node.cordon = r.pick(&[
        Cordon::Absent,
        Cordon::Rackhand { uid: UID.into() },
        Cordon::Other,
    ]);
    let lease = node.lease.as_mut().unwrap();
    lease.renewed = r.pick(&["09:00:00", "09:05:00"]).into();
    lease.unchanged_since = at(r.time());
    if r.one_in(6) {
        node.lease = None;
    }
    let name = || "node-7".to_owned();
    r.pick(&[
        WorkloadView::Present(node.clone()),
        WorkloadView::Present(node),
        WorkloadView::NotJoined,
        WorkloadView::Missing { name: name() },
        WorkloadView::ClusterGone { name: name() },
        WorkloadView::Unreachable { why: name() },
    ])
}

fn random_policy(r: &mut Rng) -> Result<Policy, PolicyError> {
    if r.one_in(8) {
        return Err(PolicyError::NoStrategy);
    }
    Ok(Policy {
        strategy: r.pick(&[
            Strategy::Reboot,
            Strategy::PowerOff,
            Strategy::Evict,
            Strategy::PowerCycleFirst,
        ]),
        eviction_timeout: r.pick(&[secs(0), secs(300)]),
        eviction_blocked: r.pick(&[
            EvictionPolicy::Proceed,
            EvictionPolicy::Wait,
            EvictionPolicy::Abort,
        ]),
        on_exhausted: r.pick(&[
            OnExhausted::Escalate,
            OnExhausted::Retire,
            OnExhausted::StayOff,
            OnExhausted::Notify,
        ]),
        node_gone: r.pick(&[NodeGonePolicy::PowerCycle, NodeGonePolicy::Replace]),
        drain_blocked: r.pick(&[
            DrainPolicy::StayOff,
            DrainPolicy::PowerOn,
            DrainPolicy::GiveUp,
        ]),
        pod_deletion: r.pick(&[PodDeletion::Immediate, PodDeletion::PodGc]),
        evidence_timeout: r.pick(&[secs(0), secs(5)]),
        diagnostic_interrupt: r.one_in(3),
        workload_down: r.pick(&[UnreachablePolicy::StayOff, UnreachablePolicy::PowerOn]),
        ..Policy::default()
    })
}

pub(super) fn random_observation(r: &mut Rng) -> Observation {
    let mut o = mk_observation();
    o.object = ObjectFacts {
        ended_by_copy: None,
        made_by_check: None,
        deleting: r.one_in(5),
        timed_out: r.one_in(8),
        given_up_at: None,
        by_node: r.one_in(4),
        node_backup: r.one_in(6),
        finalizer: !r.one_in(4),
        confirm_fenced: r.pick(&[None, None, Some(UID.to_owned()), Some("odd".to_owned())]),
        paused: r.one_in(6),
        override_other_node: r.pick(&[None, None, Some(UID.to_owned())]),
        policy: random_policy(r),
        ..o.object
    };
    if r.one_in(8) {
        o.machine = None;
    }
    if r.one_in(8) {
        o.host = HostView::NotFound(Reason::HostNotFound("node-7".into()));
    }
    let b = bmh(&mut o);
    b.online = !r.one_in(8);
    b.paused = r.one_in(8);
    b.detached = r.one_in(6);
    b.servicing = r.one_in(8);
    b.provisioned = !r.one_in(8);
    b.disable_power_off = r.one_in(12);
    b.deleting = r.one_in(12);
    b.our_hold = r.one_in(2);
    b.unhealthy_mark = r.one_in(2);
    if r.one_in(6) {
        b.foreign_holds.insert("reboot.metal3.io/firmware".into());
    }
    if r.one_in(4) {
        o.bmh = None;
    }
    o.workload = random_workload(r);
    o.other_nodes = random_other_nodes(r);
    if r.one_in(4) {
        o.agent = AgentView::Unreachable { why: "dark".into() };
    }
    o.access = r.pick(&[
        BmcAccess::Known,
        BmcAccess::Known,
        BmcAccess::HostGone {
            name: "metal/host-7".into(),
        },
        BmcAccess::Missing {
            why: "Secret metal/bmc-7 does not exist".into(),
        },
    ]);
    o.operation = random_operation(r);
    o.power = random_power(r);
    o.silent_since = r.one_in(2).then(|| at(r.time()));
    let pod = random_pod(r);
    o.drain = r.pick(&[
        None,
        Some(Drain::default()),
        Some(Drain {
            pods: vec![pod],
            volumes: vec!["csi-1".into()],
        }),
    ]);
    o.node_action = r.pick(&[NodeAction::Taint, NodeAction::Delete]);
    o.conflict = r.pick(&[
        None,
        None,
        Some(Reason::OtherRemediation("another one".into())),
        Some(Reason::RivalController("key".into())),
    ]);
    for command in [Command::ReadPower, Command::Release] {
        if r.one_in(2) {
            o.completed.insert(command);
        }
    }
    o
}

fn random_other_nodes(r: &mut Rng) -> OtherNodes {
    let until = at(r.time());
    let life = r.pick(&[
        NodeLife::Ready,
        NodeLife::Renewing,
        NodeLife::Undecided { until },
        NodeLife::Silent,
        NodeLife::NotReady,
    ]);
    r.pick(&[
        OtherNodes::NotCompared,
        OtherNodes::Failed { why: "403".into() },
        OtherNodes::Compared(Vec::new()),
        OtherNodes::Compared(Vec::new()),
        OtherNodes::Compared(vec![mk_other(life)]),
    ])
}

pub(super) fn random_pod(r: &mut Rng) -> BoundPod {
    BoundPod {
        is_mirror: r.one_in(6),
        is_of_daemon_set: r.one_in(6),
        tolerates_taint: r.one_in(6),
        is_terminating: !r.one_in(4),
        has_finalizers: r.one_in(6),
        is_ended: false,
        claims: std::collections::BTreeSet::new(),
        ..mk_pod("db-0")
    }
}

pub(super) fn random_state(r: &mut Rng) -> State {
    let mut s = mk_state(match r.range(0, 8) {
        0 => Step::Evicting,
        1 => Step::Evicted,
        _ => r.pick(&STEPS),
    });
    s.cordoned = r.one_in(2).then(|| CordonedNode {
        name: "node-7".into(),
        uid: r.pick(&["n7", "n6"]).into(),
        seen: r.one_in(2),
        removed: r.pick(&[0, 0, 1, 7]),
        again: r.one_in(2).then(|| at(r.time())),
    });
    s.attempt.eviction = (!r.one_in(4)).then(|| {
        Box::new(Eviction {
            until: at(r.time()),
            ready: r.one_in(2),
            left: r.pick(&[None, Some(1), Some(3)]),
            moved: at(r.time()),
            evicted: 0,
            pods: Vec::new(),
            forbidden: Vec::new(),
            finished: r.one_in(2),
        })
    });
    let some_time = |r: &mut Rng| r.one_in(2).then(|| at(r.time()));
    s.since = at(r.range(-100, 0));
    s.mode = r.pick(&[Mode::Cooperative, Mode::Direct]);
    s.attempt.number = r.pick(&[1, 2, 3]);
    s.tries = r.pick(&[0, 1, 3]);
    s.unsent = r.pick(&[0, s.tries]);
    s.power_off_repeats = r.pick(&[0, 1]);
    s.attempt.power_on_repeats = r.pick(&[0, 3]);
    s.retry_at = some_time(r);
    s.failure = r.one_in(3).then(|| "no answer".to_owned());
    s.strategy = r.pick(&[
        Strategy::Reboot,
        Strategy::PowerOff,
        Strategy::Evict,
        Strategy::PowerCycleFirst,
    ]);
    s.attempt.node_action = r.pick(&[None, Some(NodeAction::Taint), Some(NodeAction::Delete)]);
    s.keep_off = r.pick(&[None, None, Some(Reason::ExhaustedKeptOff(2))]);
    s.attempt.taint = r.pick(&[None, Some(TaintOwner::Us), Some(TaintOwner::Other)]);
    s.attempt.lease_at_off = r.pick(&[None, Some("09:00:00".to_owned()), Some(String::new())]);
    if let Some(mark) = s.attempt.node.as_mut() {
        mark.unproven = r.one_in(4);
        mark.system_uuid = r
            .pick(&["4c4c4544-0042-3510-8054-c2c04f4e4e32", UUID])
            .into();
    }
    s.attempt.drained = some_time(r);
    s.attempt.on = some_time(r);
    s.agent_holds = r.one_in(2);
    s.confirmation_used = r.one_in(3);
    s.former_lease = r.pick(&[None, Some("09:00:00".to_owned()), Some(String::new())]);
    s.other_node = r.pick(&[None, None, Some(OTHER.to_owned()), Some("gone".to_owned())]);
    s.attempt.end_reason = r.pick(&[
        Some(Reason::OtherNodeOnHost("node-7 is stale".into())),
        None,
        None,
        Some(Reason::BootTimeout),
        Some(Reason::WithdrawnAfterOff),
        Some(Reason::DrainGivenUp("1 pod (a/b)".into())),
        Some(Reason::LeaseRenewed("node-7".into())),
    ]);
    if s.step == Step::Fenced && s.attempt.end_reason == Some(Reason::WithdrawnAfterOff) {
        s.attempt.end_reason = None;
    }
    match r.range(0, 3) {
        0 => s.attempt.off = None,
        1 => s.attempt.off = Some(OffEvidence::Person { at: at(r.time()) }),
        _ => {}
    }
    if r.one_in(5) {
        s.attempt.node = None;
    }
    s
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn l1_every_wait_has_a_reason_a_time_and_an_end(seed in any::<u64>()) {
        let mut r = Rng(seed);
        let mut o = random_observation(&mut r);
        let (mut s, now) = (Some(random_state(&mut r)), at(r.range(0, 900)));
        if r.one_in(50) {
            s = None;
        }
        for _ in 0..30 {
            let d = step(&o, s.as_ref(), now);
            let message = d.reason.to_string();
            prop_assert!(!message.is_empty() && !d.reason.label().is_empty());
            match d.next {
                Next::Write => {
                    // Another operation has another id, and its state is unknown yet.
                    let id = |s: &State| operation_id(UID, s);
                    if s.as_ref().and_then(id) != id(&d.state) {
                        o.operation = None;
                    }
                    o.completed.clear();
                    s = Some(d.state);
                }
                Next::Wait(until) => {
                    prop_assert!(until > now, "the wait ends before it begins: {d:?}");
                    let ends = o.step_until(&d.state).is_some();
                    prop_assert!(
                        ends || d.reason.has_no_deadline(),
                        "nothing ends the wait: {d:?}\n{o:?}"
                    );
                    return Ok(());
                }
                Next::Do(_) | Next::Done(_) => return Ok(()),
            }
        }
        prop_assert!(false, "it writes for ever: {s:?}\n{o:?}");
    }
}
