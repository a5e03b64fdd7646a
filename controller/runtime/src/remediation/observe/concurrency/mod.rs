//! Concurrency of the remediations of this controller (F6).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{CAPM3_HOLD_ANNOTATION_PREFIX, OVERRIDE_QUORUM_ANNOTATION},
    views::MachineView,
};
use rackhand_core::{
    fleet::placement::PolicyFacts,
    fleet::roles::Roles,
    limits::concurrency::{
        ActiveRemediation, ControlPlane, EtcdGuard, Urgency, check_concurrency, takes_planes_turn,
    },
    limits::power_policy::{PolicyDecision, freeze_after_beginning},
    remediation::{BareMetalHostFacts, HostRef, Progress, Reason, State, progress_again},
};

use crate::{
    clusters::{OPENSHIFT_NODE_LABEL, ReadClient, machine_roles, node_roles},
    config::Config,
    hosts::{Target, target},
    remediation::{
        observe::power_policy::{self, KnownNode, PolicyInput, policy_input},
        observe::{Scope, facts::persons_word},
        record::remediation_state::recorded_state,
        scope::Memory,
    },
    store::{
        clock,
        index::Index,
        object::Key,
        remediation::{RemediationId, RemediationObject},
    },
};

/// Whether a remediation may begin.
pub(in crate::remediation) struct Permission {
    /// What prevents it, if anything.
    pub(in crate::remediation) refused: Option<Reason>,
    /// Limits of policies that it exceeds without consequence.
    pub(in crate::remediation) warnings: Vec<String>,
    /// The quorum that a person has overruled, if it begins because of that.
    pub(in crate::remediation) overruled: Option<Reason>,
    /// Whether it waits for its turn, because the API server of its cluster is slow.
    pub(in crate::remediation) waits_for_turn: bool,
}

/// Evaluates whether the remediation may begin, and records the result for the others (F6).
/// `able` tells whether it would begin, `unmarked` what keeps it from that last, and `wall` is the wall clock. Runs under a lock, so that two that could begin at once
/// do not both succeed.
pub(in crate::remediation) fn resolve_concurrency(
    scope: &Scope,
    memory: &Memory,
    mut me: ActiveRemediation,
    (able, unmarked): (bool, Option<Reason>),
    quorum: Option<ControlPlane>,
    input: &PolicyInput,
    wall: Timestamp,
) -> Permission {
    let mut active = scope.context.active.lock();
    scope.context.unevaluated.lock().remove(&scope.id);
    let before = active.remove(&scope.uid).map(|before| before.progress);
    let state = memory.shell.state.as_ref();
    me.progress = progress_again(me.progress, able, before, state);
    let begins = me.progress == Progress::Ready;
    let begun_by_others = if me.progress == Progress::Begun {
        Vec::new()
    } else {
        let unevaluated = scope.context.unevaluated.lock();
        begun_by_others(&scope.context.index, &active, &unevaluated)
    };
    let others: Vec<&ActiveRemediation> = active.values().chain(&begun_by_others).collect();
    let right = check_concurrency(&me, others.iter().copied(), quorum);
    let mut permission = Permission {
        refused: right.reason,
        warnings: Vec::new(),
        overruled: right.overruled,
        waits_for_turn: false,
    };
    me.progress = right.progress;
    if begins && right.progress == Progress::Begun {
        match power_policy::decide_by_policies(scope, memory, &me, input, &others, wall) {
            PolicyDecision::Begin { warnings } => permission.warnings = warnings,
            PolicyDecision::Refuse {
                reason,
                progress,
                hold,
            } => {
                permission.refused = Some(reason);
                permission.overruled = None;
                me.progress = progress;
                me.policy.held_by = hold.map(|hold| hold.policy);
            }
        }
    }
    if !begins
        && me.progress == Progress::Begun
        && permission.refused.is_none()
        && let Some(hold) = freeze_after_beginning(&input.policies, &input.subject, state, wall)
    {
        permission.refused = Some(Reason::HeldByPolicy(hold.to_string()));
        me.policy.held_by = Some(hold.policy);
        // It keeps its place until it is recorded as waiting.
        if Progress::of(state) == Progress::Ready {
            me.progress = Progress::Waiting;
        }
    }
    // It takes no place before it can begin.
    if begins
        && me.progress == Progress::Begun
        && let Some(why) = unmarked
    {
        permission = Permission {
            refused: Some(why),
            warnings: Vec::new(),
            overruled: None,
            waits_for_turn: false,
        };
        me.progress = Progress::Waiting;
    }
    if begins && me.progress == Progress::Begun && !take_turn(scope, &me, &others) {
        me.progress = Progress::Ready;
        permission.waits_for_turn = true;
    }
    active.insert(scope.uid.clone(), me);
    permission
}

/// Takes the turn of a remediation that begins, if it has one.
fn take_turn(scope: &Scope, me: &ActiveRemediation, others: &[&ActiveRemediation]) -> bool {
    let Some(client) = client_of(scope) else {
        return true;
    };
    let (mut load, now) = (client.load().lock(), clock::monotonic_now());
    let has_turn = load.has_turn(me, others.iter().copied(), now);
    if has_turn {
        load.begins(now);
    }
    has_turn
}

fn client_of(scope: &Scope) -> Option<ReadClient> {
    let cluster = scope.interest.lock().cluster.clone()?;
    scope.context.workloads.get(&cluster)
}

/// Whether a remediation that waits for its turn still has none, as it was evaluated last. That costs no call.
pub(in crate::remediation) fn still_waits_for_turn(scope: &Scope) -> bool {
    let Some(client) = client_of(scope) else {
        return false;
    };
    let active = scope.context.active.lock();
    let Some(me) = active.get(&scope.uid) else {
        return false;
    };
    let load = client.load().lock();
    !load.has_turn(me, active.values(), clock::monotonic_now())
}

/// Keeps the precedence of a remediation whose object cannot be parsed now and that may have
/// begun.
pub(super) fn register_active(scope: &Scope, object: &DynamicObject) {
    let begun = begun(&scope.context.index, &scope.id, object);
    let mut active = scope.context.active.lock();
    scope.context.unevaluated.lock().remove(&scope.id);
    active.remove(&scope.uid);
    active.extend(begun.map(|active| (scope.uid.clone(), active)));
}

/// Reads OpenShift's guard of etcd before the power-off of a control-plane Node of OpenShift.
pub(super) async fn begun_etcd_guard(
    scope: &Scope,
    target: &Target,
    state: Option<&State>,
) -> Option<Result<EtcdGuard, String>> {
    if Progress::of(state) != Progress::Ready {
        return None;
    }
    let cluster = target.cluster.as_ref()?;
    match scope.context.workloads.get(cluster) {
        Some(client) => etcd_guard(&scope.context.index, &client, target).await,
        None => has_guard(&scope.context.index, target)
            .then(|| Err(format!("cluster {cluster} is not connected"))),
    }
}

/// OpenShift's guard of etcd for this Node; `None` if it does not apply.
async fn etcd_guard(
    index: &Index,
    client: &ReadClient,
    target: &Target,
) -> Option<Result<EtcdGuard, String>> {
    if !has_guard(index, target) {
        return None;
    }
    let name = target.node.as_deref().unwrap_or_default();
    Some(client.etcd_guard(name).await)
}

/// Whether it is a control-plane Node of OpenShift, whose etcd has a guard.
pub(crate) fn has_guard(index: &Index, target: &Target) -> bool {
    let Some((cluster, name)) = nodes_plane(index, target) else {
        return false;
    };
    let node = name.and_then(|name| index.node(cluster, name));
    target.openshift.is_some()
        || node.is_some_and(|n| n.labels().contains_key(OPENSHIFT_NODE_LABEL))
}

/// Detects that CAPM3's own controller acts on the same object.
pub(crate) fn competing_controller(uid: &str, bmh: Option<&BareMetalHostFacts>) -> Option<Reason> {
    let key = format!("{CAPM3_HOLD_ANNOTATION_PREFIX}{uid}");
    bmh.filter(|b| b.foreign_holds.contains(&key)).map(|_| {
        let trace = format!("its annotation {key} is on the BareMetalHost");
        Reason::RivalController(trace)
    })
}

/// Remediations that have begun by their stored state, and were not evaluated by this process: they began in an
/// earlier one, or are of another shard.
fn begun_by_others(
    index: &Index,
    active: &BTreeMap<String, ActiveRemediation>,
    unevaluated: &BTreeSet<RemediationId>,
) -> Vec<ActiveRemediation> {
    let begun = unevaluated.iter().filter_map(|id| {
        let object = index.remediation(id)?.object;
        let uid = object.metadata.uid.as_deref();
        let is_silent = uid.is_none_or(|uid| !active.contains_key(uid));
        is_silent.then(|| begun(index, id, &object)).flatten()
    });
    begun.collect()
}

/// A remediation that has begun by its stored state, whatever its spec says; `None` if it has not. One
/// whose state cannot be parsed may have begun.
fn begun(index: &Index, id: &RemediationId, object: &DynamicObject) -> Option<ActiveRemediation> {
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let stored = recorded_state(index, uid);
    let state = match &stored {
        Ok(state) if Progress::of(state.as_ref()) != Progress::Begun => return None,
        Ok(state) => state.as_ref(),
        Err(_) => None,
    };
    let view = RemediationObject::without_spec(id.kind, object).ok()?;
    let target = target(index, &id.key, &view, state);
    let host = state.and_then(|s| s.host.as_ref());
    let mut active = active(index, id, &view, &target, host, state);
    active.policy = policy_input(index, &target, host, &KnownNode::Unread, state).facts;
    active.progress = Progress::Begun;
    Some(active)
}

/// This remediation as the concurrency check of others needs it.
pub(crate) fn active(
    index: &Index,
    id: &RemediationId,
    view: &RemediationObject,
    target: &Target,
    host: Option<&HostRef>,
    state: Option<&State>,
) -> ActiveRemediation {
    let takes_turn = takes_planes_turn(roles(index, target), state);
    // The management cluster may have Machines as well, and a Node of it none.
    let of_machine = target.machine().filter(|_| target.openshift.is_none());
    let of_machine = of_machine.and_then(cluster_of);
    let mut plane: Vec<String> = of_machine
        .iter()
        .chain(&target.cluster)
        .filter(|_| takes_turn)
        .map(ToString::to_string)
        .collect();
    plane.dedup();
    ActiveRemediation {
        name: id.to_string(),
        uid: view.meta().uid.clone(),
        created: view.meta().created.unwrap_or(Timestamp::MAX),
        progress: Progress::of(state),
        machine: target.machine_key().map(|key| key.to_string()),
        node: target
            .cluster
            .as_ref()
            .zip(target.node.as_ref())
            .map(|(c, n)| format!("{c}/{n}")),
        bmc: host.map(|h| h.bmc.clone()),
        control_plane_of: plane,
        urgency: Urgency::unknown(),
        policy: PolicyFacts::default(),
    }
}

/// The Cluster of a Machine of Cluster API.
pub(super) fn cluster_of(machine: &MachineView) -> Option<Key> {
    let namespace = machine.meta.namespace.clone().unwrap_or_default();
    Some(Key::new(namespace, machine.cluster_name.clone()?))
}

/// The roles of the target, by its Node and its Machine. The index has the Node as it was read for the latest
/// observation.
pub(super) fn roles(index: &Index, target: &Target) -> Roles {
    let (cluster, name) = (target.cluster.as_ref(), target.node.as_deref());
    let node = cluster.zip(name).and_then(|(c, n)| index.node(c, n));
    let of_node = node.map_or_else(Roles::default, |node| node_roles(node.labels()));
    let of_machine = target.machine().map_or_else(Roles::default, machine_roles);
    let of_openshift = Roles {
        etcd: false,
        control_plane: target.is_master(),
    };
    of_node.or(of_machine).or(of_openshift)
}

/// The cluster and the Node, if the target is of the control plane by its Node or by its Machine of
/// OpenShift.
fn nodes_plane<'a>(index: &Index, target: &'a Target) -> Option<(&'a Key, Option<&'a str>)> {
    let cluster = target.cluster.as_ref()?;
    let is_member = roles(index, target).is_control_plane();
    is_member.then_some((cluster, target.node.as_deref()))
}

/// Whether a person has overruled the quorum for this remediation.
pub(super) fn overrules_quorum(config: &Config, view: &RemediationObject) -> bool {
    let meta = view.meta();
    persons_word(config, meta, OVERRIDE_QUORUM_ANNOTATION).as_ref() == Some(&meta.uid)
}

#[cfg(test)]
mod tests;
