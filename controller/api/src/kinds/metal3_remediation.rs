//! CAPM3's Metal3Remediation and its template, for clusters without CAPM3.
//!
//! As with [`super::machine_health_check`], one CRD each serves `v1beta1`, in
//! which objects are stored, and `v1beta2`, with one union schema and without
//! conversion: `timeout` is v1beta1's field, `timeoutSeconds` v1beta2's, and
//! an object has one of them at most.
//!
//! Owns the schema and what CAPM3's webhooks would refuse or fill in. It must
//! never default a timeout: it would sit beside the one in the other form.
//! Without one, 600 s count.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::validation::Rule;

/// How a host is remediated.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3Remediation",
    namespaced,
    status = "Metal3RemediationStatus",
    derive = "PartialEq",
    shortname = "m3r",
    shortname = "m3remediation",
    category = "cluster-api",
    doc = "Brings a Machine's host back by switching it off and on. Compatible with \
           CAPM3's kind of this name; both versions take timeout as well as timeoutSeconds.",
    printcolumn(
        name = "Retry limit",
        type_ = "string",
        json_path = ".spec.strategy.retryLimit",
        description = "How many more cycles may follow the first"
    ),
    printcolumn(
        name = "Retry count",
        type_ = "string",
        json_path = ".status.retryCount",
        description = "How many cycles followed the first"
    ),
    printcolumn(
        name = "Last Remediated",
        type_ = "string",
        json_path = ".status.lastRemediated",
        description = "When the last cycle began"
    ),
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.strategy.type",
        description = "How the host is remediated"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "The phase of the remediation"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationSpec {
    /// How the host is remediated. Nothing is done about an object without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RemediationStrategy>,
}

/// How a host is remediated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ONE_TIMEOUT]))]
pub struct RemediationStrategy {
    /// The type of the strategy; only Reboot exists.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub strategy_type: Option<StrategyType>,
    /// How many more cycles may follow the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub retry_limit: Option<i32>,
    /// v1beta1: how long the host may take to come back, such as "300s". 0
    /// counts as not set, otherwise at least 100s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [LONG_ENOUGH]))]
    pub timeout: Option<GoDuration>,
    /// v1beta2: how many seconds the host may take to come back. 0 counts as
    /// not set, otherwise at least 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("x-kubernetes-validations" = [SECONDS_ENOUGH]))]
    pub timeout_seconds: Option<i32>,
}

/// The ways to remediate a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum StrategyType {
    /// The host is switched off, the workloads move, and the host is switched
    /// on again.
    #[default]
    Reboot,
}

/// The status of a remediation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationStatus {
    /// The phase of the current cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Metal3Phase>,
    /// How many cycles followed the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_count: Option<i32>,
    /// When the last cycle began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_remediated: Option<Timestamp>,
}

/// The phases of a Metal3Remediation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum Metal3Phase {
    /// The host is being switched off and its workloads are moving.
    Running,
    /// The host is switched on, and its Node is to become ready.
    Waiting,
    /// Every attempt failed, and the owner is to replace the Machine.
    #[serde(rename = "Deleting machine")]
    DeletingMachine,
    /// The remediation cannot continue.
    Failed,
}

/// The template of remediations.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Metal3RemediationTemplate",
    namespaced,
    status = "Metal3RemediationTemplateStatus",
    derive = "PartialEq",
    shortname = "m3rt",
    shortname = "m3remediationtemplate",
    shortname = "m3remediationtemplates",
    shortname = "metal3rt",
    category = "cluster-api",
    doc = "What a MachineHealthCheck makes Metal3Remediations from. Compatible with CAPM3's kind \
           of this name; both versions take timeout as well as timeoutSeconds."
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationTemplateSpec {
    /// The content that is copied into a remediation.
    pub template: Metal3RemediationTemplateResource,
}

/// The content that is copied into a remediation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationTemplateResource {
    /// The spec of the remediation.
    pub spec: Metal3RemediationTemplateResourceSpec,
}

/// The spec of the remediations that are made from a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationTemplateResourceSpec {
    /// How hosts are remediated.
    pub strategy: TemplateStrategy,
}

/// How hosts are remediated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ONE_TIMEOUT]))]
pub struct TemplateStrategy {
    /// The type of the strategy; only Reboot exists.
    #[serde(rename = "type", default)]
    pub strategy_type: StrategyType,
    /// How many more cycles may follow the first.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub retry_limit: i32,
    /// v1beta1: how long a host may take to come back, such as "300s". 0
    /// counts as not set, otherwise at least 100s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [LONG_ENOUGH]))]
    pub timeout: Option<GoDuration>,
    /// v1beta2: how many seconds a host may take to come back. 0 counts as not
    /// set, otherwise at least 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("x-kubernetes-validations" = [SECONDS_ENOUGH]))]
    pub timeout_seconds: Option<i32>,
}

/// The status exists because CAPM3's kind has it; it is never written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationTemplateStatus {
    /// Has the form of a remediation's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Metal3RemediationStatus>,
}

fn one() -> i32 {
    1
}

const ONE_TIMEOUT: Rule = Rule {
    rule: "!(has(self.timeout) && has(self.timeoutSeconds))",
    message: "timeout (v1beta1) and timeoutSeconds (v1beta2) exclude each other",
};

const LONG_ENOUGH: Rule = Rule {
    rule: "duration(self) == duration('0s') || duration(self) >= duration('100s')",
    message: "must be 0, or 100s or more",
};

const SECONDS_ENOUGH: Rule = Rule {
    rule: "self == 0 || self >= 100",
    message: "must be 0, or 100 or more",
};
