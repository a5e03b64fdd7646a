//! Deleting a Node in clusters that do not support the out-of-service taint, and restoring its
//! labels and annotations after it was registered again (docs/reference/capm3.md, The API).
//!
//! Invariants: a Node is deleted only after its labels and annotations were saved, and those of a
//! new Node are not overwritten.

use std::collections::BTreeMap;

use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use rackhand_api::kinds::remediation_state::NodeBackup;
use rackhand_core::remediation::Observation;
use serde_json::{Value, json};

use crate::{
    remediation::{
        act::{
            Scope,
            node::{self, TargetNode},
        },
        engine::ReconcileError,
        record::remediation_state,
        scope::Memory,
    },
    store::api::{ApiError, optional},
};

/// The field of the RemediationState.
const NODE_BACKUP: &str = "nodeBackup";

type StringMap = BTreeMap<String, String>;

pub(super) async fn back_up_node(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
) -> Result<(), ReconcileError> {
    let TargetNode { node, what, .. } = node::target_node(scope, memory, o)?;
    let saved = NodeBackup {
        labels: node.labels().clone(),
        annotations: node.annotations().clone(),
    };
    let saved = serde_json::to_value(saved).map_err(|e| ApiError::other(what, e))?;
    scope
        .context
        .records
        .change(scope, memory, NODE_BACKUP, move || Ok(saved))
        .await
}

pub(super) async fn delete_node(
    scope: &Scope,
    memory: &Memory,
    o: &Observation,
    uid: &str,
) -> Result<(), ReconcileError> {
    let one = node::target_node(scope, memory, o)?;
    let name = one.facts.name.clone();
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            // Only in the version that was observed when the host was off.
            resource_version: one.node.resource_version(),
        }),
        ..DeleteParams::default()
    };
    let nodes = one.nodes.clone();
    let (asked, what) = (name.clone(), one.what.clone());
    let check_latest_reading = node::check_latest_reading(&memory.shell);
    let deleted = scope
        .context
        .writer
        .write("delete_node", what, move || async move {
            check_latest_reading()?;
            nodes.delete(&asked, &only).await.map(drop)
        })
        .await;
    optional(deleted)?;
    let message = format!("node {name} deleted; its labels and annotations are saved");
    scope.emit_event(false, "NodeDeleted", &message);
    Ok(())
}

/// Restores the Node first and removes the copy after that, so that a crash in between only
/// repeats it.
pub(super) async fn restore_node(
    scope: &Scope,
    memory: &mut Memory,
    o: &Observation,
) -> Result<(), ReconcileError> {
    let one = node::target_node(scope, memory, o)?;
    let kept = remediation_state::node_backup(&scope.context.index, &scope.uid).unwrap_or_default();
    let body = json!({ "metadata": {
        "resourceVersion": one.node.resource_version(),
        "labels": missing(kept.labels, one.node.labels()),
        "annotations": missing(kept.annotations, one.node.annotations()),
    }});
    let (nodes, name) = (one.nodes.clone(), one.facts.name.clone());
    let patched = scope
        .context
        .writer
        .write("restore_node", one.what, move || async move {
            nodes
                .patch(&name, &PatchParams::default(), &Patch::Merge(body))
                .await
        })
        .await?;
    scope.context.index.apply_node(&one.cluster, patched);
    let message = format!(
        "node {} has its labels and annotations again",
        one.facts.name
    );
    scope.emit_event(false, "NodeRestored", &message);
    scope
        .context
        .records
        .change(scope, memory, NODE_BACKUP, || Ok(Value::Null))
        .await
}

/// The saved entries that are missing now.
fn missing(kept: StringMap, there: &StringMap) -> StringMap {
    kept.into_iter()
        .filter(|(key, _)| !there.contains_key(key))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_backup_does_not_overwrite_values_of_new_node() {
        let there = StringMap::from([("a".into(), "new".into())]);
        let kept = StringMap::from([("a".into(), "old".into()), ("b".into(), "kept".into())]);
        let back = missing(kept, &there);
        assert_eq!(back, StringMap::from([("b".into(), "kept".into())]));
        assert!(missing(StringMap::new(), &there).is_empty());
    }
}
