//! NodeHealthCheck of medik8s, for clusters without its operator.
//!
//! One schema takes the current form (minHealthy or maxUnhealthy, escalation,
//! delay, storm cooldown) and the older one, which needs only a remediation
//! template.
//!
//! Owns the schema and what medik8s' webhook would refuse, as far as a rule on
//! one object can express it. It must never default a rule: the evaluator does,
//! so that a stored check contains only what its user wrote.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conditions::StatusCondition;
use super::machine_health_check::Selector;
use crate::GoDuration;
use crate::validation::{
    DURATION, PERCENTAGE_OR_NUMBER, Pattern, SHORT_DURATION, SIGNED_DURATION, TEMPLATE_KIND,
};

/// Which Nodes are checked, what makes them unhealthy, and what is done about
/// it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "remediation.medik8s.io",
    version = "v1alpha1",
    kind = "NodeHealthCheck",
    status = "NodeHealthCheckStatus",
    derive = "PartialEq",
    shortname = "nhc",
    doc = "Checks the Nodes of this cluster and has unhealthy ones remediated. Compatible with \
           medik8s' kind of this name.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the check"
    ),
    printcolumn(
        name = "Observed",
        type_ = "integer",
        json_path = ".status.observedNodes",
        description = "Number of Nodes that are checked"
    ),
    printcolumn(
        name = "Healthy",
        type_ = "integer",
        json_path = ".status.healthyNodes",
        description = "Number of Nodes that are healthy"
    ),
    printcolumn(
        name = "Unhealthy",
        type_ = "string",
        json_path = ".status.unhealthyNodes[*].name",
        description = "The Nodes that are unhealthy"
    ),
    printcolumn(
        name = "MinHealthy",
        type_ = "string",
        json_path = ".spec.minHealthy",
        description = "Fewest healthy Nodes at which the check acts",
        priority = 1
    ),
    printcolumn(
        name = "MaxUnhealthy",
        type_ = "string",
        json_path = ".spec.maxUnhealthy",
        description = "Most unhealthy Nodes at which the check acts",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.reason",
        description = "Why the check is in this phase",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.remediationTemplate) != (has(self.escalatingRemediations) && \
                 size(self.escalatingRemediations) > 0)",
        "message": "exactly one of remediationTemplate and escalatingRemediations must be set",
        "fieldPath": ".remediationTemplate"
    },
    {
        "rule": "!(has(self.minHealthy) && has(self.maxUnhealthy))",
        "message": "only one of minHealthy and maxUnhealthy may be set",
        "fieldPath": ".minHealthy"
    },
    {
        "rule": "has(self.minHealthy) || has(self.maxUnhealthy) || has(self.remediationTemplate)",
        "message": "escalatingRemediations need minHealthy or maxUnhealthy",
        "fieldPath": ".minHealthy"
    },
    {
        "rule": "has(self.selector) || !(has(self.minHealthy) || has(self.escalatingRemediations))",
        "message": "selector must be set",
        "fieldPath": ".selector"
    },
    {
        "rule": "!has(self.maxUnhealthy) || !has(self.remediationTemplate) || \
                 !has(self.remediationTemplate.kind) || \
                 self.remediationTemplate.kind.lowerAscii() != 'machinedeletionremediationtemplate'",
        "message": "cannot be used with a MachineDeletionRemediationTemplate; use minHealthy",
        "fieldPath": ".maxUnhealthy"
    },
    {
        "rule": "!has(self.maxUnhealthy) || !has(self.escalatingRemediations) || \
                 self.escalatingRemediations.all(r, !has(r.remediationTemplate.kind) || \
                 r.remediationTemplate.kind.lowerAscii() != 'machinedeletionremediationtemplate')",
        "message": "cannot be used with a MachineDeletionRemediationTemplate; use minHealthy",
        "fieldPath": ".maxUnhealthy"
    }
]))]
pub struct NodeHealthCheckSpec {
    /// The labels of the Nodes that are checked. Without it, every Node is;
    /// minHealthy and escalatingRemediations need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Conditions of a Node, any of which makes it unhealthy once it has
    /// lasted. When not set: Ready is False or Unknown for 300s; and where no
    /// limit is set either, only Ready is False for 300s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type", "status"])
    )]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    /// The check acts only while at least this many of its Nodes are healthy: a
    /// number, or a percentage such as "51%", rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limit_schema")]
    pub min_healthy: Option<Value>,
    /// The check acts only while at most this many of its Nodes are not
    /// healthy: a number, or a percentage such as "49%", rounded up. 49% where
    /// minHealthy is not set either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limit_schema")]
    pub max_unhealthy: Option<Value>,
    /// After the limit was reached, no remediation begins until it has not been
    /// reached for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration_schema")]
    pub storm_cooldown_duration: Option<GoDuration>,
    /// The template that remediations are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_template: Option<TemplateReference>,
    /// Templates that are tried one after another, each for its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 16),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = [{
                "rule": "self.all(a, self.exists_one(b, a.order == b.order))",
                "message": "the order of each step must be unique"
            }]
        )
    )]
    pub escalating_remediations: Option<Vec<EscalatingRemediation>>,
    /// Why the check is paused; any entry pauses it. While it is paused, no
    /// remediation begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub pause_requests: Vec<String>,
    /// How long a Node must be healthy before its remediation is deleted. Below
    /// zero: until a person confirms it by the Node's annotation
    /// remediation.medik8s.io/manually-confirmed-healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "delay_schema")]
    pub healthy_delay: Option<GoDuration>,
}

/// A Node's condition that is unhealthy once it has lasted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyCondition {
    /// The condition's type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub condition_type: String,
    /// The status that is unhealthy.
    #[schemars(length(min = 1, max = 64))]
    pub status: String,
    /// How long the condition may last.
    #[schemars(schema_with = "duration_schema")]
    pub duration: GoDuration,
}

/// A remediation template of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct TemplateReference {
    /// The template's group and version.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// The template's kind; without its ending "Template" it is the
    /// remediation's.
    #[schemars(length(min = 1, max = 63), regex(pattern = TEMPLATE_KIND.regex))]
    pub kind: String,
    /// The template's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The template's namespace, in which remediations are created too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// The template's identity; not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
    /// Not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub resource_version: Option<String>,
    /// Not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub field_path: Option<String>,
}

/// One step of an escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EscalatingRemediation {
    /// The template that the remediation is made from.
    pub remediation_template: TemplateReference,
    /// The position of the step: lower ones are tried first.
    pub order: i64,
    /// How long the remediation may take, at least 60s. After that, or once it
    /// reports that it has not succeeded, the next step begins.
    #[schemars(schema_with = "timeout_schema")]
    pub timeout: GoDuration,
}

/// What a check found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeHealthCheckStatus {
    /// Number of Nodes that are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_nodes: Option<i32>,
    /// Number of Nodes that are healthy and have no remediation left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub healthy_nodes: Option<i32>,
    /// The Nodes that are unhealthy, or whose remediation still exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]
    ))]
    pub unhealthy_nodes: Vec<UnhealthyNode>,
    /// Deprecated, and no longer written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "times_schema")]
    pub in_flight_remediations: Option<Value>,
    /// Disabled, StormActive and StormCooldownActive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<StatusCondition>,
    /// The phase of the check: Disabled, Paused, Remediating or Enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why the check is in this phase, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_update_time: Option<Timestamp>,
}

/// A Node that is unhealthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyNode {
    /// Name of the Node.
    pub name: String,
    /// The remediations of the Node, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub remediations: Vec<NodeRemediation>,
    /// Since when the conditions of the Node are healthy again, while a
    /// remediation still exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub conditions_healthy_timestamp: Option<Timestamp>,
    /// Whether the remediation of the Node is kept until the end of
    /// healthyDelay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_delayed: Option<bool>,
}

/// A remediation of a Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRemediation {
    /// The reference to the remediation.
    pub resource: ResourceReference,
    /// When the remediation was created.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started: Timestamp,
    /// When the remediation timed out and was requested to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub timed_out: Option<Timestamp>,
    /// The name of the template that the remediation was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_name: Option<String>,
}

/// A reference to a remediation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ResourceReference {
    /// Group and version of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

fn duration_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    duration(DURATION)
}

fn delay_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    duration(SIGNED_DURATION)
}

fn duration(pattern: Pattern) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "maxLength": 64,
        "pattern": pattern.regex,
        "x-kubernetes-validations": [SHORT_DURATION],
    })
}

fn timeout_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "maxLength": 64,
        "pattern": DURATION.regex,
        "x-kubernetes-validations": [
            {"rule": "duration(self) >= duration('60s')", "message": "must be 60s or more"}
        ],
    })
}

/// A number, or a percentage up to 100. A quoted plain number is taken.
fn limit_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": PERCENTAGE_OR_NUMBER.regex,
        "maxLength": 10,
        "x-kubernetes-validations": [{
            "rule": "type(self) == string || (self >= 0 && self <= 2147483647)",
            "message": "must be 0 or more and fit into 32 bits",
        }],
    })
}

fn times_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "format": "date-time"},
    })
}
