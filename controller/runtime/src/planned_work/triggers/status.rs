//! The status of RemediationTriggers.
//!
//! Best effort: a trigger acts whether or not its status can be written.

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use rackhand_api::{
    kinds::{
        conditions::{ConditionStatus, StatusCondition},
        remediation_trigger::{AnsweredLabel, RemediationTriggerStatus, TriggeredNodeStatus},
    },
    names::conditions::{ACTIVE, CONFLICT, LABEL_RESTRICTED},
};
use rackhand_core::triggers::{Decision, NodeLabel, Obstacle, Wait, is_restricted};
use serde_json::json;

use super::{
    Triggers,
    observe::{NodeOfTrigger, TriggerView},
};
use crate::store::object::{Kind, api};

/// Nodes in the status.
const NODES: usize = 32;
/// Ends in the status.
const LAST: usize = 10;
/// Longest message of a Node in the status.
const MESSAGE: usize = 1024;

/// Writes what has changed.
pub(super) async fn report(
    triggers: &Triggers,
    view: &TriggerView,
    decisions: &[Decision],
    now: Timestamp,
) {
    let trigger = &view.trigger;
    let Some(resource) = triggers.served.known(Kind::RemediationTrigger) else {
        return;
    };
    let ended = triggers.memory.lock().ended.remove(&trigger.key);
    let shown = trigger.object.data.get("status").cloned();
    let old: RemediationTriggerStatus = shown
        .and_then(|status| serde_json::from_value(status).ok())
        .unwrap_or_default();
    let new = status(
        &old,
        view,
        decisions,
        ended.clone().unwrap_or_default(),
        now,
    );
    if new == old {
        return;
    }
    tell_conditions(triggers, view, &old, &new);
    let objects = api(&triggers.client, &resource, &trigger.key.namespace);
    let mut body = json!({ "status": new });
    // A merge patch keeps what it does not name.
    body["status"]["nodes"] = json!(new.nodes);
    let name = trigger.key.name.clone();
    let patch = move || async move {
        let params = PatchParams::default();
        let patch = Patch::Merge(&body);
        objects.patch_status(&name, &params, &patch).await
    };
    let what = format!("status of RemediationTrigger {}", trigger.key);
    match triggers.reports.write("trigger_status", what, patch).await {
        Ok(object) => triggers.index.apply(Kind::RemediationTrigger, object),
        Err(error) => {
            tracing::debug!(%error, "the status of a trigger could not be written");
            if let Some(ended) = ended {
                let mut memory = triggers.memory.lock();
                let list = memory.ended.entry(trigger.key.clone()).or_default();
                list.splice(..0, ended);
            }
        }
    }
}

/// Warns once of a condition that became bad.
fn tell_conditions(
    triggers: &Triggers,
    view: &TriggerView,
    old: &RemediationTriggerStatus,
    new: &RemediationTriggerStatus,
) {
    for condition in &new.conditions {
        let is_bad =
            (condition.condition_type == CONFLICT) == (condition.status == ConditionStatus::True);
        let before = old
            .conditions
            .iter()
            .find(|c| c.condition_type == condition.condition_type);
        let is_news = before.is_none_or(|before| {
            (before.status, &before.reason) != (condition.status, &condition.reason)
        });
        if is_bad && is_news {
            let (reason, message) = (&condition.reason, &condition.message);
            triggers
                .events
                .send(&view.trigger.object, true, reason, message);
        }
    }
}

/// The new status. A condition keeps the time of its last transition.
fn status(
    old: &RemediationTriggerStatus,
    view: &TriggerView,
    decisions: &[Decision],
    ended: Vec<AnsweredLabel>,
    now: Timestamp,
) -> RemediationTriggerStatus {
    let mut counts = (0, 0, 0);
    let mut nodes = Vec::new();
    for (of, decision) in view.nodes.iter().zip(decisions) {
        let rank = match decision {
            Decision::Nothing if of.node.label == NodeLabel::Failed => Rank::Failed,
            Decision::Nothing => continue,
            Decision::Wait(Wait::Remembered(_)) => continue,
            Decision::Wait(Wait::Failed) => Rank::Failed,
            Decision::Wait(Wait::Obstacle(_) | Wait::Cooldown(_)) => Rank::Waiting,
            _ => Rank::Running,
        };
        match rank {
            Rank::Running => counts.0 += 1,
            Rank::Waiting => counts.1 += 1,
            Rank::Failed => counts.2 += 1,
        }
        nodes.push((rank, node(of, decision)));
    }
    nodes.sort_by(|a, b| (a.0, &a.1.node).cmp(&(b.0, &b.1.node)));
    nodes.truncate(NODES);
    let mut last: Vec<AnsweredLabel> = ended.into_iter().rev().collect();
    last.extend(old.last.iter().cloned());
    last.truncate(LAST);
    RemediationTriggerStatus {
        conditions: conditions(old, view, decisions, now),
        running: Some(counts.0),
        waiting: Some(counts.1),
        failed: Some(counts.2),
        nodes: nodes.into_iter().map(|(_, node)| node).collect(),
        last,
    }
}

/// What is shown first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Failed,
    Waiting,
    Running,
}

fn node(of: &NodeOfTrigger, decision: &Decision) -> TriggeredNodeStatus {
    let (reason, message) = match decision {
        Decision::Wait(wait) => (wait.label(), wait.to_string()),
        Decision::Nothing => ("Failed", Wait::Failed.to_string()),
        Decision::Create => ("Creating", "the remediation is being made".to_owned()),
        Decision::Answer(_) | Decision::Record => {
            ("Answering", "the label is being answered".to_owned())
        }
        Decision::Delete => ("Ending", Wait::Ending.to_string()),
    };
    TriggeredNodeStatus {
        node: of.node.name.clone(),
        reason: reason.to_owned(),
        message: message.chars().take(MESSAGE).collect(),
        remediation: of.made.is_some().then(|| of.id.key.name.clone()),
    }
}

fn conditions(
    old: &RemediationTriggerStatus,
    view: &TriggerView,
    decisions: &[Decision],
    now: Timestamp,
) -> Vec<StatusCondition> {
    let spec = &view.trigger.spec;
    let active = match &view.inactive {
        None => (
            ConditionStatus::True,
            "Active",
            "labels make remediations".to_owned(),
        ),
        Some(why) => (ConditionStatus::False, why.label(), why.to_string()),
    };
    let restricted = if is_restricted(&spec.label) {
        let message =
            "kubelets cannot set this label, where the admission plugin NodeRestriction runs";
        (ConditionStatus::True, "NodeRestriction", message.to_owned())
    } else if spec.allow_unrestricted_label {
        let message = "kubelets can set this label on their own Nodes, which the trigger allows";
        (ConditionStatus::False, "Allowed", message.to_owned())
    } else {
        let message = format!(
            "every kubelet can set {} on its own Node, and so have its host switched off: use a label under \
             node-restriction.kubernetes.io/, or set spec.allowUnrestrictedLabel",
            spec.label
        );
        (ConditionStatus::False, "KubeletsMaySetLabel", message)
    };
    let others = view.nodes.iter().zip(decisions);
    let other = others
        .filter_map(|(of, decision)| match decision {
            Decision::Wait(Wait::Obstacle(why @ Obstacle::OtherTrigger(_))) => {
                Some(format!("Node {}: {why}", of.node.name))
            }
            _ => None,
        })
        .next();
    let conflict = match other {
        Some(message) => (ConditionStatus::True, "OtherTrigger", message),
        None => (
            ConditionStatus::False,
            "None",
            "no other trigger acts on a Node with this label".to_owned(),
        ),
    };
    let generation = view.trigger.object.metadata.generation;
    [
        (ACTIVE, active),
        (LABEL_RESTRICTED, restricted),
        (CONFLICT, conflict),
    ]
    .into_iter()
    .map(|(condition_type, (status, reason, message))| {
        let condition = StatusCondition {
            condition_type: condition_type.to_owned(),
            status,
            reason: reason.to_owned(),
            message,
            last_transition_time: now,
            observed_generation: generation,
        };
        condition.since_last_transition(&old.conditions)
    })
    .collect()
}
