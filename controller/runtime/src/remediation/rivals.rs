//! Who else wants this host, Machine, Node or control plane (F6).

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, ResourceExt, api::ListParams};
use rackhand_api::{
    names::{
        CAPM3_HOLD_ANNOTATION_PREFIX, NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_MASTER_LABEL,
        conditions::ETCD_MEMBER_HEALTHY,
    },
    views::MachineView,
};
use rackhand_core::remediation::{
    Active, BareMetalHostFacts, Because, ControlPlane, EtcdGuard, HostRef, State, Step, conflict,
};

use super::{
    engine::Engine,
    place::Place,
    request::{RequestId, RequestView},
};
use crate::{api::call, cluster::ready, index::Index, object::Key};

/// Every Node of OpenShift carries it.
const OPENSHIFT_NODE_LABEL: &str = "node.openshift.io/os_id";
/// Where OpenShift's etcd lives.
const OPENSHIFT_ETCD: &str = "openshift-etcd";
/// The pods that its guard counts.
const GUARD_PODS: &str = "app=guard";

impl Engine {
    /// F6, and a rival controller on this very object.
    pub(super) fn right_of_way(
        &self,
        view: &RequestView,
        place: &Place,
        host: Option<&HostRef>,
        bmh: Option<&BareMetalHostFacts>,
        state: Option<&State>,
        guard: Option<Result<EtcdGuard, String>>,
    ) -> Option<Because> {
        let me = active(&self.context.index, &self.id, view, place, host, state);
        let quorum = control_plane(&self.context.index, place, guard);
        let mut active = self.context.active.lock();
        if state.is_some_and(|s| s.step.is_terminal()) {
            active.remove(&self.uid);
        } else {
            active.insert(self.uid.clone(), me.clone());
        }
        rival(&self.uid, bmh).or_else(|| conflict(&me, active.values(), quorum))
    }

    /// Asked where it counts: before a power-off of a control-plane Node of OpenShift.
    pub(super) async fn etcd_guard(
        &self,
        place: &Place,
        state: Option<&State>,
    ) -> Option<Result<EtcdGuard, String>> {
        let early = state.is_none_or(|s| matches!(s.step, Step::Pending | Step::Retrying));
        let (cluster, name) = place.cluster.as_ref().zip(place.node.as_ref())?;
        let node = self.context.index.node(cluster, name)?;
        if !early || !is_control_plane(&node) || !node.labels().contains_key(OPENSHIFT_NODE_LABEL) {
            return None;
        }
        let client = self.context.workloads.client(cluster)?;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), OPENSHIFT_ETCD);
        let pods: Api<Pod> = Api::namespaced(client, OPENSHIFT_ETCD);
        let (every, guards) = (
            ListParams::default(),
            ListParams::default().labels(GUARD_PODS),
        );
        let (budgets, pods) = tokio::join!(
            call("PodDisruptionBudgets of etcd", budgets.list(&every)),
            call("guard pods of etcd", pods.list(&guards)),
        );
        Some(match (budgets, pods) {
            (Ok(budgets), Ok(pods)) => Ok(guard(name, &budgets.items, &pods.items)),
            (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
        })
    }
}

fn guard(node: &str, budgets: &[PodDisruptionBudget], pods: &[Pod]) -> EtcdGuard {
    let status = budgets.first().and_then(|b| b.status.as_ref());
    let ready = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
        let found = conditions
            .into_iter()
            .flatten()
            .find(|c| c.type_ == "Ready");
        found.is_some_and(|c| c.status != "False")
    };
    let here = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node);
    EtcdGuard {
        budgets: budgets.len(),
        allowed: status.map_or(0, |s| s.disruptions_allowed),
        member_ready: pods.iter().find(here).is_some_and(ready),
    }
}

/// CAPM3's own controller on this very object.
pub(crate) fn rival(uid: &str, bmh: Option<&BareMetalHostFacts>) -> Option<Because> {
    let key = format!("{CAPM3_HOLD_ANNOTATION_PREFIX}{uid}");
    bmh.filter(|b| b.foreign_holds.contains(&key))
        .map(|_| Because::RivalController(key))
}

/// This remediation as others must know it.
pub(crate) fn active(
    index: &Index,
    id: &RequestId,
    view: &RequestView,
    place: &Place,
    host: Option<&HostRef>,
    state: Option<&State>,
) -> Active {
    // A host that is kept off hinders nobody who keeps the quorum without it.
    let settled = state.is_some_and(|s| s.step == Step::Fenced);
    let plane = place
        .machine()
        .filter(|m| m.is_control_plane())
        .map_or_else(
            || nodes_plane(index, place).map(|(cluster, _)| cluster.to_string()),
            machines_plane,
        );
    Active {
        name: id.to_string(),
        uid: view.meta().uid.clone(),
        created: view.meta().created.unwrap_or(Timestamp::MAX),
        begun: state.is_some_and(|s| s.step != Step::Pending),
        machine: place.machine_key().map(|key| key.to_string()),
        node: place
            .cluster
            .as_ref()
            .zip(place.node.as_ref())
            .map(|(c, n)| format!("{c}/{n}")),
        bmc: host.map(|h| h.bmc.clone()),
        control_plane_of: plane.filter(|_| !settled),
    }
}

fn machines_plane(machine: &MachineView) -> Option<String> {
    let namespace = machine.meta.namespace.clone().unwrap_or_default();
    let cluster = machine.cluster_name.clone()?;
    Some(Key::new(namespace, cluster).to_string())
}

fn is_control_plane(node: &Node) -> bool {
    [NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_MASTER_LABEL]
        .iter()
        .any(|label| node.labels().contains_key(*label))
}

/// The cluster, and the Node in it, where it is of the control plane and no Machine says so.
fn nodes_plane<'a>(index: &Index, place: &'a Place) -> Option<(&'a Key, &'a str)> {
    let (cluster, name) = place.cluster.as_ref().zip(place.node.as_deref())?;
    let node = index.node(cluster, name)?;
    is_control_plane(&node).then_some((cluster, name))
}

/// The control plane that this machine is of; `None`: of none.
pub(crate) fn control_plane(
    index: &Index,
    place: &Place,
    guard: Option<Result<EtcdGuard, String>>,
) -> Option<ControlPlane> {
    let members: Vec<bool> = match place.machine().filter(|m| m.is_control_plane()) {
        Some(machine) => other_machines(index, place, machine),
        None => {
            let (cluster, name) = nodes_plane(index, place)?;
            index
                .nodes(cluster)
                .iter()
                .filter(|n| is_control_plane(n) && n.name_any() != name)
                .map(|n| ready(n) == Some("True"))
                .collect()
        }
    };
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Some(ControlPlane {
        total: count(members.len().saturating_add(1)),
        healthy_others: count(members.iter().filter(|healthy| **healthy).count()),
        guard,
    })
}

/// Of each other control-plane Machine of the cluster, whether its etcd member is well: by
/// KubeadmControlPlane's word where it says one, else by its Node.
fn other_machines(index: &Index, place: &Place, me: &MachineView) -> Vec<bool> {
    let namespace = me.meta.namespace.clone().unwrap_or_default();
    let of_cluster = |m: &&MachineView| {
        m.cluster_name == me.cluster_name && m.is_control_plane() && m.meta.name != me.meta.name
    };
    let nodes_of = match (&me.cluster_name, place.by_node) {
        (_, true) | (None, _) => place.cluster.clone(),
        (Some(cluster), false) => Some(Key::new(&namespace, cluster)),
    };
    let machines = index.machines_in(&namespace);
    let views = machines.iter().filter_map(|e| e.view.as_deref().ok());
    views
        .filter(of_cluster)
        .map(|machine| match machine.condition(ETCD_MEMBER_HEALTHY) {
            Some(condition) => condition.is_true(),
            None => nodes_of
                .as_ref()
                .zip(machine.node_name.as_ref())
                .and_then(|(cluster, name)| index.node(cluster, name))
                .is_some_and(|n| ready(&n) == Some("True")),
        })
        .collect()
}

#[cfg(test)]
mod tests;
