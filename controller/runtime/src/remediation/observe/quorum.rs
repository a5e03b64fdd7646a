//! The members of etcd and their health (F6).
//!
//! By the index for explanations and for remediations that wait; by live reads before a member is
//! switched off, because a watch that lags shows a failed member as Ready (F12).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{CONTROL_PLANE_LABEL, RANCHER_ETCD_ROLE_LABEL, conditions::ETCD_MEMBER_HEALTHY},
    views::MachineView,
};
use rackhand_core::{
    limits::concurrency::{
        ControlPlane, EtcdGuard, OtherMachine, PlaneMachine, PlaneNode, QuorumReading,
        other_machines,
    },
    remediation::State,
};

use crate::{
    clusters::{machine_roles, node_roles, ready},
    hosts::Target,
    remediation::observe::{
        Scope,
        concurrency::{cluster_of, roles},
    },
    store::{api::ApiError, index::Index, object::Key, time_slice::beside_all},
};

/// What a live read or the index has of a cluster: its Machines with a role, and the Nodes that have a role or
/// that one of these Machines names, by name.
struct PlaneObjects {
    machines: Vec<MachineView>,
    nodes: BTreeMap<String, PlaneNode>,
}

impl PlaneObjects {
    fn others(&self, target: &Target) -> Vec<OtherMachine> {
        let machines: Vec<PlaneMachine> = self.machines.iter().map(plane_machine).collect();
        let of_target = own_machine(target).map(machine_roles);
        other_machines(target.node.as_deref(), of_target, &machines, &self.nodes)
    }
}

fn plane_machine(machine: &MachineView) -> PlaneMachine {
    let etcd = machine.condition(ETCD_MEMBER_HEALTHY);
    PlaneMachine {
        name: machine.meta.name.clone(),
        node: machine.node_name.clone(),
        roles: machine_roles(machine),
        etcd_healthy: etcd.map(|condition| condition.is_true()),
    }
}

fn plane_node(node: &Node) -> (String, PlaneNode) {
    let plane = PlaneNode {
        roles: node_roles(node.labels()),
        ready: ready(node) == Some("True"),
    };
    (node.name_any(), plane)
}

/// The members of etcd by the index; `None` if this machine is not one.
pub(crate) fn control_plane(
    index: &Index,
    target: &Target,
    guard: Option<Result<EtcdGuard, String>>,
) -> Option<ControlPlane> {
    let me = roles(index, target);
    if !me.is_control_plane() {
        return None;
    }
    let others = beside_all(|| known_objects(index, target)).others(target);
    let plane = ControlPlane::of(me, &others)?;
    Some(ControlPlane { guard, ..plane })
}

fn known_objects(index: &Index, target: &Target) -> PlaneObjects {
    let machines = own_machine(target).map_or_else(Vec::new, |me| {
        let namespace = me.meta.namespace.clone().unwrap_or_default();
        let machines = index.control_planes_in(&namespace).into_iter();
        let machines = machines.filter_map(|e| e.view.ok().map(|view| MachineView::clone(&view)));
        machines.filter(|m| is_beside(m, me)).collect()
    });
    let nodes = nodes_of(target).map_or_else(Vec::new, |cluster| index.nodes(&cluster));
    let named: BTreeSet<&str> = names(&machines).collect();
    let nodes = nodes.iter().map(|node| plane_node(node));
    let nodes =
        nodes.filter(|(name, node)| node.roles.is_control_plane() || named.contains(name.as_str()));
    PlaneObjects {
        nodes: nodes.collect(),
        machines,
    }
}

/// The Machine of the target, if Cluster API has made it.
fn own_machine(target: &Target) -> Option<&MachineView> {
    let machine = target.machine().filter(|_| target.openshift.is_none())?;
    machine.cluster_name.is_some().then_some(machine)
}

fn is_beside(machine: &MachineView, me: &MachineView) -> bool {
    machine.cluster_name == me.cluster_name && machine.meta.name != me.meta.name
}

/// The Nodes that Machines name.
fn names(machines: &[MachineView]) -> impl Iterator<Item = &str> {
    machines.iter().filter_map(|m| m.node_name.as_deref())
}

/// The cluster with the Nodes of the target.
fn nodes_of(target: &Target) -> Option<Key> {
    let named = own_machine(target).filter(|_| !target.by_node);
    named
        .and_then(cluster_of)
        .or_else(|| target.cluster.clone())
}

/// The members of etcd without this machine: by the index while the remediation waits, and read
/// live before it begins and immediately before its first power-off.
pub(in crate::remediation) async fn read(
    scope: &Scope,
    target: &Target,
    guard: Option<Result<EtcdGuard, String>>,
    able: bool,
    state: Option<&State>,
) -> Option<ControlPlane> {
    let known = control_plane(&scope.context.index, target, guard.clone());
    match QuorumReading::of(state, able, known.as_ref()) {
        QuorumReading::None => return None,
        QuorumReading::Known => return known,
        QuorumReading::Live => {}
    }
    match control_plane_now(scope, target, guard).await {
        Ok(plane) => plane,
        Err(why) => Some(ControlPlane::unknown(why)),
    }
}

/// [`control_plane`] by live reads.
///
/// # Errors
/// A member cannot be read, so nothing is known.
pub(super) async fn control_plane_now(
    scope: &Scope,
    target: &Target,
    guard: Option<Result<EtcdGuard, String>>,
) -> Result<Option<ControlPlane>, String> {
    let me = roles(&scope.context.index, target);
    if !me.is_control_plane() {
        return Ok(None);
    }
    let now = objects_now(scope, target)
        .await
        .map_err(|e| e.to_string())?;
    let plane = ControlPlane::of(me, &now.others(target));
    Ok(plane.map(|plane| ControlPlane { guard, ..plane }))
}

async fn objects_now(scope: &Scope, target: &Target) -> Result<PlaneObjects, ApiError> {
    let machines = match own_machine(target) {
        Some(me) => machines_now(scope, me).await?,
        None => Vec::new(),
    };
    let Some(cluster) = nodes_of(target) else {
        return Ok(PlaneObjects {
            machines,
            nodes: BTreeMap::new(),
        });
    };
    let client = scope.context.workloads.get(&cluster);
    let client =
        client.ok_or_else(|| ApiError::other(format!("cluster {cluster}"), "not connected"))?;
    let nodes = client.nodes_with_role(&cluster, names(&machines)).await?;
    Ok(PlaneObjects {
        machines,
        nodes: nodes.values().map(plane_node).collect(),
    })
}

async fn machines_now(scope: &Scope, me: &MachineView) -> Result<Vec<MachineView>, ApiError> {
    let namespace = me.meta.namespace.clone().unwrap_or_default();
    let what = format!("control-plane Machines of namespace {namespace}");
    let reader = &scope.context.reader;
    let labels = [CONTROL_PLANE_LABEL, RANCHER_ETCD_ROLE_LABEL];
    let listed = reader.machines_with(&what, &namespace, labels).await?;
    let read = |object: DynamicObject| {
        let view = MachineView::from_dynamic(&object);
        let view = view.map_err(|e| ApiError::other(&what, e))?;
        Ok((view.meta.name.clone(), view))
    };
    // One with both labels is listed twice.
    let views: BTreeMap<String, MachineView> =
        listed.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(views.into_values().filter(|m| is_beside(m, me)).collect())
}
