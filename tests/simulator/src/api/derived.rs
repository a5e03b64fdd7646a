//! What the store keeps so that the world need not search: the objects bound to a Node, the remediations of a
//! host, attached volumes, and renewals of the Leases of Nodes, which are written when somebody reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{
    change::{Change, ChangeKind},
    request::Selection,
    resource::{LEASES, Resource, VOLUME_ATTACHMENTS},
    store::{ApiServer, Key},
};
use crate::{
    kernel::wall_clock,
    oracle::{REMEDIATIONS, host_of},
};

/// Where the Leases of Nodes lie.
pub(crate) const NODE_LEASES: &str = "kube-node-lease";

/// Kept beside the objects.
#[derive(Default)]
pub(super) struct Derived {
    bound: BTreeMap<Resource, BTreeMap<String, BTreeSet<Key>>>,
    renewals: BTreeMap<String, Duration>,
    /// The number of VolumeAttachments of each volume.
    attached: BTreeMap<String, usize>,
}

/// The Node that an object is bound to, or the host that it remediates.
fn node_of(resource: Resource, object: &Value) -> Option<&str> {
    if REMEDIATIONS.contains(&resource) {
        return Some(host_of(object));
    }
    object["spec"]["nodeName"].as_str()
}

fn key_of(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace").to_owned(), text("name").to_owned())
}

impl Derived {
    /// An object has changed.
    pub(super) fn apply(&mut self, change: &Change) {
        let after = match change.kind {
            ChangeKind::Deleted => None,
            _ => node_of(change.resource, &change.object),
        };
        let before = change.before.as_ref();
        let before = before.and_then(|before| node_of(change.resource, before));
        if change.resource == VOLUME_ATTACHMENTS {
            self.count_attachment(change);
        }
        if before == after {
            return;
        }
        let all = self.bound.entry(change.resource).or_default();
        if let Some(keys) = before.and_then(|node| all.get_mut(node)) {
            keys.remove(&key_of(&change.object));
        }
        if let Some(node) = after {
            let keys = all.entry(node.to_owned()).or_default();
            keys.insert(key_of(&change.object));
        }
    }
}

impl Derived {
    fn count_attachment(&mut self, change: &Change) {
        let volume = change.object["spec"]["source"]["persistentVolumeName"].as_str();
        let count = self.attached.entry(volume.unwrap_or_default().to_owned());
        let count = count.or_default();
        match change.kind {
            ChangeKind::Added => *count += 1,
            ChangeKind::Deleted => *count = count.saturating_sub(1),
            ChangeKind::Modified => {}
        }
    }
}

impl ApiServer {
    /// Whether a volume is attached to any Node.
    #[must_use]
    pub fn is_attached(&self, volume: &str) -> bool {
        self.derived.attached.get(volume).is_some_and(|n| *n > 0)
    }

    /// The objects of a kind that are bound to a Node.
    pub fn bound_to(
        &self,
        resource: Resource,
        node: &str,
    ) -> impl Iterator<Item = &Arc<Value>> + use<'_> {
        let keys = self.derived.bound.get(&resource);
        let keys = keys.and_then(|nodes| nodes.get(node));
        let table = self.tables.get(&resource);
        let found = move |key| table?.objects.get(key);
        keys.into_iter().flatten().filter_map(found)
    }

    /// A kubelet renews its Lease now.
    pub(crate) fn renew_lease(&mut self, node: &str) {
        let now = self.now();
        match self.derived.renewals.get_mut(node) {
            Some(time) => *time = now,
            None => drop(self.derived.renewals.insert(node.to_owned(), now)),
        }
        let is_here = |selection: &Selection| selection.reaches(NODE_LEASES);
        if self.watches.any(LEASES, is_here) {
            self.write_renewals(None);
        }
    }

    /// Writes the renewals of a Node, or of all, before somebody reads Leases where those of Nodes lie.
    pub(super) fn write_renewals(&mut self, node: Option<&str>) {
        let renewals = &mut self.derived.renewals;
        let renewals = match node {
            Some(node) => renewals.remove_entry(node).into_iter().collect(),
            None => std::mem::take(renewals),
        };
        for (node, time) in renewals {
            let time = wall_clock(time);
            self.modify(LEASES, NODE_LEASES, &node, |lease| {
                lease["spec"]["renewTime"] = format!("{time:.6}").into();
            });
        }
    }
}
