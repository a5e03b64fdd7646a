//! The observed facts about Nodes and remediations.
//!
//! Plain data; must never hold a verdict.

use jiff::Timestamp;

use super::rules::{Template, group};
use crate::{checks::machines::Condition, fleet::roles::Roles};

/// The facts about one Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Its roles, by its labels.
    pub roles: Roles,
    /// Whether its label excludes the Node from remediation.
    pub exclusion: Exclusion,
    /// Whether a person has confirmed that the Node is healthy.
    pub confirmed: bool,
    /// Whether OpenShift is changing the configuration of the Node.
    pub reconfiguring: bool,
    /// Conditions of the Node, as reported.
    pub conditions: Vec<Condition>,
}

/// Whether the label `remediation.medik8s.io/exclude-from-remediation` excludes a Node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exclusion {
    /// The Node has no such label.
    #[default]
    None,
    /// The label excludes the Node.
    Excluded,
    /// The label has an invalid value, and excludes nothing.
    Unclear,
}

/// Kind and name of a remediation.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemediationId {
    /// Group and version of the kind.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// The facts about one remediation, of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRemediation {
    /// Identifies the remediation.
    pub id: RemediationId,
    /// `metadata.uid`.
    pub uid: String,
    /// Name of the Node that is remediated.
    pub node: String,
    /// Name of the template, if the remediation records it.
    pub template: Option<String>,
    /// UIDs of the owners.
    pub owners: Vec<String>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether the remediation has a deletionTimestamp.
    pub deleting: bool,
    /// Value of the annotation by which the remediation stops.
    pub timed_out: Option<Timestamp>,
    /// Status of the condition Succeeded; `None` if Unknown.
    pub succeeded: Option<bool>,
    /// Whether the condition PermanentNodeDeletionExpected is True.
    pub node_goes: bool,
    /// Value of the annotation that records since when the Node is healthy.
    pub delayed_since: Option<Timestamp>,
    /// Whether it was reported that the remediation is older than two days.
    pub told_old: bool,
    /// Whether the remediation has the label of the control plane.
    pub control_plane: bool,
}

// === impl NodeFacts ===

impl NodeFacts {
    /// Whether the condition Ready is True.
    pub(super) fn is_ready(&self) -> bool {
        let ready = self.conditions.iter().find(|c| c.type_ == "Ready");
        ready.is_some_and(|c| c.status == "True")
    }

    /// Whether the Node has the condition Terminating, as Nodes on spot instances have.
    pub(super) fn is_terminating(&self) -> bool {
        self.conditions.iter().any(|c| c.type_ == "Terminating")
    }

    /// Whether the kubelet has ever reported.
    pub(super) fn has_joined(&self) -> bool {
        let ready = self.conditions.iter().find(|c| c.type_ == "Ready");
        ready.is_some_and(|c| c.reason != "NodeStatusNeverUpdated")
    }
}

// === impl NodeRemediation ===

impl NodeRemediation {
    /// Whether the check with this UID made the remediation.
    pub fn is_owned_by(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner == uid)
    }

    /// Whether the remediation was made from this template.
    pub(super) fn is_of(&self, template: &Template) -> bool {
        self.id.kind == template.remediation_kind
            && group(&self.id.api_version) == template.group()
            && self.id.namespace == template.namespace
            && self.template.as_ref().is_none_or(|t| *t == template.name)
    }
}
