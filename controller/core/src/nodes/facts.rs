//! What was observed, of Nodes and of remediations.
//!
//! Owns plain data only; must never hold a judgement.

use jiff::Timestamp;

use super::rules::{Template, group};
use crate::health::Condition;

/// One Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// It carries a label of the control plane.
    pub control_plane: bool,
    /// What its label says about being left out.
    pub exclusion: Exclusion,
    /// A person says that it is healthy.
    pub confirmed: bool,
    /// OpenShift gives it another configuration just now.
    pub reconfiguring: bool,
    /// Conditions of the Node, as reported.
    pub conditions: Vec<Condition>,
}

/// Whether a Node shall be left out, by its label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exclusion {
    /// Nothing is said.
    #[default]
    None,
    /// It shall be.
    Excluded,
    /// The label is there with a value that means nothing.
    Unclear,
}

/// The name of a remediation.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Group and version.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// The namespace; empty for kinds without.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// One remediation, of whichever kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Identifies the remediation.
    pub id: RequestId,
    /// Its UID.
    pub uid: String,
    /// The Node that it is for.
    pub node: String,
    /// The template that it was made from, where it says so.
    pub template: Option<String>,
    /// The UIDs of its owners.
    pub owners: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// When it was told to stop.
    pub timed_out: Option<Timestamp>,
    /// Its condition Succeeded, unless that is Unknown.
    pub succeeded: Option<bool>,
    /// Its condition PermanentNodeDeletionExpected is True.
    pub node_goes: bool,
    /// Since when its Node has been healthy, by its annotation.
    pub delayed_since: Option<Timestamp>,
    /// It was said that it is very old.
    pub told_old: bool,
    /// It carries the label of the control plane.
    pub control_plane: bool,
}

// === impl NodeFacts ===

impl NodeFacts {
    /// Its kubelet says that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        let ready = self.conditions.iter().find(|c| c.type_ == "Ready");
        ready.is_some_and(|c| c.status == "True")
    }

    /// It says of itself that it is to end, as Nodes on spot instances do.
    pub(super) fn is_terminating(&self) -> bool {
        self.conditions.iter().any(|c| c.type_ == "Terminating")
    }

    /// Its kubelet has said something, ever.
    pub(super) fn has_joined(&self) -> bool {
        let ready = self.conditions.iter().find(|c| c.type_ == "Ready");
        ready.is_some_and(|c| c.reason != "NodeStatusNeverUpdated")
    }
}

// === impl Request ===

impl Request {
    /// Whether the check with this UID made it.
    pub fn is_owned_by(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner == uid)
    }

    /// Whether it was made from this template.
    pub(super) fn is_of(&self, template: &Template) -> bool {
        self.id.kind == template.request_kind
            && group(&self.id.api_version) == template.group()
            && self.id.namespace == template.namespace
            && self.template.as_ref().is_none_or(|t| *t == template.name)
    }
}
