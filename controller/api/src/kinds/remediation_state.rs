//! RemediationState: how far a remediation has come, as the controller recorded it.
//!
//! Owns its schema. Every decision rests on it (F15): it is cluster-scoped, so that nobody who may only write in
//! a namespace can write it. It never holds a secret.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the controller has recorded about a remediation. The name of the object is the UID of the remediation.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "RemediationState",
    plural = "remediationstates",
    derive = "PartialEq",
    category = "rackhand",
    doc = "How far a remediation has come, as the controller recorded it. Only the controller writes \
           it; it is not to be edited, copied or restored from a backup.",
    printcolumn(
        name = "Kind",
        type_ = "string",
        json_path = ".spec.kind",
        description = "Kind of the remediation"
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.namespace",
        description = "Namespace of the remediation"
    ),
    printcolumn(
        name = "Remediation",
        type_ = "string",
        json_path = ".spec.name",
        description = "Name of the remediation"
    ),
    printcolumn(
        name = "Step",
        type_ = "string",
        json_path = ".spec.state.step",
        description = "Its step; empty while it has not begun"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RemediationStateSpec {
    /// Kind of the remediation.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Namespace of the remediation.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name of the remediation.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Number of writes of the state: a copy of an earlier one is recognised by it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub sequence: i64,
    /// The identity in the Lease of the controller that became the leader before the remediation had begun. Setting
    /// it makes the API server refuse what an earlier leader had sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub claimed_by: Option<String>,
    /// Labels and annotations of the Node that was deleted, until the Node has them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_backup: Option<NodeBackup>,
    /// The state, from which the controller continues after a restart. Its form may change without notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "state_schema")]
    pub state: Option<serde_json::Value>,
}

/// Labels and annotations of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeBackup {
    /// The labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

fn state_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
