//! The status of a check, as the decision reads and writes it.
//!
//! Owns plain data. Together with the remediations themselves it is all that survives a restart.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Template, facts::RequestId, rules::group};

/// The status of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCheckStatus {
    /// `observedNodes`.
    pub observed: u32,
    /// `healthyNodes`.
    pub healthy: u32,
    /// `unhealthyNodes`, by name.
    pub nodes: BTreeMap<String, Entry>,
    /// Condition `Disabled`: since when, and why in a word and in a sentence.
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
    /// It is True.
    pub on: bool,
    /// When it began to hold.
    pub since: Timestamp,
}

/// A Node that is unhealthy, or whose remediation is still there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its remediations, oldest first.
    pub tried: Vec<Tried>,
    /// `conditionsHealthyTimestamp`.
    pub healthy_since: Option<Timestamp>,
    /// `healthyDelayed`.
    pub delayed: bool,
}

/// A remediation that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Identifies the remediation.
    pub id: RequestId,
    /// Its UID.
    pub uid: String,
    /// The template it was made from, where it says so.
    pub template: Option<String>,
    /// When it was made.
    pub started: Timestamp,
    /// When it was told to stop, or should have been.
    pub timed_out: Option<Timestamp>,
}

/// What a check does now (docs/reference/medik8s.md, Fields).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its templates cannot be used.
    Disabled,
    /// A person paused it.
    Paused,
    /// A remediation is there.
    Remediating,
    /// The check is evaluated, and remediates.
    Enabled,
}

// === impl Phase ===

impl Phase {
    /// The word in the status.
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
    /// Whether it was made from this template: by its name, and not by the kind alone.
    pub fn is_of(&self, template: &Template) -> bool {
        self.id.kind == template.request_kind
            && group(&self.id.api_version) == template.group()
            && self.id.namespace == template.namespace
            && self.template.as_ref().is_none_or(|t| *t == template.name)
    }
}
