//! Evaluation of checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use rackhand_core::checks::nodes::{Action, HeldLease, Outside};

use super::{NodeCheck, NodeHealthChecks, Parts, events::kinds_of, leases::lease_name, status};
use crate::{
    checks::{engine::queue::Item, metrics::CheckCounts},
    store::{maintenance::spared_nodes, object::Key},
};

impl NodeHealthChecks {
    /// Marks every check for evaluation.
    pub(super) fn evaluate_all(&mut self) {
        self.dirty.extend(self.checks.keys().cloned());
    }

    /// Inputs of an evaluation besides Nodes and remediations.
    fn outside(&self, engine: &Parts, key: &Key, check: &NodeCheck) -> Outside {
        let (mut creating, mut elsewhere) = (BTreeSet::new(), BTreeMap::new());
        for item in engine.members.creating() {
            let node = item.member.to_string();
            if item.check == *key {
                creating.insert(node);
            } else {
                elsewhere.insert(node, item.check.name.clone());
            }
        }
        let openshift = &self.openshift;
        Outside {
            disabled: openshift
                .disabled()
                .or_else(|| check.disabled.clone().flatten()),
            upgrading: openshift.upgrading(),
            creating,
            elsewhere,
            blocked: check.blocked.clone(),
            maintenance: spared_nodes(&engine.context.index, &Key::local()),
            leases: self.leases_of(check),
        }
    }

    /// The Leases of the Nodes that a check is remediating.
    fn leases_of(&self, check: &NodeCheck) -> BTreeMap<String, HeldLease> {
        let nodes = check.memory.nodes.keys();
        let held = |node: &String| {
            let lease = self.leases.get(&lease_name(node))?;
            Some((node.clone(), lease.clone()))
        };
        nodes.filter_map(held).collect()
    }

    /// Whether all inputs of a decision are known.
    fn knows(&self, check: &NodeCheck) -> bool {
        let external = &self.external;
        let openshift = &self.openshift;
        // A disabled check does nothing, and the cause may also keep the other inputs unknown.
        let ready = match &check.disabled {
            _ if openshift.disabled().is_some() => true,
            None => false,
            Some(Some(_)) => true,
            Some(None) => kinds_of(check).iter().all(|kind| external.synced(kind)),
        };
        self.nodes_known && openshift.is_known() && ready
    }

    /// Evaluates a check and enqueues its actions.
    pub(super) fn evaluate_check(&mut self, engine: &mut Parts, key: &Key) {
        let Some(check) = self.checks.get(key).filter(|check| self.knows(check)) else {
            return;
        };
        let outside = self.outside(engine, key, check);
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        let now = Timestamp::now();
        check.blocked.retain(|_, (until, _)| now < *until);
        let plan = check.fleet.decide(&outside, &check.memory, now);
        engine.arm(key, plan.wake_at);
        let counts = CheckCounts {
            targets: plan.memory.observed,
            healthy: plan.memory.healthy,
            counted: plan.memory.observed.saturating_sub(plan.memory.healthy),
            allowed: plan.allowed,
            open: plan.closed.is_none(),
        };
        let metrics = &engine.context.metrics;
        metrics.set_check(key, counts, std::iter::empty());
        if check.dry_run {
            for action in &plan.actions {
                tracing::info!(check = %key, ?action, "dry run: not done");
            }
            return;
        }
        let metrics = &metrics.nodes;
        for (node, entry) in &plan.memory.nodes {
            for tried in &entry.tried {
                metrics.set_ongoing(node, &tried.id);
            }
        }
        for over in &plan.finished {
            metrics.observe_end(&over.node, &over.remediation, over.lasted);
        }
        for event in &plan.events {
            let message = format!("[remediation] {}", event.message);
            let events = &engine.context.events;
            events.send(&check.object, event.warning, event.reason, &message);
        }
        check.memory = plan.memory;
        if status::differs(&check.object, &check.memory) {
            engine.status_due(key);
        }
        self.enqueue(engine, key, plan.actions);
    }

    /// Stores the actions of an evaluation, and enqueues each Node.
    fn enqueue(&mut self, engine: &mut Parts, key: &Key, actions: Vec<Action>) {
        let now = engine.now();
        let mut wanted: BTreeMap<Arc<str>, Vec<Action>> = BTreeMap::new();
        let mut due = BTreeSet::new();
        for action in actions {
            let item = Item::new(key, &action.node().into());
            if let Action::Create { .. } = action {
                due.insert(item.member.clone());
                // Started only after the live read of the batch has shown that the view of the check is
                // current, and decided again then.
                if !engine.members.is_cleared(&item, now) {
                    continue;
                }
            }
            wanted.entry(item.member).or_default().push(action);
        }
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        for node in check.due.difference(&due) {
            engine.members.withdraw(&Item::new(key, node));
        }
        check.due = due;
        let members: Vec<Arc<str>> = wanted.keys().cloned().collect();
        for (node, actions) in std::mem::replace(&mut check.actions, wanted) {
            self.keep_one_shots(Item::new(key, &node), actions);
        }
        let pending = self.pending.keys();
        let pending = pending.filter(|item| item.check == *key).cloned();
        let items = members.iter().map(|node| Item::new(key, node));
        for item in items.chain(pending).collect::<BTreeSet<Item>>() {
            engine.members.enqueue(item);
        }
    }

    /// Keeps the actions that the core requests only once.
    pub(super) fn keep_one_shots(&mut self, item: Item, actions: Vec<Action>) {
        let once: Vec<Action> = actions.into_iter().filter(is_one_shot).collect();
        if !once.is_empty() {
            let pending = &mut self.pending;
            pending.entry(item).or_default().extend(once);
        }
    }
}

/// An action that the core requests only once, so that it must not be lost.
pub(super) fn is_one_shot(action: &Action) -> bool {
    matches!(
        action,
        Action::ReleaseLease { .. } | Action::Unconfirm { .. }
    )
}
