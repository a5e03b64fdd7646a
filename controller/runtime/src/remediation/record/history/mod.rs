//! Submits what a remediation did to the history of its host.

mod entry;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use rackhand_core::{
    fleet::shared_cause::CauseSummary,
    remediation::{RemediationOutcome, outcome},
};

use self::entry::{EntryFacts, entry};
use crate::{
    history::cause_record,
    remediation::{record::Scope, scope::Memory},
    store::{clock, object::Key},
};

/// The name of an outcome, in metrics and in the history.
pub(in crate::remediation) fn outcome_label(outcome: RemediationOutcome) -> &'static str {
    match outcome {
        RemediationOutcome::Succeeded => "succeeded",
        RemediationOutcome::Escalated => "escalated",
        RemediationOutcome::Failed => "failed",
        RemediationOutcome::Withdrawn => "withdrawn",
    }
}

/// Submits the entry of this remediation. It is written later, and a failure has no effect here.
pub(in crate::remediation) fn record_history(
    scope: &Scope,
    memory: &Memory,
    outcome: Option<(&'static str, &'static str)>,
) {
    let (Some(state), Some(remediation)) = (&memory.shell.state, &memory.snapshot.object) else {
        return;
    };
    let history = &scope.context.history;
    if let Some(cause) = shared_cause(scope, memory) {
        let created = memory.created().unwrap_or(state.attempt.started);
        history.put_shared_cause(&scope.uid, created, cause_record(&cause, None));
    }
    // The object is read by people and by later leaders, whose own clocks begin anew.
    let ahead = clock::wall_ahead();
    let steps = history.timeline(&scope.uid).into_iter();
    let timeline: Vec<_> = steps.map(|entry| entry.moved(ahead)).collect();
    let facts = EntryFacts {
        id: &scope.id,
        object: &remediation.object,
        state: &state.on_wall(ahead),
        timeline: &timeline,
        node_cause: node_cause(scope, memory),
        shared_cause: history.shared_cause(&scope.uid),
        outcome,
        now: clock::wall_now(),
    };
    if let Some((spec, entry)) = entry(&facts) {
        scope.context.histories.submit(spec, entry);
    }
}

/// Submits it again if it ended under an earlier leader, which may have ended before it was written.
pub(in crate::remediation) fn record_earlier_end(
    scope: &Scope,
    memory: &Memory,
    reason: &'static str,
) {
    let ended = memory.shell.state.as_ref().and_then(outcome);
    if let Some(ended) = ended {
        record_history(scope, memory, Some((outcome_label(ended), reason)));
    }
}

/// Its cluster and Node.
fn node_of_state(memory: &Memory) -> Option<(Key, &str)> {
    let state = memory.shell.state.as_ref()?;
    let node = &state.attempt.node.as_ref()?.name;
    let cluster = state.cluster.as_deref().map_or_else(Key::local, Key::parse);
    Some((cluster, node))
}

/// Why its Node is not ready, as the Node reports it.
fn node_cause(scope: &Scope, memory: &Memory) -> Option<String> {
    let (cluster, node) = node_of_state(memory)?;
    not_ready(&*scope.context.index.node(&cluster, node)?)
}

/// The cause that its failure shares with those of other hosts, while it lasts.
fn shared_cause(scope: &Scope, memory: &Memory) -> Option<CauseSummary> {
    let (cluster, node) = node_of_state(memory)?;
    scope.context.causes.cause_of(&cluster, node)
}

fn not_ready(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready")?;
    if ready.status == "True" {
        return None;
    }
    let since: Option<Timestamp> = ready.last_transition_time.as_ref().map(|t| t.0);
    let since = since.map(|at| format!(" since {at}")).unwrap_or_default();
    let reason = ready.reason.as_deref().unwrap_or("no reason");
    Some(format!(
        "Node condition Ready is {}{since} ({reason})",
        ready.status
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cause_is_the_condition_of_a_node_that_is_not_ready() {
        let node = |status: &str| -> Node {
            serde_json::from_value(json!({ "status": { "conditions": [{
                "type": "Ready", "status": status, "reason": "NodeStatusUnknown",
                "lastTransitionTime": "2026-08-01T02:14:07Z",
            }]}}))
            .unwrap()
        };
        assert_eq!(not_ready(&node("True")), None);
        assert_eq!(
            not_ready(&node("Unknown")).as_deref(),
            Some("Node condition Ready is Unknown since 2026-08-01T02:14:07Z (NodeStatusUnknown)")
        );
        assert_eq!(not_ready(&Node::default()), None);
    }
}
