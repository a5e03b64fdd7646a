//! The pods of a host that is confirmed off: which of them Rackhand deletes, and what came of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::super::{NodeFacts, Taint};

/// One pod as it was observed. A deletion carries UID and version as preconditions, so that it never
/// affects a later pod of the same name, nor one that a kubelet has reported about since.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub version: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod that is bound to a Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoundPod {
    /// Identity and version of the pod.
    pub id: PodRef,
    /// Whether it is the image of a static pod, which a kubelet creates from a file.
    pub is_mirror: bool,
    /// Whether a DaemonSet controls it.
    pub is_of_daemon_set: bool,
    /// Whether it tolerates the out-of-service taint without a time limit.
    pub tolerates_taint: bool,
    /// Whether it has a deletionTimestamp.
    pub is_terminating: bool,
    /// Whether it has finalizers.
    pub has_finalizers: bool,
    /// Whether it has ended, as Succeeded or Failed.
    pub is_ended: bool,
    /// The PersistentVolumeClaims that it uses, as `namespace/name`.
    pub claims: BTreeSet<String>,
}

impl BoundPod {
    /// Whether the Node is not drained while this pod exists (F4).
    pub fn keeps_from_drain(&self) -> bool {
        !self.is_mirror && !self.tolerates_taint
    }

    /// Whether the pod goes on here once the host is on again, with its volumes: the attach/detach controller keeps
    /// them attached.
    pub(in crate::remediation) fn keeps_its_volumes(&self) -> bool {
        !self.keeps_from_drain() && !self.is_terminating && !self.is_ended
    }

    /// Whether Rackhand may delete the pod at once. As the garbage collector of pods it deletes only
    /// pods that are Terminating: whoever evicted them has set the condition DisruptionTarget and has
    /// waited for as long as a toleration asks. A pod with finalizers, as those of Jobs, would stay; it
    /// is left to the garbage collector, which marks it failed first.
    pub(in crate::remediation) fn is_deletable(&self) -> bool {
        self.keeps_from_drain() && self.is_terminating && !self.has_finalizers
    }
}

/// What came of the deletions of pods since the state was last written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodDeletions {
    /// The pods that were deleted.
    pub deleted: BTreeSet<PodRef>,
    /// The pods whose deletion the API server refused, and why. They are left to the garbage collector.
    pub refused: BTreeMap<PodRef, String>,
}

impl PodDeletions {
    /// Whether the deletion of this pod was answered.
    pub(in crate::remediation) fn has(&self, pod: &PodRef) -> bool {
        self.deleted.contains(pod) || self.refused.contains_key(pod)
    }
}

/// Checks immediately before pods are deleted that the Node, read live after they were listed, is still the
/// one with this UID and out of service (F1, F12).
///
/// # Errors
/// It is not; a new decision is required.
pub fn deletion_is_justified(node: Option<&NodeFacts>, uid: &str) -> Result<(), &'static str> {
    match node {
        None => Err("the node is gone"),
        Some(node) if node.uid != uid => Err("the node was replaced"),
        Some(node) if node.taint != Taint::Ours => Err("the node does not have our taint any more"),
        Some(_) => Ok(()),
    }
}
