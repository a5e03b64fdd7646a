//! PowerRemediationTemplate: what health checks make PowerRemediations from.
//!
//! Owns the schema. It must never differ from the remediation's where both have
//! the same field: the one is a copy of the other.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::power_remediation::PowerRemediationSpec;

/// The template of remediations.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "rackhand.dev",
    version = "v1alpha1",
    kind = "PowerRemediationTemplate",
    namespaced,
    derive = "PartialEq",
    shortname = "premt",
    category = "rackhand",
    category = "cluster-api",
    doc = "What a health check makes PowerRemediations from.",
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.template.spec.strategy.type",
        description = "How hosts are brought back"
    ),
    printcolumn(
        name = "Retries",
        type_ = "integer",
        json_path = ".spec.template.spec.strategy.retryLimit",
        description = "How many more attempts may follow the first"
    ),
    printcolumn(
        name = "Exhausted",
        type_ = "string",
        json_path = ".spec.template.spec.strategy.onExhausted",
        description = "What happens when no attempt is left"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PowerRemediationTemplateSpec {
    /// The content that is copied into a remediation.
    pub template: PowerRemediationTemplateResource,
}

/// The content that is copied into a remediation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerRemediationTemplateResource {
    /// Labels and annotations of the remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The spec of the remediation.
    pub spec: PowerRemediationSpec,
}

/// Labels and annotations of a remediation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels of the remediation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the remediation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
