//! Remediations, and what is recorded about them.

use std::{collections::BTreeSet, sync::Arc};

use kube::api::DynamicObject;

use super::table::Table;
use crate::store::{
    object::{Key, Kind},
    remediation::{RemediationId, RemediationObject},
};

/// All remediations and RemediationStates.
#[derive(Default)]
pub(super) struct Remediations {
    table: Table<RemediationObject, RemediationId>,
    /// The remediations that name a Node of the management cluster.
    by_node: BTreeSet<RemediationId>,
    /// RemediationStates, by the UID of their remediation.
    pub(super) states: Table<()>,
}

impl Remediations {
    pub(super) fn put(&mut self, id: RemediationId, object: Arc<DynamicObject>) -> bool {
        let read = |object: &DynamicObject| RemediationObject::read(id.kind, object);
        if !self.table.put(&id, object, read) {
            return false;
        }
        let view = self.table.get(&id).and_then(|e| e.view.as_ref().ok());
        if view.is_some_and(|view| view.node().is_some()) {
            self.by_node.insert(id);
        } else {
            self.by_node.remove(&id);
        }
        true
    }

    pub(super) fn remove(&mut self, id: &RemediationId) {
        self.table.remove(id);
        self.by_node.remove(id);
    }

    pub(super) fn table(&self) -> &Table<RemediationObject, RemediationId> {
        &self.table
    }

    pub(super) fn keys(&self, kind: Kind) -> Vec<Key> {
        let remediations = self.table.keys().filter(|id| id.kind == kind);
        remediations.map(|id| id.key.clone()).collect()
    }

    /// Whether a remediation names a Node of the management cluster.
    pub(super) fn has_by_node(&self) -> bool {
        !self.by_node.is_empty()
    }

    /// RemediationStates whose remediation is not here.
    pub(super) fn unneeded_states(&self) -> Vec<Arc<DynamicObject>> {
        let remediations = self.table.entries();
        let uids: BTreeSet<&str> = remediations
            .filter_map(|entry| entry.object.metadata.uid.as_deref())
            .collect();
        let states = self.states.keys().zip(self.states.entries());
        let unneeded = states.filter(|(key, _)| !uids.contains(key.name.as_str()));
        unneeded.map(|(_, entry)| entry.object.clone()).collect()
    }
}
