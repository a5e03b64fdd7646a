//! What is recorded about pods that are to leave a host that is still on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::remediation::NodeFacts;

/// The eviction of the pods of a Node, before anything is switched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// When its time is over.
    pub until: Timestamp,
    /// Whether the Node was Ready when that was decided.
    pub ready: bool,
    /// Pods that had not left when the last one was seen to leave. Counted only on a Node that is not Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// When that was.
    pub moved: Timestamp,
    /// Pods that the API server evicted. Only reported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub evicted: u32,
    /// Whether all of them have left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
}

/// A Node that this remediation cordons, written before it does (F9).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CordonedNode {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`. A later Node of the same name is not uncordoned.
    pub uid: String,
}

impl CordonedNode {
    /// The Node as observed now.
    pub(in crate::remediation) fn of(node: &NodeFacts) -> Self {
        Self {
            name: node.name.clone(),
            uid: node.uid.clone(),
        }
    }
}
