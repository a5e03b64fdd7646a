//! What a check demands, in plain form.
//!
//! Owns the defaults (docs/reference/medik8s.md, Fields); must never hold an observation.

use std::time::Duration;

use crate::health::{ConditionRule, IntOrPercent};

/// How long a remediation without a timeout of its own counts on its Lease (docs/reference/medik8s.md, Remediation of one Node).
pub(super) const CLASSIC: Duration = Duration::from_secs(600);

/// The rules of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: whose remediations are ours.
    pub uid: String,
    /// Conditions, any of which makes a Node unhealthy.
    pub conditions: Vec<ConditionRule>,
    /// While it holds, the check may act.
    pub limit: Limit,
    /// How long nothing is done after the limit was reached; `None`: no storm mode.
    pub storm_cooldown: Option<Duration>,
    /// The templates, in the order in which they are tried.
    pub steps: Vec<Step>,
    /// How long a healthy Node keeps its remediation.
    pub delay: Delay,
    /// Why it is paused; any entry pauses it.
    pub pauses: Vec<String>,
    /// How long a Node may take until its kubelet has said anything; `None`: for ever.
    pub startup_timeout: Option<Duration>,
    /// A MachineHealthCheck of OpenShift cares for Nodes that are to end: here they are healthy.
    pub spares_terminating: bool,
}

/// When a check may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// At least so many Nodes are healthy.
    MinHealthy(IntOrPercent),
    /// No more than so many Nodes are anything else.
    MaxUnhealthy(IntOrPercent),
}

/// A template and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The template.
    pub template: Template,
    /// How long its remediation is given; `None`: it is the only one (docs/reference/medik8s.md, Remediation of one Node).
    pub timeout: Option<Duration>,
}

/// Which template, and what its remediations are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template {
    /// Group and version, of the template and of its remediations.
    pub api_version: String,
    /// The kind of its remediations.
    pub request_kind: String,
    /// Its namespace, and theirs; empty for kinds without.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// How long a healthy Node keeps its remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// Not at all.
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
            step.template.request_kind == template.request_kind
                && step.template.group() == template.group()
        });
        alike.count() > 1
    }

    /// The conditions that count where a check names none: both ways in which a kubelet is silent;
    /// in the older form of the kind, which names no limit either, only the one that it had.
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
    /// The limit of the older form of the kind where it names none.
    pub const OLDER: Self = Self::MaxUnhealthy(IntOrPercent::Percent(49));
}

// === impl Step ===

impl Step {
    /// How long its remediation lasts as far as the Lease of the Node goes.
    pub(super) fn lasts(&self) -> Duration {
        self.timeout.unwrap_or(CLASSIC)
    }
}

// === impl Template ===

impl Template {
    /// Its group; empty for Kubernetes' core kinds.
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }
}

/// The group in `group/version`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}
