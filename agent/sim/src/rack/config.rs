//! What a rack, its hosts, their BMCs and kubelets are like.
//!
//! Owns the defaults. Must never hold a password that came from a configuration file's text:
//! credentials come from code, the environment, or a file of their own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use secrecy::SecretString;

use super::power::PowerTimings;
use super::redfish::Profile;

#[derive(Clone, Debug)]
pub struct RackConfig {
    pub name: String,
    /// Its hosts; their names must differ.
    pub hosts: Vec<HostConfig>,
}

impl RackConfig {
    /// A rack of hosts with everything at its default.
    pub fn new<H: Into<String>>(name: &str, hosts: impl IntoIterator<Item = H>) -> Self {
        Self {
            name: name.to_owned(),
            hosts: hosts.into_iter().map(HostConfig::new).collect(),
        }
    }

    /// The same, with every host changed.
    #[must_use]
    pub fn each(mut self, change: impl Fn(&mut HostConfig)) -> Self {
        self.hosts.iter_mut().for_each(change);
        self
    }
}

#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its name, which is also the name of its Node.
    pub name: String,
    /// Its system UUID, as the BMC and the Node say it.
    pub uuid: String,
    /// Its serial number.
    pub serial: String,
    /// Whether it is up, or off, at first.
    pub starts_on: bool,
    /// How long its power takes.
    pub timings: PowerTimings,
    pub bmc: BmcConfig,
    pub kubelet: KubeletConfig,
}

impl HostConfig {
    /// A host that is up, with everything at its default and a UUID that follows from its name.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            uuid: uuid_of(&name),
            serial: format!("SIM-{}", name.to_uppercase()),
            starts_on: true,
            timings: PowerTimings::default(),
            bmc: BmcConfig::default(),
            kubelet: KubeletConfig::default(),
            name,
        }
    }

    /// The first three bytes of its pods' addresses.
    pub fn pod_network(&self) -> [u8; 3] {
        let [first, second, ..] = hash(&self.name).to_be_bytes();
        [10, 64 + first % 64, second]
    }
}

#[derive(Clone, Debug)]
pub struct BmcConfig {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether over TLS.
    pub tls: bool,
    /// The only user's name.
    pub username: String,
    /// The only user's password.
    pub password: SecretString,
    /// How this make of BMC behaves.
    pub profile: Profile,
}

impl Default for BmcConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            tls: true,
            username: "admin".to_owned(),
            password: SecretString::from("secret"),
            profile: Profile::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// Whether the host runs one at all.
    pub enabled: bool,
    /// How often it renews its Lease.
    pub lease_interval: Duration,
    /// How often it posts its Node's status.
    pub status_interval: Duration,
    /// `spec.providerID` of the Node, set when it is registered.
    pub provider_id: Option<String>,
    /// Labels of the Node beside the usual ones.
    pub labels: BTreeMap<String, String>,
}

impl Default for KubeletConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            lease_interval: Duration::from_millis(500),
            status_interval: Duration::from_secs(2),
            provider_id: None,
            labels: BTreeMap::new(),
        }
    }
}

/// A UUID that follows from a name.
pub fn uuid_of(name: &str) -> String {
    uuid::Builder::from_custom_bytes(hash(name).to_be_bytes())
        .into_uuid()
        .to_string()
}

/// FNV-1a, stirred so that names that differ in one letter share nothing: a host keeps its identity
/// from run to run.
fn hash(text: &str) -> u128 {
    let prime: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let start: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let hash = text.bytes().fold(start, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(prime)
    });
    let hash = (hash ^ (hash >> 67)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    hash ^ (hash >> 59)
}
