//! The hosts of the fleet: resolves the Machine, Node, BareMetalHost and host of a remediation (F14).
//!
//! Uses only the index and the inventories that agents reported, so that `explain` gets the same
//! result. It never chooses between several candidates.

mod consumer;
mod credentials;
mod fleet;
mod node_host;
mod nodes;
mod shared_names;
pub(crate) mod topology;
mod traces;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, api::DynamicObject};
use parking_lot::Mutex;
use rackhand_api::{
    names::{
        BARE_METAL_HOST_ANNOTATION, CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_ANNOTATION,
        MACHINE_ANNOTATION, OPENSHIFT_MACHINE_ROLE_LABEL, RACK_LABEL, groups, kinds,
    },
    views::{BareMetalHostView, MachineView, ObjectRef},
};
use rackhand_core::{
    hosts::{BareMetalHostRef, HostQuery, NODE_RACK_LABEL, Racks, Resolution, resolve},
    limits::concurrency::ActiveRemediation,
    remediation::{HostView, NodeFacts, Reason, State, Step},
};

pub(crate) use consumer::consumer_of;
pub(crate) use credentials::{EndpointError, bmc_endpoint};
pub(crate) use fleet::{
    FleetMember, MemberKey, fleet, selects_own_nodes, target_of_machine, target_of_node,
};
use node_host::host_of_node;
pub(crate) use node_host::named_bmh;
use nodes::IndexNodes;
pub(crate) use shared_names::shared_names;
pub(crate) use traces::traces;

use crate::store::{
    index::{Entry, Index},
    object::{Key, Kind},
    remediation::RemediationObject,
};

/// Remediations by UID as last evaluated.
pub(crate) type ActiveRemediations = Mutex<BTreeMap<String, ActiveRemediation>>;

/// The Machine, cluster and Node of a remediation.
pub(crate) struct Target {
    pub(crate) machine: Option<Entry<MachineView>>,
    pub(crate) cluster: Option<Key>,
    pub(crate) node: Option<String>,
    /// Whether the remediation names the Node and no Machine.
    pub(crate) by_node: bool,
    /// The Machine of OpenShift that the remediation is for.
    pub(crate) openshift: Option<Key>,
}

impl Target {
    /// The Machine, if it can be parsed.
    pub(crate) fn machine(&self) -> Option<&MachineView> {
        self.machine
            .as_ref()
            .and_then(|e| e.view.as_ref().ok())
            .map(AsRef::as_ref)
    }

    /// `namespace/name` of the Machine.
    pub(crate) fn machine_key(&self) -> Option<Key> {
        self.openshift
            .clone()
            .or_else(|| self.machine().map(machine_key))
    }

    /// `namespace/name` of the Cluster; `None` for the management cluster.
    pub(crate) fn cluster_of_machine(&self) -> Option<String> {
        let cluster = self.cluster.as_ref().filter(|c| **c != Key::local());
        cluster.map(ToString::to_string)
    }

    /// Whether it is a control-plane Machine of OpenShift, with or without a Node.
    pub(crate) fn is_master(&self) -> bool {
        let role = self.machine().filter(|_| self.openshift.is_some());
        role.and_then(|m| m.meta.labels.get(OPENSHIFT_MACHINE_ROLE_LABEL))
            .is_some_and(|role| role == "master")
    }
}

fn machine_key(machine: &MachineView) -> Key {
    let namespace = machine.meta.namespace.clone().unwrap_or_default();
    Key::new(namespace, &machine.meta.name)
}

/// Resolves a remediation without further reads. [`find_machine`] adds the Machine of a Node that was read,
/// and [`of_openshift`] the Node of a Machine of OpenShift.
pub(crate) fn target(
    index: &Index,
    remediation: &Key,
    view: &RemediationObject,
    state: Option<&State>,
) -> Target {
    let marked = state
        .and_then(|s| s.attempt.node.as_ref())
        .map(|n| n.name.clone());
    if let Some(owner) = view.openshift_machine() {
        return Target {
            machine: None,
            cluster: Some(Key::local()),
            node: marked,
            by_node: false,
            openshift: Some(Key::new(&remediation.namespace, &owner.name)),
        };
    }
    if let Some(node) = view.node() {
        return Target {
            machine: None,
            cluster: Some(Key::local()),
            node: Some(node.to_owned()),
            by_node: true,
            openshift: None,
        };
    }
    let machine = view.machine().and_then(|owner| {
        let found = index.machine(&Key::new(&remediation.namespace, &owner.name))?;
        // A later Machine of the same name is another Machine.
        (found.object.metadata.uid.as_deref() == Some(&owner.uid)).then_some(found)
    });
    let read = machine.as_ref().and_then(|e| e.view.as_ref().ok());
    let named = || {
        let of_machine = read.and_then(|m| m.cluster_name.clone());
        let name = of_machine.or_else(|| view.meta().labels.get(CLUSTER_NAME_LABEL).cloned())?;
        Some(Key::new(&remediation.namespace, name))
    };
    // A pinned Cluster takes precedence: the Machine may be deleted and the label changed.
    let pinned = state.and_then(|s| s.cluster.as_deref()).map(Key::parse);
    let cluster = pinned.or_else(named);
    let node = marked.or_else(|| read.and_then(|m| m.node_name.clone()));
    Target {
        machine,
        cluster,
        node,
        by_node: false,
        openshift: None,
    }
}

/// Adds the Machine of OpenShift that the remediation is for, which names the Node.
pub(crate) fn of_openshift(
    target: &mut Target,
    view: &RemediationObject,
    machine: Option<DynamicObject>,
) {
    let owner = view.openshift_machine().map(|owner| owner.uid.as_str());
    // A later Machine of the same name is another Machine.
    let Some(object) = machine.filter(|m| m.metadata.uid.as_deref() == owner) else {
        return;
    };
    let view = MachineView::from_dynamic(&object).map(Arc::new);
    if target.node.is_none() {
        target.node = view.as_ref().ok().and_then(|m| m.node_name.clone());
    }
    target.machine = Some(Entry {
        object: Arc::new(object),
        view,
    });
}

/// Adds the Machine of a Node of the management cluster: the Machine that the Node names and that names the
/// Node, or the only Machine with its nodeRef and providerID. Nodes of other clusters may have the same name.
pub(crate) fn find_machine(index: &Index, target: &mut Target) {
    let Some(name) = target.node.clone().filter(|_| target.by_node) else {
        return;
    };
    let Some(node) = index.node(&Key::local(), &name) else {
        return;
    };
    let refers = |e: &Entry<MachineView>| e.view.as_ref().is_ok_and(|m| runs(index, m, &node));
    let annotation = |key: &str| node.annotations().get(key).filter(|v| !v.is_empty());
    if let (Some(machine), Some(namespace)) = (
        annotation(MACHINE_ANNOTATION),
        annotation(CLUSTER_NAMESPACE_ANNOTATION),
    ) {
        target.machine = index
            .machine(&Key::new(namespace, machine))
            .filter(|e| refers(e));
        return;
    }
    let Some(provider) = provider_id(&node) else {
        return;
    };
    let mut found = index.machines_with_node(&name).into_iter().filter(|e| {
        refers(e)
            && e.view
                .as_ref()
                .is_ok_and(|m| m.provider_id.as_deref() == Some(provider))
    });
    target.machine = found.next().filter(|_| found.next().is_none());
}

/// Whether a Machine names this Node of the management cluster. A Node of the same name in the Machine's own
/// cluster is another Node if it has another UID.
fn runs(index: &Index, machine: &MachineView, node: &Node) -> bool {
    let name = node.name_any();
    let cluster = machine.cluster_name.as_ref();
    let cluster = cluster.map(|cluster| Key::new(machine_key(machine).namespace, cluster));
    let known = cluster.and_then(|cluster| index.seen_node(&cluster, &name));
    machine.node_name.as_ref() == Some(&name) && known.is_none_or(|known| known.uid() == node.uid())
}

fn provider_id(node: &Node) -> Option<&str> {
    let id = node.spec.as_ref()?.provider_id.as_deref();
    id.filter(|id| !id.is_empty())
}

/// The host of a remediation.
pub(crate) struct TargetHost {
    pub(crate) view: HostView,
    pub(crate) bmh: Option<Key>,
    /// Entries of inventories that do not count; see [`Resolution::ignored`].
    pub(crate) ignored: Vec<String>,
    /// See [`Resolution::is_bound`].
    pub(crate) is_bound: bool,
}

impl TargetHost {
    fn new(view: HostView, bmh: Option<Key>) -> Self {
        Self {
            view,
            bmh,
            ignored: Vec::new(),
            is_bound: false,
        }
    }
}

/// Whether the host is resolved again. A chosen host stays, because the state names it. For a remediation by
/// Node, the host is resolved again between attempts, because another host may have registered the Node.
pub(crate) fn resolves_host(target: &Target, state: Option<&State>) -> bool {
    state.is_none_or(|s| match s.step {
        Step::Pending => true,
        Step::Retrying => target.by_node,
        _ => false,
    })
}

/// The host and its BareMetalHost: the chosen host, or else the result of the resolution.
pub(crate) fn host(
    index: &Index,
    racks: &Racks,
    target: &Target,
    node: Option<&NodeFacts>,
    state: Option<&State>,
) -> TargetHost {
    let chosen = state.filter(|_| !resolves_host(target, state));
    if let Some(host) = chosen.and_then(|s| s.host.clone()) {
        let bmh = host.bmh.as_deref().map(Key::parse);
        return TargetHost::new(HostView::Found(host), bmh);
    }
    let (bmh_key, bmh) = match linked_host(index, target) {
        Ok(linked) => linked,
        Err(reason) => return TargetHost::new(HostView::NotFound(reason), None),
    };
    let wanted = query(index, target, node, bmh);
    let Resolution {
        host,
        ignored,
        is_bound,
    } = resolve(&wanted, racks, &IndexNodes(index));
    let view = match host {
        Ok(host) => HostView::Found(host),
        Err(reason) => HostView::NotFound(reason),
    };
    TargetHost {
        view,
        bmh: bmh_key,
        ignored,
        is_bound,
    }
}

fn query(
    index: &Index,
    target: &Target,
    node: Option<&NodeFacts>,
    bmh: Option<BareMetalHostRef>,
) -> HostQuery {
    let cached = target
        .cluster
        .as_ref()
        .zip(target.node.as_ref())
        .and_then(|(cluster, name)| index.node(cluster, name));
    let of_node = cached.as_deref().and_then(provider_id).map(str::to_owned);
    let uid = node.map(|n| n.uid.clone());
    let uid = uid.or_else(|| cached.as_deref().and_then(ResourceExt::uid));
    let mut clusters: Vec<String> = target.cluster.iter().map(ToString::to_string).collect();
    if let (Some(name), Some(uid)) = (&target.node, &uid) {
        let others = index.clusters_of_node(name, uid).into_iter();
        let others = others.filter(|cluster| Some(cluster) != target.cluster.as_ref());
        clusters.extend(others.map(|cluster| cluster.to_string()));
    }
    HostQuery {
        node_name: target.node.clone(),
        node_uid: uid,
        clusters,
        provider_id: target
            .machine()
            .and_then(|m| m.provider_id.clone())
            .or(of_node),
        system_uuid: node
            .map(|n| n.system_uuid.clone())
            .filter(|u| !u.is_empty()),
        node_rack: cached.and_then(|node| node.labels().get(NODE_RACK_LABEL).cloned()),
        bmh,
    }
}

type Linked = (Option<Key>, Option<BareMetalHostRef>);

/// Follows Machine, Metal3Machine and BareMetalHost, which must refer to each other; without a
/// Machine, follows the references of the Node.
fn linked_host(index: &Index, target: &Target) -> Result<Linked, Reason> {
    match (target.machine(), &target.node) {
        (Some(machine), _) if target.openshift.is_some() => host_of_openshift(index, machine),
        (Some(machine), _) => host_of_machine(index, machine),
        (None, Some(name)) if target.by_node => match index.node(&Key::local(), name) {
            Some(node) => host_of_node(index, &node),
            None => Ok((None, None)),
        },
        (None, _) => Ok((None, None)),
    }
}

/// The BareMetalHost of a Machine of Cluster API.
///
/// # Errors
/// The references do not lead to one, or contradict each other.
pub(crate) fn host_of_machine(index: &Index, machine: &MachineView) -> Result<Linked, Reason> {
    let none = Ok((None, None));
    let Some(reference) = &machine.infrastructure_ref else {
        return none;
    };
    if reference.kind.as_deref() != Some(kinds::METAL3_MACHINE)
        || reference.group.as_deref() != Some(groups::INFRASTRUCTURE)
    {
        return none;
    }
    let Some(name) = &reference.name else {
        return none;
    };
    let key = Key::new(machine_key(machine).namespace, name);
    let missing = |what: String| Err(Reason::HostNotFound(what));
    let Some(entry) = index.metal3_machine(&key) else {
        return missing(format!("Metal3Machine {key} does not exist"));
    };
    let metal3_machine = match &entry.view {
        Ok(view) => view,
        Err(error) => return missing(error.to_string()),
    };
    let Some(host) = &metal3_machine.host else {
        return missing(format!(
            "Metal3Machine {key} is linked to no BareMetalHost yet"
        ));
    };
    // As in CAPM3, the namespace in the annotation is ignored.
    let host_key = Key::new(&key.namespace, &host.name);
    let Some(entry) = index.host(&host_key) else {
        return missing(format!("BareMetalHost {host_key} does not exist"));
    };
    let bmh = match &entry.view {
        Ok(view) => view,
        Err(error) => return missing(error.to_string()),
    };
    let ours = Some((Kind::Metal3Machine, key.clone()));
    if let Some(consumer) = &bmh.consumer
        && consumer_of(&host_key, bmh) != ours
    {
        return missing(format!(
            "BareMetalHost {host_key} is consumed by {}, not by Metal3Machine {key}",
            consumer.name.as_deref().unwrap_or_default()
        ));
    }
    Ok(linked(&host_key, bmh))
}

/// Follows a Machine of OpenShift and its BareMetalHost, which must refer to each other.
///
/// # Errors
/// The references do not lead to one, or contradict each other.
pub(crate) fn host_of_openshift(index: &Index, machine: &MachineView) -> Result<Linked, Reason> {
    let me = machine_key(machine);
    let missing = |what: String| Err(Reason::HostNotFound(what));
    let Some(text) = machine.meta.annotations.get(BARE_METAL_HOST_ANNOTATION) else {
        return Ok((None, None));
    };
    let key = Key::parse(text);
    if key.namespace.is_empty() || key.name.is_empty() {
        return missing(format!(
            "annotation {BARE_METAL_HOST_ANNOTATION} of Machine {me} is {text:?}, not namespace/name"
        ));
    }
    let Some(entry) = index.host(&key) else {
        return missing(format!("BareMetalHost {key} does not exist"));
    };
    let bmh = match &entry.view {
        Ok(view) => view,
        Err(error) => return missing(error.to_string()),
    };
    let mine = |consumer: &ObjectRef| {
        consumer.kind.as_deref() == Some(kinds::MACHINE)
            && consumer.name.as_ref() == Some(&me.name)
            && consumer
                .namespace
                .as_ref()
                .is_none_or(|n| *n == me.namespace)
    };
    match &bmh.consumer {
        Some(consumer) if !mine(consumer) => missing(format!(
            "BareMetalHost {key} is consumed by {} {}, not by Machine {me}",
            consumer.kind.as_deref().unwrap_or_default(),
            consumer.name.as_deref().unwrap_or_default(),
        )),
        _ => Ok(linked(&key, bmh)),
    }
}

fn linked(key: &Key, bmh: &BareMetalHostView) -> Linked {
    let rack = bmh
        .meta
        .labels
        .get(RACK_LABEL)
        .or_else(|| bmh.meta.annotations.get(RACK_LABEL));
    let wanted = BareMetalHostRef {
        name: key.to_string(),
        address: bmh
            .bmc
            .as_ref()
            .and_then(|b| b.address.clone())
            .unwrap_or_default(),
        rack: rack.cloned(),
    };
    (Some(key.clone()), Some(wanted))
}

#[cfg(test)]
mod tests;
