//! The members of a control plane and their health (F6).
//!
//! By the index for explanations and for remediations that wait; by live reads before a member is
//! switched off, because a watch that lags shows a failed member as Ready (F12).

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
use rackhand_core::remediation::{ControlPlane, EtcdGuard, Progress, State, before_first_off};

use super::{
    concurrency::{is_control_plane, nodes_plane},
    engine::Engine,
    target::Target,
};
use crate::{
    clusters::ready,
    store::{
        api::{ApiError, call, optional},
        index::Index,
        object::{Key, Kind, api},
    },
};

/// The other members of the control plane of a machine.
#[derive(Debug, Clone, PartialEq)]
enum Members {
    /// Machines of Cluster API, and their Nodes by name.
    Machines(Vec<MachineView>, BTreeMap<String, Node>),
    /// Nodes only.
    Nodes(Vec<Node>),
}

impl Members {
    /// Whether the etcd member of each is healthy: its Node is Ready, and KubeadmControlPlane's
    /// condition, if set, is True. The condition alone may be older than the failure of the Node.
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

/// The control plane of this machine by the index; `None` if it is not a member of one.
pub(crate) fn control_plane(
    index: &Index,
    target: &Target,
    guard: Option<Result<EtcdGuard, String>>,
) -> Option<ControlPlane> {
    Some(known_members(index, target)?.counted(guard))
}

fn known_members(index: &Index, target: &Target) -> Option<Members> {
    let Some(me) = target.machine().filter(|m| m.is_control_plane()) else {
        let (cluster, name) = nodes_plane(index, target)?;
        let others = index.nodes(cluster).into_iter();
        let others = others.filter(|n| is_other_member(n, name));
        return Some(Members::Nodes(others.map(|n| Node::clone(&n)).collect()));
    };
    let namespace = me.meta.namespace.clone().unwrap_or_default();
    let machines = index.control_planes_in(&namespace).into_iter();
    let machines = machines.filter_map(|e| e.view.ok().map(|view| MachineView::clone(&view)));
    let machines: Vec<MachineView> = machines.filter(|m| is_member_beside(m, me)).collect();
    let cluster = nodes_of(target, me);
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

/// The cluster with the Nodes of a Machine.
fn nodes_of(target: &Target, me: &MachineView) -> Option<Key> {
    let namespace = me.meta.namespace.clone().unwrap_or_default();
    match (&me.cluster_name, target.by_node) {
        (_, true) | (None, _) => target.cluster.clone(),
        (Some(cluster), false) => Some(Key::new(namespace, cluster)),
    }
}

impl Engine {
    /// The control plane without this machine: by the index while the remediation waits, and read
    /// live before it begins and immediately before its first power-off.
    pub(super) async fn quorum(
        &self,
        target: &Target,
        guard: Option<Result<EtcdGuard, String>>,
        able: bool,
        state: Option<&State>,
    ) -> Option<ControlPlane> {
        let known = control_plane(&self.context.index, target, guard.clone());
        let asks = match Progress::of(state) {
            Progress::Waiting => return known,
            // A quorum that would be lost by the index needs no live read.
            Progress::Ready => {
                able && known
                    .as_ref()
                    .is_none_or(|plane| plane.costs_quorum().is_none())
            }
            Progress::Begun if state.is_some_and(before_first_off) => true,
            // The host is or may be off already.
            Progress::Begun => return None,
        };
        if !asks {
            return known;
        }
        match self.control_plane_now(target, guard).await {
            Ok(plane) => plane,
            Err(why) => Some(ControlPlane::unknown(why)),
        }
    }

    /// [`control_plane`] by live reads.
    ///
    /// # Errors
    /// A member cannot be read, so nothing is known.
    pub(super) async fn control_plane_now(
        &self,
        target: &Target,
        guard: Option<Result<EtcdGuard, String>>,
    ) -> Result<Option<ControlPlane>, String> {
        let members = match target.machine().filter(|m| m.is_control_plane()) {
            Some(me) => self.machines_now(target, me).await,
            None => match nodes_plane(&self.context.index, target) {
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

    async fn machines_now(&self, target: &Target, me: &MachineView) -> Result<Members, ApiError> {
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
        let Some(cluster) = nodes_of(target, me).filter(|_| !machines.is_empty()) else {
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
