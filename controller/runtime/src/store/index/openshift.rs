//! Machines and health checks of OpenShift. These fleets are small, so the objects are kept whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::api::DynamicObject;
use rackhand_api::views::{MachineView, OpenShiftHealthCheckView};

use super::table::Table;
use crate::store::object::{Key, Kind};

/// Objects of OpenShift's kinds.
#[derive(Default)]
pub(super) struct OpenShiftObjects {
    pub(super) machines: Table<MachineView>,
    pub(super) checks: Table<OpenShiftHealthCheckView>,
    /// Machines by the Node that their nodeRef names.
    by_node: BTreeMap<String, BTreeSet<Key>>,
}

// === impl OpenShiftObjects ===

impl OpenShiftObjects {
    pub(super) fn put(&mut self, kind: Kind, key: &Key, object: Arc<DynamicObject>) -> bool {
        if kind == Kind::OpenShiftCheck {
            let read = OpenShiftHealthCheckView::from_dynamic;
            self.checks.put(key, object, read)
        } else {
            let before = self.node_of(key);
            let taken = self.machines.put(key, object, MachineView::from_dynamic);
            self.link(key, before);
            taken
        }
    }

    fn node_of(&self, machine: &Key) -> Option<String> {
        let view = self.machines.get(machine)?.view.as_ref().ok()?;
        view.node_name.clone()
    }

    /// Updates the lookup of a Machine by its Node.
    fn link(&mut self, machine: &Key, before: Option<String>) {
        let after = self.node_of(machine);
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(machines) = self.by_node.get_mut(&before)
        {
            machines.remove(machine);
            if machines.is_empty() {
                self.by_node.remove(&before);
            }
        }
        if let Some(after) = after {
            let machines = self.by_node.entry(after).or_default();
            machines.insert(machine.clone());
        }
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &Key) {
        if kind == Kind::OpenShiftCheck {
            self.checks.remove(key);
        } else {
            let before = self.node_of(key);
            self.machines.remove(key);
            self.link(key, before);
        }
    }

    pub(super) fn version(&self, kind: Kind, key: &Key) -> Option<String> {
        if kind == Kind::OpenShiftCheck {
            self.checks.version(key)
        } else {
            self.machines.version(key)
        }
    }

    /// The Nodes that nodeRefs of Machines name.
    pub(super) fn node_names(&self) -> impl Iterator<Item = String> + '_ {
        let views = self.machines.entries().filter_map(|e| e.view.as_ref().ok());
        views.filter_map(|view| view.node_name.clone())
    }

    pub(super) fn keys(&self, kind: Kind) -> Vec<Key> {
        if kind == Kind::OpenShiftCheck {
            self.checks.keys().cloned().collect()
        } else {
            self.machines.keys().cloned().collect()
        }
    }

    /// The Machines whose nodeRef names this Node.
    pub(super) fn machines_of_node(&self, node: &str) -> Vec<Key> {
        let machines = self.by_node.get(node).into_iter().flatten();
        machines.cloned().collect()
    }
}
