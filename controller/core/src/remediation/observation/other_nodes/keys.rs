//! Hashes by which an index finds the Nodes that may run on a host.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use rackhand_identity::SystemUuid;

use super::{HostIdentity, METAL3_PROVIDER, NodeIdentity, label};

/// What a Node is found by.
#[derive(Hash)]
enum Identifier<'a> {
    SystemUuid(SystemUuid),
    ProviderId(&'a str),
    /// `namespace/name` or UID of a BareMetalHost.
    BareMetalHost(&'a str),
    /// The name without its domain.
    Name(&'a str),
}

impl Identifier<'_> {
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The part of a providerID of CAPM3 that names the BareMetalHost.
fn host_of_provider_id(id: &str) -> Option<&str> {
    let id = id.strip_prefix(METAL3_PROVIDER)?;
    match id.match_indices('/').nth(1) {
        Some((end, _)) => id.get(..end),
        None => Some(id),
    }
}

fn name_key(name: &str) -> u64 {
    Identifier::Name(label(name)).key()
}

fn uuid_key(text: &str) -> Option<u64> {
    SystemUuid::parse(text).map(|uuid| Identifier::SystemUuid(uuid).key())
}

impl NodeIdentity {
    /// Hashes of what identifies the host of the Node. A host and a Node that share anything, see
    /// [`HostIdentity::shared_with`], have a hash in common; the reverse does not hold.
    pub fn keys(&self) -> BTreeSet<u64> {
        let host = host_of_provider_id(&self.provider_id);
        let provider = Some(&*self.provider_id).filter(|id| !id.is_empty());
        let label = Some(&*self.host_label).filter(|label| !label.is_empty());
        let hosts = host.into_iter().chain(label).map(Identifier::BareMetalHost);
        let named = hosts.chain(provider.map(Identifier::ProviderId));
        let mut keys: BTreeSet<u64> = named.map(|id| id.key()).collect();
        keys.extend(uuid_key(&self.system_uuid));
        keys.insert(name_key(&self.name));
        keys
    }
}

impl HostIdentity {
    /// Hashes of what identifies the host, see [`NodeIdentity::keys`].
    pub fn keys(&self) -> BTreeSet<u64> {
        let uuids = self.system_uuids.iter().chain([&self.node_uuid]);
        let mut keys: BTreeSet<u64> = uuids.filter_map(|text| uuid_key(text)).collect();
        keys.extend(self.names.iter().chain(&self.node).map(|n| name_key(n)));
        let provider_ids = self.provider_ids.iter();
        keys.extend(provider_ids.map(|id| Identifier::ProviderId(id).key()));
        if let Some((name, uid)) = &self.bare_metal_host {
            keys.extend([name, uid].map(|id| Identifier::BareMetalHost(id).key()));
        }
        keys
    }
}
