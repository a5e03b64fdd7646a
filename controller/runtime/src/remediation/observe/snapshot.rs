//! The objects that a decision is based on.
//!
//! A patch carries the version of the object that the decision observed, not the version known when
//! the patch is built. A process that was suspended in between would otherwise change an object
//! that another leader has finished with (F7). After a conflict the next iteration observes and
//! decides again.

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::views::{BareMetalHostView, MachineView};
use serde_json::Value;

use crate::store::{index::Entry, object::Key, remediation::RemediationObject};

/// The objects of one observation.
#[derive(Default)]
pub(in crate::remediation) struct Snapshot {
    /// The remediation object, or the answer to our last write of it.
    pub(in crate::remediation) object: Option<Entry<RemediationObject>>,
    /// The BareMetalHost.
    pub(in crate::remediation) host: Option<(Key, Entry<BareMetalHostView>)>,
    /// The Machine of Cluster API.
    pub(in crate::remediation) machine: Option<Entry<MachineView>>,
    /// The Node without its status.
    pub(in crate::remediation) node: Option<Node>,
}

impl Snapshot {
    /// Drops what the next observation looks up in the index again: what waits takes no memory for it.
    pub(in crate::remediation) fn drop_indexed(&mut self) {
        self.host = None;
        self.machine = None;
    }

    /// Keeps the part of the Node that a patch is built from.
    pub(in crate::remediation) fn keep_node(&mut self, node: &Node) {
        let mut metadata = node.metadata.clone();
        metadata.managed_fields = None;
        self.node = Some(Node {
            metadata,
            spec: node.spec.clone(),
            status: None,
        });
    }

    /// The observed Node with this UID.
    pub(in crate::remediation) fn node(&self, uid: &str) -> Option<&Node> {
        self.node
            .as_ref()
            .filter(|n| n.uid().as_deref() == Some(uid))
    }

    /// The observed BareMetalHost.
    pub(in crate::remediation) fn host(&self, key: &Key) -> Option<&DynamicObject> {
        let (_, entry) = self.host.as_ref().filter(|(k, _)| k == key)?;
        Some(&entry.object)
    }
}

/// The same patch, which fails if the object has another version than `seen`.
pub(in crate::remediation) fn only_if_unchanged(mut body: Value, seen: &DynamicObject) -> Value {
    body["metadata"]["resourceVersion"] = seen.metadata.resource_version.clone().into();
    body
}
