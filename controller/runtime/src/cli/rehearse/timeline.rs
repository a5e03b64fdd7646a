//! The Machines and Nodes as they are at a moment of the history, as each check and policy sees them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, RACK_LABEL, groups, kinds},
    views::{MachineView, Meta},
};
use rackhand_core::{
    checks::machines::{MachineFacts, NodeView, OpenShiftMachine},
    fleet::placement::{Placement, PolicyFacts},
    fleet::shared_cause::Domain,
    rehearsal::{HostFacts, MemberFacts, NodeRecord, Rehearsal, RehearsalReport},
};

use super::{
    history::{Change, History, HistoryEvent},
    rules::{CheckSelector, Rules},
};
use crate::{
    checks::{is_of, machine_facts, node_view, nodes, openshift_machine},
    hosts::shared_names,
    shared_causes::{kernel_version, not_ready_since},
    store::{
        index::SeenNode,
        object::Key,
        power_policy::{NodeLabels, Selected},
    },
};

/// The project of a Machine. Both projects may have Machines of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dialect {
    ClusterApi,
    OpenShift,
}

/// The objects of the history, and the rehearsal that they drive.
pub(super) struct Timeline<'a> {
    rules: &'a Rules,
    history: &'a History,
    machines: BTreeMap<(Dialect, Key), MachineView>,
    nodes: BTreeMap<String, Node>,
    rehearsal: Rehearsal,
}

impl Dialect {
    fn of(object: &DynamicObject) -> Option<Self> {
        match () {
            () if is_of(object, groups::CLUSTER_API, kinds::MACHINE) => Some(Self::ClusterApi),
            () if is_of(object, groups::OPENSHIFT_MACHINE, kinds::MACHINE) => Some(Self::OpenShift),
            () => None,
        }
    }
}

impl<'a> Timeline<'a> {
    pub(super) fn new(rules: &'a Rules, history: &'a History, rehearsal: Rehearsal) -> Self {
        Self {
            rules,
            history,
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            rehearsal,
        }
    }

    /// Applies a change. An object that cannot be parsed is left as it was.
    pub(super) fn apply(&mut self, event: &HistoryEvent, notes: &mut Vec<String>) {
        let object = event.change.object();
        if let Some(dialect) = Dialect::of(object) {
            let id = (dialect, Key::of(object));
            match &event.change {
                Change::Put(object) => match MachineView::from_dynamic(object) {
                    Ok(machine) => self.put_machine(&id, &machine, event.at),
                    Err(error) => notes.push(format!("left out: {error}")),
                },
                Change::Delete(_) => self.remove_machine(&id, event.at),
            }
            return;
        }
        if !is_of(object, "", "Node") {
            return;
        }
        let name = object.name_any();
        match &event.change {
            Change::Put(object) => match object.clone().try_parse::<Node>() {
                Ok(node) => {
                    self.nodes.insert(name.clone(), node);
                    self.node_changed(&name, event.at);
                }
                Err(error) => notes.push(format!("left out: Node {name}: {error}")),
            },
            Change::Delete(_) => {
                self.nodes.remove(&name);
                self.node_changed(&name, event.at);
            }
        }
    }

    fn put_machine(&mut self, id: &(Dialect, Key), machine: &MachineView, at: Timestamp) {
        self.machines.insert(id.clone(), machine.clone());
        if let Some(node) = &machine.node_name {
            self.place_node(node, at);
        }
        self.machine_changed(id, machine, at);
    }

    fn remove_machine(&mut self, id: &(Dialect, Key), at: Timestamp) {
        self.machines.remove(id);
        for (number, check) in self.rules.checks.iter().enumerate() {
            if check.selects.may_select(id) {
                self.rehearsal.remove(number, &id.1.name, at);
            }
        }
    }

    pub(super) fn finish(self, end: Timestamp) -> RehearsalReport {
        self.rehearsal.finish(end)
    }

    fn node_changed(&mut self, name: &str, at: Timestamp) {
        self.place_node(name, at);
        for number in 0..self.rules.checks.len() {
            self.node_of_check(number, name, at);
        }
        let of_node: Vec<_> = self.machines_of(name);
        for (id, machine) in of_node {
            self.machine_changed(&id, &machine, at);
        }
    }

    fn machines_of(&self, node: &str) -> Vec<((Dialect, Key), MachineView)> {
        let machines = self.machines.iter();
        let of_node = machines.filter(|(_, machine)| machine.node_name.as_deref() == Some(node));
        of_node.map(|(id, m)| (id.clone(), m.clone())).collect()
    }

    /// Records what the host of a Node shares with other hosts, and whether it has failed.
    fn place_node(&mut self, name: &str, at: Timestamp) {
        let Some(node) = self.nodes.get(name) else {
            self.rehearsal.remove_node(name, at);
            return;
        };
        let machine = self.machines_of(name).into_iter().next();
        let cluster = match &machine {
            Some(((Dialect::ClusterApi, key), machine)) => {
                let cluster = machine.meta.labels.get(CLUSTER_NAME_LABEL);
                cluster.map(|cluster| Key::new(&*key.namespace, cluster))
            }
            Some(((Dialect::OpenShift, _), _)) => None,
            None => self.rules.checks.iter().find_map(|c| match &c.selects {
                CheckSelector::Machines { cluster, .. } => Some(cluster.clone()),
                CheckSelector::OpenShift { .. } | CheckSelector::Nodes(_) => None,
            }),
        };
        let meta = machine.as_ref().map(|(_, machine)| &machine.meta);
        let record = NodeRecord {
            domains: Domain::of(&placement(cluster.as_ref(), meta, Some(node))),
            failed: not_ready_since(node, at),
        };
        self.rehearsal.put_node(name, record, at);
    }

    /// A Node as a member of a check of Nodes. Without Machines, each Node also counts as a Machine of its name
    /// that every check of Machines selects.
    fn node_of_check(&mut self, number: usize, name: &str, at: Timestamp) {
        let Some(check) = self.rules.checks.get(number) else {
            return;
        };
        let node = self.nodes.get(name);
        let (member, cluster) = match &check.selects {
            CheckSelector::Machines { .. } if self.history.has_machines => return,
            CheckSelector::OpenShift { .. } if self.history.has_openshift_machines => return,
            CheckSelector::Machines { cluster, .. } => {
                let member = node.map(|node| MemberFacts::Machine {
                    machine: machine_of(node),
                    node: node_view(node),
                });
                (member, Some(cluster))
            }
            CheckSelector::OpenShift { .. } => {
                let member = node.map(|node| MemberFacts::OpenShift {
                    machine: openshift_machine_of(node),
                    node: node_view(node),
                });
                (member, None)
            }
            CheckSelector::Nodes(selector) => {
                let selected = node.filter(|node| selector.matches(node.labels()));
                (selected.and_then(node_member), None)
            }
        };
        match member {
            Some(member) => {
                let facts = self.host(cluster, None, Some(name), node);
                self.rehearsal.put(number, member, facts, at);
            }
            None => self.rehearsal.remove(number, name, at),
        }
    }

    fn machine_changed(&mut self, id: &(Dialect, Key), machine: &MachineView, at: Timestamp) {
        let key = &id.1;
        for (number, check) in self.rules.checks.iter().enumerate() {
            if !check.selects.may_select(id) {
                continue;
            }
            if !check.selects.selects(machine) {
                self.rehearsal.remove(number, &key.name, at);
                continue;
            }
            let name = machine.node_name.as_deref();
            let node = name.and_then(|name| self.nodes.get(name));
            let view = match (name, node) {
                // Its first record may come later.
                (Some(name), None) => NodeView::Unreachable {
                    why: format!("Node {name} is not in the history"),
                    joined: true,
                },
                (None, _) => NodeView::NotJoined,
                (_, Some(node)) => node_view(node),
            };
            let (member, cluster) = match &check.selects {
                CheckSelector::OpenShift { .. } => {
                    let mut machine = openshift_machine(machine);
                    // The rehearsal decides itself which Machines are marked.
                    machine.external_remediation = false;
                    machine.facts.skipped = None;
                    (
                        MemberFacts::OpenShift {
                            machine,
                            node: view,
                        },
                        None,
                    )
                }
                CheckSelector::Machines { cluster, .. } => {
                    let machine = machine_facts(machine);
                    (
                        MemberFacts::Machine {
                            machine,
                            node: view,
                        },
                        Some(cluster),
                    )
                }
                CheckSelector::Nodes(_) => continue,
            };
            let facts = self.host(cluster, Some(&machine.meta), name, node);
            self.rehearsal.put(number, member, facts, at);
        }
    }

    /// The host as the policies see it.
    fn host(
        &self,
        cluster: Option<&Key>,
        machine: Option<&Meta>,
        name: Option<&str>,
        node: Option<&Node>,
    ) -> HostFacts {
        let placement = placement(cluster, machine, node);
        let labels = placement.labels.clone().unwrap_or_default();
        let selecting = self.rules.policies.iter().filter(|policy| {
            let selected = policy.selects(
                NodeLabels::Known(&labels),
                machine.map(|meta| &meta.labels),
                placement.rack.as_deref(),
            );
            selected == Selected::Yes
        });
        let policies = selecting.map(|policy| policy.policy.name.clone()).collect();
        let annotations = node.map(|node| node.annotations().keys().cloned());
        HostFacts {
            node: name.map(str::to_owned),
            annotations: annotations.into_iter().flatten().collect(),
            policy: PolicyFacts {
                policies,
                placement,
                ..PolicyFacts::default()
            },
        }
    }
}

/// The placement of a host. The history does not contain the inventories of agents, so a label of Node or
/// Machine names the rack.
fn placement(cluster: Option<&Key>, machine: Option<&Meta>, node: Option<&Node>) -> Placement {
    let labels = node.map(|node| node.labels().clone()).unwrap_or_default();
    let of_machine = machine.map(|meta| &meta.labels);
    let rack = labels.get(RACK_LABEL);
    let rack = rack.or_else(|| of_machine.and_then(|labels| labels.get(RACK_LABEL)));
    let (pdus, switches) = shared_names(node.map(ResourceExt::annotations).into_iter());
    Placement {
        cluster: Some(cluster.unwrap_or(&Key::local()).to_string()),
        rack: rack.cloned(),
        pdus,
        switches,
        kernel: node.and_then(kernel_version),
        labels: Some(labels),
    }
}

impl CheckSelector {
    /// Whether the check is one of Machines of this kind and namespace.
    fn may_select(&self, (dialect, key): &(Dialect, Key)) -> bool {
        match self {
            Self::Machines { cluster, .. } => {
                *dialect == Dialect::ClusterApi && key.namespace == cluster.namespace
            }
            Self::OpenShift { namespace, .. } => {
                *dialect == Dialect::OpenShift && key.namespace == *namespace
            }
            Self::Nodes(_) => false,
        }
    }

    /// Whether the check selects a Machine of its kind and namespace.
    fn selects(&self, machine: &MachineView) -> bool {
        let labels = &machine.meta.labels;
        match self {
            Self::Machines { cluster, selector } => {
                labels.get(CLUSTER_NAME_LABEL) == Some(&cluster.name) && selector.matches(labels)
            }
            Self::OpenShift { selector, .. } => selector.matches(labels),
            Self::Nodes(_) => false,
        }
    }
}

/// A member of a check of Nodes.
fn node_member(node: &Node) -> Option<MemberFacts> {
    let seen = serde_json::to_value(node).and_then(serde_json::from_value::<SeenNode>);
    Some(MemberFacts::Node(nodes::node_facts(&seen.ok()?)))
}

/// The Machine that a Node counts as.
fn machine_of(node: &Node) -> MachineFacts {
    let created = node.creation_timestamp().map_or(Timestamp::MIN, |at| at.0);
    facts_of(node, Some(created), Some(created))
}

/// The Machine of OpenShift that a Node counts as.
fn openshift_machine_of(node: &Node) -> OpenShiftMachine {
    let created = node.creation_timestamp().map(|at| at.0);
    OpenShiftMachine {
        facts: facts_of(node, created, None),
        controlled: true,
        external_remediation: false,
    }
}

fn facts_of(
    node: &Node,
    starting_since: Option<Timestamp>,
    infrastructure_ready: Option<Timestamp>,
) -> MachineFacts {
    MachineFacts {
        name: node.name_any(),
        uid: node.uid().unwrap_or_default(),
        starting_since,
        deleting: false,
        control_plane: false,
        skipped: None,
        remediate_annotation: false,
        conditions: Vec::new(),
        infrastructure_ready,
        failure: None,
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    }
}
