//! The racks, with an index of their hosts and networks.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use rackhand_identity::SystemUuid;

use super::{HostQuery, InventoryHost, Rack, RackNetworks, node_of};

/// What the agents of each rack serve.
///
/// A host and the rack of an address are found in the same time, however many there are: in a large region many
/// remediations look for theirs at once, each time that an agent connects.
#[derive(Debug, Clone, Default)]
pub struct Racks {
    racks: BTreeMap<String, Rack>,
    /// Rack and place of the hosts that have a name, a providerID or a system UUID with this hash.
    places: HashMap<u64, Vec<(Arc<str>, usize)>>,
    networks: RackNetworks,
}

/// What a host is found by.
#[derive(Hash)]
enum Name<'a> {
    Node(&'a str),
    ProviderId(&'a str),
    SystemUuid(SystemUuid),
}

impl Name<'_> {
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

fn keys_of(host: &InventoryHost) -> impl Iterator<Item = u64> + use<> {
    let named = |text: &str, name: Name<'_>| (!text.is_empty()).then(|| name.key());
    let keys = [
        named(node_of(host), Name::Node(node_of(host))),
        named(&host.provider_id, Name::ProviderId(&host.provider_id)),
        SystemUuid::parse(&host.system_uuid).map(|uuid| Name::SystemUuid(uuid).key()),
    ];
    keys.into_iter().flatten()
}

// === impl Racks ===

impl Racks {
    /// Replaces what the agents of a rack serve.
    pub fn set(&mut self, name: &str, rack: Rack) {
        self.remove(name);
        let shared: Arc<str> = name.into();
        for (place, host) in rack.hosts.iter().enumerate() {
            for key in keys_of(host) {
                let places = self.places.entry(key).or_default();
                places.push((shared.clone(), place));
            }
        }
        self.networks.add(name, &rack.bmc_networks);
        self.racks.insert(name.to_owned(), rack);
    }

    /// Removes a rack that no agent serves any more.
    pub fn remove(&mut self, name: &str) {
        let Some(rack) = self.racks.remove(name) else {
            return;
        };
        self.networks.remove(name, &rack.bmc_networks);
        for key in rack.hosts.iter().flat_map(keys_of) {
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

    /// The hosts that may fit, in the order of their racks and places. Each must be compared, because a
    /// hash may be that of another name.
    pub(super) fn candidates(&self, wanted: &HostQuery) -> Vec<(&String, &InventoryHost)> {
        let node = wanted.node_name.as_deref().map(Name::Node);
        let provider = wanted.provider_id.as_deref().map(Name::ProviderId);
        let uuid = wanted.system_uuid.as_deref().and_then(SystemUuid::parse);
        let uuid = uuid.map(Name::SystemUuid);
        let names = node.into_iter().chain(provider).chain(uuid);
        let mut places: Vec<&(Arc<str>, usize)> = names
            .filter_map(|name| self.places.get(&name.key()))
            .flatten()
            .collect();
        places.sort_unstable();
        places.dedup();
        let found = places.into_iter().filter_map(|(rack, place)| {
            let (name, rack) = self.racks.get_key_value(&**rack)?;
            Some((name, rack.hosts.get(*place)?))
        });
        found.collect()
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
