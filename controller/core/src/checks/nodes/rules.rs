//! The validated rules of a check of Nodes.
//!
//! Owns the defaults (docs/reference/medik8s.md, Fields); must never hold an observation.

use std::time::Duration;

use crate::{checks::machines::ConditionRule, values::int_or_percent::IntOrPercent};

/// Timeout of a remediation without one of its own, for its Lease (docs/reference/medik8s.md, Remediation
/// of one Node).
pub(super) const CLASSIC: Duration = Duration::from_secs(600);

/// The rules of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`, by which remediations name their owner.
    pub uid: String,
    /// Conditions. Any one makes a Node unhealthy.
    pub conditions: Vec<ConditionRule>,
    /// The limit on remediation.
    pub limit: Limit,
    /// How long no remediation begins after a storm; `None`: no storm mode.
    pub storm_cooldown: Option<Duration>,
    /// The templates, in the order in which they are tried.
    pub steps: Vec<Step>,
    /// How long a healthy Node keeps its remediation.
    pub delay: Delay,
    /// Why the check is paused; any entry pauses it.
    pub pauses: Vec<String>,
    /// How long a Node may exist before its kubelet reports first; `None`: without limit.
    pub startup_timeout: Option<Duration>,
    /// Whether a MachineHealthCheck of OpenShift handles terminating Nodes, so that they count as healthy
    /// here.
    pub spares_terminating: bool,
}

/// The limit on remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Remediation is allowed while at least this many Nodes are healthy.
    MinHealthy(IntOrPercent),
    /// Remediation is allowed while at most this many Nodes are not healthy.
    MaxUnhealthy(IntOrPercent),
}

/// A template and the timeout of its remediation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The template from which the remediation is made.
    pub template: Template,
    /// Timeout of the remediation; `None`: it is the only step (docs/reference/medik8s.md, Remediation of
    /// one Node).
    pub timeout: Option<Duration>,
}

/// A template, and the kind of its remediations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template {
    /// Group and version, of the template and of its remediations.
    pub api_version: String,
    /// Kind of the remediations.
    pub remediation_kind: String,
    /// Namespace of the template and of its remediations; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// How long a healthy Node keeps its remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// The remediation is deleted at once.
    None,
    /// For this long after the Node became healthy.
    For(Duration),
    /// Until a person confirms that it is healthy.
    UntilConfirmed,
}

// === impl Check ===

impl Check {
    /// Whether several of its templates make remediations of one kind.
    pub fn shares_a_kind(&self, template: &Template) -> bool {
        let alike = self.steps.iter().filter(|step| {
            step.template.remediation_kind == template.remediation_kind
                && step.template.group() == template.group()
        });
        alike.count() > 1
    }

    /// The conditions of a check that names none: Ready=False and Ready=Unknown; in the older form of the
    /// kind only Ready=False.
    pub fn default_conditions(older: bool) -> Vec<ConditionRule> {
        let ready = |status: &str| ConditionRule {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            timeout: Duration::from_secs(300),
        };
        let mut rules = vec![ready("False")];
        if !older {
            rules.push(ready("Unknown"));
        }
        rules
    }
}

// === impl Limit ===

impl Limit {
    /// The default limit of the older form of the kind.
    pub const OLDER: Self = Self::MaxUnhealthy(IntOrPercent::Percent(49));
}

// === impl Step ===

impl Step {
    /// Duration of the remediation that the Lease of the Node assumes.
    pub(super) fn lasts(&self) -> Duration {
        self.timeout.unwrap_or(CLASSIC)
    }
}

// === impl Template ===

impl Template {
    /// API group of the template; empty for Kubernetes' core kinds.
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }
}

/// The group in `group/version`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}
