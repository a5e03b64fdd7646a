//! Machines and health checks of OpenShift. These fleets are small, so the objects are kept whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::api::DynamicObject;
use rackhand_api::views::{MachineView, OpenShiftHealthCheckView};

use super::{Entry, Index, put, versions::object_version};
use crate::store::object::{Key, Kind};

/// Objects of OpenShift's kinds.
#[derive(Default)]
pub(super) struct OpenShiftObjects {
    machines: BTreeMap<Key, Entry<MachineView>>,
    checks: BTreeMap<Key, Entry<OpenShiftHealthCheckView>>,
    /// Machines by the Node that their nodeRef names.
    by_node: BTreeMap<String, BTreeSet<Key>>,
}

// === impl OpenShiftObjects ===

impl OpenShiftObjects {
    pub(super) fn put(&mut self, kind: Kind, key: &Key, object: Arc<DynamicObject>) -> bool {
        if kind == Kind::OpenShiftCheck {
            let read = OpenShiftHealthCheckView::from_dynamic;
            put(&mut self.checks, key, object, read)
        } else {
            let before = self.node_of(key);
            let taken = put(&mut self.machines, key, object, MachineView::from_dynamic);
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
        let object = if kind == Kind::OpenShiftCheck {
            self.checks.get(key).map(|entry| &entry.object)
        } else {
            self.machines.get(key).map(|entry| &entry.object)
        };
        object_version(object?)
    }

    /// The Nodes that nodeRefs of Machines name.
    pub(super) fn node_names(&self) -> impl Iterator<Item = String> + '_ {
        let views = self.machines.values().filter_map(|e| e.view.as_ref().ok());
        views.filter_map(|view| view.node_name.clone())
    }

    pub(super) fn keys(&self, kind: Kind) -> Vec<Key> {
        if kind == Kind::OpenShiftCheck {
            self.checks.keys().cloned().collect()
        } else {
            self.machines.keys().cloned().collect()
        }
    }
}

impl Index {
    /// The health checks of OpenShift, ordered by name.
    pub(crate) fn openshift_checks(&self) -> Vec<(Key, Entry<OpenShiftHealthCheckView>)> {
        let inner = self.inner.read();
        let checks = inner.openshift.checks.iter();
        checks.map(|(k, e)| (k.clone(), e.clone())).collect()
    }

    pub(crate) fn openshift_check(&self, key: &Key) -> Option<Entry<OpenShiftHealthCheckView>> {
        self.inner.read().openshift.checks.get(key).cloned()
    }

    /// The Machines of OpenShift in a namespace, ordered by name.
    pub(crate) fn openshift_machines(&self, namespace: &str) -> Vec<(Key, Entry<MachineView>)> {
        let inner = self.inner.read();
        let from = inner.openshift.machines.range(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace)
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect()
    }

    pub(crate) fn openshift_machine(&self, key: &Key) -> Option<Entry<MachineView>> {
        self.inner.read().openshift.machines.get(key).cloned()
    }

    /// The Machines of OpenShift whose nodeRef names this Node.
    pub(crate) fn openshift_machines_of_node(&self, node: &str) -> Vec<Key> {
        let inner = self.inner.read();
        let machines = inner.openshift.by_node.get(node).into_iter().flatten();
        machines.cloned().collect()
    }
}
