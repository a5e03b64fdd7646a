//! Matches hosts and Nodes for display.
//!
//! A remediation finds its host by [`crate::hosts::resolve`], one at a time and strictly. Here tens of
//! thousands of hosts are matched at once, and a host with an ambiguous match is shown without a Node.

use std::collections::BTreeMap;

use rackhand_identity::SystemUuid;

use super::{InventoryEntry, NodeEntry};

/// The Nodes by name, providerID and system UUID. A value that several Nodes share matches none of them.
pub(super) struct NodeIndex<'a> {
    by_name: BTreeMap<&'a str, Option<&'a NodeEntry>>,
    by_provider_id: BTreeMap<&'a str, Option<&'a NodeEntry>>,
    by_uuid: BTreeMap<SystemUuid, Option<&'a NodeEntry>>,
    by_cluster: BTreeMap<(&'a str, &'a str), &'a NodeEntry>,
}

fn put<'a, K: Ord>(map: &mut BTreeMap<K, Option<&'a NodeEntry>>, key: K, node: &'a NodeEntry) {
    map.entry(key)
        .and_modify(|known| *known = None)
        .or_insert(Some(node));
}

impl<'a> NodeIndex<'a> {
    pub(super) fn new(nodes: &'a [NodeEntry]) -> Self {
        let mut index = Self {
            by_name: BTreeMap::new(),
            by_provider_id: BTreeMap::new(),
            by_uuid: BTreeMap::new(),
            by_cluster: BTreeMap::new(),
        };
        for node in nodes {
            put(&mut index.by_name, node.name.as_str(), node);
            if let Some(id) = node.provider_id.as_deref().filter(|id| !id.is_empty()) {
                put(&mut index.by_provider_id, id, node);
            }
            if let Some(uuid) = node.system_uuid.as_deref().and_then(SystemUuid::parse) {
                put(&mut index.by_uuid, uuid, node);
            }
            index.by_cluster.insert((&node.cluster, &node.name), node);
        }
        index
    }

    pub(super) fn of_inventory(&self, host: &InventoryEntry) -> Option<&'a NodeEntry> {
        let name = match host.node_name.as_str() {
            "" => host.name.as_str(),
            named => named,
        };
        let by_name = self.by_name.get(name).copied().flatten();
        let by_id = || self.by_provider_id.get(host.provider_id.as_str()).copied();
        let by_uuid = || {
            let uuid = SystemUuid::parse(&host.system_uuid)?;
            self.by_uuid.get(&uuid).copied()
        };
        by_name
            .or_else(|| by_id().flatten())
            .or_else(|| by_uuid().flatten())
    }

    pub(super) fn named(&self, (cluster, name): (&str, &str)) -> Option<&'a NodeEntry> {
        self.by_cluster.get(&(cluster, name)).copied()
    }
}
