//! RemediationTrigger: a label on a Node makes a remediation of it.
//!
//! Owns the schema. What a label leads to is decided in `rackhand_core::triggers`.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::StatusCondition;

/// Which label on a Node makes a remediation, and of what kind.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "RemediationTrigger",
    namespaced,
    status = "RemediationTriggerStatus",
    derive = "PartialEq",
    shortname = "rtrig",
    category = "rackhand",
    doc = "Makes one remediation of a Node each time that somebody puts a label on it. The label is \
           removed when the Node is back, and gets another value if the remediation failed.",
    printcolumn(
        name = "Label",
        type_ = "string",
        json_path = ".spec.label",
        description = "The label of Nodes"
    ),
    printcolumn(
        name = "Value",
        type_ = "string",
        json_path = ".spec.value",
        description = "The value that makes a remediation"
    ),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Active")].status"#,
        description = "Whether labels make remediations now"
    ),
    printcolumn(
        name = "Running",
        type_ = "integer",
        json_path = ".status.running",
        description = "Nodes whose remediation is not over"
    ),
    printcolumn(
        name = "Waiting",
        type_ = "integer",
        json_path = ".status.waiting",
        description = "Nodes whose label waits"
    ),
    printcolumn(
        name = "Failed",
        type_ = "integer",
        json_path = ".status.failed",
        description = "Nodes whose remediation has failed"
    ),
    printcolumn(
        name = "Template",
        type_ = "string",
        json_path = ".spec.templateRef.name",
        description = "The template of the remediations",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.failedValue) || self.failedValue != self.value",
        "message": "failedValue must differ from value",
    },
    {
        "rule": "self.label == oldSelf.label && self.value == oldSelf.value && \
                 self.failedValue == oldSelf.failedValue && \
                 has(self.clusterName) == has(oldSelf.clusterName) && \
                 (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",
        "message": "label, value, failedValue and clusterName cannot be changed, because remediations under \
                    way depend on them; create another trigger",
    },
]))]
pub struct RemediationTriggerSpec {
    /// The Cluster of Cluster API in the same namespace whose Nodes are selected. If it is not set, the
    /// Nodes of the cluster in which the controller runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cluster_name: Option<String>,
    /// The label. A kubelet may set most labels of its own Node; it cannot set one that begins with
    /// `node-restriction.kubernetes.io/`.
    #[schemars(
        length(min = 1, max = 317),
        regex(
            pattern = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
        )
    )]
    pub label: String,
    /// The value of the label that makes a remediation.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub value: String,
    /// The value that the label gets when the remediation has failed or was aborted.
    #[serde(default = "failed_value")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub failed_value: String,
    /// The template of the remediations, in the same namespace.
    pub template_ref: TriggerTemplateRef,
    /// For how long after the end of a remediation a new label on the same Node waits, in seconds.
    #[serde(default = "cooldown_seconds")]
    #[schemars(range(min = 10, max = 2_678_400))]
    pub cooldown_seconds: i32,
    /// Accepts a label that kubelets may set on their own Nodes. Without it such a label is warned of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unrestricted_label: bool,
}

fn failed_value() -> String {
    "failed".to_owned()
}

fn cooldown_seconds() -> i32 {
    600
}

/// The template of the remediations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerTemplateRef {
    /// Group and version of the template.
    #[serde(default = "template_version")]
    #[schemars(length(min = 1, max = 316))]
    pub api_version: String,
    /// PowerRemediationTemplate, or Metal3RemediationTemplate where the Node has a Machine.
    #[serde(default)]
    pub kind: TriggerTemplateKind,
    /// The name of the template.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

fn template_version() -> String {
    crate::names::API_VERSION.to_owned()
}

/// The kind of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum TriggerTemplateKind {
    /// The template of PowerRemediations.
    #[default]
    PowerRemediationTemplate,
    /// The template of CAPM3's Metal3Remediations.
    Metal3RemediationTemplate,
}

/// What the controller found about a trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemediationTriggerStatus {
    /// Active: whether labels make remediations now. LabelRestricted: whether kubelets cannot set the
    /// label. Conflict: whether another trigger acts on a Node that has this label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<StatusCondition>,
    /// Nodes whose remediation is not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub running: Option<i32>,
    /// Nodes whose label waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub waiting: Option<i32>,
    /// Nodes whose remediation has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed: Option<i32>,
    /// Nodes for which the trigger does something or waits, the first 32: failed ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"])
    )]
    pub nodes: Vec<TriggeredNodeStatus>,
    /// The last remediations whose label was answered, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub last: Vec<AnsweredLabel>,
}

/// A Node for which a trigger does something or waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggeredNodeStatus {
    /// Name of the Node.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// What it waits for, as one word.
    #[schemars(length(min = 1, max = 64))]
    pub reason: String,
    /// What it waits for, as text.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Name of its remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub remediation: Option<String>,
}

/// A remediation whose label was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredLabel {
    /// Name of the Node.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// Name of the remediation.
    #[schemars(length(min = 1, max = 253))]
    pub remediation: String,
    /// Succeeded, Failed or Withdrawn.
    pub outcome: TriggerOutcome,
    /// When the label was answered.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
}

/// How a remediation of a trigger ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum TriggerOutcome {
    /// The Node is back, or its host was kept off until the label was taken away.
    Succeeded,
    /// It failed or was aborted.
    Failed,
    /// The label was taken away before anything was switched, or the Machine had to be left alone.
    Withdrawn,
}
