//! The racks, with an index of their hosts and networks.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Deref,
    sync::Arc,
};

use super::{InventoryHost, NodeKey, Rack, RackNetworks, bindings::NamedNodes, node_of};

/// What the agents of each rack serve.
///
/// A host and the rack of an address are found in the same time, however many there are: in a large region many
/// remediations look for theirs at once, each time that an agent connects.
#[derive(Debug, Clone, Default)]
pub struct Racks {
    racks: BTreeMap<String, Rack>,
    /// Rack and place of the hosts that have a name, a providerID or a system UUID with this key.
    places: HashMap<u64, Vec<(Arc<str>, usize)>>,
    networks: RackNetworks,
    pub(super) named_nodes: NamedNodes,
}

fn identities(host: &InventoryHost) -> impl Iterator<Item = NodeKey<'_>> {
    let given = |text: &'_ str| !text.is_empty();
    let identities = [
        Some(NodeKey::NodeName(node_of(host))),
        Some(host.provider_id.as_str())
            .filter(|id| given(id))
            .map(NodeKey::ProviderId),
        NodeKey::system_uuid(&host.system_uuid),
    ];
    identities.into_iter().flatten()
}

// === impl Racks ===

impl Racks {
    /// Replaces what the agents of a rack serve.
    pub fn set(&mut self, name: &str, rack: Rack) {
        self.remove(name);
        let shared: Arc<str> = name.into();
        for (place, host) in rack.hosts.iter().enumerate() {
            for identity in identities(host) {
                let places = self.places.entry(identity.key()).or_default();
                places.push((shared.clone(), place));
            }
        }
        self.networks.add(name, &rack.bmc_networks);
        self.named_nodes.add(name, &rack.nodes);
        self.racks.insert(name.to_owned(), rack);
    }

    /// Removes a rack that no agent serves any more.
    pub fn remove(&mut self, name: &str) {
        let Some(rack) = self.racks.remove(name) else {
            return;
        };
        self.networks.remove(name, &rack.bmc_networks);
        self.named_nodes.remove(name, &rack.nodes);
        for identity in rack.hosts.iter().flat_map(identities) {
            let key = identity.key();
            if let Some(places) = self.places.get_mut(&key) {
                places.retain(|(rack, _)| **rack != *name);
                if places.is_empty() {
                    self.places.remove(&key);
                }
            }
        }
    }

    /// The racks whose networks hold the BMC at this address.
    pub(super) fn serving(&self, address: &str) -> Vec<&str> {
        self.networks.serving(address)
    }

    /// The hosts with this identity, with their racks. A host that names no Node has its own name as that of
    /// its Node.
    pub(super) fn holders<'a>(
        &'a self,
        identity: NodeKey<'a>,
    ) -> impl Iterator<Item = (&'a str, &'a InventoryHost)> {
        let places = self.places.get(&identity.key()).into_iter().flatten();
        places.filter_map(move |(rack, place)| {
            let (name, rack) = self.racks.get_key_value(&**rack)?;
            let host = rack.hosts.get(*place)?;
            // Another identity may have the same key.
            let has = identities(host).any(|known| known == identity);
            has.then_some((name.as_str(), host))
        })
    }

    /// Upper bound of the number of hosts with this identity.
    pub(super) fn count(&self, identity: NodeKey<'_>) -> usize {
        self.places.get(&identity.key()).map_or(0, Vec::len)
    }
}

impl Deref for Racks {
    type Target = BTreeMap<String, Rack>;

    fn deref(&self) -> &Self::Target {
        &self.racks
    }
}

impl FromIterator<(String, Rack)> for Racks {
    fn from_iter<T: IntoIterator<Item = (String, Rack)>>(racks: T) -> Self {
        let mut all = Self::default();
        for (name, rack) in racks {
            all.set(&name, rack);
        }
        all
    }
}

impl<const N: usize> From<[(String, Rack); N]> for Racks {
    fn from(racks: [(String, Rack); N]) -> Self {
        racks.into_iter().collect()
    }
}
