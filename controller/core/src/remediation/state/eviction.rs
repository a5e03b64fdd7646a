//! What is recorded about pods that are to leave a host that is still on.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::remediation::{NodeFacts, PodRef};

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
    /// The first of them by name, see `keep_names`. Only reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// Whether all of them have left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
}

impl Default for Eviction {
    /// One of which nothing is known.
    fn default() -> Self {
        Self {
            until: Timestamp::UNIX_EPOCH,
            ready: false,
            left: None,
            moved: Timestamp::UNIX_EPOCH,
            evicted: 0,
            pods: Vec::new(),
            finished: false,
        }
    }
}

/// How many pods of an attempt are kept by name, of those that were evicted and of those that were deleted.
const PODS_NAMED: usize = 5;
/// Characters of such a name that are kept.
const LONGEST_NAME: usize = 128;

/// Adds pods to those that are kept by name, as `namespace/name`, in the order of their names: the first of them.
pub(in crate::remediation) fn keep_names<'a>(
    kept: &mut Vec<String>,
    pods: impl Iterator<Item = &'a PodRef>,
) {
    let room = PODS_NAMED.saturating_sub(kept.len());
    let names: BTreeSet<String> = pods
        .map(|pod| pod.to_string().chars().take(LONGEST_NAME).collect())
        .filter(|name| !kept.contains(name))
        .collect();
    kept.extend(names.into_iter().take(room));
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
