//! Conditions that a fleet keeps: only types that a rule of its check names.

use std::collections::BTreeSet;

use crate::checks::machines::{Check, Condition, ConditionRule, MachineFacts, NodeView};

/// The condition types that rules name.
pub(super) fn kinds(rules: &[ConditionRule]) -> BTreeSet<&str> {
    rules.iter().map(|rule| rule.type_.as_str()).collect()
}

/// Drops the conditions that no rule names.
pub(super) fn trim(check: &Check, machine: &mut MachineFacts, node: &mut NodeView) {
    keep(&mut machine.conditions, &check.machine_conditions);
    trim_node(check, node);
}

pub(super) fn trim_node(check: &Check, node: &mut NodeView) {
    if let NodeView::Present(node) = node {
        keep(&mut node.conditions, &check.node_conditions);
    }
}

fn keep(conditions: &mut Vec<Condition>, rules: &[ConditionRule]) {
    conditions.retain(|condition| rules.iter().any(|rule| rule.type_ == condition.type_));
    conditions.shrink_to_fit();
}
