//! The Machines and Nodes that may have a host.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::{
    names::kinds,
    views::{MachineView, TemplateRef},
};

use super::Target;
use crate::store::{
    index::{Entry, Index},
    object::{Key, Kind},
};

/// A Machine or Node that may have a host.
pub(crate) struct FleetMember {
    /// Its kind and name.
    pub(crate) name: String,
    /// Whether a health check that creates remediations of Rackhand selects it.
    pub(crate) checked: bool,
    pub(crate) target: Target,
}

/// The key of a member of the fleet, in the order in which members are visited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemberKey {
    Machine(Key),
    OpenShiftMachine(Key),
    /// A Node of the management cluster.
    Node(String),
}

impl MemberKey {
    /// The key of a Machine of this kind.
    pub(crate) fn of_machine(kind: Kind, key: Key) -> Self {
        match kind {
            Kind::OpenShiftMachine => Self::OpenShiftMachine(key),
            _ => Self::Machine(key),
        }
    }
}

/// What is resolved for a Machine of Cluster API or OpenShift; `None` if it is gone or cannot be parsed.
pub(crate) fn target_of_machine(index: &Index, kind: Kind, key: &Key) -> Option<Target> {
    if kind == Kind::OpenShiftMachine {
        let entry = index.openshift_machine(key)?;
        let view = entry.view.clone().ok()?;
        return Some(Target {
            cluster: Some(Key::local()),
            openshift: Some(key.clone()),
            ..of_machine(entry, &view)
        });
    }
    let entry = index.machine(key)?;
    let view = entry.view.clone().ok()?;
    let cluster = view.cluster_name.clone();
    Some(Target {
        cluster: cluster.map(|name| Key::new(&*key.namespace, name)),
        ..of_machine(entry, &view)
    })
}

/// What is resolved for a Node of the management cluster without a Machine.
pub(crate) fn target_of_node(name: &str) -> Target {
    Target {
        machine: None,
        cluster: Some(Key::local()),
        node: Some(name.to_owned()),
        by_node: true,
        openshift: None,
    }
}

/// Every Machine, and every Node that a NodeHealthCheck selects.
pub(crate) fn fleet(index: &Index) -> Vec<FleetMember> {
    let mut all = Vec::new();
    for key in index.keys_in_pages(Kind::Machine) {
        let Some(target) = target_of_machine(index, Kind::Machine, &key) else {
            continue;
        };
        let view = target.machine();
        all.push(FleetMember {
            name: format!("Machine {key}"),
            checked: view.is_some_and(|view| is_machine_checked(index, &key.namespace, view)),
            target,
        });
    }
    for key in index.keys_in_pages(Kind::OpenShiftMachine) {
        let Some(target) = target_of_machine(index, Kind::OpenShiftMachine, &key) else {
            continue;
        };
        let view = target.machine();
        let checked = index.openshift_checks().iter().any(|(check, entry)| {
            check.namespace == key.namespace
                && entry.view.as_ref().is_ok_and(|c| {
                    let has_template = is_ours(c.remediation_template.as_ref());
                    (has_template || c.external_baremetal)
                        && view.is_some_and(|view| c.selector.matches(&view.meta.labels))
                })
        });
        all.push(FleetMember {
            name: format!("Machine {key}"),
            checked,
            target,
        });
    }
    all.extend(own_nodes(index));
    all
}

/// Selects the Nodes of this cluster that NodeHealthChecks select; `None` if there is no such check.
pub(crate) fn selects_own_nodes(index: &Index) -> Option<impl Fn(&Node) -> bool + use<>> {
    let checks = index.keys(Kind::NodeHealthCheck).into_iter();
    let checks: Vec<_> = checks
        .filter_map(|key| index.node_check(&key)?.view.ok())
        .filter(|check| {
            let steps = check.escalation.iter().map(|step| &step.template);
            let mut templates = check.template.iter().chain(steps);
            templates.any(|t| t.kind == kinds::POWER_REMEDIATION_TEMPLATE)
        })
        .collect();
    (!checks.is_empty()).then_some(move |node: &Node| {
        let labels = node.metadata.labels.clone().unwrap_or_default();
        checks.iter().any(|check| check.selector.matches(&labels))
    })
}

/// The Nodes of this cluster that NodeHealthChecks select.
fn own_nodes(index: &Index) -> Vec<FleetMember> {
    let Some(selects) = selects_own_nodes(index) else {
        return Vec::new();
    };
    let nodes = index.nodes(&Key::local()).into_iter();
    let selected = nodes.filter(|node| selects(node));
    let members = selected.map(|node| {
        let name = node.name_any();
        FleetMember {
            name: format!("Node {name}"),
            checked: true,
            target: target_of_node(&name),
        }
    });
    members.collect()
}

fn is_machine_checked(index: &Index, namespace: &str, machine: &MachineView) -> bool {
    let checks = index.checks_in(namespace);
    machine.node_name.is_some()
        && checks.iter().any(|entry| {
            entry.view.as_ref().is_ok_and(|check| {
                is_ours(check.remediation_template.as_ref())
                    && check.cluster_name == machine.cluster_name
                    && check.selector.matches(&machine.meta.labels)
            })
        })
}

fn is_ours(template: Option<&TemplateRef>) -> bool {
    template.is_some_and(|template| {
        let ours = [
            kinds::POWER_REMEDIATION_TEMPLATE,
            kinds::METAL3_REMEDIATION_TEMPLATE,
        ];
        ours.contains(&template.kind.as_str())
    })
}

fn of_machine(entry: Entry<MachineView>, view: &MachineView) -> Target {
    Target {
        node: view.node_name.clone(),
        machine: Some(entry),
        cluster: None,
        by_node: false,
        openshift: None,
    }
}
