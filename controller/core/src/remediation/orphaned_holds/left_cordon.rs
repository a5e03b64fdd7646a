//! Cordons of remediations that are gone: they were moved, restored, or deleted without their finalizers (F9).

use super::super::{Cordon, NodeFacts};

/// Whether the cordon of a Node, read live, is the one of the remediation with this UID, which no live list shows (F12).
/// Anything else is somebody else's, and stays.
pub fn is_left_cordon(node: &NodeFacts, gone: &str) -> bool {
    matches!(&node.cordon, Cordon::Rackhand { uid } if uid == gone)
}
