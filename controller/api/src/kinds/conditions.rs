//! Conditions as our schemas describe them.
//!
//! Owns the two forms: Kubernetes' own, for our kinds, and one that takes
//! either of Cluster API's lists, for the kinds that we stand in for. It must
//! never say which conditions an object has.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A status that a condition can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Whether the condition holds is not known.
    Unknown,
}

/// One observation about the object, in the form that all of Kubernetes uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCondition {
    /// The type of the condition, in CamelCase.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub condition_type: String,
    /// Whether it holds: True, False or Unknown.
    pub status: ConditionStatus,
    /// The reason for the status, as one CamelCase word that programs may rely
    /// on.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// The reason for the status, as text for people.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When the status last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Timestamp,
    /// The generation of the object that this was observed of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

impl StatusCondition {
    /// With the time of its last transition, if it has this status already among the `old` conditions.
    #[must_use]
    pub fn since_last_transition(mut self, old: &[Self]) -> Self {
        let same = |c: &&Self| c.condition_type == self.condition_type && c.status == self.status;
        if let Some(before) = old.iter().find(same) {
            self.last_transition_time = before.last_transition_time;
        }
        self
    }
}

/// One observation about the object, in either of Cluster API's forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompatibleCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub condition_type: String,
    /// Whether it holds: True, False or Unknown.
    pub status: ConditionStatus,
    /// The severity of a status of False; only in the v1beta1 list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// The reason for the status, as one word; absent in the v1beta1 list when
    /// the condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason for the status, as text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Option<Timestamp>,
    /// The generation of the object that this was observed of; only in the
    /// v1beta2 list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The v1beta2 list of an object in v1beta1's shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewConditions {
    /// Conditions of the v1beta2 contract.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<CompatibleCondition>,
}

/// The fields of v1beta1 in an object of v1beta2's shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deprecated {
    /// Fields of the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<OldConditions>,
}

/// The v1beta1 list of an object in v1beta2's shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct OldConditions {
    /// Conditions of the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<CompatibleCondition>,
}
