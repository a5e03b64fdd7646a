//! Configuration of a rack, its hosts, BMCs and kubelets.
//!
//! Owns: the defaults. Must never: read a password from the text of a configuration file:
//! credentials come from code, the environment, or a separate file.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::power::PowerTimings;
use super::redfish::{Profile, Recording};

#[derive(Clone, Debug)]
pub struct RackConfig {
    pub name: String,
    /// The hosts; their names must differ.
    pub hosts: Vec<HostConfig>,
}

impl RackConfig {
    /// A rack of hosts with default settings.
    pub fn new<H: Into<String>>(name: &str, hosts: impl IntoIterator<Item = H>) -> Self {
        Self {
            name: name.to_owned(),
            hosts: hosts.into_iter().map(HostConfig::new).collect(),
        }
    }

    /// Applies `change` to every host.
    #[must_use]
    pub fn each(mut self, change: impl Fn(&mut HostConfig)) -> Self {
        self.hosts.iter_mut().for_each(change);
        self
    }
}

#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Name of the host, and of its Node.
    pub name: String,
    /// System UUID that the BMC and the Node report.
    pub uuid: String,
    /// Serial number that the simulated system reports.
    pub serial: String,
    /// Whether the host is on at first.
    pub starts_on: bool,
    /// Durations of power transitions.
    pub timings: PowerTimings,
    pub bmc: BmcConfig,
    pub kubelet: KubeletConfig,
}

impl HostConfig {
    /// A host that is on, with default settings and a UUID derived from its name.
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

    /// A host that reports what a recorded service does, with power of its own.
    pub fn recorded(name: impl Into<String>, recording: Recording) -> Self {
        let mut host = Self::new(name);
        host.uuid = recording.uuid().unwrap_or_default().to_owned();
        host.serial = recording.serial().unwrap_or_default().to_owned();
        host.starts_on = recording.was_on();
        host.bmc.profile = recording.profile();
        host.bmc.recording = Some(Arc::new(recording));
        host
    }

    /// The first three bytes of its pod addresses.
    pub fn pod_network(&self) -> [u8; 3] {
        let [first, second, ..] = hash(&self.name).to_be_bytes();
        [10, 64 + first % 64, second]
    }
}

#[derive(Clone, Debug)]
pub struct BmcConfig {
    /// Address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Whether the BMC uses TLS.
    pub tls: bool,
    /// User name of the only account.
    pub username: String,
    /// Password of the only account.
    pub password: SecretString,
    /// Behaviour of the BMC.
    pub profile: Profile,
    /// The recorded service whose documents it serves instead of its own.
    pub recording: Option<Arc<Recording>>,
    /// The GUID that it reports over IPMI.
    pub guid: GuidSource,
    /// Whether it reports updates of firmware over IPMI, by HPM.1.
    pub hpm: bool,
}

/// The GUID that a BMC reports over IPMI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuidSource {
    /// The system UUID of the host.
    #[default]
    System,
    /// A new one at each start of the BMC, as virtualbmc reports.
    NewAtStart,
    /// The bytes 1 to 16, as OpenBMC reports while it knows no UUID.
    Canned,
}

impl Default for BmcConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            tls: true,
            username: "admin".to_owned(),
            password: SecretString::from("secret"),
            profile: Profile::default(),
            recording: None,
            guid: GuidSource::default(),
            hpm: false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// Whether the host runs a kubelet.
    pub enabled: bool,
    /// Interval of Lease renewals.
    pub lease_interval: Duration,
    /// Interval of Node status updates.
    pub status_interval: Duration,
    /// Time from the first status of a boot, which is not Ready, to the second, which is. A real kubelet takes about
    /// a second.
    pub unready_for: Duration,
    /// `spec.providerID` of the Node, set at registration.
    pub provider_id: Option<String>,
    /// Additional labels of the Node.
    pub labels: BTreeMap<String, String>,
}

impl Default for KubeletConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            lease_interval: Duration::from_millis(500),
            status_interval: Duration::from_secs(2),
            unready_for: Duration::from_millis(100),
            provider_id: None,
            labels: BTreeMap::new(),
        }
    }
}

/// A UUID derived from a name.
pub fn uuid_of(name: &str) -> String {
    uuid::Builder::from_custom_bytes(hash(name).to_be_bytes())
        .into_uuid()
        .to_string()
}

/// FNV-1a with a final mix, so that similar names yield unrelated values and a host keeps its
/// identity between runs.
fn hash(text: &str) -> u128 {
    let prime: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let start: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let hash = text.bytes().fold(start, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(prime)
    });
    let hash = (hash ^ (hash >> 67)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    hash ^ (hash >> 59)
}
