//! The evaluation of all Nodes of a check, which every [`super::Fleet`] must equal. For tests and
//! explanations.

use jiff::Timestamp;

use super::check_status::NodeCheckStatus;
use super::class::{Class, classify};
use super::decide::{FleetView, NodeState, Outside, Plan, decide};
use super::facts::{NodeFacts, NodeRemediation};
use super::quorum::{ControlPlane, PlaneNode};
use super::rules::Check;
use crate::checks::machines::deadline;

/// Evaluates every Node and decides. `nodes`: all Nodes of the cluster, each with whether the check
/// selects it; `remediations`: every watched remediation.
pub fn plan(
    check: &Check,
    nodes: &[(NodeFacts, bool)],
    remediations: &[NodeRemediation],
    outside: &Outside,
    memory: &NodeCheckStatus,
    now: Timestamp,
) -> Plan {
    let busy = |name: &str| remediations.iter().any(|r| r.node == name);
    let mut view = FleetView {
        check,
        selected: 0,
        clean: 0,
        unhealthy: false,
        nodes: std::collections::BTreeMap::new(),
        control_plane: ControlPlane::default(),
    };
    let mut next: Option<Timestamp> = None;
    for both @ (node, selected) in nodes {
        let seen = node_state(check, remediations, &node.name, Some(both), now);
        if node.roles.is_control_plane() {
            let remediated = busy(&node.name)
                || outside.creating.contains(&node.name)
                || outside.elsewhere.contains_key(&node.name);
            view.control_plane.nodes.push(PlaneNode {
                name: node.name.clone(),
                roles: node.roles,
                ready: node.is_ready(),
                remediated,
            });
        }
        if let Class::Soon(Some(until)) = seen.class {
            let at = deadline(until, std::time::Duration::from_millis(1));
            next = Some(next.map_or(at, |known| known.min(at)));
        }
        let matching = matches!(seen.class, Class::Matching(_));
        if *selected {
            view.selected += 1;
            view.clean += u32::from(seen.class == Class::Healthy && seen.remediations.is_empty());
            view.unhealthy |= matching;
        }
        if busy(&node.name) || (*selected && matching) || memory.nodes.contains_key(&node.name) {
            view.nodes.insert(&node.name, seen);
        }
    }
    let there = |name: &str| nodes.iter().any(|(node, _)| node.name == name);
    let known = memory.nodes.keys().map(String::as_str);
    for name in remediations.iter().map(|r| r.node.as_str()).chain(known) {
        if !there(name) {
            let gone = node_state(check, remediations, name, None, now);
            view.nodes.insert(name, gone);
        }
    }
    let mut plan = decide(&view, outside, memory, now);
    plan.wake_at = [plan.wake_at, next].into_iter().flatten().min();
    plan
}

fn node_state<'a>(
    check: &Check,
    remediations: &'a [NodeRemediation],
    name: &str,
    node: Option<&'a (NodeFacts, bool)>,
    now: Timestamp,
) -> NodeState<'a> {
    let of_node = remediations.iter().filter(|r| r.node == name);
    let (ours, others): (Vec<&NodeRemediation>, Vec<&NodeRemediation>) = sorted(of_node)
        .into_iter()
        .partition(|r| r.is_owned_by(&check.uid));
    NodeState {
        node: node.map(|(node, _)| node),
        selected: node.is_some_and(|(_, selected)| *selected),
        class: node.map_or(Class::Healthy, |(node, _)| classify(check, node, now)),
        remediations: ours,
        foreign: others.first().copied(),
    }
}

fn sorted<'a>(remediations: impl Iterator<Item = &'a NodeRemediation>) -> Vec<&'a NodeRemediation> {
    let mut list: Vec<&NodeRemediation> = remediations.collect();
    list.sort_by(|a, b| a.id.cmp(&b.id));
    list
}
