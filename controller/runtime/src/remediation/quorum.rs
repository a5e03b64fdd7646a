//! The members of a control plane, and how many of them are well (F6).
//!
//! By the index for an explanation and for whoever waits; by live reads before a member is switched
//! off: a watch that lags shows a member as Ready that has failed (F12).

use std::collections::BTreeMap;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
};
use rackhand_api::{
    names::{
        CONTROL_PLANE_LABEL, NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_MASTER_LABEL,
        conditions::ETCD_MEMBER_HEALTHY,
    },
    views::MachineView,
};
use rackhand_core::remediation::{ControlPlane, EtcdGuard, State, Turn, before_first_off};

use super::{
    engine::Engine,
    place::Place,
    rivals::{is_control_plane, nodes_plane},
};
use crate::{
    api::{ApiError, call, optional},
    cluster::ready,
    index::Index,
    object::{Key, Kind, api},
};

/// The other members of the control plane that a machine is of.
#[derive(Debug, Clone, PartialEq)]
enum Members {
    /// By Machines of Cluster API, with the Node of each by its name.
    Machines(Vec<MachineView>, BTreeMap<String, Node>),
    /// By Nodes alone.
    Nodes(Vec<Node>),
}

impl Members {
    /// Of each whether its etcd member is well: its Node is Ready, and KubeadmControlPlane, where it
    /// says anything, says so too. Its condition alone may be older than the failure of the Node.
    fn healthy(&self) -> Vec<bool> {
        let is_ready = |node: &Node| ready(node) == Some("True");
        match self {
            Self::Nodes(nodes) => nodes.iter().map(is_ready).collect(),
            Self::Machines(machines, nodes) => machines
                .iter()
                .map(|machine| {
                    let node = machine.node_name.as_ref().and_then(|name| nodes.get(name));
                    let etcd = machine.condition(ETCD_MEMBER_HEALTHY);
                    node.is_some_and(is_ready) && etcd.is_none_or(|c| c.is_true())
                })
                .collect(),
        }
    }

    fn counted(&self, guard: Option<Result<EtcdGuard, String>>) -> ControlPlane {
        let healthy = self.healthy();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        ControlPlane {
            total: count(healthy.len().saturating_add(1)),
            healthy_others: count(healthy.iter().filter(|healthy| **healthy).count()),
            guard,
            unread: None,
        }
    }
}

/// The control plane that this machine is of, by the index; `None`: of none.
pub(crate) fn control_plane(
    index: &Index,
    place: &Place,
    guard: Option<Result<EtcdGuard, String>>,
) -> Option<ControlPlane> {
    Some(known_members(index, place)?.counted(guard))
}

fn known_members(index: &Index, place: &Place) -> Option<Members> {
    let Some(me) = place.machine().filter(|m| m.is_control_plane()) else {
        let (cluster, name) = nodes_plane(index, place)?;
        let others = index.nodes(cluster).into_iter();
        let others = others.filter(|n| is_other_member(n, name));
        return Some(Members::Nodes(others.map(|n| Node::clone(&n)).collect()));
    };
    let namespace = me.meta.namespace.clone().unwrap_or_default();
    let machines = index.control_planes_in(&namespace).into_iter();
    let machines = machines.filter_map(|e| e.view.ok().map(|view| MachineView::clone(&view)));
    let machines: Vec<MachineView> = machines.filter(|m| is_member_beside(m, me)).collect();
    let cluster = nodes_of(place, me);
    let nodes = machines.iter().filter_map(|machine| {
        let name = machine.node_name.as_ref()?;
        let node = index.node(cluster.as_ref()?, name)?;
        Some((name.clone(), Node::clone(&node)))
    });
    let nodes = nodes.collect();
    Some(Members::Machines(machines, nodes))
}

fn is_other_member(node: &Node, me: Option<&str>) -> bool {
    is_control_plane(node) && Some(node.name_any().as_str()) != me
}

fn is_member_beside(machine: &MachineView, me: &MachineView) -> bool {
    machine.cluster_name == me.cluster_name
        && machine.is_control_plane()
        && machine.meta.name != me.meta.name
}

/// Where the Nodes of a Machine's cluster are.
fn nodes_of(place: &Place, me: &MachineView) -> Option<Key> {
    let namespace = me.meta.namespace.clone().unwrap_or_default();
    match (&me.cluster_name, place.by_node) {
        (_, true) | (None, _) => place.cluster.clone(),
        (Some(cluster), false) => Some(Key::new(namespace, cluster)),
    }
}

impl Engine {
    /// What the control plane would be without this machine: by the index while it waits, read now
    /// where it would begin and immediately before its first off.
    pub(super) async fn quorum(
        &self,
        place: &Place,
        guard: Option<Result<EtcdGuard, String>>,
        able: bool,
        state: Option<&State>,
    ) -> Option<ControlPlane> {
        let known = control_plane(&self.context.index, place, guard.clone());
        let asks = match Turn::of(state) {
            Turn::Waits => return known,
            // What it costs already by the index needs no further proof.
            Turn::Ready => {
                able && known
                    .as_ref()
                    .is_none_or(|plane| plane.costs_quorum().is_none())
            }
            Turn::Begun if state.is_some_and(before_first_off) => true,
            // It is off already, or may be.
            Turn::Begun => return None,
        };
        if !asks {
            return known;
        }
        match self.control_plane_now(place, guard).await {
            Ok(plane) => plane,
            Err(why) => Some(ControlPlane::unknown(why)),
        }
    }

    /// The same as [`control_plane`], read now.
    ///
    /// # Errors
    /// Somebody cannot be asked: nothing is known then.
    pub(super) async fn control_plane_now(
        &self,
        place: &Place,
        guard: Option<Result<EtcdGuard, String>>,
    ) -> Result<Option<ControlPlane>, String> {
        let members = match place.machine().filter(|m| m.is_control_plane()) {
            Some(me) => self.machines_now(place, me).await,
            None => match nodes_plane(&self.context.index, place) {
                Some((cluster, name)) => self.nodes_now(cluster, name).await,
                None => return Ok(None),
            },
        };
        let members = members.map_err(|e| e.to_string())?;
        Ok(Some(members.counted(guard)))
    }

    async fn nodes_now(&self, cluster: &Key, me: Option<&str>) -> Result<Members, ApiError> {
        let nodes: Api<Node> = Api::all(self.workload_client(cluster)?);
        let mut members = BTreeMap::new();
        for label in [NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_MASTER_LABEL] {
            let labelled = ListParams::default().labels(label);
            let what = format!("control-plane nodes of cluster {cluster}");
            let listed = call(what, nodes.list(&labelled)).await?.items.into_iter();
            let others = listed.filter(|n| is_other_member(n, me));
            members.extend(others.map(|n| (n.name_any(), n)));
        }
        Ok(Members::Nodes(members.into_values().collect()))
    }

    async fn machines_now(&self, place: &Place, me: &MachineView) -> Result<Members, ApiError> {
        let namespace = me.meta.namespace.clone().unwrap_or_default();
        let what = format!("control-plane Machines of namespace {namespace}");
        let resource = self.context.served.known(Kind::Machine);
        let resource = resource.ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let machines = api(&self.context.client, &resource, &namespace);
        let labelled = ListParams::default().labels(CONTROL_PLANE_LABEL);
        let listed = call(&what, machines.list(&labelled)).await?;
        let read = |object: &DynamicObject| {
            let view = MachineView::from_dynamic(object);
            view.map_err(|e| ApiError::other(&what, e))
        };
        let views: Result<Vec<_>, _> = listed.items.iter().map(read).collect();
        let machines: Vec<MachineView> = views?
            .into_iter()
            .filter(|m| is_member_beside(m, me))
            .collect();
        let Some(cluster) = nodes_of(place, me).filter(|_| !machines.is_empty()) else {
            return Ok(Members::Machines(machines, BTreeMap::new()));
        };
        let nodes: Api<Node> = Api::all(self.workload_client(&cluster)?);
        let read = |name: &String| {
            let (nodes, name) = (nodes.clone(), name.clone());
            async move {
                let what = format!("node {name}");
                let node = optional(call(what, nodes.get(&name)).await)?;
                Ok::<_, ApiError>(node.map(|node| (name, node)))
            }
        };
        let names = machines.iter().filter_map(|m| m.node_name.as_ref());
        let found = try_join_all(names.map(read)).await?;
        let nodes = found.into_iter().flatten().collect();
        Ok(Members::Machines(machines, nodes))
    }

    fn workload_client(&self, cluster: &Key) -> Result<Client, ApiError> {
        let client = self.context.workloads.client(cluster);
        client.ok_or_else(|| ApiError::other(format!("cluster {cluster}"), "not connected"))
    }
}
