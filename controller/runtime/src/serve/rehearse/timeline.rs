//! The Machines and Nodes as they are at a moment of the history, as each check and policy sees them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, RACK_LABEL},
    views::{LabelSelector, MachineView, Meta},
};
use rackhand_core::{
    health::{MachineFacts, NodeView},
    power_policy::{Placement, PolicyFacts},
    rehearsal::{HostFacts, MemberFacts, Rehearsal, RehearsalReport},
};

use super::{
    CheckSelector, Rules,
    history::{Change, HistoryEvent},
};
use crate::{
    checks::{machine_facts, node_view, nodes},
    remediation::shared_names,
    store::{
        index::SeenNode,
        object::Key,
        power_policy::{NodeLabels, Selected},
    },
};

/// The objects of the history, and the rehearsal that they drive.
pub(super) struct Timeline<'a> {
    rules: &'a Rules,
    /// Whether the history contains Machines.
    has_machines: bool,
    machines: BTreeMap<Key, MachineView>,
    nodes: BTreeMap<String, Node>,
    rehearsal: Rehearsal,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(rules: &'a Rules, has_machines: bool, rehearsal: Rehearsal) -> Self {
        Self {
            rules,
            has_machines,
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            rehearsal,
        }
    }

    /// Applies a change. An object that cannot be parsed is left as it was.
    pub(super) fn apply(&mut self, event: &HistoryEvent, notes: &mut Vec<String>) {
        let object = event.change.object();
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        match (kind, &event.change) {
            ("Node", Change::Put(object)) => match object.clone().try_parse::<Node>() {
                Ok(node) => {
                    let name = node.name_any();
                    self.nodes.insert(name.clone(), node);
                    self.node_changed(&name, event.at);
                }
                Err(error) => notes.push(format!("left out: Node {}: {error}", object.name_any())),
            },
            ("Node", Change::Delete(object)) => {
                let name = object.name_any();
                self.nodes.remove(&name);
                self.node_changed(&name, event.at);
            }
            ("Machine", Change::Put(object)) => match MachineView::from_dynamic(object) {
                Ok(machine) => {
                    let key = Key::of(object);
                    self.machine_changed(&key, &machine, event.at);
                    self.machines.insert(key, machine);
                }
                Err(error) => notes.push(format!("left out: {error}")),
            },
            ("Machine", Change::Delete(object)) => {
                let key = Key::of(object);
                self.machines.remove(&key);
                for check in 0..self.rules.checks.len() {
                    self.rehearsal.remove(check, &key.name, event.at);
                }
            }
            _ => {}
        }
    }

    pub(super) fn finish(self, end: Timestamp) -> RehearsalReport {
        self.rehearsal.finish(end)
    }

    fn node_changed(&mut self, name: &str, at: Timestamp) {
        for number in 0..self.rules.checks.len() {
            self.node_of_check(number, name, at);
        }
        let of_node = self.machines.iter();
        let of_node = of_node.filter(|(_, machine)| machine.node_name.as_deref() == Some(name));
        let of_node: Vec<(Key, MachineView)> =
            of_node.map(|(k, m)| (k.clone(), m.clone())).collect();
        for (key, machine) in of_node {
            self.machine_changed(&key, &machine, at);
        }
    }

    /// A Node as a member of a check of Nodes. Without Machines, each Node also counts as a Machine of its name
    /// that every check of Machines selects.
    fn node_of_check(&mut self, number: usize, name: &str, at: Timestamp) {
        let Some(check) = self.rules.checks.get(number) else {
            return;
        };
        let node = self.nodes.get(name);
        let (member, cluster) = match &check.selects {
            CheckSelector::Machines { .. } if self.has_machines => return,
            CheckSelector::Machines { cluster, .. } => {
                let member = node.map(|node| MemberFacts::Machine {
                    machine: machine_of(node),
                    node: node_view(node),
                });
                (member, Some(cluster))
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

    fn machine_changed(&mut self, key: &Key, machine: &MachineView, at: Timestamp) {
        for (number, check) in self.rules.checks.iter().enumerate() {
            let CheckSelector::Machines { cluster, selector } = &check.selects else {
                continue;
            };
            if !selects(selector, cluster, key, machine) {
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
            let facts = self.host(Some(cluster), Some(&machine.meta), name, node);
            let member = MemberFacts::Machine {
                machine: machine_facts(machine),
                node: view,
            };
            self.rehearsal.put(number, member, facts, at);
        }
    }

    /// The host as the policies see it. The history does not name racks; a label of Node or Machine does.
    fn host(
        &self,
        cluster: Option<&Key>,
        machine: Option<&Meta>,
        name: Option<&str>,
        node: Option<&Node>,
    ) -> HostFacts {
        let labels = node.map(|node| node.labels().clone()).unwrap_or_default();
        let of_machine = machine.map(|meta| &meta.labels);
        let rack = labels.get(RACK_LABEL);
        let rack = rack.or_else(|| of_machine.and_then(|labels| labels.get(RACK_LABEL)));
        let selecting = self.rules.policies.iter().filter(|policy| {
            let selected = policy.selects(
                NodeLabels::Known(&labels),
                of_machine,
                rack.map(String::as_str),
            );
            selected == Selected::Yes
        });
        let policies = selecting.map(|policy| policy.policy.name.clone()).collect();
        let annotations = node.map(|node| node.annotations().clone());
        let annotations = annotations.unwrap_or_default();
        let (pdus, switches) = shared_names(std::iter::once(&annotations));
        HostFacts {
            node: name.map(str::to_owned),
            policy: PolicyFacts {
                policies,
                placement: Placement {
                    cluster: Some(cluster.unwrap_or(&Key::local()).to_string()),
                    rack: rack.cloned(),
                    pdus,
                    switches,
                    kernel: None,
                    labels: Some(labels),
                },
                ..PolicyFacts::default()
            },
            annotations: annotations.into_keys().collect(),
        }
    }
}

/// Whether a check selects a Machine.
fn selects(selector: &LabelSelector, cluster: &Key, key: &Key, machine: &MachineView) -> bool {
    let labels = &machine.meta.labels;
    key.namespace == cluster.namespace
        && labels.get(CLUSTER_NAME_LABEL) == Some(&cluster.name)
        && selector.matches(labels)
}

/// A member of a check of Nodes.
fn node_member(node: &Node) -> Option<MemberFacts> {
    let seen = serde_json::to_value(node).and_then(serde_json::from_value::<SeenNode>);
    Some(MemberFacts::Node(nodes::node_facts(&seen.ok()?)))
}

/// The Machine that a Node counts as.
fn machine_of(node: &Node) -> MachineFacts {
    let created = node.creation_timestamp().map_or(Timestamp::MIN, |at| at.0);
    MachineFacts {
        name: node.name_any(),
        uid: node.uid().unwrap_or_default(),
        created,
        deleting: false,
        control_plane: false,
        paused: false,
        skip_remediation: false,
        remediate_annotation: false,
        conditions: Vec::new(),
        infrastructure_ready: Some(created),
        failure: None,
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    }
}
