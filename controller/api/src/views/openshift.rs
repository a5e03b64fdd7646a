//! MachineHealthCheck of OpenShift (machine.openshift.io/v1beta1).
//!
//! Owns reading the object. It must never fill in a default. An empty selector
//! of this kind selects every Machine of the namespace.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

use super::condition::{Condition, find_condition};
use super::fields::{Fields, ViewError};
use super::machine_health_check::{ConditionCheck, LabelSelector, checks};
use super::meta::Meta;
use super::template::TemplateRef;
use crate::IntOrPercent;
use crate::names;

/// The fields of OpenShift's MachineHealthCheck that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenShiftHealthCheckView {
    /// Metadata of the object.
    pub meta: Meta,
    /// Which Machines of its namespace it checks; empty is all of them.
    pub selector: LabelSelector,
    /// How long a Machine may be without a Node; zero means without limit.
    pub node_startup_timeout: Option<Duration>,
    /// Conditions of a Node that make its Machine unhealthy.
    pub node_checks: Vec<ConditionCheck>,
    /// The check acts only while no more Machines than this are unhealthy. With
    /// an invalid value (the error's text) Machines are checked but none is
    /// remediated.
    pub max_unhealthy: Result<Option<IntOrPercent>, String>,
    /// The template of the remediations. The namespace in the reference is ignored.
    pub remediation_template: Option<TemplateRef>,
    /// Whether the annotation selects the strategy `external-baremetal`.
    pub external_baremetal: bool,
    /// The conditions, in the form of v1beta1.
    pub conditions: Vec<Condition>,
    /// Status: number of Machines that are checked.
    pub expected_machines: Option<i32>,
    /// Status: number of Machines that are healthy.
    pub current_healthy: Option<i32>,
    /// Status: how many more Machines may become unhealthy before the check
    /// stops acting.
    pub remediations_allowed: Option<i32>,
}

impl OpenShiftHealthCheckView {
    /// Reads a MachineHealthCheck of OpenShift.
    ///
    /// # Errors
    /// When a field that we need has the wrong form, except the limit.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let meta = Meta::of(object);
        let fields = Fields::of(names::kinds::MACHINE_HEALTH_CHECK, object);
        let strategy = meta
            .annotations
            .get(names::OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION);
        Ok(Self {
            selector: LabelSelector::read(&fields)?,
            node_startup_timeout: fields.duration("spec.nodeStartupTimeout")?,
            node_checks: checks(&fields, "spec.unhealthyConditions")?,
            max_unhealthy: max_unhealthy(&fields),
            remediation_template: TemplateRef::read(&fields, "spec.remediationTemplate")?,
            external_baremetal: strategy
                .is_some_and(|value| value == names::OPENSHIFT_EXTERNAL_BAREMETAL),
            conditions: Condition::list(&fields, "status.conditions")?,
            expected_machines: fields.int32("status.expectedMachines")?,
            current_healthy: fields.int32("status.currentHealthy")?,
            remediations_allowed: fields.int32("status.remediationsAllowed")?,
            meta,
        })
    }

    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        find_condition(&self.conditions, condition_type)
    }
}

/// The limit. OpenShift's schema accepts a quoted integer, and its controller reads it as an integer.
fn max_unhealthy(fields: &Fields<'_>) -> Result<Option<IntOrPercent>, String> {
    const FIELD: &str = "spec.maxUnhealthy";
    let text = fields.get(FIELD).and_then(Value::as_str);
    if let Some(count) = text.and_then(|text| text.parse().ok()) {
        return Ok(Some(IntOrPercent::Int(count)));
    }
    fields
        .int_or_percent(FIELD)
        .map_err(|error| format!("{} {}", error.field, error.problem))
}
