//! Nodes of all clusters by name, providerID and system UUID.

use std::{collections::HashMap, sync::Arc};

use kube::Resource;
use rackhand_core::hosts::NodeKey;

use super::{Index, Inner, SeenNode};
use crate::store::object::Key;

/// Clusters and names of Nodes by their identities.
#[derive(Default)]
pub(super) struct NodeLookup {
    places: HashMap<u64, Vec<Place>>,
}

#[derive(Clone, PartialEq)]
struct Place {
    cluster: Arc<Key>,
    name: Arc<str>,
}

fn identities<'a>(name: &'a str, node: &'a SeenNode) -> impl Iterator<Item = NodeKey<'a>> {
    let provider = node.provider_id().map(NodeKey::ProviderId);
    let uuid = NodeKey::system_uuid(node.system_uuid());
    [Some(NodeKey::NodeName(name)), provider, uuid]
        .into_iter()
        .flatten()
}

impl NodeLookup {
    /// Replaces the identities of a Node.
    pub(super) fn replace(
        &mut self,
        cluster: &Key,
        name: &str,
        old: Option<&SeenNode>,
        new: Option<&SeenNode>,
    ) {
        let of = |node: &'_ SeenNode| -> Vec<u64> {
            identities(name, node)
                .map(|identity| identity.key())
                .collect()
        };
        let (old, new) = (old.map(of), new.map(of));
        if old == new {
            return;
        }
        for key in old.into_iter().flatten() {
            if let Some(places) = self.places.get_mut(&key) {
                places.retain(|place| *place.cluster != *cluster || *place.name != *name);
                if places.is_empty() {
                    self.places.remove(&key);
                }
            }
        }
        let place = Place {
            cluster: Arc::new(cluster.clone()),
            name: name.into(),
        };
        for key in new.into_iter().flatten() {
            self.places.entry(key).or_default().push(place.clone());
        }
    }
}

impl Inner {
    fn find_nodes<'a>(
        &'a self,
        identity: NodeKey<'a>,
    ) -> impl Iterator<Item = (&'a Key, &'a str, &'a SeenNode)> {
        let places = self
            .lookup
            .places
            .get(&identity.key())
            .into_iter()
            .flatten();
        places.filter_map(move |place| {
            let known = self
                .workloads
                .get(&*place.cluster)?
                .nodes
                .get(&*place.name)?;
            // Another identity may have the same key.
            let has = identities(&place.name, &known.node).any(|known| known == identity);
            has.then_some((&*place.cluster, &*place.name, &*known.node))
        })
    }
}

impl Index {
    /// The first Node with this identity that is `wanted`, by its cluster and name.
    pub(crate) fn find_node(
        &self,
        identity: NodeKey<'_>,
        wanted: impl Fn(&Key, &str, &SeenNode) -> bool,
    ) -> Option<(Key, String)> {
        let inner = self.inner.read();
        let mut nodes = inner.find_nodes(identity);
        let found = nodes.find(|(cluster, name, node)| wanted(cluster, name, node));
        found.map(|(cluster, name, _)| (cluster.clone(), name.to_owned()))
    }

    /// The clusters in which the Node of this name has this UID: a management cluster that has a Cluster object
    /// is connected twice.
    pub(crate) fn clusters_of_node(&self, name: &str, uid: &str) -> Vec<Key> {
        let inner = self.inner.read();
        let nodes = inner.find_nodes(NodeKey::NodeName(name));
        let same = nodes.filter(|(_, _, node)| node.meta().uid.as_deref() == Some(uid));
        same.map(|(cluster, ..)| cluster.clone()).collect()
    }

    /// The Machines that name a Node of this name, in clusters where the index shows no such Node.
    pub(crate) fn unseen_machines_with_node(&self, node: &str) -> Vec<(Key, Key)> {
        let inner = self.inner.read();
        let links = inner.by_node.get(node).into_iter().flatten();
        let is_unseen = |cluster: &Key| {
            let workload = inner.workloads.get(cluster);
            workload.is_none_or(|workload| !workload.nodes.contains_key(node))
        };
        links
            .filter(|link| is_unseen(&link.cluster))
            .map(|link| (link.cluster.clone(), link.machine.clone()))
            .collect()
    }
}
