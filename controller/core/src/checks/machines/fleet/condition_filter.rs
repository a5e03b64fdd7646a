//! Conditions that a fleet keeps: only types that a rule of its check names.

use std::collections::BTreeSet;

use crate::checks::machines::{Condition, ConditionRule, DialectRules, NodeView, Target};

/// The condition types that rules name.
pub(super) fn kinds(rules: &[ConditionRule]) -> BTreeSet<&str> {
    rules.iter().map(|rule| rule.type_.as_str()).collect()
}

/// Drops the conditions that no rule names.
pub(super) fn trim<P: DialectRules>(check: &P, target: &mut Target<P::Machine>) {
    if let Some(conditions) = P::conditions(&mut target.machine) {
        keep(conditions, check.machine_rules());
    }
    trim_node(check, &mut target.node);
}

pub(super) fn trim_node<P: DialectRules>(check: &P, node: &mut NodeView) {
    if let NodeView::Present(node) = node {
        keep(&mut node.conditions, check.node_rules());
    }
}

fn keep(conditions: &mut Vec<Condition>, rules: &[ConditionRule]) {
    conditions.retain(|condition| rules.iter().any(|rule| rule.type_ == condition.type_));
    conditions.shrink_to_fit();
}
