//! The observation that the controller makes of the world, and the decision of the real step function.

use std::{collections::BTreeSet, time::Duration};

use rackhand_core::remediation::{
    AgentId, AgentView, BareMetalHostFacts, BmcAccess, Decision, Drain, HostRef, HostView,
    LeaseFacts, MachineView, NodeAction, NodeFacts, Observation, OnExhausted, PinnedOperation,
    Policy, RequestFacts, Step, WorkloadView, operation_id, step,
};

use crate::{
    breakage::Breakage,
    time::NOW,
    world::{UID, World},
};

/// The policy of the request. Its intervals are short and have few distinct lengths, so that fewer
/// states differ only in their times.
pub fn policy() -> Policy {
    let s = Duration::from_secs;
    Policy {
        on_exhausted: OnExhausted::Escalate,
        retry_limit: 0,
        boot_timeout: s(30),
        cooperative_grace: s(4),
        power_off_timeout: s(10),
        power_off_tries: 1,
        power_on_timeout: s(10),
        retry_interval: s(4),
        unconfirmed_interval: s(10),
        hold_watch: s(10),
        drain_poll: s(10),
        drain_timeout: s(20),
        ..Policy::default()
    }
}

fn name(what: &str, n: u8) -> String {
    format!("{what}-{n}")
}

fn node(w: &World) -> NodeFacts {
    let since = w.process.lease.map_or(NOW, |(_, since)| since);
    NodeFacts {
        name: "node-7".into(),
        uid: name("uid", w.node.uid),
        boot_id: name("boot", w.node.boot),
        system_uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
        ready: w.node.ready,
        ready_unknown: !w.node.ready,
        taint: w.node.taint,
        lease: Some(LeaseFacts {
            renewed: w.node.lease.to_string(),
            duration: Duration::from_secs(40),
            unchanged_since: since,
        }),
    }
}

fn bare_metal_host(hold: bool) -> BareMetalHostFacts {
    BareMetalHostFacts {
        name: "metal/host-7".into(),
        online: true,
        provisioned: true,
        our_hold: hold,
        ..BareMetalHostFacts::default()
    }
}

/// What the controller sees now.
pub fn observe(w: &World) -> Observation {
    let state = w.object.state.as_ref();
    let id = state.and_then(|s| operation_id(UID, s));
    let agent = AgentId {
        agent: "agent-1".into(),
        journal: name("journal", w.agent.journal),
    };
    let draining = state.is_some_and(|s| s.step == Step::Draining);
    let drain = || Drain {
        pods: w
            .pod
            .bound
            .then(|| "shop/db-0".into())
            .into_iter()
            .collect(),
        volumes: w.pod.volume.then(|| "csi-1".into()).into_iter().collect(),
    };
    let bmh = w.hold.map(bare_metal_host);
    let mut o = Observation {
        request: RequestFacts {
            uid: UID.into(),
            deleting: w.object.deleting,
            timed_out: false,
            by_node: true,
            node_backup: false,
            finalizer: w.object.finalizer,
            confirm_fenced: w.object.confirmed.then(|| UID.into()),
            paused: false,
            policy: Ok(policy()),
        },
        machine: Some(MachineView::not_asked()),
        cluster: None,
        cluster_removed: false,
        host: HostView::Found(HostRef {
            rack: "r1".into(),
            host: "host-7".into(),
            bmh: bmh.as_ref().map(|b| b.name.clone()),
            bmc: "10.0.0.7".into(),
        }),
        bmh,
        workload: WorkloadView::Present(node(w)),
        agent: AgentView::Ready,
        access: BmcAccess::Known,
        agent_id: Some(agent.clone()),
        answered: id.as_ref().map(|_| agent),
        pinned: PinnedOperation::Unknown,
        held: w.agent.holds,
        operation: id.and_then(|id| w.agent.op(&id)).map(|op| op.view()),
        power: w.process.power.clone(),
        silent_since: None,
        drain: draining.then(drain),
        node_action: NodeAction::Taint,
        conflict: None,
        completed: if w.process.completed.is_empty() {
            BTreeSet::new()
        } else {
            w.process.completed.clone()
        },
    };
    if !w.claimed {
        o.agent = AgentView::Unreachable {
            why: "its term is not claimed yet".into(),
        };
        (o.agent_id, o.answered, o.operation, o.held) = (None, None, None, false);
    }
    o.silent_since = o.silence(state, w.process.silent, NOW);
    o
}

/// Observes and decides, with a breakage around the real function where one is chosen.
pub fn decide(w: &World, breakage: Option<Breakage>) -> (Observation, Decision) {
    let mut o = observe(w);
    if let Some(b) = breakage {
        b.observation(&mut o, w);
    }
    let mut d = step(&o, w.object.state.as_ref(), NOW);
    if let Some(b) = breakage {
        b.decision(&mut d, &o, w);
    }
    (o, d)
}
