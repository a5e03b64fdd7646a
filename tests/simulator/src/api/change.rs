//! What a request comes to: a change of an object, or a failure.

use std::sync::Arc;

use serde_json::Value;

use super::resource::Resource;

/// How an object changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It has another version.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The kind of the object.
    pub resource: Resource,
    /// What has become of it.
    pub kind: ChangeKind,
    /// The object, after the change or as it was last.
    pub object: Arc<Value>,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// The version of the store with this change.
    pub version: u64,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Kind and name of the object that the failure is about.
    pub about: Option<(&'static str, String)>,
    /// The details of the status, if they are others.
    pub details: Option<Value>,
}

impl Failure {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            about: None,
            details: None,
        }
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{}.{} {name:?} not found", resource.plural, resource.group);
        Self {
            about: Some((resource.plural, name.to_owned())),
            ..Self::new(404, "NotFound", message)
        }
    }

    pub(super) fn conflict(resource: &Resource, name: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {}.{} {name:?}: the object has been modified; please \
             apply your changes to the latest version and try again",
            resource.plural, resource.group
        );
        Self::new(409, "Conflict", message)
    }
}
