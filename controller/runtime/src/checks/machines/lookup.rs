//! Where the index has the objects of a dialect, by their kind.

use std::{collections::BTreeMap, sync::Arc};

use kube::api::DynamicObject;
use rackhand_api::views::MachineView;

use crate::store::{
    index::{Entry, Index},
    object::{Key, Kind},
};

/// A check.
pub(super) fn check(index: &Index, kind: Kind, key: &Key) -> Option<Arc<DynamicObject>> {
    match kind {
        Kind::OpenShiftCheck => index.openshift_check(key).map(|entry| entry.object),
        _ => index.check(key).map(|entry| entry.object),
    }
}

/// A Machine.
pub(super) fn machine(index: &Index, kind: Kind, key: &Key) -> Option<Entry<MachineView>> {
    match kind {
        Kind::OpenShiftMachine => index.openshift_machine(key),
        _ => index.machine(key),
    }
}

/// A Machine, if its labels match.
pub(super) fn select_machine(
    index: &Index,
    kind: Kind,
    key: &Key,
    wanted: impl Fn(&BTreeMap<String, String>) -> bool,
) -> Option<Entry<MachineView>> {
    match kind {
        Kind::OpenShiftMachine => index.openshift_machine(key).filter(|entry| {
            let view = entry.view.as_ref();
            view.is_ok_and(|view| wanted(&view.meta.labels))
        }),
        _ => index.select_machine(key, wanted),
    }
}

/// The Machines that name a Node of a cluster.
pub(super) fn machines_of_node(index: &Index, kind: Kind, cluster: &Key, node: &str) -> Vec<Key> {
    match kind {
        Kind::OpenShiftMachine if *cluster == Key::local() => {
            index.openshift_machines_of_node(node)
        }
        Kind::OpenShiftMachine => Vec::new(),
        _ => index.machines_of_node(cluster, node),
    }
}
