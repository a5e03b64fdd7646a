//! The view of a remediation, from a snapshot.
//!
//! Uses the functions of the engine. Facts that only an agent or a BMC has are assumed as if nothing fails
//! there.

mod agents;
mod etcd;

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{groups, kinds},
    views::group_of,
};
use rackhand_core::{
    concurrency::{ActiveRemediation, check_concurrency},
    explanation::{RemediationFacts, RemediationView, explain_remediation, observed},
    remediation::{
        BmcAccess, Collected, Drain, HostView, JournalFacts, OUTLETS_PROTOCOL, Observation,
        OperationView, PinnedOperation, PodDeletions, PowerReading, PowerState, PowerView,
        Progress, Reason, State, Step, WorkloadView,
    },
};
use serde_json::Value;

use super::{ExplainError, snapshot::Snapshot};
use crate::{
    clusters::{AttachedVolume, bound_to, lease_facts, node_facts},
    config::Config,
    hosts::{Target, find_machine, host, of_openshift, target},
    remediation::{
        Subject, active, bmh_facts, competing_controller, control_plane, indexed_other_nodes,
        machine_facts, overrules_quorum, request_facts, shown_state, wanted_node_action,
    },
    store::{
        index::{Connection, Index},
        object::{Key, Kind},
        request::RequestId,
    },
};

/// Explains a remediation of the snapshot.
pub(super) fn view(
    kind: Kind,
    key: &Key,
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> Result<RemediationView, ExplainError> {
    let id = RequestId::new(kind, key.clone());
    let facts = facts(&index(snapshot), &id, snapshot, config, now)?;
    Ok(explain_remediation(&facts, now))
}

/// The objects of the snapshot in an index.
pub(super) fn index(snapshot: &Snapshot) -> Index {
    let index = Index::new(Vec::new());
    for object in &snapshot.seen.objects {
        let types = object.types.clone().unwrap_or_default();
        let group = group_of(&types.api_version);
        let mut kinds = Kind::ALL.into_iter();
        if let Some(kind) = kinds.find(|k| k.kind() == types.kind && k.group() == group) {
            index.apply(kind, object.clone());
        }
    }
    index
}

fn facts(
    index: &Index,
    id: &RequestId,
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> Result<RemediationFacts, ExplainError> {
    let entry = index
        .request(id)
        .ok_or_else(|| ExplainError::Request(format!("there is no {id}")))?;
    let view = entry
        .view
        .clone()
        .map_err(|error| ExplainError::Request(error.to_string()))?;
    let state = shown_state(index, id.kind, &entry.object)
        .map_err(|why| ExplainError::Request(format!("{id}: {why}")))?;
    let mut assumed = Vec::new();
    let mut target = target(index, &id.key, &view, state.as_ref());
    let cluster = target.cluster.clone().unwrap_or_else(Key::local);
    for node in &snapshot.seen.nodes {
        index.apply_node(&cluster, node.clone());
    }
    if let Some((major, minor)) = &snapshot.version {
        index.set_version(&cluster, major, minor);
    }
    index.set_connection(&cluster, Connection::Up);
    let machine = openshift(snapshot, &target);
    of_openshift(&mut target, &view, machine);
    find_machine(index, &mut target);
    let workload = workload_view(index, snapshot, &target, &mut assumed, now);
    let node = match &workload {
        WorkloadView::Present(node) => Some(node),
        _ => None,
    };
    let racks = agents::racks(index);
    let resolved = host(index, &racks, &target, node, state.as_ref());
    let (found, bmh_key) = (resolved.view, resolved.bmh);
    let guard = etcd::guard_of(index, snapshot, &target, &mut assumed);
    let uid = view.meta().uid.clone();
    let bmh = bmh_key.as_ref().and_then(|key| {
        let view = index.host(key)?.view.ok()?;
        Some(bmh_facts(&view, key, &uid, &BTreeSet::new()))
    });
    let host_ref = match &found {
        HostView::Found(host) => Some(host.clone()),
        HostView::NotFound(_) => None,
    };
    let own = active(index, id, &view, &target, host_ref.as_ref(), state.as_ref());
    let rack = host_ref.as_ref().map(|h| h.rack.as_str());
    let chosen = state.as_ref().is_some_and(|s| s.host.is_some());
    agents::unseen(index, &found, chosen, &mut assumed);
    let agent = agents::view(index, rack, &mut assumed);
    let operation = operation(state.as_ref(), now, &mut assumed);
    let power = power(state.as_ref(), now, &mut assumed);
    let drain = drain(snapshot, &target, state.as_ref(), &mut assumed);
    let subject = Subject {
        target: &target,
        host: host_ref.as_ref(),
        bmh: bmh_key.as_ref(),
        workload: &workload,
        state: state.as_ref(),
        power: None,
    };
    let other_nodes = indexed_other_nodes(index, &racks, &subject, now);
    let mut observation = Observation {
        request: request_facts(index, config, id, &view, &target),
        machine: machine_facts(index, &target),
        // The stored Cluster is used, so that the view does not report the write that would pin it.
        cluster: state.as_ref().and_then(|s| s.cluster.clone()),
        cluster_removed: false,
        host: found,
        host_identity: None,
        conflict: competing_controller(&uid, bmh.as_ref()),
        bmh,
        workload,
        other_nodes,
        agent,
        access: BmcAccess::Known,
        agent_id: None,
        answered: None,
        pinned: PinnedOperation::Unknown,
        held: false,
        journal: JournalFacts::default(),
        outlets: Vec::new(),
        operation,
        power,
        silent_since: None,
        drain,
        pod_deletions: PodDeletions::default(),
        collected: Collected::default(),
        node_action: wanted_node_action(index, config, &view, &target),
        completed: BTreeSet::new(),
    };
    let mut quorum = control_plane(index, &target, guard.clone());
    if let Some(plane) = &mut quorum {
        plane.overruled = overrules_quorum(&view);
    }
    let decision = check_concurrency(&own, &others(index, snapshot), quorum);
    let held = || held_by_policy(&entry.object, &mut assumed);
    observation.conflict = observation.conflict.or(decision.reason).or_else(held);
    let machine = target.machine_key().map(|key| key.to_string());
    let mut seen = observed(machine.as_deref(), &observation);
    seen.extend(guard.map(|guard| ("etcd".to_owned(), etcd::message(guard))));
    seen.extend(agents::lines(index, rack));
    assumed.extend(snapshot.notes.iter().cloned());
    Ok(RemediationFacts {
        request: id.to_string(),
        recorded: recorded(&entry.object, "message"),
        observation,
        state,
        seen,
        assumed,
    })
}

/// The Machine of OpenShift that a remediation is for, if it exists.
fn openshift(snapshot: &Snapshot, target: &Target) -> Option<DynamicObject> {
    let key = target.openshift.as_ref()?;
    let found = snapshot
        .seen
        .get(groups::OPENSHIFT_MACHINE, kinds::MACHINE, key);
    found.cloned()
}

/// A field that the controller wrote last: `reason` or `message`.
fn recorded(object: &DynamicObject, field: &str) -> Option<String> {
    let status = object.data.get("status").and_then(|s| s.get(field));
    if let Some(word) = status.and_then(Value::as_str) {
        return Some(word.to_owned());
    }
    let annotations = object.annotations();
    let text = annotations.get(rackhand_api::names::STATE_ANNOTATION)?;
    let value: Value = serde_json::from_str(text).ok()?;
    value.get(field)?.as_str().map(str::to_owned)
}

/// Why a PowerPolicy blocks the remediation, as the controller wrote it last. Budgets and shared causes cannot
/// be evaluated from the outside.
fn held_by_policy(object: &DynamicObject, assumed: &mut Vec<String>) -> Option<Reason> {
    let holds: [fn(String) -> Reason; 3] = [
        Reason::HeldByPolicy,
        Reason::HeldBySharedCause,
        Reason::Settling,
    ];
    let reason = recorded(object, "reason")?;
    let mut holds = holds.into_iter();
    let held = holds.find(|held| held(String::new()).label() == reason)?;
    let message = recorded(object, "message")?;
    let suffix = held(String::new()).to_string();
    assumed.push("the PowerPolicy still holds it, as the controller reported last".into());
    let hold = message.strip_suffix(&suffix).unwrap_or(&message);
    Some(held(hold.to_owned()))
}

fn operation(
    state: Option<&State>,
    now: Timestamp,
    assumed: &mut Vec<String>,
) -> Option<OperationView> {
    let state = state?;
    let at_work = matches!(
        state.step,
        Step::PoweringOff | Step::AwaitingConfirmation | Step::PoweringOn
    );
    if !at_work || state.retry_at.is_some_and(|at| at > now) {
        return None;
    }
    assumed.push("the agent runs the operation of this step, and it has no outcome yet".into());
    Some(OperationView::Running)
}

fn power(state: Option<&State>, now: Timestamp, assumed: &mut Vec<String>) -> Option<PowerView> {
    let state = state?;
    let (power, words) = match state.step {
        Step::ConfirmingOff | Step::Tainting | Step::Draining | Step::Fenced
            if state.attempt.off.is_some() =>
        {
            (PowerState::Off, "the BMC still reports off")
        }
        Step::Booting | Step::Restoring => (PowerState::On, "the BMC still reports on"),
        _ => return None,
    };
    assumed.push(words.into());
    Some(PowerView {
        asked: now,
        answered: now,
        lease: None,
        result: Ok(PowerReading {
            state: power,
            raw: "assumed".into(),
            protocol: match state.reads_outlets() {
                true => OUTLETS_PROTOCOL.into(),
                false => String::new(),
            },
            identity: String::new(),
            at: now,
            since_start_ms: 0,
            bmc: String::new(),
        }),
    })
}

fn workload_view(
    index: &Index,
    snapshot: &Snapshot,
    target: &Target,
    assumed: &mut Vec<String>,
    now: Timestamp,
) -> WorkloadView {
    if let Some(why) = &snapshot.seen.down {
        return WorkloadView::Unreachable { why: why.clone() };
    }
    let Some(cluster) = &target.cluster else {
        return WorkloadView::Unreachable {
            why: "neither the Machine nor the remediation names a Cluster".into(),
        };
    };
    let Some(name) = &target.node else {
        return WorkloadView::NotJoined;
    };
    match index.node(cluster, name) {
        Some(node) => {
            let leases = snapshot.node_leases();
            let lease = leases.iter().find(|l| l.name_any() == *name);
            let facts = lease.and_then(|l| lease_facts(l, now));
            WorkloadView::Present(node_facts(&node, facts))
        }
        None if snapshot.has_all("Node") => WorkloadView::Missing { name: name.clone() },
        None => {
            assumed.push(format!("node {name} is not in the file"));
            WorkloadView::Unreachable {
                why: format!("node {name} is not in the file"),
            }
        }
    }
}

fn drain(
    snapshot: &Snapshot,
    target: &Target,
    state: Option<&State>,
    assumed: &mut Vec<String>,
) -> Option<Drain> {
    if state.is_none_or(|s| s.step != Step::Draining) {
        return None;
    }
    let node = target.node.as_deref()?;
    let (pods, volumes) = (snapshot.pods(), snapshot.volumes());
    if pods.is_none() && volumes.is_none() {
        assumed.push("neither pods nor VolumeAttachments are known".into());
        return None;
    }
    let (pods, volumes) = (pods.unwrap_or_default(), volumes.unwrap_or_default());
    let attached: Vec<AttachedVolume> = volumes.iter().map(AttachedVolume::from).collect();
    Some(bound_to(node, &pods, &attached))
}

/// Every unfinished remediation that can be parsed.
fn others(index: &Index, snapshot: &Snapshot) -> Vec<ActiveRemediation> {
    let racks = agents::racks(index);
    let mut list = Vec::new();
    for (id, entry) in index.requests() {
        let Ok(view) = &entry.view else { continue };
        let Ok(state) = shown_state(index, id.kind, &entry.object) else {
            continue;
        };
        if state.as_ref().is_some_and(|s| s.step.is_terminal()) {
            continue;
        }
        let mut target = target(index, &id.key, view, state.as_ref());
        let machine = openshift(snapshot, &target);
        of_openshift(&mut target, view, machine);
        let host = match host(index, &racks, &target, None, state.as_ref()).view {
            HostView::Found(host) => Some(host),
            HostView::NotFound(_) => None,
        };
        let mut other = active(index, &id, view, &target, host.as_ref(), state.as_ref());
        if other.progress == Progress::Ready && waits_for_its_own(&entry.object) {
            other.progress = Progress::Waiting;
        }
        list.push(other);
    }
    list
}

/// Whether a remediation waits for a cause of its own, by the reason that the controller wrote last. Only a
/// remediation that waits for nothing but another one may block others.
fn waits_for_its_own(object: &DynamicObject) -> bool {
    let free = [
        Reason::Started.label(),
        Reason::OtherRemediation(String::new()).label(),
    ];
    recorded(object, "reason").is_some_and(|reason| !free.contains(&reason.as_str()))
}
