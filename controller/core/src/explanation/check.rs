//! The view of a health check, of any dialect.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a health check finds, what it does now, and what happens next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckView {
    /// Kind, namespace and name.
    pub check: String,
    /// `Cluster namespace/name`; absent where the check is about its own cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Whether Rackhand acts on this check now.
    pub acts: bool,
    /// Why Rackhand does not act. The rest of the view is then what it would do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_acting: Vec<String>,
    /// `status.phase` of a check of Nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The message of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What makes a target unhealthy, one rule each.
    pub rules: Vec<String>,
    /// How an unhealthy target is remediated, in the order of the attempts.
    pub remediation: Vec<String>,
    /// The limit on remediation.
    pub limit: LimitView,
    /// Storm and cooldown; absent without a storm mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormView>,
    /// What is due now, in the order of the targets' names.
    pub due: Vec<String>,
    /// The next change that time alone brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextChangeView>,
    /// What the status of the check reports, where it differs from this view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// Machines or Nodes: the unhealthy ones first, then by name.
    pub targets: Vec<TargetView>,
    /// What was assumed, could not be read, or is unusual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where the settings that this view depends on were found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// The time that this view is computed for.
    pub now: Timestamp,
}

/// The calculation of the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitView {
    /// Whether remediation is allowed.
    pub allowed: bool,
    /// Number of targets.
    pub expected: u32,
    /// Number of healthy targets.
    pub healthy: u32,
    /// Number of unhealthy targets.
    pub unhealthy: u32,
    /// Number of targets that count against the limit.
    pub counting: u32,
    /// How many more targets may fail before remediation stops.
    pub remediations_allowed: u32,
    /// The calculation in a sentence.
    pub message: String,
}

/// A storm of failures, or the cooldown after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StormView {
    /// `none`, `active` or `cooldown`.
    pub state: String,
    /// When this state began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the cooldown ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What the state means for remediation.
    pub message: String,
}

/// One Machine or Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetView {
    /// Name of the Machine; absent for a check of Nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Name of the Node, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `healthy`, `suspect`, `unhealthy`, `unknown`, `skipped`, `not_evaluated`, or `gone` for a Node.
    pub verdict: String,
    /// Since when the verdict holds, where an object records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the verdict changes if only time passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why, in one line; empty for a healthy target.
    pub why: String,
    /// Each cause with its times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseView>,
    /// Whether it counts against the limit.
    pub counts: bool,
    /// Its remediations, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remediations: Vec<TargetRemediation>,
    /// What is done about it now, or why nothing is.
    pub does: String,
}

/// One cause of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CauseView {
    /// The message, as in the condition.
    pub cause: String,
    /// Since when it is observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// From when on it makes the target unhealthy; absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Whether it makes the target unhealthy now.
    pub counts: bool,
}

/// A remediation of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRemediation {
    /// Kind and name, with the namespace where it is not the check's.
    pub remediation: String,
    /// The other object that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The template, where the remediation names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Which attempt of how many; absent where the check does not list its template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// `running`, `succeeded`, `failed`, `timedOut`, `deleting`, `foreign` or `gone`.
    pub state: String,
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When its time is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The next change that time alone brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NextChangeView {
    /// When it changes.
    pub at: Timestamp,
    /// Names of the targets whose verdict changes then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// What changes.
    pub message: String,
}

// === impl TargetView ===

impl TargetView {
    /// Name of the Machine, or of the Node for a check of Nodes.
    pub fn name(&self) -> &str {
        let name = self.machine.as_deref().or(self.node.as_deref());
        name.unwrap_or_default()
    }
}
