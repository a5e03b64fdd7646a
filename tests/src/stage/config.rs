//! What a stage is like.

use std::time::Duration;

use secrecy::SecretString;

use super::FaultSetup;
use crate::rack::PowerTimings;

/// How a Machine is tied to its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostLink {
    /// The agent's inventory knows the host and its credentials.
    Inventory,
    /// A BareMetalHost that is detached from Ironic, with a Secret.
    Detached,
    /// A BareMetalHost that baremetal-operator manages, with a Secret.
    Managed,
}

/// What the BMCs of a rack speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// Redfish.
    Redfish,
    /// IPMI.
    Ipmi,
}

/// What an agent's inventory says of the Node that a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// Its name, which is also the host's name there.
    NodeName,
    /// Only its `systemUUID`: the host has a name of its own there, that of its place.
    SystemUuid,
}

/// One rack.
#[derive(Debug, Clone)]
pub struct RackSpec {
    /// Name of the object.
    pub name: String,
    /// Its hosts, each with a Node and a Machine of the same name.
    pub hosts: Vec<String>,
    /// How they are tied.
    pub link: HostLink,
    /// What their BMCs speak to us. Each has a Redfish service too.
    pub speaks: Speaks,
    /// How the inventory knows the Nodes.
    pub known_by: KnownBy,
    /// Label `nodepool` of its Machines; the stage's own health check selects `worker`.
    pub pool: String,
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
            pool: "worker".to_owned(),
        }
    }

    /// The same, spoken to by IPMI.
    #[must_use]
    pub fn by_ipmi(mut self) -> Self {
        self.speaks = Speaks::Ipmi;
        self
    }

    /// The same, with an inventory that knows Nodes by their `systemUUID` alone.
    #[must_use]
    pub fn known_by_uuid(mut self) -> Self {
        self.known_by = KnownBy::SystemUuid;
        self
    }

    /// What a host is called in the agent's inventory.
    #[must_use]
    pub fn inventory_name(&self, host: &str) -> String {
        let place = self.hosts.iter().position(|name| name == host);
        match (self.known_by, place) {
            (KnownBy::SystemUuid, Some(place)) => format!("bay-{}", place + 1),
            _ => host.to_owned(),
        }
    }

    /// The same in another pool, which the stage's own health check does not select.
    #[must_use]
    pub fn in_pool(mut self, pool: &str) -> Self {
        self.pool = pool.to_owned();
        self
    }
}

/// The times of a health check, in Go's form.
#[derive(Debug, Clone)]
pub struct HealthTimes {
    /// How long Ready may be Unknown or False.
    pub unhealthy: String,
    /// How long a host may take to come back.
    pub boot: String,
    /// `retryLimit`.
    pub retries: u32,
}

/// The settings of a stage.
#[derive(Debug, Clone)]
pub struct StageConfig {
    /// The racks.
    pub racks: Vec<RackSpec>,
    /// How long power takes.
    pub timings: PowerTimings,
    /// The password at every BMC.
    pub bmc_password: SecretString,
    /// Further arguments of the controllers.
    pub controller_args: Vec<String>,
    /// RUST_LOG of our processes.
    pub log: String,
    /// The health check.
    pub health: HealthTimes,
    /// Cluster API's own manager runs, with its own kinds. Hosts are free then: there is no Machine
    /// and no health check but what the test makes.
    pub cluster_api: bool,
    /// More hosts than this machine could run a whole cluster of: an API server with nobody beside it,
    /// no kubelets, and no objects but what [`super::Crowd`] writes.
    pub crowd: bool,
    /// A cluster of Nodes and nothing else: no kind of Cluster API or Metal3 is installed, and
    /// Rackhand is as it is for health checks of Nodes. Each rack is a zone.
    pub plain: bool,
    /// Boot timeouts below CAPM3's 100 s are taken, so that attempts can be used up.
    pub brief_boots: bool,
    /// What our accounts do is kept in the API server's audit log.
    pub audited: bool,
    /// Our processes log in JSON.
    pub json_logs: bool,
    /// What a campaign of faults needs.
    pub faults: FaultSetup,
}

impl StageConfig {
    /// Fast, but no controller loses its lease, however busy the machine is; with these further
    /// arguments of the controllers.
    #[must_use]
    pub fn steady(racks: Vec<RackSpec>, arguments: &[&str]) -> Self {
        let arguments = std::iter::once("--lease-duration=15s").chain(arguments.iter().copied());
        Self {
            controller_args: arguments.map(str::to_owned).collect(),
            ..Self::fast(racks)
        }
    }

    /// So many hosts in so many racks, for [`super::Crowd`]: every other rack with BareMetalHosts that
    /// are detached, the others in their agents' inventories.
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

    /// Fast: for tests.
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
                unhealthy: "1s".into(),
                boot: "120s".into(),
                retries: 2,
            },
            cluster_api: false,
            crowd: false,
            plain: false,
            brief_boots: false,
            audited: false,
            json_logs: false,
            faults: FaultSetup::default(),
        }
    }
}
