//! MachineHealthCheck, of Cluster API (v1beta1, v1beta2).
//!
//! Owns reading its rules in either shape: flat with durations, or nested with
//! seconds. It must never fill in a default or reject a value by its size:
//! admission does the latter, and the defaults differ between the kinds.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::DynamicObject;

use super::condition::{Condition, Lists, Shape, find_condition};
use super::fields::{Fields, ViewError};
use super::meta::Meta;
use super::template::TemplateRef;
use crate::IntOrPercent;
use crate::names;

/// The fields of a MachineHealthCheck that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineHealthCheckView {
    /// Metadata of the object.
    pub meta: Meta,
    /// The cluster whose Machines it checks.
    pub cluster_name: Option<String>,
    /// Which Machines it checks.
    pub selector: LabelSelector,
    /// How long a Machine may be without a Node; zero means without limit.
    pub node_startup_timeout: Option<Duration>,
    /// Conditions of a Node that make its Machine unhealthy.
    pub node_checks: Vec<ConditionCheck>,
    /// Conditions of a Machine that make it unhealthy.
    pub machine_checks: Vec<ConditionCheck>,
    /// The check acts only while no more Machines than this are unhealthy.
    pub max_unhealthy: Option<IntOrPercent>,
    /// The check acts only while the number of unhealthy Machines is in this
    /// range; it wins over [`Self::max_unhealthy`].
    pub unhealthy_range: Option<UnhealthyRange>,
    /// The template of the remediations; without one the owners replace Machines.
    pub remediation_template: Option<TemplateRef>,
    /// The shape of the object: where its two lists of conditions are.
    pub shape: Shape,
    /// The conditions in the old list.
    pub conditions_v1beta1: Vec<Condition>,
    /// The conditions in the new list.
    pub conditions_v1beta2: Vec<Condition>,
    /// Status: number of Machines that are checked.
    pub expected_machines: Option<i32>,
    /// Status: number of Machines that are healthy.
    pub current_healthy: Option<i32>,
    /// Status: how many more Machines may become unhealthy before the check
    /// stops acting.
    pub remediations_allowed: Option<i32>,
    /// The generation of the check that its status was written for.
    pub observed_generation: Option<i64>,
    /// Status: the names of the Machines that are checked.
    pub targets: Vec<String>,
}

/// A condition that makes a Machine unhealthy once it has lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionCheck {
    /// The condition's type.
    pub condition_type: String,
    /// The status that is unhealthy.
    pub status: String,
    /// How long the condition may last before the Machine is unhealthy.
    pub timeout: Duration,
}

/// The numbers of unhealthy Machines at which a check acts, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnhealthyRange {
    /// Lower bound of the range.
    pub min: u32,
    /// Upper bound of the range.
    pub max: u32,
}

impl UnhealthyRange {
    /// Reads the form `[3-5]`.
    fn parse(text: &str) -> Result<Self, String> {
        let range = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .and_then(|inner| inner.split_once('-'))
            .and_then(|(min, max)| {
                Some(Self {
                    min: digits(min)?,
                    max: digits(max)?,
                })
            })
            .ok_or_else(|| format!("is {text:?}, want a range such as \"[3-5]\""))?;
        if range.max < range.min {
            return Err(format!("is {text:?}, which ends before it begins"));
        }
        Ok(range)
    }
}

/// A number of digits only: the standard parser would take a sign.
fn digits(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// A selection of objects by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// Labels that must be present with these values.
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements on labels; all of them must hold.
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement of a selector, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The key of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values that `In` and `NotIn` compare with.
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether the selector has no requirement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// The selector that also requires this label.
    #[must_use]
    pub fn and(mut self, label: &str, value: &str) -> Self {
        self.match_expressions.push(LabelRequirement {
            key: label.to_owned(),
            operator: "In".to_owned(),
            values: vec![value.to_owned()],
        });
        self
    }

    /// Whether an object with these labels is selected. An empty selector
    /// selects everything; as in Kubernetes, `NotIn` holds where the label is
    /// absent.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|demand| {
                let label = labels.get(&demand.key);
                match demand.operator.as_str() {
                    "In" => label.is_some_and(|value| demand.values.contains(value)),
                    "NotIn" => label.is_none_or(|value| !demand.values.contains(value)),
                    "Exists" => label.is_some(),
                    "DoesNotExist" => label.is_none(),
                    // Reading has refused every other operator.
                    _ => false,
                }
            })
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, ViewError> {
        let match_expressions = fields
            .items("spec.selector.matchExpressions")?
            .iter()
            .map(|item| {
                let demand = LabelRequirement {
                    key: item.required_string("key")?,
                    operator: item.required_string("operator")?,
                    values: item.strings("values")?,
                };
                match (demand.operator.as_str(), demand.values.is_empty()) {
                    ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => Ok(demand),
                    ("In" | "NotIn", true) => Err(item.error(
                        "values",
                        format!("is empty, {} needs some", demand.operator),
                    )),
                    ("Exists" | "DoesNotExist", false) => {
                        Err(item.error("values", format!("is set, {} takes none", demand.operator)))
                    }
                    (other, _) => Err(item.error(
                        "operator",
                        format!("is {other:?}, want In, NotIn, Exists or DoesNotExist"),
                    )),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            match_labels: fields.string_map("spec.selector.matchLabels")?,
            match_expressions,
        })
    }
}

/// Reads a list of checks, each with a timeout in seconds or as a duration. An
/// absent timeout is zero, as in Cluster API.
pub(super) fn checks(
    fields: &Fields<'_>,
    path: &'static str,
) -> Result<Vec<ConditionCheck>, ViewError> {
    fields
        .items(path)?
        .iter()
        .map(|item| {
            let timeout = match item.seconds("timeoutSeconds")? {
                Some(timeout) => Some(timeout),
                None => item.duration("timeout")?,
            };
            Ok(ConditionCheck {
                condition_type: item.required_string("type")?,
                status: item.required_string("status")?,
                timeout: timeout.unwrap_or_default(),
            })
        })
        .collect()
}

impl MachineHealthCheckView {
    /// Reads a MachineHealthCheck. If a rule is set in both shapes, the nested
    /// one counts.
    ///
    /// # Errors
    /// When a field that we need has the wrong form.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let meta = Meta::of(object);
        let fields = Fields::of(names::kinds::MACHINE_HEALTH_CHECK, object);
        let lists = Lists::read(&fields, meta.api_version.as_deref())?;
        let first_list = |nested: &'static str, flat: &'static str| {
            checks(&fields, if fields.has(nested) { nested } else { flat })
        };
        let range = |path: &str| {
            fields
                .string(path)?
                .map(|text| {
                    UnhealthyRange::parse(&text).map_err(|problem| fields.error(path, problem))
                })
                .transpose()
        };
        Ok(Self {
            cluster_name: fields.string("spec.clusterName")?,
            selector: LabelSelector::read(&fields)?,
            node_startup_timeout: match fields.seconds("spec.checks.nodeStartupTimeoutSeconds")? {
                Some(timeout) => Some(timeout),
                None => fields.duration("spec.nodeStartupTimeout")?,
            },
            node_checks: first_list(
                "spec.checks.unhealthyNodeConditions",
                "spec.unhealthyConditions",
            )?,
            machine_checks: first_list(
                "spec.checks.unhealthyMachineConditions",
                "spec.unhealthyMachineConditions",
            )?,
            max_unhealthy: match fields
                .int_or_percent("spec.remediation.triggerIf.unhealthyLessThanOrEqualTo")?
            {
                Some(limit) => Some(limit),
                None => fields.int_or_percent("spec.maxUnhealthy")?,
            },
            unhealthy_range: match range("spec.remediation.triggerIf.unhealthyInRange")? {
                Some(range) => Some(range),
                None => range("spec.unhealthyRange")?,
            },
            remediation_template: match TemplateRef::read(&fields, "spec.remediation.templateRef")?
            {
                Some(template) => Some(template),
                None => TemplateRef::read(&fields, "spec.remediationTemplate")?,
            },
            shape: lists.shape,
            conditions_v1beta1: lists.v1beta1,
            conditions_v1beta2: lists.v1beta2,
            expected_machines: fields.int32("status.expectedMachines")?,
            current_healthy: fields.int32("status.currentHealthy")?,
            remediations_allowed: fields.int32("status.remediationsAllowed")?,
            observed_generation: fields.int64("status.observedGeneration")?,
            targets: fields.strings("status.targets")?,
            meta,
        })
    }

    /// The condition of this type: from the new list, or else the old one.
    #[must_use]
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        find_condition(&self.conditions_v1beta2, condition_type)
            .or_else(|| find_condition(&self.conditions_v1beta1, condition_type))
    }
}
