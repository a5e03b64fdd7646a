//! The spec of our own RemediationTrigger.

use kube::api::DynamicObject;
use serde_json::json;

use super::fields::{Fields, ViewError};
use crate::kinds::remediation_trigger::RemediationTriggerSpec;
use crate::names;

/// Reads the spec of a RemediationTrigger; absent fields have the defaults of the schema.
///
/// # Errors
/// When the spec has a field of the wrong form.
pub fn trigger_spec(object: &DynamicObject) -> Result<RemediationTriggerSpec, ViewError> {
    let fields = Fields::of(names::kinds::REMEDIATION_TRIGGER, object);
    let spec = fields.get("spec").cloned().unwrap_or_else(|| json!({}));
    serde_json::from_value(spec).map_err(|error| fields.error("spec", error.to_string()))
}
