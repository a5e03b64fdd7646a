//! The Nodes of one check, evaluated incrementally.
//!
//! Owns classes, counters and deadlines: an event of one Node costs O(log n) and the number of Nodes that
//! are unhealthy or remediated. Must always equal the result of [`super::plan`] for the same facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::check_status::NodeCheckStatus;
use super::class::{Class, classify};
use super::decide::{FleetView, NodeState, Outside, Plan, decide};
use super::facts::{NodeFacts, NodeRemediation, RemediationId};
use super::quorum::{ControlPlane, PlaneNode};
use super::rules::Check;
use crate::checks::machines::deadline;

/// A Node and its class.
struct Member {
    node: Arc<NodeFacts>,
    selected: bool,
    class: Class,
}

/// The fleet of one check.
pub struct Fleet {
    check: Check,
    now: Timestamp,
    members: BTreeMap<Arc<str>, Member>,
    /// Every watched remediation, of any check.
    remediations: BTreeMap<RemediationId, NodeRemediation>,
    by_node: BTreeMap<String, BTreeSet<RemediationId>>,
    /// Nodes become unhealthy strictly after their deadline.
    deadlines: BTreeSet<(Timestamp, Arc<str>)>,
    matching: BTreeSet<Arc<str>>,
    control_plane: BTreeSet<Arc<str>>,
    selected: u32,
    clean: u32,
}

// === impl Fleet ===

impl Fleet {
    /// A fleet without Nodes.
    pub fn new(check: Check, now: Timestamp) -> Self {
        Self {
            check,
            now,
            members: BTreeMap::new(),
            remediations: BTreeMap::new(),
            by_node: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            matching: BTreeSet::new(),
            control_plane: BTreeSet::new(),
            selected: 0,
            clean: 0,
        }
    }

    /// The rules of the check.
    pub fn check(&self) -> &Check {
        &self.check
    }

    /// Adds or replaces a Node; `selected`: the check selects it. Returns whether the facts have changed,
    /// which a heartbeat does not do.
    pub fn put_node(&mut self, node: Arc<NodeFacts>, selected: bool, now: Timestamp) -> bool {
        self.now = self.now.max(now);
        let known = self.members.get(node.name.as_str());
        if known.is_some_and(|m| m.selected == selected && m.node == node) {
            return false;
        }
        let name: Arc<str> = Arc::from(node.name.as_str());
        self.drop_member(&name);
        if node.roles.is_control_plane() {
            self.control_plane.insert(name.clone());
        }
        let class = classify(&self.check, &node, self.now);
        self.members.insert(
            name.clone(),
            Member {
                node,
                selected,
                class,
            },
        );
        self.count(&name);
        true
    }

    /// Removes a Node.
    pub fn remove_node(&mut self, name: &str, now: Timestamp) {
        self.now = self.now.max(now);
        self.drop_member(name);
    }

    /// Adds or replaces a remediation of any check.
    pub fn put_remediation(&mut self, remediation: NodeRemediation) {
        let id = remediation.id.clone();
        self.remove_remediation(&id);
        let node = remediation.node.clone();
        self.uncount(&node);
        self.by_node
            .entry(node.clone())
            .or_default()
            .insert(id.clone());
        self.remediations.insert(id, remediation);
        self.count_known(&node);
    }

    /// Removes a remediation.
    pub fn remove_remediation(&mut self, id: &RemediationId) {
        let Some(node) = self.remediations.get(id).map(|r| r.node.clone()) else {
            return;
        };
        self.uncount(&node);
        self.remediations.remove(id);
        if let Some(ids) = self.by_node.get_mut(&node) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_node.remove(&node);
            }
        }
        self.count_known(&node);
    }

    /// When the first Node becomes unhealthy by time alone.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let (at, _) = self.deadlines.first()?;
        // A deadline has passed strictly after its time.
        Some(deadline(*at, Duration::from_millis(1)))
    }

    /// The number of selected Nodes.
    pub fn selected(&self) -> u32 {
        self.selected
    }

    /// The number of Nodes that a decision considers one by one, at least: those that are unhealthy, or remediated.
    pub fn considered(&self) -> usize {
        self.matching.len().max(self.by_node.len())
    }

    /// Decides what the check does now.
    pub fn decide(&mut self, outside: &Outside, memory: &NodeCheckStatus, now: Timestamp) -> Plan {
        self.advance(now);
        let mut names: BTreeSet<&str> = self.matching.iter().map(AsRef::as_ref).collect();
        names.extend(self.by_node.keys().map(String::as_str));
        names.extend(memory.nodes.keys().map(String::as_str));
        let nodes = names.into_iter().map(|name| (name, self.node_state(name)));
        let view = FleetView {
            check: &self.check,
            selected: self.selected,
            clean: self.clean,
            unhealthy: !self.matching.is_empty(),
            nodes: nodes.collect(),
            control_plane: self.control_plane(outside),
        };
        let mut plan = decide(&view, outside, memory, self.now);
        let next = [plan.wake_at, self.next_deadline()];
        plan.wake_at = next.into_iter().flatten().min();
        plan
    }

    /// Evaluates the Nodes whose deadline has passed. A clock that is set back reverts nothing.
    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while let Some((at, name)) = self.deadlines.first().cloned()
            && at < self.now
        {
            self.uncount(&name);
            self.deadlines.remove(&(at, name.clone()));
            if let Some(member) = self.members.get_mut(&name) {
                member.class = classify(&self.check, &member.node, self.now);
            }
            self.count(&name);
        }
    }

    fn node_state(&self, name: &str) -> NodeState<'_> {
        let member = self.members.get(name);
        let ids = self.by_node.get(name).into_iter().flatten();
        let all = ids.filter_map(|id| self.remediations.get(id));
        let (ours, others): (Vec<&NodeRemediation>, Vec<&NodeRemediation>) =
            all.partition(|r| r.is_owned_by(&self.check.uid));
        NodeState {
            node: member.map(|m| m.node.as_ref()),
            selected: member.is_some_and(|m| m.selected),
            class: member.map_or(Class::Healthy, |m| m.class.clone()),
            remediations: ours,
            foreign: others.first().copied(),
        }
    }

    fn control_plane(&self, outside: &Outside) -> ControlPlane {
        let nodes = self.control_plane.iter().filter_map(|name| {
            let node = &self.members.get(name)?.node;
            let name = name.to_string();
            Some(PlaneNode {
                roles: node.roles,
                ready: node.is_ready(),
                remediated: self.by_node.contains_key(&name)
                    || outside.creating.contains(&name)
                    || outside.elsewhere.contains_key(&name),
                name,
            })
        });
        ControlPlane {
            nodes: nodes.collect(),
        }
    }

    fn has_own(&self, node: &str) -> bool {
        let ids = self.by_node.get(node).into_iter().flatten();
        ids.filter_map(|id| self.remediations.get(id))
            .any(|r| r.is_owned_by(&self.check.uid))
    }

    fn drop_member(&mut self, name: &str) {
        self.uncount(name);
        self.members.remove(name);
        self.control_plane.remove(name);
    }

    fn count_known(&mut self, node: &str) {
        if let Some((name, _)) = self.members.get_key_value(node) {
            let name = name.clone();
            self.count(&name);
        }
    }

    /// Counts a Node that is not counted.
    fn count(&mut self, name: &Arc<str>) {
        let Some(member) = self.members.get(name) else {
            return;
        };
        match &member.class {
            Class::Soon(Some(until)) => {
                self.deadlines.insert((*until, name.clone()));
            }
            Class::Matching(_) if member.selected => {
                self.matching.insert(name.clone());
            }
            _ => {}
        }
        if member.selected {
            self.selected += 1;
            if member.class == Class::Healthy && !self.has_own(name) {
                self.clean += 1;
            }
        }
    }

    /// Removes a Node from the counters.
    fn uncount(&mut self, name: &str) {
        let Some((name, member)) = self.members.get_key_value(name) else {
            return;
        };
        if let Class::Soon(Some(until)) = &member.class {
            self.deadlines.remove(&(*until, name.clone()));
        }
        self.matching.remove(name);
        if member.selected {
            self.selected -= 1;
            if member.class == Class::Healthy && !self.has_own(name) {
                self.clean -= 1;
            }
        }
    }
}
