//! Conditions, in the two lists that Cluster API keeps side by side.
//!
//! Owns where each list lies in each shape of an object and how one condition
//! is read. It must never translate a condition from one list into the other:
//! their reasons differ, and Cluster API does not either.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::{Fields, ViewError};

/// One condition of either list, or of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The type of the condition, such as `Ready`.
    pub condition_type: String,
    /// `True`, `False`, `Unknown`, or whatever else was written.
    pub status: String,
    /// The reason for the status, as one CamelCase word.
    pub reason: Option<String>,
    /// The reason for the status, as text.
    pub message: Option<String>,
    /// The severity of a status of False: only in v1beta1's list.
    pub severity: Option<String>,
    /// When the status last changed.
    pub last_transition: Option<Timestamp>,
    /// The generation of the object that the condition was observed of.
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether its status is `False`.
    #[must_use]
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }

    /// Reads the list at `path`; an absent list is empty.
    pub(super) fn list(fields: &Fields<'_>, path: &'static str) -> Result<Vec<Self>, ViewError> {
        fields
            .items(path)?
            .iter()
            .map(|item| {
                Ok(Self {
                    condition_type: item.required_string("type")?,
                    status: item
                        .string("status")?
                        .unwrap_or_else(|| "Unknown".to_owned()),
                    reason: item.string("reason")?,
                    message: item.string("message")?,
                    severity: item.string("severity")?,
                    last_transition: item.timestamp("lastTransitionTime")?,
                    observed_generation: item.int64("observedGeneration")?,
                })
            })
            .collect()
    }
}

/// The condition of this type in a list.
#[must_use]
pub fn find_condition<'a>(list: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    list.iter()
        .find(|condition| condition.condition_type == condition_type)
}

/// One of the two lists of conditions of a Cluster API object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionList {
    /// Cluster API's old list: severities, reasons only on False.
    V1Beta1,
    /// Cluster API's new list: the same form as in Kubernetes itself.
    V1Beta2,
}

/// Where an object keeps its two lists of conditions, by the version whose
/// shape it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// `status.conditions` is the old list, `status.v1beta2.conditions` the
    /// new one.
    #[default]
    V1Beta1,
    /// `status.conditions` is the new list,
    /// `status.deprecated.v1beta1.conditions` the old one.
    V1Beta2,
}

impl Shape {
    /// The shape that an object has, by its fields; if they do not show it, by
    /// the version that it was read in. Without a conversion webhook an object
    /// keeps the shape in which it was written, in whichever version it is read.
    pub(super) fn of(fields: &Fields<'_>, api_version: Option<&str>) -> Self {
        if fields.has("status.deprecated.v1beta1") {
            Self::V1Beta2
        } else if fields.has("status.v1beta2") {
            Self::V1Beta1
        } else if api_version.is_some_and(|version| version.ends_with("/v1beta2")) {
            Self::V1Beta2
        } else {
            Self::V1Beta1
        }
    }

    /// The path of a list in an object of this shape.
    #[must_use]
    pub const fn path(self, list: ConditionList) -> &'static str {
        match (self, list) {
            (Self::V1Beta1, ConditionList::V1Beta1) | (Self::V1Beta2, ConditionList::V1Beta2) => {
                "status.conditions"
            }
            (Self::V1Beta1, ConditionList::V1Beta2) => "status.v1beta2.conditions",
            (Self::V1Beta2, ConditionList::V1Beta1) => "status.deprecated.v1beta1.conditions",
        }
    }

    /// The `status` of a patch that sets both lists, for an object of this
    /// shape.
    #[must_use]
    pub fn status_with(self, v1beta1: &Value, v1beta2: &Value) -> Value {
        match self {
            Self::V1Beta1 => json!({
                "conditions": v1beta1,
                "v1beta2": { "conditions": v1beta2 },
            }),
            Self::V1Beta2 => json!({
                "conditions": v1beta2,
                "deprecated": { "v1beta1": { "conditions": v1beta1 } },
            }),
        }
    }
}

/// The two lists of conditions of an object, with the shape by which they were found.
pub(super) struct Lists {
    pub(super) shape: Shape,
    pub(super) v1beta1: Vec<Condition>,
    pub(super) v1beta2: Vec<Condition>,
}

impl Lists {
    pub(super) fn read(fields: &Fields<'_>, api_version: Option<&str>) -> Result<Self, ViewError> {
        let shape = Shape::of(fields, api_version);
        Ok(Self {
            shape,
            v1beta1: Condition::list(fields, shape.path(ConditionList::V1Beta1))?,
            v1beta2: Condition::list(fields, shape.path(ConditionList::V1Beta2))?,
        })
    }
}
