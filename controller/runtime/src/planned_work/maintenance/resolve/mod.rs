//! The Machine, Node and host of a maintenance.
//!
//! Invariant: never chooses between several candidates (F14).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_core::{
    hosts::Racks,
    maintenance::MaintenanceTarget,
    remediation::{HostRef, HostView},
};

use super::Maintenances;
use crate::{
    clusters::node_facts,
    hosts::{Target, find_machine, fleet, host, target_of_machine, target_of_node},
    store::{
        index::{Connection, Index},
        object::{Key, Kind},
        time_slice::beside_all,
    },
};

/// What a maintenance is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The cluster of the Node.
    pub(super) cluster: Option<Key>,
    pub(super) node: Option<String>,
    pub(super) node_uid: Option<String>,
    /// The Machine of Cluster API or OpenShift.
    pub(super) machine: Option<(Kind, Key)>,
    /// `rack/host`.
    pub(super) host: Option<String>,
    /// The host with its BMC, if it was resolved just now.
    pub(super) host_ref: Option<HostRef>,
}

impl Subject {
    /// The Machine of Cluster API.
    pub(super) fn capi_machine(&self) -> Option<&Key> {
        let machine = self.machine.as_ref();
        machine
            .filter(|(kind, _)| *kind == Kind::Machine)
            .map(|(_, key)| key)
    }

    pub(super) fn openshift_machine(&self) -> Option<&Key> {
        let machine = self.machine.as_ref();
        let ours = machine.filter(|(kind, _)| *kind == Kind::OpenShiftMachine);
        ours.map(|(_, key)| key)
    }
}

/// Resolves what the spec names.
///
/// # Errors
/// Nothing is found, or several; as a sentence for people.
pub(super) fn resolve(
    context: &Maintenances,
    namespace: &str,
    target: &MaintenanceTarget,
) -> Result<Subject, String> {
    let index = &context.index;
    match target {
        MaintenanceTarget::Node(name) => {
            if index.node(&Key::local(), name).is_none() {
                if let Connection::Down(why) = index.connection(&Key::local()) {
                    return Err(format!("Node {name} cannot be read: {why}"));
                }
                return Err(format!(
                    "there is no Node {name} in the cluster in which the controller runs; for a Node of another \
                     cluster, name its Machine"
                ));
            }
            subject(context, &own_node(index, name))
        }
        MaintenanceTarget::Machine(name) => {
            let key = Key::new(namespace, name);
            let of_kind = |kind| target_of_machine(index, kind, &key);
            let found = of_kind(Kind::Machine).or_else(|| of_kind(Kind::OpenShiftMachine));
            let found = found.ok_or_else(|| format!("there is no Machine {key}"))?;
            subject(context, &found)
        }
        MaintenanceTarget::Host { rack, host } => {
            beside_all(|| of_host(context, namespace, rack, host))
        }
    }
}

/// The Machine in the namespace, or else the Node, that runs on a host.
fn of_host(
    context: &Maintenances,
    namespace: &str,
    rack: &str,
    host: &str,
) -> Result<Subject, String> {
    let index = &context.index;
    let wanted = format!("{rack}/{host}");
    let nodes = index.node_names(&Key::local());
    let members = fleet(index).into_iter().map(|member| member.target);
    let by_node = nodes.iter().map(|name| own_node(index, name));
    // A Node may be seen as one of a Cluster and as one of this very cluster; the first is that of a Machine.
    let mut found: BTreeMap<String, Subject> = BTreeMap::new();
    for target in members.chain(by_node) {
        if let Ok(subject) = subject(context, &target)
            && subject.host.as_deref() == Some(wanted.as_str())
        {
            let node = subject.node_uid.clone().or_else(|| subject.node.clone());
            found.entry(node.unwrap_or_default()).or_insert(subject);
        }
    }
    let mut found = found.into_values();
    match (found.next(), found.next()) {
        (Some(subject), None) => match &subject.machine {
            Some((_, machine))
                if machine.namespace != namespace && subject.cluster != Some(Key::local()) =>
            {
                Err(format!(
                    "Machine {machine} runs on host {wanted}: create the maintenance in its namespace"
                ))
            }
            _ => Ok(subject),
        },
        (None, _) => Err(format!("no Node is known that runs on host {wanted}")),
        (Some(_), Some(_)) => Err(format!("several Nodes fit host {wanted}")),
    }
}

fn subject(context: &Maintenances, target: &Target) -> Result<Subject, String> {
    let (subject, host) = {
        let racks = context.agents.racks();
        look_up(&context.index, &racks, target)
    };
    host.map(|()| subject)
}

/// What is known of a target, and why its host is not.
fn look_up(index: &Index, racks: &Racks, target: &Target) -> (Subject, Result<(), String>) {
    let cluster = target.cluster.clone();
    let node = cluster
        .as_ref()
        .zip(target.node.as_ref())
        .and_then(|(cluster, name)| index.node(cluster, name));
    let facts = node.as_ref().map(|node| node_facts(node, None));
    let (host_ref, found) = match host(index, racks, target, facts.as_ref(), None).view {
        HostView::Found(host) => (Some(host), Ok(())),
        HostView::NotFound(why) => (None, Err(format!("{}: {why}", named(target)))),
    };
    let kind = match target.openshift {
        Some(_) => Kind::OpenShiftMachine,
        None => Kind::Machine,
    };
    let host = host_ref.as_ref();
    let subject = Subject {
        cluster,
        node: target.node.clone(),
        node_uid: node.as_deref().and_then(Node::uid),
        machine: target.machine_key().map(|key| (kind, key)),
        host: host.map(|host| format!("{}/{}", host.rack, host.host)),
        host_ref,
    };
    (subject, found)
}

/// Adds what can be found now to what is known of a maintenance that is gone, by its Machine, or else by its Node. What
/// is known stays, and nothing is added of another Node.
pub(super) fn complete(index: &Index, racks: &Racks, known: &Subject) -> Subject {
    let target = match (&known.machine, &known.node) {
        (Some((kind, machine)), _) => target_of_marked(index, *kind, machine),
        (None, Some(node)) if known.cluster == Some(Key::local()) => Some(own_node(index, node)),
        (None, _) => None,
    };
    let Some(target) = target else {
        return known.clone();
    };
    let (found, _) = look_up(index, racks, &target);
    if known.node.is_some() && known.node != found.node {
        return known.clone();
    }
    let known = known.clone();
    Subject {
        cluster: known.cluster.or(found.cluster),
        node: known.node.or(found.node),
        node_uid: known.node_uid.or(found.node_uid),
        machine: known.machine.or(found.machine),
        host: known.host.or(found.host),
        host_ref: known.host_ref.or(found.host_ref),
    }
}

/// What a Machine with a mark is resolved to: its Node of the cluster in which the controller runs, where the Node leads
/// to the Machine as well, or else its Node of its own cluster.
fn target_of_marked(index: &Index, kind: Kind, machine: &Key) -> Option<Target> {
    let of_machine = target_of_machine(index, kind, machine)?;
    let own = of_machine.node.as_deref().map(|name| own_node(index, name));
    let own =
        own.filter(|own| kind == Kind::Machine && own.machine_key().as_ref() == Some(machine));
    Some(own.unwrap_or(of_machine))
}

/// A Node of the cluster in which the controller runs, with its Machine.
fn own_node(index: &Index, name: &str) -> Target {
    let mut target = target_of_node(name);
    find_machine(index, &mut target);
    target
}

fn named(target: &Target) -> String {
    match (&target.node, target.machine_key()) {
        (_, Some(machine)) => format!("Machine {machine}"),
        (Some(node), None) => format!("Node {node}"),
        (None, None) => "the host".to_owned(),
    }
}

#[cfg(test)]
mod tests;
