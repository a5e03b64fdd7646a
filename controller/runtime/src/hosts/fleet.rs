//! The Machines and Nodes that may have a host.

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

/// Every Machine, and every Node that a NodeHealthCheck selects.
pub(crate) fn fleet(index: &Index) -> Vec<FleetMember> {
    let mut all = Vec::new();
    for key in index.keys(Kind::Machine) {
        let Some(entry) = index.machine(&key) else {
            continue;
        };
        let Ok(view) = entry.view.clone() else {
            continue;
        };
        let cluster = view.cluster_name.clone();
        all.push(FleetMember {
            name: format!("Machine {key}"),
            checked: is_machine_checked(index, &key.namespace, &view),
            target: Target {
                cluster: cluster.map(|name| Key::new(&*key.namespace, name)),
                ..of_machine(entry, &view)
            },
        });
    }
    for key in index.keys(Kind::OpenShiftMachine) {
        let Some(entry) = index.openshift_machine(&key) else {
            continue;
        };
        let Ok(view) = entry.view.clone() else {
            continue;
        };
        let checked = index.openshift_checks().iter().any(|(check, entry)| {
            check.namespace == key.namespace
                && entry.view.as_ref().is_ok_and(|c| {
                    let requests = is_ours(c.remediation_template.as_ref());
                    (requests || c.external_baremetal) && c.selector.matches(&view.meta.labels)
                })
        });
        all.push(FleetMember {
            name: format!("Machine {key}"),
            checked,
            target: Target {
                cluster: Some(Key::local()),
                openshift: Some(key.clone()),
                ..of_machine(entry, &view)
            },
        });
    }
    all.extend(own_nodes(index));
    all
}

/// The Nodes of this cluster that NodeHealthChecks select.
fn own_nodes(index: &Index) -> impl Iterator<Item = FleetMember> + use<> {
    let checks = index.keys(Kind::NodeHealthCheck).into_iter();
    let checks: Vec<_> = checks
        .filter_map(|key| index.node_check(&key)?.view.ok())
        .filter(|check| {
            let steps = check.escalation.iter().map(|step| &step.template);
            let mut templates = check.template.iter().chain(steps);
            templates.any(|t| t.kind == kinds::POWER_REMEDIATION_TEMPLATE)
        })
        .collect();
    let nodes = index.nodes(&Key::local()).into_iter();
    nodes.filter_map(move |node| {
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let selected = checks.iter().any(|check| check.selector.matches(&labels));
        let name = node.metadata.name.clone().unwrap_or_default();
        selected.then(|| FleetMember {
            name: format!("Node {name}"),
            checked: true,
            target: Target {
                machine: None,
                cluster: Some(Key::local()),
                node: Some(name),
                by_node: true,
                openshift: None,
            },
        })
    })
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
