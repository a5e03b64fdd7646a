//! The hosts that the agent knows by itself, found by any of their names.

use rackhand_bmc::{BmcAddress, Trust, UuidMatch, same_system_uuid};

use super::{Networks, PasswordFile};

/// What the agent knows, and what it may touch.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// In the order of the file.
    pub hosts: Vec<HostEntry>,
    /// Where BMCs may be.
    pub networks: Networks,
    /// Whether a controller may bring address and password of a BMC that is not here.
    pub accept_endpoints: bool,
    /// Trust for a BMC that a controller brings.
    pub default_trust: Trust,
}

/// One host.
#[derive(Debug, Clone)]
pub struct HostEntry {
    /// Its name here.
    pub name: String,
    /// Its Kubernetes Node, where that has another name.
    pub node_name: Option<String>,
    /// Its provider id in Kubernetes.
    pub provider_id: Option<String>,
    /// SMBIOS system UUID.
    pub system_uuid: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Its BMC.
    pub bmc: BmcEntry,
}

/// The BMC of a host.
#[derive(Debug, Clone)]
pub struct BmcEntry {
    /// Where it is.
    pub address: BmcAddress,
    /// User name.
    pub username: String,
    /// Where the password lies.
    pub password: PasswordFile,
    /// What certificate is believed.
    pub trust: Trust,
}

/// One name, several hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} means several hosts: {}; use one of these names", candidates.join(", "))]
pub struct Ambiguous {
    /// What was asked for.
    pub name: String,
    /// Whom it could mean.
    pub candidates: Vec<String>,
}

impl HostEntry {
    fn is_called(&self, name: &str) -> bool {
        let is = |known: &Option<String>| known.as_deref() == Some(name);
        self.name == name
            || is(&self.node_name)
            || is(&self.provider_id)
            || self
                .system_uuid
                .as_deref()
                .is_some_and(|uuid| same_system_uuid(uuid, name) == UuidMatch::Same)
    }
}

impl Inventory {
    /// The host of this name, Node name, provider id or system UUID.
    pub fn find(&self, name: &str) -> Result<Option<&HostEntry>, Ambiguous> {
        let found: Vec<&HostEntry> = self
            .hosts
            .iter()
            .filter(|host| host.is_called(name))
            .collect();
        match found.as_slice() {
            [] => Ok(None),
            [host] => Ok(Some(host)),
            several => Err(Ambiguous {
                name: name.to_owned(),
                candidates: several.iter().map(|host| host.name.clone()).collect(),
            }),
        }
    }

    /// The host behind this BMC address.
    pub fn find_bmc(&self, address: &BmcAddress) -> Option<&HostEntry> {
        self.hosts.iter().find(|host| {
            let known = &host.bmc.address;
            known.endpoint() == address.endpoint() && known.system() == address.system()
        })
    }
}
