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
    fleet::roles::Roles,
    limits::concurrency::{ControlPlane, EtcdGuard, OtherMachine, QuorumReading},
    remediation::State,
};

use crate::{
    clusters::{machine_roles, node_roles, ready},
    hosts::Target,
    remediation::observe::{
        Scope,
        concurrency::{cluster_of, roles},
    },
    store::{api::ApiError, index::Index, object::Key},
};

/// What a live read or the index has of a cluster: its Machines with a role, and the Nodes that have a role or
/// that one of these Machines names, by name.
struct PlaneObjects {
    machines: Vec<MachineView>,
    nodes: BTreeMap<String, Node>,
}

impl PlaneObjects {
    /// The machines beside the target, each once. A machine has a role that its Machine or its Node shows.
    ///
    /// Where Machines list the control plane, a Node without a Machine counts only with the role of etcd:
    /// RKE2 and k3s remove a member with its Node, and other providers leave Nodes behind.
    fn others(&self, target: &Target) -> Vec<OtherMachine> {
        let mut others = Vec::new();
        let mut of_machines: BTreeSet<&str> = target.node.as_deref().into_iter().collect();
        for machine in &self.machines {
            let name = machine.node_name.as_deref();
            let node = name.and_then(|name| self.nodes.get(name));
            // KubeadmControlPlane's condition alone may be older than the failure of the Node.
            let etcd = machine.condition(ETCD_MEMBER_HEALTHY);
            of_machines.extend(name);
            others.push(OtherMachine {
                name: name.unwrap_or(&machine.meta.name).to_owned(),
                roles: machine_roles(machine).or(node.map_or_else(Roles::default, roles_of)),
                is_healthy: node.is_some_and(is_ready) && etcd.is_none_or(|c| c.is_true()),
            });
        }
        let mut machines = own_machine(target).into_iter().chain(&self.machines);
        let lists_plane = machines.any(|machine| machine_roles(machine).is_control_plane());
        let alone = self
            .nodes
            .iter()
            .filter(|(name, _)| !of_machines.contains(name.as_str()));
        others.extend(alone.filter_map(|(name, node)| {
            let roles = roles_of(node);
            let counts = roles.etcd || roles.control_plane && !lists_plane;
            counts.then(|| OtherMachine {
                name: name.clone(),
                roles,
                is_healthy: is_ready(node),
            })
        }));
        others
    }
}

fn roles_of(node: &Node) -> Roles {
    node_roles(node.labels())
}

fn is_ready(node: &Node) -> bool {
    ready(node) == Some("True")
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
    let others = known_objects(index, target).others(target);
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
    let nodes = nodes.into_iter().filter(|node| {
        roles_of(node).is_control_plane() || named.contains(node.name_any().as_str())
    });
    let nodes = nodes.map(|node| (node.name_any(), Node::clone(&node)));
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
    Ok(PlaneObjects { machines, nodes })
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
