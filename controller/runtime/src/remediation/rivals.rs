//! Who else wants this host, Machine, Node or control plane (F6).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
};
use rackhand_api::{
    names::{CAPM3_HOLD_ANNOTATION_PREFIX, NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_MASTER_LABEL},
    views::MachineView,
};
use rackhand_core::remediation::{
    Active, BareMetalHostFacts, Because, ControlPlane, EtcdGuard, HostRef, State, Step, Turn,
    conflict,
};
use serde_json::json;

use super::{
    engine::Engine,
    place::{Place, place},
    record::stored_state,
    request::{RequestId, RequestView},
};
use crate::{api::call, index::Index, object::Key};

/// Every Node of OpenShift carries it.
pub(crate) const OPENSHIFT_NODE_LABEL: &str = "node.openshift.io/os_id";
/// Where OpenShift's etcd lives.
pub(crate) const OPENSHIFT_ETCD: &str = "openshift-etcd";
/// The pods that its guard counts.
const GUARD_PODS: &str = "app=guard";

impl Engine {
    /// F6: takes its turn if it is its turn, and is seen by the others from then on. `able`: it would
    /// begin. One at a time, under the lock: two that could begin at once must not both find the
    /// way free.
    pub(super) fn right_of_way(
        &self,
        mut me: Active,
        able: bool,
        quorum: Option<ControlPlane>,
    ) -> Option<Because> {
        let mut heard = self.context.active.lock();
        heard.remove(&self.uid);
        if me.turn == Turn::Ready && !able {
            me.turn = Turn::Waits;
        }
        let unheard = if me.turn == Turn::Begun {
            Vec::new()
        } else {
            unheard(&self.context.index, &heard)
        };
        let right = conflict(&me, heard.values().chain(&unheard), quorum);
        me.turn = right.turn;
        heard.insert(self.uid.clone(), me);
        right.because
    }

    /// It cannot be read just now: what it has begun is its own all the same.
    pub(super) fn hold_place(&self, object: &DynamicObject) {
        let begun = begun(&self.context.index, &self.id, object);
        let mut heard = self.context.active.lock();
        heard.remove(&self.uid);
        heard.extend(begun.map(|active| (self.uid.clone(), active)));
    }

    /// Asked where it counts: before a power-off of a control-plane Node of OpenShift.
    pub(super) async fn etcd_guard(
        &self,
        place: &Place,
        state: Option<&State>,
    ) -> Option<Result<EtcdGuard, String>> {
        if Turn::of(state) != Turn::Ready {
            return None;
        }
        let cluster = place.cluster.as_ref()?;
        match self.context.workloads.client(cluster) {
            Some(client) => etcd_guard(&self.context.index, client, place).await,
            None => has_guard(&self.context.index, place)
                .then(|| Err(format!("cluster {cluster} is not connected"))),
        }
    }
}

/// What OpenShift's guard of etcd says of this Node; `None`: it has no say.
pub(crate) async fn etcd_guard(
    index: &Index,
    client: Client,
    place: &Place,
) -> Option<Result<EtcdGuard, String>> {
    if !has_guard(index, place) {
        return None;
    }
    let name = place.node.as_deref().unwrap_or_default();
    Some(ask_guard(client, name).await)
}

/// The same about a Node of which it is known that the guard has a say.
///
/// # Errors
/// It cannot be asked.
pub(crate) async fn ask_guard(client: Client, node: &str) -> Result<EtcdGuard, String> {
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
    match (budgets, pods) {
        (Ok(budgets), Ok(pods)) => Ok(guard(node, &budgets.items, &pods.items)),
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}

/// It is a control-plane Node of OpenShift, whose etcd has a guard.
pub(crate) fn has_guard(index: &Index, place: &Place) -> bool {
    let Some((cluster, name)) = nodes_plane(index, place) else {
        return false;
    };
    let node = name.and_then(|name| index.node(cluster, name));
    place.openshift.is_some() || node.is_some_and(|n| n.labels().contains_key(OPENSHIFT_NODE_LABEL))
}

/// As its objects say it.
pub(crate) fn guard(node: &str, budgets: &[PodDisruptionBudget], pods: &[Pod]) -> EtcdGuard {
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

/// Requests that have begun before this process, and have not spoken in it yet.
fn unheard(index: &Index, heard: &BTreeMap<String, Active>) -> Vec<Active> {
    let silent = |object: &DynamicObject| {
        let uid = object.metadata.uid.as_deref();
        uid.is_none_or(|uid| !heard.contains_key(uid))
    };
    index
        .requests()
        .into_iter()
        .filter(|(_, entry)| silent(&entry.object))
        .filter_map(|(id, entry)| begun(index, &id, &entry.object))
        .collect()
}

/// By what is written, whatever its spec says; `None`: it has nothing in hand. Of one whose state
/// does not read nobody knows that.
fn begun(index: &Index, id: &RequestId, object: &DynamicObject) -> Option<Active> {
    let stored = stored_state(id.kind, object);
    let state = match &stored {
        Ok(state) if Turn::of(state.as_ref()) != Turn::Begun => return None,
        Ok(state) => state.as_ref(),
        Err(_) => None,
    };
    let mut bare = object.clone();
    bare.data = json!({});
    let view = RequestView::read(id.kind, &bare).ok()?;
    let place = place(index, &id.key, &view, state);
    let host = state.and_then(|s| s.host.as_ref());
    let mut active = active(index, id, &view, &place, host, state);
    active.turn = Turn::Begun;
    Some(active)
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
        turn: Turn::of(state),
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

pub(super) fn is_control_plane(node: &Node) -> bool {
    [NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_MASTER_LABEL]
        .iter()
        .any(|label| node.labels().contains_key(*label))
}

/// The cluster, and the Node in it, where it is of the control plane by its Node, or by its Machine of
/// OpenShift.
pub(super) fn nodes_plane<'a>(
    index: &Index,
    place: &'a Place,
) -> Option<(&'a Key, Option<&'a str>)> {
    let (cluster, name) = (place.cluster.as_ref()?, place.node.as_deref());
    let node = name.and_then(|name| index.node(cluster, name));
    let member = place.is_master() || node.is_some_and(|node| is_control_plane(&node));
    member.then_some((cluster, name))
}

#[cfg(test)]
mod tests;
