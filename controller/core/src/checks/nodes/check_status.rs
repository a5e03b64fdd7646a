//! The status of a check, as the decision reads and writes it.
//!
//! Plain data. Only this status and the remediations themselves survive a restart.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Template, facts::RemediationId, rules::group};

/// The status of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCheckStatus {
    /// `observedNodes`.
    pub observed: u32,
    /// `healthyNodes`.
    pub healthy: u32,
    /// `unhealthyNodes`, by name.
    pub nodes: BTreeMap<String, Entry>,
    /// Condition `Disabled`: its flag, reason and message.
    pub disabled: Option<(Flag, String, String)>,
    /// Condition `StormActive`.
    pub storm: Option<Flag>,
    /// Condition `StormCooldownActive`.
    pub cooldown: Option<Flag>,
    /// `phase`.
    pub phase: Option<Phase>,
    /// `reason`.
    pub reason: String,
}

/// A condition that is True or False.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Whether the condition is True.
    pub on: bool,
    /// When the condition changed last.
    pub since: Timestamp,
}

/// The status of a Node that is unhealthy, or whose remediation still exists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The remediations of the Node, oldest first.
    pub tried: Vec<Tried>,
    /// `conditionsHealthyTimestamp`.
    pub healthy_since: Option<Timestamp>,
    /// `healthyDelayed`.
    pub delayed: bool,
}

/// A remediation that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Identifies the remediation.
    pub id: RemediationId,
    /// UID of the remediation.
    pub uid: String,
    /// Name of the template, if the remediation records it.
    pub template: Option<String>,
    /// When the remediation was created.
    pub started: Timestamp,
    /// When the remediation timed out.
    pub timed_out: Option<Timestamp>,
}

/// `status.phase` of a check (docs/reference/medik8s.md, Fields).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The templates of the check cannot be used, or other checks conflict with it.
    Disabled,
    /// The check is paused by a person.
    Paused,
    /// A remediation of the check exists.
    Remediating,
    /// The check is evaluated, and no remediation of it exists.
    Enabled,
}

// === impl Phase ===

impl Phase {
    /// The value of `status.phase`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Disabled => "Disabled",
            Self::Paused => "Paused",
            Self::Remediating => "Remediating",
            Self::Enabled => "Enabled",
        }
    }
}

// === impl Tried ===

impl Tried {
    /// Whether the remediation was made from this template, by name and not by kind alone.
    pub fn is_of(&self, template: &Template) -> bool {
        self.id.kind == template.remediation_kind
            && group(&self.id.api_version) == template.group()
            && self.id.namespace == template.namespace
            && self.template.as_ref().is_none_or(|t| *t == template.name)
    }
}
