//! The fleet of a check from given objects, for explanations.
//!
//! Pure: decides nothing, and reads neither an API nor the index.

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, groups, kinds},
    views::{ClusterView, MachineHealthCheckView, MachineView, Meta, TemplateRef, group_of},
};
use rackhand_core::checks::machines::{
    Check, ClusterFacts, Condition, MachineFacts, MachineRemediation, NodeFacts, NodeView, Target,
};

use super::{dialects::cluster_api_facts as cluster_api, facts};
use crate::store::object::Key;

/// Objects from files or from lists.
#[derive(Default)]
pub(crate) struct FleetObjects {
    /// Objects of the management cluster, of any kind.
    pub(crate) objects: Vec<DynamicObject>,
    /// Nodes of the workload cluster.
    pub(crate) nodes: Vec<Node>,
    /// Why the workload cluster is unreachable.
    pub(crate) down: Option<String>,
}

/// The selected Machines, ordered by name.
#[derive(Default)]
pub(crate) struct Selected {
    pub(crate) targets: Vec<(MachineView, Target)>,
    /// Machines that cannot be parsed, with the cause; they are left out.
    pub(crate) unread: Vec<String>,
}

/// The rules of a check, ignoring pauses.
pub(crate) fn rules(view: &MachineHealthCheckView) -> Check {
    cluster_api::check(view, false)
}

/// The facts of a Cluster.
pub(crate) fn cluster_facts(view: &ClusterView) -> ClusterFacts {
    cluster_api::cluster(view)
}

/// The facts of a Machine.
pub(crate) fn machine_facts(view: &MachineView) -> MachineFacts {
    cluster_api::machine(view)
}

/// A Node that exists.
pub(crate) fn node_view(node: &Node) -> NodeView {
    NodeView::Present(node_facts(node))
}

/// Whether an object is of a kind, in any version.
pub(crate) fn is_of(object: &DynamicObject, group: &str, kind: &str) -> bool {
    let types = object.types.as_ref();
    types.is_some_and(|t| t.kind == kind && group_of(&t.api_version) == group)
}

impl FleetObjects {
    /// The objects of a kind, in any version.
    pub(crate) fn of<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a DynamicObject> {
        self.objects.iter().filter(move |o| is_of(o, group, kind))
    }

    /// The object of a kind with this key, in any version.
    pub(crate) fn get<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
        key: &Key,
    ) -> Option<&'a DynamicObject> {
        self.of(group, kind).find(|object| Key::of(object) == *key)
    }

    /// The Machines that a check selects, with Node and remediation.
    pub(crate) fn select(&self, view: &MachineHealthCheckView, cluster: &Key) -> Selected {
        let mut found = Selected::default();
        for object in self.of(groups::CLUSTER_API, kinds::MACHINE) {
            if Key::of(object).namespace != cluster.namespace {
                continue;
            }
            let machine = match MachineView::from_dynamic(object) {
                Ok(machine) => machine,
                Err(error) => {
                    found.unread.push(error.to_string());
                    continue;
                }
            };
            let labels = &machine.meta.labels;
            let of_cluster = labels.get(CLUSTER_NAME_LABEL) == Some(&cluster.name);
            if !of_cluster || !view.selector.matches(labels) {
                continue;
            }
            let target = Target {
                machine: cluster_api::machine(&machine),
                node: self.node(machine.node_name.as_deref()),
                remediation: match &view.remediation_template {
                    Some(template) => self.remediation(template, &machine, &cluster.namespace),
                    None => MachineRemediation::None,
                },
            };
            found.targets.push((machine, target));
        }
        found
            .targets
            .sort_by(|a, b| a.1.machine.name.cmp(&b.1.machine.name));
        found
    }

    /// The Node of a Machine.
    pub(in crate::checks) fn node(&self, name: Option<&str>) -> NodeView {
        if let Some(why) = &self.down {
            return NodeView::Unreachable {
                why: why.clone(),
                joined: name.is_some(),
            };
        }
        let Some(name) = name else {
            return NodeView::NotJoined;
        };
        match self.nodes.iter().find(|node| node.name_any() == name) {
            Some(node) => node_view(node),
            None => NodeView::Missing {
                name: name.to_owned(),
            },
        }
    }

    /// The remediation of a Machine, of the kind that this template creates.
    pub(crate) fn remediation(
        &self,
        template: &TemplateRef,
        machine: &MachineView,
        namespace: &str,
    ) -> MachineRemediation {
        let group = group_of(&template.api_version);
        self.remediation_of(group, template.remediation_kind(), machine, namespace)
    }

    /// The remediation of a Machine, of this kind.
    pub(in crate::checks) fn remediation_of(
        &self,
        group: &str,
        kind: &str,
        machine: &MachineView,
        namespace: &str,
    ) -> MachineRemediation {
        let key = Key::new(namespace, &machine.meta.name);
        let Some(found) = self.get(group, kind, &key) else {
            return MachineRemediation::None;
        };
        let meta = Meta::of(found);
        let owners: Vec<_> = meta
            .owners
            .iter()
            .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
            .collect();
        facts::remediation(&machine.meta.uid, &owners, meta.is_deleting())
    }
}

fn node_facts(node: &Node) -> NodeFacts {
    let list = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let conditions = list.into_iter().flatten().map(|c| Condition {
        type_: c.type_.clone(),
        status: c.status.clone(),
        reason: c.reason.clone().unwrap_or_default(),
        last_transition: c.last_transition_time.as_ref().map(|t| t.0),
    });
    NodeFacts {
        name: node.name_any(),
        conditions: conditions.collect(),
    }
}
