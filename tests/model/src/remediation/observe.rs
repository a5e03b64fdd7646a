//! The observation that the controller makes of the world, and the decision of the real step function.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::SignedDuration;
use rackhand_core::remediation::{
    AgentFacts, AgentId, AgentView, BareMetalHostFacts, BmcAccess, BoundPod, Collected, Decision,
    Drain, Evictions, HostRef, HostView, JournalFacts, LeaseMemory, MachineView, MoveBlock,
    NodeAction, NodeComparison, NodeFacts, NodeLife, ObjectFacts, Observation, OnExhausted,
    OnUpdate, OperationEvent, OperationView, OtherNode, OtherNodes, PinnedOperation, PodDeletion,
    PodDeletions, PodRef, Policy, Shell, State, Taint, UpdateRules, WorkloadList, WorkloadView,
    node_comparison,
};

use crate::{
    remediation::{
        breakage::Breakage,
        world::{Process, Registration, UID, World, owner::Owner},
    },
    time::NOW,
};

/// Name of the Node.
const NODE: &str = "node-7";

/// The policy of the remediation. Its intervals are short and have few distinct lengths, so that fewer
/// states differ only in their times.
pub fn policy(w: &World) -> Policy {
    let s = Duration::from_secs;
    Policy {
        on_exhausted: OnExhausted::Escalate,
        retry_limit: 0,
        boot_timeout: s(30),
        evidence_timeout: s(4),
        diagnostic_interrupt: w.interrupts,
        cooperative_grace: s(4),
        power_off_timeout: s(10),
        power_off_tries: 1,
        power_on_timeout: s(10),
        retry_interval: s(4),
        unconfirmed_interval: s(10),
        hold_watch: s(10),
        drain_poll: s(10),
        drain_timeout: s(20),
        pod_deletion: PodDeletion::Immediate,
        ..w.leaving
            .map_or_else(Policy::default, |leaving| leaving.policy())
    }
}

fn name(what: &str, n: u8) -> String {
    format!("{what}-{n}")
}

pub(crate) fn node(w: &World, leases: &mut LeaseMemory) -> NodeFacts {
    let renewed = w.node.lease.to_string();
    if w.leaving.is_some() && w.is_heard() {
        // It is renewed all the time, and only since when it is not decides anything.
        leases.seen.clear();
    }
    let lease = leases.observe(NODE, renewed, Duration::from_secs(40), NOW);
    NodeFacts {
        name: NODE.into(),
        uid: name("uid", w.node.uid),
        created: None,
        boot_id: name("boot", w.node.boot),
        system_uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
        ready_since: None,
        conditions: BTreeMap::new(),
        ready: w.node.ready,
        ready_unknown: !w.node.ready,
        taint: w.node.taint,
        tainted_by_rackhand: true,
        cordon: w.node.cordon.facts(),
        lease: Some(lease),
    }
}

/// The Node under whose name the kubelet has registered, if it is not the pinned one.
fn other_nodes(
    w: &World,
    state: Option<&State>,
    operation: (Option<&OperationView>, bool),
    workload: &WorkloadView,
) -> OtherNodes {
    let comparison = node_comparison(state, operation, workload, NOW);
    let life = match (w.registration, comparison) {
        (_, NodeComparison::None) => return OtherNodes::NotCompared,
        (Registration::Pinned | Registration::OtherAtNextBoot, _) => {
            return OtherNodes::Compared(Vec::new());
        }
        (Registration::Other { ready: true }, _) => NodeLife::Ready,
        (_, NodeComparison::Indexed) => NodeLife::NotReady,
        (_, NodeComparison::Live) => NodeLife::Silent,
    };
    OtherNodes::Compared(vec![OtherNode {
        name: "node-7.example.org".into(),
        provider_id: String::new(),
        shares: "the system UUID".into(),
        life,
    }])
}

/// The pod, which Kubernetes evicts as soon as its Node is tainted.
pub(crate) fn bound_pod(w: &World) -> BoundPod {
    BoundPod {
        id: PodRef {
            namespace: "shop".into(),
            name: "db-0".into(),
            uid: w.pod_uid(),
            version: "1".into(),
        },
        is_mirror: false,
        is_of_daemon_set: false,
        tolerates_taint: false,
        is_terminating: w.node.taint != Taint::Absent || w.is_evicted(),
        has_finalizers: false,
        is_ended: false,
        claims: BTreeSet::new(),
    }
}

fn bare_metal_host(hold: bool, owner: Owner) -> BareMetalHostFacts {
    BareMetalHostFacts {
        name: "metal/host-7".into(),
        online: true,
        provisioned: true,
        powered_on: Some(owner.reported),
        our_hold: hold,
        move_block: MoveBlock::Other,
        hold_renewed: (hold && owner.renewed).then_some(NOW),
        ..BareMetalHostFacts::default()
    }
}

/// The agent and the journal that it has.
fn agent_id(w: &World) -> AgentId {
    AgentId {
        agent: "agent-1".into(),
        journal: name("journal", w.agent.journal),
    }
}

/// The agent sends the events of the operation that the engine follows.
pub(crate) fn send_events(w: &World, shell: &mut Shell) {
    let Some(id) = shell.operation.as_ref().filter(|t| t.following) else {
        return;
    };
    match w.agent.op(&id.id) {
        None => shell.operation_event(OperationEvent::Unknown {
            by: agent_id(w),
            stands_by: false,
        }),
        Some(op) => {
            let view = w.identified_view(op.view());
            shell.operation_event(OperationEvent::View(view));
            if op.end.is_some() {
                shell.operation_event(OperationEvent::Ended);
            }
        }
    }
}

/// The agent and its operation, as the engine learns of them.
fn agent(w: &World, shell: &mut Shell, host: &HostRef) -> AgentFacts {
    send_events(w, shell);
    let serving = if w.claimed {
        Ok(agent_id(w))
    } else {
        Err("its term is not claimed yet".into())
    };
    let known = shell.agent(Some(host), serving.clone(), false);
    known.unwrap_or_else(|| {
        shell.follow();
        send_events(w, shell);
        let queried = shell.agent(Some(host), serving, true);
        queried.unwrap_or_else(|| AgentFacts {
            agent: AgentView::Unreachable { why: String::new() },
            agent_id: None,
            operation: None,
        })
    })
}

/// The Node by a live reading or, while the watch shows nothing else, as it was read last. What has changed since is
/// shown by [`World::watch_shows`], at any later time.
fn workload(w: &World, shell: &mut Shell, leases: &mut LeaseMemory) -> WorkloadView {
    let seen = shell.node.kept.as_ref().map(|kept| kept.node.clone());
    let state = shell.state.clone();
    if let Some(node) = shell.node.standing(seen.as_ref(), state.as_ref(), NOW) {
        return WorkloadView::Present(node);
    }
    let view = match w.is_workload_away() {
        true => WorkloadView::Unreachable {
            why: "no answer".into(),
        },
        false => WorkloadView::Present(node(w, leases)),
    };
    shell.node_read(&view, NOW);
    view
}

/// What the controller sees now.
pub fn observe(w: &World, process: &mut Process) -> Observation {
    let Process { shell, leases, .. } = process;
    // A stored state that cannot be parsed is not part of the model.
    shell.read_state(Ok(w.object.state.clone())).ok();
    let state = shell.state.clone();
    if w.claimed && shell.journal.is_none() {
        shell.journals_read(&[w.agent.history()]);
    }
    let drain = || Drain {
        pods: w.pod.bound.then(|| bound_pod(w)).into_iter().collect(),
        volumes: w.pod.volume.then(|| "csi-1".into()).into_iter().collect(),
    };
    let bmh = w.hold.map(|hold| bare_metal_host(hold, w.owner));
    let host = HostRef {
        rack: "r1".into(),
        host: "host-7".into(),
        bmh: bmh.as_ref().map(|b| b.name.clone()),
        bmc: "10.0.0.7".into(),
    };
    let AgentFacts {
        agent,
        agent_id,
        operation,
    } = agent(w, shell, &host);
    shell.needs_access(Some(&host), false);
    let workload = workload(w, shell, leases);
    let other_nodes = match w.is_workload_away() {
        true => OtherNodes::NotCompared,
        false => {
            let is_read = shell.read_since_end().is_some();
            other_nodes(w, state.as_ref(), (operation.as_ref(), is_read), &workload)
        }
    };
    let lists = WorkloadList::of(state.as_ref().map(|s| s.step), &workload);
    let o = Observation {
        object: ObjectFacts {
            ended_by_copy: None,
            made_by_check: None,
            checked: None,
            uid: UID.into(),
            deleting: w.object.deleting,
            timed_out: w.leaving.is_some_and(|leaving| leaving.given_up),
            given_up_at: None,
            by_node: true,
            node_backup: false,
            finalizer: w.object.finalizer,
            finalizer_is_shared: false,
            finalizer_by_copy: None,
            uncut_by_copy: false,
            move_block: MoveBlock::Other,
            moved_away: false,
            confirm_fenced: w.object.confirmed.then(|| UID.into()),
            override_other_node: None,
            override_owner: None,
            paused: false,
            policy: Ok(policy(w)),
        },
        machine: Some(MachineView::not_asked()),
        cluster: None,
        cluster_removed: false,
        host_identity: None,
        host: HostView::Found(host),
        bmh,
        workload,
        other_nodes,
        agent,
        access: BmcAccess::Known,
        agent_id,
        answered: None,
        pinned: PinnedOperation::Unknown,
        // Known from the last probe, which claims the term.
        held: w.claimed && w.agent.holds(),
        journal: JournalFacts::default(),
        outlets: match w.outlets {
            Some(_) => vec!["a/1".into(), "b/1".into()],
            None => Vec::new(),
        },
        operation,
        power: None,
        silent_since: None,
        // Only the world of updates reads them.
        updates: None,
        update_rules: UpdateRules {
            on_running: match w.flash {
                Some(_) => OnUpdate::Wait,
                None => OnUpdate::Proceed,
            },
            ..UpdateRules::default()
        },
        approved: false,
        drain: (lists != WorkloadList::Nothing).then(drain),
        pod_deletions: PodDeletions::default(),
        evictions: Evictions::default(),
        collected: Collected::default(),
        node_action: NodeAction::Taint,
        conflict: None,
        completed: BTreeSet::new(),
        wall_ahead: SignedDuration::ZERO,
    };
    shell.observed(o, NOW)
}

/// Observes and decides, again on a live reading of the Node if the decision rests on it, with a breakage around the
/// real functions where one is chosen. Returns what the process remembers after that.
pub fn decide(w: &World, breakage: Option<Breakage>) -> (Process, Observation, Decision) {
    let mut process = Process::clone(&w.process);
    let (o, d) = decide_once(w, &mut process, breakage);
    let shell = &mut process.shell;
    let suffices = shell.node.suffices(shell.state.as_ref(), &d, NOW);
    if suffices || breakage.is_some_and(|b| b.keeps_reading(&d)) {
        return (process, o, d);
    }
    shell.node.forget();
    let (o, d) = decide_once(w, &mut process, breakage);
    (process, o, d)
}

fn decide_once(
    w: &World,
    process: &mut Process,
    breakage: Option<Breakage>,
) -> (Observation, Decision) {
    if let Some(b) = breakage {
        send_events(w, &mut process.shell);
        b.memory(&mut process.shell);
    }
    let mut o = observe(w, process);
    if let Some(b) = breakage {
        b.observation(&mut o, w);
    }
    let mut d = process.shell.decide(&o, NOW);
    if let Some(b) = breakage {
        b.decision(&mut d, &o, w);
    }
    (o, d)
}
