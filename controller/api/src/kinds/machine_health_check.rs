//! MachineHealthCheck of Cluster API, for clusters that run without it.
//!
//! One CRD serves `v1beta1`, in which objects are stored, and `v1beta2`. There
//! is no conversion webhook, so an object keeps the shape in which it was
//! written, whichever version it is read in. That is why both versions have
//! one and the same schema: the union of the flat fields with durations
//! (v1beta1) and the nested fields with seconds (v1beta2). A check uses one
//! shape throughout; mixing them is refused.
//!
//! Owns the schema and what Cluster API's webhook would refuse. It must never
//! default a rule: a default in one shape would sit beside a rule in the other.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conditions::{CompatibleCondition, Deprecated, NewConditions};
use crate::GoDuration;
use crate::validation::{
    CONDITION_TYPE, DNS_NAME, GROUP_VERSION, KIND, LABEL_KEY, LABEL_VALUE, PERCENTAGE, RANGE,
    SHORT_DURATION, SHORT_PREFIX,
};

/// Which Machines are checked, what makes them unhealthy, and what is done
/// about it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MachineHealthCheck",
    namespaced,
    status = "MachineHealthCheckStatus",
    derive = "PartialEq",
    shortname = "mhc",
    shortname = "mhcs",
    category = "cluster-api",
    doc = "Checks the Machines of a cluster and has unhealthy ones remediated. Compatible with \
           Cluster API's kind of this name; both versions take v1beta1's flat fields as well as \
           v1beta2's nested ones, and an object keeps the shape in which it was written.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster"
    ),
    printcolumn(
        name = "ExpectedMachines",
        type_ = "integer",
        json_path = ".status.expectedMachines",
        description = "Number of machines that are checked"
    ),
    printcolumn(
        name = "MaxUnhealthy",
        type_ = "string",
        json_path = ".spec.maxUnhealthy",
        description = "Most unhealthy machines at which the check still acts"
    ),
    printcolumn(
        name = "CurrentHealthy",
        type_ = "integer",
        json_path = ".status.currentHealthy",
        description = "Number of machines that are healthy"
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
        "rule": "!has(self.selector.matchLabels) || \
                 !('cluster.x-k8s.io/cluster-name' in self.selector.matchLabels) || \
                 self.selector.matchLabels['cluster.x-k8s.io/cluster-name'] == self.clusterName",
        "message": "the label cluster.x-k8s.io/cluster-name must equal clusterName",
        "fieldPath": ".selector"
    },
    {
        "rule": "!has(self.checks) || !(has(self.nodeStartupTimeout) || \
                 has(self.unhealthyConditions) || has(self.unhealthyMachineConditions))",
        "message": "checks (v1beta2) excludes nodeStartupTimeout, unhealthyConditions and \
                    unhealthyMachineConditions (v1beta1)",
        "fieldPath": ".checks"
    },
    {
        "rule": "!has(self.remediation) || !(has(self.maxUnhealthy) || \
                 has(self.unhealthyRange) || has(self.remediationTemplate))",
        "message": "remediation (v1beta2) excludes maxUnhealthy, unhealthyRange and \
                    remediationTemplate (v1beta1)",
        "fieldPath": ".remediation"
    }
]))]
pub struct MachineHealthCheckSpec {
    /// The cluster whose Machines are checked. Cannot be changed.
    #[schemars(
        length(min = 1, max = 63),
        extend("x-kubernetes-validations" = [
            {"rule": "self == oldSelf", "message": "clusterName cannot be changed"}
        ])
    )]
    pub cluster_name: String,
    /// The labels of the Machines that are checked. Must not be empty.
    pub selector: Selector,
    /// v1beta2: what makes a Machine unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
    /// v1beta2: when the check acts, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Remediation>,
    /// v1beta1: how long a Machine may take to get its Node; 10m when not set,
    /// without limit when 0. Otherwise at least 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "duration(self) == duration('0s') || duration(self) >= duration('30s')",
        "message": "must be 0, or 30s or more"
    }]))]
    pub node_startup_timeout: Option<GoDuration>,
    /// v1beta1: conditions of a Node. Any one makes its Machine unhealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_conditions: Vec<NodeCheckV1Beta1>,
    /// v1beta1: conditions of a Machine. Any one makes it unhealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_machine_conditions: Vec<MachineCheckV1Beta1>,
    /// v1beta1: the check acts only while no more Machines than this are
    /// unhealthy. A number, or a percentage such as "40%"; 100% when not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limit_schema")]
    pub max_unhealthy: Option<Value>,
    /// v1beta1: the check acts only while the number of unhealthy Machines lies
    /// in this range, such as "[3-5]". Takes precedence over maxUnhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = RANGE.regex))]
    pub unhealthy_range: Option<String>,
    /// v1beta1: the template that remediations are made from. When not set, the
    /// owner of the Machine is to replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_template: Option<TemplateReference>,
}

/// A selection by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-map-type" = "atomic",
    "x-kubernetes-validations" = [{
        "rule": "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
                 (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        "message": "must not be empty"
    }]
))]
pub struct Selector {
    /// Labels that must be present with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels_schema")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements on labels; all of them must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "message": "In and NotIn need values, Exists and DoesNotExist take none"
}]))]
pub struct SelectorRequirement {
    /// The key of the label.
    #[schemars(
        length(min = 1, max = 317),
        regex(pattern = LABEL_KEY.regex),
        extend("x-kubernetes-validations" = [SHORT_PREFIX])
    )]
    pub key: String,
    /// How the label relates to the values.
    pub operator: SelectorOperator,
    /// The values that In and NotIn compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(max = 63), regex(pattern = LABEL_VALUE.regex)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// How a label relates to a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// The label has one of the values.
    In,
    /// The label has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// What makes a Machine unhealthy. It may be empty: Cluster API fills in the
/// startup timeout before it validates the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checks {
    /// How many seconds a Machine may take to get its Node; 600 when not set,
    /// without limit when 0. Otherwise at least 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = 0),
        extend("x-kubernetes-validations" = [
            {"rule": "self == 0 || self >= 30", "message": "must be 0, or 30 or more"}
        ])
    )]
    pub node_startup_timeout_seconds: Option<i32>,
    /// Conditions of a Node. Any one makes its Machine unhealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_node_conditions: Vec<NodeCheck>,
    /// Conditions of a Machine. Any one makes it unhealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_machine_conditions: Vec<MachineCheck>,
}

/// A Node's condition that is unhealthy once it has lasted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCheck {
    /// The condition's type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub condition_type: String,
    /// The status that is unhealthy.
    #[schemars(length(min = 1))]
    pub status: String,
    /// How many seconds the condition may last.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// A Machine's condition that is unhealthy once it has lasted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineCheck {
    /// The condition's type; not one that depends on the result of health
    /// checks.
    #[serde(rename = "type")]
    #[schemars(schema_with = "machine_condition_schema")]
    pub condition_type: String,
    /// The status that is unhealthy.
    pub status: super::conditions::ConditionStatus,
    /// How many seconds the condition may last.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// A Node's condition that is unhealthy once it has lasted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCheckV1Beta1 {
    /// The condition's type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub condition_type: String,
    /// The status that is unhealthy.
    #[schemars(length(min = 1))]
    pub status: String,
    /// How long the condition may last.
    #[schemars(extend("x-kubernetes-validations" = [SHORT_DURATION]))]
    pub timeout: GoDuration,
}

/// A Machine's condition that is unhealthy once it has lasted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineCheckV1Beta1 {
    /// The condition's type; not one that depends on the result of health
    /// checks.
    #[serde(rename = "type")]
    #[schemars(schema_with = "machine_condition_schema")]
    pub condition_type: String,
    /// The status that is unhealthy.
    pub status: super::conditions::ConditionStatus,
    /// How long the condition may last.
    #[schemars(extend("x-kubernetes-validations" = [SHORT_DURATION]))]
    pub timeout: GoDuration,
}

/// When a check acts, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Remediation {
    /// The check acts only while this holds; always when not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_if: Option<TriggerIf>,
    /// The template that remediations are made from. When not set, the owner of
    /// the Machine is to replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
}

/// A limit on the number of unhealthy Machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TriggerIf {
    /// No more Machines than this are unhealthy: a number, or a percentage
    /// such as "40%".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limit_schema")]
    pub unhealthy_less_than_or_equal_to: Option<Value>,
    /// The number of unhealthy Machines lies in this range, such as "[3-5]".
    /// Takes precedence over unhealthyLessThanOrEqualTo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = RANGE.regex))]
    pub unhealthy_in_range: Option<String>,
}

/// A remediation template in the namespace of the check, as v1beta2 names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRef {
    /// The template's kind; without the ending "Template" it is the kind of the
    /// remediations.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND.regex))]
    pub kind: String,
    /// The template's name.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_NAME.regex))]
    pub name: String,
    /// The template's group and version.
    #[schemars(length(min = 1, max = 317), regex(pattern = GROUP_VERSION.regex))]
    pub api_version: String,
}

/// A remediation template in the namespace of the check, as v1beta1 names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateReference {
    /// The template's kind; without the ending "Template" it is the kind of the
    /// remediations.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The template's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The template's group and version.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Ignored: the namespace of the check is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckStatus {
    /// Number of Machines that are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub expected_machines: Option<i32>,
    /// Number of Machines that are healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub current_healthy: Option<i32>,
    /// How many more Machines may become unhealthy before the check stops acting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub remediations_allowed: Option<i32>,
    /// The generation of the check that this status was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The names of the Machines that are checked, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10000),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub targets: Vec<String>,
    /// Conditions: of the v1beta1 contract in v1beta1's shape, of the v1beta2
    /// contract in v1beta2's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<CompatibleCondition>,
    /// v1beta1: what belongs to the v1beta2 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<NewConditions>,
    /// v1beta2: what belongs to the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated>,
}

/// Labels whose keys and values an API server would take.
fn labels_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let is_key = format!(
        "key.size() <= 317 && key.indexOf('/') <= 253 && key.matches(r'{}')",
        LABEL_KEY.regex
    );
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 100,
        "additionalProperties": {
            "type": "string", "maxLength": 63, "pattern": LABEL_VALUE.regex,
        },
        "x-kubernetes-validations": [{
            "rule": format!("self.all(key, {is_key})"),
            "message": LABEL_KEY.message,
            "messageExpression": format!(
                "'the key \"' + self.filter(key, !({is_key}))[0] + '\" {}'",
                LABEL_KEY.message.replace('\'', "\\'"),
            ),
        }],
    })
}

/// A number, or a percentage, with a sign or without. A quoted plain number is
/// refused.
fn limit_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": PERCENTAGE.regex,
        "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": "type(self) == string || (self >= -2147483648 && self <= 2147483647)",
            "message": "must fit into 32 bits",
        }],
    })
}

/// A qualified name, except the types that would feed back on themselves.
fn machine_condition_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 316,
        "pattern": CONDITION_TYPE.regex,
        "x-kubernetes-validations": [{
            "rule": "!(self in ['Ready', 'Available', 'HealthCheckSucceeded', 'OwnerRemediated', \
                     'ExternallyRemediated'])",
            "message": "must not be Ready, Available, HealthCheckSucceeded, OwnerRemediated or \
                        ExternallyRemediated, which follow from the verdict"
        }],
    })
}
