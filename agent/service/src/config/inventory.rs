//! The inventory: the hosts of the configuration, found by any of their names.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use rackhand_bmc::{
    AuthPolicy, BmcAddress, IdentityMatch, KeepAlive, Trust, compare_system_uuids,
    ipmi::SuiteChoice, pdu::HostOutlet,
};

use super::{Networks, Password, PduEntry, host_key};

/// The hosts of the agent, and the networks that it may connect to.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// Hosts in the order of the files.
    pub hosts: Vec<Arc<HostEntry>>,
    /// PDUs whose outlets can be switched, by name.
    pub pdus: BTreeMap<String, PduEntry>,
    /// Networks in which BMCs and PDUs may be.
    pub networks: Networks,
    /// Whether a controller may provide address and password of a BMC that is not in the inventory.
    pub accept_endpoints: bool,
    /// Whether such a BMC may have an unverified certificate, or no TLS.
    pub accept_insecure_endpoints: bool,
    /// Trust for a BMC that a controller provides.
    pub default_trust: Trust,
}

/// A host of the inventory.
#[derive(Debug, Clone)]
pub struct HostEntry {
    /// Name in the inventory.
    pub name: String,
    /// Name of its Kubernetes Node, if different.
    pub node_name: Option<String>,
    /// The cluster of that Node: `namespace/name`, or `local` for the management cluster.
    pub cluster: Option<String>,
    /// Its provider id in Kubernetes.
    pub provider_id: Option<String>,
    /// SMBIOS system UUID.
    pub system_uuid: Option<String>,
    /// The system UUID that its BMC reports identifies nothing.
    pub no_system_uuid: bool,
    /// Serial number.
    pub serial: Option<String>,
    /// Labels for selection.
    pub labels: BTreeMap<String, String>,
    /// Position in the rack.
    pub position: Option<String>,
    /// The power distribution unit that feeds it.
    pub pdu: Option<String>,
    /// Every outlet that feeds it, in the order in which they are switched on. Empty: not known.
    pub outlets: Vec<HostOutlet>,
    /// Largest power that these outlets carry together while the host is off, in watts: its standby power.
    pub standby_watts: Option<f64>,
    /// Longest interval between two readings while it is watched; `None`: the default of all hosts.
    pub watch_interval: Option<Duration>,
    /// Its BMC by the preferred driver.
    pub bmc: BmcEntry,
    /// The same BMC by other drivers, in order of preference.
    pub fallbacks: Vec<BmcEntry>,
}

/// The BMC of a host, by one driver.
#[derive(Debug, Clone)]
pub struct BmcEntry {
    /// Address of the BMC.
    pub address: BmcAddress,
    /// User name.
    pub username: String,
    /// Source of the password.
    pub password: Password,
    /// Which certificate is accepted.
    pub trust: Trust,
    /// Source of the IPMI key K_g, if the BMC has one.
    pub kg: Option<Password>,
    /// Protocol settings.
    pub options: BmcOptions,
}

/// Protocol settings of a BMC. Those of the other protocol have their default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BmcOptions {
    /// Redfish: session or Basic.
    pub auth: AuthPolicy,
    /// Redfish: keep connections for the next read.
    pub keep_alive: KeepAlive,
    /// Redfish: a soft power-off may push the power button if the BMC has no graceful shutdown.
    pub soft_off_by_button: bool,
    /// IPMI: allowed cipher suites.
    pub cipher_suite: SuiteChoice,
    /// IPMI: minimum interval between two commands; `None`: the default of the driver.
    pub min_interval: Option<Duration>,
}

impl Default for BmcOptions {
    fn default() -> Self {
        Self {
            auth: AuthPolicy::default(),
            keep_alive: KeepAlive::Auto,
            soft_off_by_button: false,
            cipher_suite: SuiteChoice::default(),
            min_interval: None,
        }
    }
}

/// A name that matches several hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} matches several hosts: {}; use one of these names", candidates.join(", "))]
pub struct Ambiguous {
    /// Name for which the inventory has no host.
    pub name: String,
    /// The hosts that have the name.
    pub candidates: Vec<String>,
}

impl HostEntry {
    /// The PDU that staggers the power-on of the host.
    pub fn stagger_pdu(&self) -> Option<&str> {
        let first = self.outlets.first().map(|outlet| outlet.pdu.as_str());
        self.pdu.as_deref().or(first)
    }

    /// Its BMC by every driver, in order of preference.
    pub fn bmcs(&self) -> impl Iterator<Item = &BmcEntry> {
        std::iter::once(&self.bmc).chain(&self.fallbacks)
    }

    fn is_called(&self, name: &str) -> bool {
        let is = |known: &Option<String>| known.as_deref() == Some(name);
        self.name == name
            || is(&self.node_name)
            || is(&self.provider_id)
            || self
                .system_uuid
                .as_deref()
                .is_some_and(|uuid| compare_system_uuids(uuid, name) == IdentityMatch::Same)
    }
}

impl Inventory {
    /// The other hosts that an outlet of this host feeds.
    pub fn siblings<'a>(&'a self, host: &'a HostEntry) -> impl Iterator<Item = &'a Arc<HostEntry>> {
        let others = self.hosts.iter().filter(|other| other.name != host.name);
        others.filter(|other| {
            let mut outlets = other.outlets.iter();
            outlets.any(|outlet| host.outlets.contains(outlet))
        })
    }

    /// Number of hosts that an outlet feeds.
    pub fn fed_by(&self, outlet: &HostOutlet) -> usize {
        let hosts = self.hosts.iter();
        hosts.filter(|host| host.outlets.contains(outlet)).count()
    }

    /// The host of this name, Node name, provider id or system UUID.
    pub fn find(&self, name: &str) -> Result<Option<&Arc<HostEntry>>, Ambiguous> {
        let found: Vec<&Arc<HostEntry>> = self
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

    /// The host of this BMC address, if it is unambiguous.
    pub fn find_bmc(&self, address: &BmcAddress) -> Option<&Arc<HostEntry>> {
        let asked = host_key(address);
        let mut found = self.hosts.iter().filter(|host| {
            let mut known = host.bmcs().map(|bmc| &bmc.address);
            known.any(|known| {
                known.endpoint() == address.endpoint() && host_key(known).matches(&asked)
            })
        });
        let host = found.next()?;
        found.next().is_none().then_some(host)
    }

    /// Maps every endpoint to the endpoint that names its queue. Endpoints of a queue are not used concurrently
    /// (F6); hosts that share an endpoint share all of them.
    pub fn queue_endpoints(&self) -> HashMap<String, String> {
        let mut stands_for: BTreeMap<String, String> = BTreeMap::new();
        for host in &self.hosts {
            let first = root(&stands_for, host_key(&host.bmc.address).endpoint());
            for bmc in host.bmcs() {
                let other = root(&stands_for, host_key(&bmc.address).endpoint());
                stands_for.insert(other, first.clone());
            }
        }
        let endpoints = stands_for.keys();
        endpoints
            .map(|endpoint| (endpoint.clone(), root(&stands_for, endpoint.clone())))
            .collect()
    }
}

/// Follows the mapping of an endpoint to the last one, which maps to itself.
fn root(stands_for: &BTreeMap<String, String>, endpoint: String) -> String {
    let mut at = endpoint;
    while let Some(next) = stands_for.get(&at)
        && *next != at
    {
        at.clone_from(next);
    }
    at
}
