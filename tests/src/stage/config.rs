//! The settings of a stage.

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::FaultSetup;
use crate::{
    cluster::Periods,
    enclosure::Enclosure,
    pdu::PduPair,
    rack::{GuidSource, PowerTimings},
};

/// How a Machine is linked to its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostLink {
    /// The agent's inventory contains the host and its credentials.
    Inventory,
    /// A BareMetalHost that is detached from Ironic, with a Secret.
    Detached,
    /// A BareMetalHost that baremetal-operator manages, with a Secret.
    Managed,
}

/// The protocol of a rack's BMCs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// Redfish.
    Redfish,
    /// IPMI.
    Ipmi,
}

/// How an agent's inventory identifies the Node of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// By the name of the Node, which is also the name of the host.
    NodeName,
    /// Only by its `systemUUID`; the host is named by its position.
    SystemUuid,
}

/// The system UUID in an entry of an agent's inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryUuid {
    /// That of the host.
    OfHost,
    /// None.
    Absent,
    /// `none`: the UUID that the BMC reports identifies nothing.
    Ignored,
}

/// The settings of one rack.
#[derive(Debug, Clone)]
pub struct RackSpec {
    /// Name of the rack.
    pub name: String,
    /// The hosts, each with a Node and a Machine of the same name.
    pub hosts: Vec<String>,
    /// How the Machines are linked to the hosts.
    pub link: HostLink,
    /// The protocol of the BMCs. Each also has a Redfish service.
    pub speaks: Speaks,
    /// How the inventory identifies the Nodes.
    pub known_by: KnownBy,
    /// The system UUID in the inventory.
    pub entry_uuid: EntryUuid,
    /// The GUID that the BMCs report over IPMI.
    pub guid: GuidSource,
    /// Whether the entry of each host has the BMC of another: the first that of the last, and so on.
    pub swapped: bool,
    /// Label `nodepool` of the Machines; the stage's own health check selects `worker`.
    pub pool: String,
    /// The system UUID of all boards of the rack; `None`: each has its own.
    pub system_uuid: Option<String>,
    /// Hosts of racks that stand before this one, which its inventory lists, too.
    pub also_lists: Vec<String>,
    /// The cluster that its inventory names.
    pub cluster: Option<String>,
    /// Whether its BMCs report updates of firmware.
    pub reports_updates: bool,
    /// Entries of its inventory for hosts that are no simulated ones.
    pub real: Vec<serde_json::Value>,
}

impl RackSpec {
    /// A rack with hosts `NAME-1` to `NAME-N`.
    #[must_use]
    pub fn new(name: &str, hosts: usize, link: HostLink) -> Self {
        Self {
            name: name.to_owned(),
            hosts: (1..=hosts).map(|i| format!("{name}-{i}")).collect(),
            link,
            speaks: Speaks::Redfish,
            known_by: KnownBy::NodeName,
            entry_uuid: EntryUuid::OfHost,
            guid: GuidSource::System,
            swapped: false,
            pool: "worker".to_owned(),
            system_uuid: None,
            also_lists: Vec::new(),
            cluster: None,
            reports_updates: false,
            real: Vec::new(),
        }
    }

    /// Lets its BMCs report updates of firmware.
    #[must_use]
    pub fn reporting_updates(mut self) -> Self {
        self.reports_updates = true;
        self
    }

    /// Sets the protocol to IPMI.
    #[must_use]
    pub fn by_ipmi(mut self) -> Self {
        self.speaks = Speaks::Ipmi;
        self
    }

    /// Sets that the inventory identifies Nodes only by their `systemUUID`.
    #[must_use]
    pub fn known_by_uuid(mut self) -> Self {
        self.known_by = KnownBy::SystemUuid;
        self
    }

    /// Sets the system UUID in the inventory.
    #[must_use]
    pub fn with_entry_uuid(mut self, entry_uuid: EntryUuid) -> Self {
        self.entry_uuid = entry_uuid;
        self
    }

    /// Sets the GUID that the BMCs report over IPMI.
    #[must_use]
    pub fn with_guid(mut self, guid: GuidSource) -> Self {
        self.guid = guid;
        self
    }

    /// Gives the entry of each host the BMC of another.
    #[must_use]
    pub fn swapped(mut self) -> Self {
        self.swapped = true;
        self
    }

    /// The name of a host in the agent's inventory.
    #[must_use]
    pub fn inventory_name(&self, host: &str) -> String {
        let place = self.hosts.iter().position(|name| name == host);
        match (self.known_by, place) {
            (KnownBy::SystemUuid, Some(place)) => format!("bay-{}", place + 1),
            _ => host.to_owned(),
        }
    }

    /// Sets another pool, which the stage's own health check does not select.
    #[must_use]
    pub fn in_pool(mut self, pool: &str) -> Self {
        self.pool = pool.to_owned();
        self
    }
}

/// The times of a health check, in Go's form.
#[derive(Debug, Clone)]
pub struct HealthTimes {
    /// Timeout of condition Ready being Unknown or False.
    pub unhealthy: String,
    /// Boot timeout of a host.
    pub boot: String,
    /// `retryLimit`.
    pub retries: u32,
}

/// A receiver of trace spans.
#[derive(Debug, Clone)]
pub struct OtlpReceiver {
    /// Its URL.
    pub endpoint: String,
    /// File with the certificates that take the place of the system's roots.
    pub roots: PathBuf,
}

impl OtlpReceiver {
    /// The environment of a program that trusts these roots.
    pub(super) fn variables(&self) -> [(String, String); 1] {
        [("SSL_CERT_FILE".to_owned(), self.roots.display().to_string())]
    }
}

/// The settings of a stage.
#[derive(Debug, Clone)]
pub struct StageConfig {
    /// The racks.
    pub racks: Vec<RackSpec>,
    /// Duration of power changes of the simulated hosts.
    pub timings: PowerTimings,
    /// The password at every BMC.
    pub bmc_password: SecretString,
    /// Further arguments of the controllers.
    pub controller_args: Vec<String>,
    /// RUST_LOG of controllers and agents.
    pub log: String,
    /// The times of the health check.
    pub health: HealthTimes,
    /// The periods of Kubernetes in a cluster with real kubelets.
    pub periods: Periods,
    /// Whether Cluster API's own manager runs, with its own kinds. The stage then has no Machines and no
    /// health check except those of the test.
    pub cluster_api: bool,
    /// Whether the stage is for many hosts: an API server without other parts, no kubelets, and no objects
    /// except those of [`super::Crowd`].
    pub crowd: bool,
    /// Whether the cluster has only Nodes: no kind of Cluster API or Metal3 is installed, and Rackhand is set
    /// up for NodeHealthChecks. Each rack is a zone.
    pub plain: bool,
    /// Whether boot timeouts below CAPM3's 100 s are accepted, so that attempts can be exhausted.
    pub brief_boots: bool,
    /// Whether the API server keeps an audit log of the controller's accounts.
    pub audited: bool,
    /// Whether controllers and agents log in JSON.
    pub json_logs: bool,
    /// The receiver of the trace spans of controllers and agents.
    pub otlp: Option<OtlpReceiver>,
    /// Two PDUs that feed the hosts of every rack in an agent's inventory: outlet N of both feeds host N.
    pub pdus: Option<PduPair>,
    /// The enclosure whose sleds are the hosts of every rack in an agent's inventory.
    pub enclosure: Option<Enclosure>,
    /// The setup for fault injection.
    pub faults: FaultSetup,
}

impl StageConfig {
    /// A fast stage whose controllers do not lose their Lease on a busy machine, with further arguments of
    /// the controllers.
    #[must_use]
    pub fn steady(racks: Vec<RackSpec>, arguments: &[&str]) -> Self {
        let arguments = std::iter::once("--lease-duration=15s").chain(arguments.iter().copied());
        Self {
            controller_args: arguments.map(str::to_owned).collect(),
            ..Self::fast(racks)
        }
    }

    /// Many hosts in several racks, for [`super::Crowd`]: every other rack with detached BareMetalHosts, the
    /// others in their agents' inventories.
    #[must_use]
    pub fn crowd(hosts: usize, racks: usize, arguments: &[&str]) -> Self {
        let size = |rack: usize| hosts / racks + usize::from(rack < hosts % racks);
        let link = |rack: usize| match rack % 2 {
            0 => HostLink::Detached,
            _ => HostLink::Inventory,
        };
        let specs = (0..racks).map(|r| RackSpec::new(&format!("r{r}"), size(r), link(r)));
        Self {
            crowd: true,
            log: "warn".into(),
            ..Self::steady(specs.collect(), arguments)
        }
    }

    /// A stage with short times, for tests.
    #[must_use]
    pub fn fast(racks: Vec<RackSpec>) -> Self {
        Self {
            racks,
            timings: PowerTimings {
                off_takes: Duration::from_millis(300),
                on_takes: Duration::from_millis(300),
                boot_takes: Duration::from_millis(800),
                ..PowerTimings::default()
            },
            bmc_password: SecretString::from("correct horse"),
            controller_args: vec!["--lease-duration=3s".into()],
            log: "info".into(),
            health: HealthTimes {
                // A host whose kubelet stands still for some seconds with the test is not remediated.
                unhealthy: "5s".into(),
                boot: "120s".into(),
                retries: 2,
            },
            periods: Periods::Short,
            cluster_api: false,
            crowd: false,
            plain: false,
            brief_boots: false,
            audited: false,
            json_logs: false,
            otlp: None,
            pdus: None,
            enclosure: None,
            faults: FaultSetup::default(),
        }
    }
}
