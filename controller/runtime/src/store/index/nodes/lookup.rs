//! Nodes of all clusters by name, providerID and system UUID.

use std::{collections::HashMap, sync::Arc};

use rackhand_core::hosts::NodeKey;

use super::SeenNode;
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

pub(super) fn identities<'a>(
    name: &'a str,
    node: &'a SeenNode,
) -> impl Iterator<Item = NodeKey<'a>> {
    let provider = node.provider_id().map(NodeKey::ProviderId);
    let uuid = NodeKey::system_uuid(node.system_uuid());
    [Some(NodeKey::NodeName(name)), provider, uuid]
        .into_iter()
        .flatten()
}

impl NodeLookup {
    /// The clusters and names of Nodes that may have this identity: another identity may have the same key.
    pub(super) fn places(&self, identity: NodeKey<'_>) -> impl Iterator<Item = (&Key, &str)> {
        let places = self.places.get(&identity.key()).into_iter().flatten();
        places.map(|place| (&*place.cluster, &*place.name))
    }

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
