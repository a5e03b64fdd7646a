//! A whole system: a real control plane, simulated racks, and Rackhand's binaries as processes.
//!
//! Dropping the stage stops everything. The binaries are started, killed and observed only from outside, like
//! by a user.

mod actions;
mod agents;
mod assertions;
mod config;
mod controllers;
mod crowd;
mod faults;
mod fixture;
mod install;
mod objects;
mod person;
mod query;
mod recorder;
mod scenarios;
mod tls;
mod usage;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kube::Client;
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
};

pub use assertions::LONG;
pub use config::{
    EntryUuid, HealthTimes, HostLink, KnownBy, OtlpReceiver, RackSpec, Speaks, StageConfig,
};
pub use crowd::{Crowd, Round, rank};
pub use faults::{FaultSetup, TcpProxy, Wire};
pub use fixture::{Fixture, SharedFixture};
pub(crate) use objects::machine;
pub use objects::{
    MANAGER, NODE_CHECK, NODE_LEASES, OPENSHIFT_KINDS, Provider, cluster_api_release,
    idle_remediator, open_kind,
};
pub use query::{Seen, TAINT, is_ready, ready, wait_until};
pub use recorder::{OPENSHIFT_MACHINE, Record, Recorder};
pub use scenarios::Scenarios;
pub use tls::tls_dir;
pub use usage::{ApiCalls, Usage, memory_kib};

use crate::{
    bmo::acknowledge,
    cluster::{ControlPlane, Parts},
    pki::{CertSpec, Pki},
    process::Process,
    rack::{HostConfig, Rack, RackConfig, SimHost, ipmi::IpmiBmc, redfish::UpdatePlace},
    udp_proxy::UdpProxy,
};
use faults::Disk;

/// The namespace of the Machines.
pub const NAMESPACE: &str = "metal3";
/// The name of the Cluster.
pub const CLUSTER: &str = "demo";
/// The namespace of the controller.
pub const SYSTEM: &str = "rackhand-system";
/// The account that controllers run as.
pub const CONTROLLER_ACCOUNT: &str = "system:serviceaccount:rackhand-system:rackhand-controller";
/// The account by which controllers use a workload cluster.
pub const WORKLOAD_ACCOUNT: &str = "system:serviceaccount:kube-system:rackhand";
/// User name of controllers and agents at the BMCs.
pub const BMC_USER: &str = "rackhand";

/// Time for controllers and agents to start or end.
const END: Duration = Duration::from_secs(60);

/// A control plane, racks, agents and controllers.
pub struct Stage {
    // Dropped in this order: Rackhand's processes first, the control plane last.
    controllers: Mutex<BTreeMap<String, Process>>,
    agents: Mutex<BTreeMap<String, Process>>,
    disks: Mutex<BTreeMap<String, Disk>>,
    racks: Vec<Rack>,
    ipmi: BTreeMap<String, IpmiBmc>,
    /// Proxies in front of IPMI BMCs.
    datagrams: BTreeMap<String, UdpProxy>,
    manager: Option<Process>,
    /// Reports the power of managed hosts for which no stand-in for baremetal-operator was started.
    owner: JoinSet<()>,
    /// The hosts for which one was started.
    owned: Arc<Mutex<BTreeSet<String>>>,
    endpoints: Mutex<BTreeMap<String, u16>>,
    /// Ports of the HTTPS servers of controllers.
    https: Mutex<BTreeMap<String, u16>>,
    started: Mutex<BTreeMap<String, Vec<String>>>,
    agent_certificates: BTreeMap<String, PathBuf>,
    /// The kubeconfig of controllers that connect to the API server through a proxy.
    way: Mutex<Option<PathBuf>>,
    /// A client with all rights, for the actions and assertions of tests.
    pub client: Client,
    pki: Pki,
    bins: PathBuf,
    config: StageConfig,
    plane: ControlPlane,
    dir: PathBuf,
    _turn: SemaphorePermit<'static>,
}

/// Permits one stage at a time in a test program, because several would share the cores, and scenarios have
/// timeouts of seconds.
static TURN: Semaphore = Semaphore::const_new(1);

impl Stage {
    /// Waits for the previous stage of this program to end, then starts the control plane, the racks
    /// and the agents, and writes the objects. No controller runs yet, and there is no health check.
    ///
    /// # Errors
    /// A part does not start; the error names it.
    pub async fn start(dir: &Path, config: StageConfig) -> Result<Self> {
        let bins = binaries()?;
        let turn = TURN.acquire().await?;
        let parts = if config.crowd {
            Parts::ApiOnly
        } else if config.racks.iter().any(|rack| !rack.real.is_empty()) {
            Parts::WholeForReal(config.periods)
        } else {
            Parts::Whole
        };
        let audited: &[&str] = if config.audited {
            &[CONTROLLER_ACCOUNT, WORKLOAD_ACCOUNT]
        } else {
            &[]
        };
        let plane = ControlPlane::start_with(&dir.join("control-plane"), parts, audited).await?;
        let client = plane.client().await?;
        install::rackhand(&client, &config).await?;
        let pki = Pki::new(dir.join("pki"))?;
        let mut stage = Self {
            controllers: Mutex::default(),
            agents: Mutex::default(),
            disks: Mutex::default(),
            racks: Vec::new(),
            ipmi: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            manager: None,
            owner: JoinSet::new(),
            owned: Arc::default(),
            endpoints: Mutex::default(),
            https: Mutex::default(),
            started: Mutex::default(),
            agent_certificates: BTreeMap::new(),
            way: Mutex::default(),
            client,
            pki,
            bins,
            config,
            plane,
            dir: dir.to_owned(),
            _turn: turn,
        };
        if stage.config.cluster_api {
            stage.manager = Some(stage.start_manager().await?);
        }
        if !stage.config.plain {
            stage.write_cluster().await?;
        }
        for spec in stage.config.racks.clone() {
            let rack = stage.start_rack(&spec).await?;
            if spec.speaks == Speaks::Ipmi {
                for (name, host) in rack.hosts() {
                    let bmc = IpmiBmc::attach(host).await?;
                    stage.ipmi.insert(name.clone(), bmc);
                }
                if stage.config.faults.datagrams {
                    stage.start_datagram_proxies().await?;
                }
            }
            stage.racks.push(rack);
            if !stage.config.crowd && !stage.config.plain {
                stage.write_rack(&spec).await?;
            }
            stage.start_agent(&spec.name)?;
        }
        if stage
            .config
            .racks
            .iter()
            .any(|r| r.link == HostLink::Managed)
        {
            let objects = stage.bare_metal_hosts();
            let owned = stage.owned.clone();
            stage.owner.spawn(acknowledge::run(objects, owned));
        }
        if !stage.config.crowd {
            stage.wait_nodes().await?;
        }
        Ok(stage)
    }

    async fn start_rack(&self, spec: &RackSpec) -> Result<Rack> {
        let hosts = spec.hosts.iter().map(|name| {
            let mut host = HostConfig::new(name.clone());
            host.timings = self.config.timings;
            if let Some(uuid) = &spec.system_uuid {
                host.uuid.clone_from(uuid);
            }
            host.bmc.username = BMC_USER.into();
            host.bmc.guid = spec.guid;
            host.bmc.profile.updates = spec.reports_updates.then_some(UpdatePlace::Task);
            host.bmc.password = self.config.bmc_password.clone();
            if self.config.plain {
                let zone = ("topology.kubernetes.io/zone".to_owned(), spec.name.clone());
                host.kubelet.labels.extend([zone]);
            } else {
                host.kubelet.provider_id = Some(format!("rackhand://{}/{name}", spec.name));
            }
            host
        });
        let config = RackConfig {
            name: spec.name.clone(),
            hosts: hosts.collect(),
        };
        let kubelets = (!self.config.crowd).then(|| self.client.clone());
        Rack::start(config, Some(&self.pki), kubelets).await
    }

    /// The host with this name, in any rack.
    ///
    /// # Errors
    /// No rack has such a host.
    pub fn host(&self, name: &str) -> Result<&SimHost> {
        self.racks
            .iter()
            .find_map(|rack| rack.hosts().get(name))
            .with_context(|| format!("no rack has a host {name}"))
    }

    /// The IPMI BMC of a host, if its rack uses IPMI.
    #[must_use]
    pub fn ipmi(&self, host: &str) -> Option<&IpmiBmc> {
        self.ipmi.get(host)
    }

    /// The address of a host's BMC, as baremetal-operator writes it.
    ///
    /// # Errors
    /// The host does not exist, or its BMC does not listen yet.
    pub fn bmc_address(&self, host: &str) -> Result<String> {
        if let Some(proxy) = self.datagrams.get(host) {
            return Ok(format!("ipmi://{}", proxy.address()));
        }
        if let Some(bmc) = self.ipmi(host) {
            return Ok(format!("ipmi://{}", bmc.address()));
        }
        let url = self.host(host)?.system_url()?;
        Ok(url.replacen("https://", "redfish+https://", 1))
    }

    /// All racks of the stage.
    #[must_use]
    pub fn racks(&self) -> &[Rack] {
        &self.racks
    }

    /// Directory of all files of the stage, including logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The control plane of the stage.
    #[must_use]
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Restores the data of etcd from a backup.
    ///
    /// # Errors
    /// As [`ControlPlane::restore`].
    pub async fn restore(&mut self, backup: &Path) -> Result<()> {
        self.plane.restore(backup).await
    }

    /// Settings of the stage.
    #[must_use]
    pub fn config(&self) -> &StageConfig {
        &self.config
    }

    /// Path of one of Rackhand's binaries.
    #[must_use]
    pub fn binary(&self, name: &str) -> PathBuf {
        self.bins.join(name)
    }

    /// The authority that controllers and agents trust.
    #[must_use]
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// Issues a certificate; returns the directory with certificate, key and CA.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn issue(&self, spec: &CertSpec) -> Result<PathBuf> {
        self.issue_from(&self.pki, &spec.name, spec)
    }

    /// Issues a certificate of another CA, in a directory of this name.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn issue_from(&self, pki: &Pki, name: &str, spec: &CertSpec) -> Result<PathBuf> {
        let dir = self.dir.join("tls").join(name);
        tls_dir(&pki.issue(spec)?, &dir)?;
        Ok(dir)
    }

    /// The ends of all logs of the stage's processes, for a failed test.
    #[must_use]
    pub fn logs(&self) -> String {
        let mut text = String::new();
        let (controllers, agents) = (self.controllers.lock(), self.agents.lock());
        for (name, process) in controllers.iter().chain(agents.iter()) {
            text.push_str(&format!("--- {name}\n{}\n", process.log_tail()));
        }
        if let Some(manager) = &self.manager {
            text.push_str(&format!("--- {MANAGER}\n{}\n", manager.log_tail()));
        }
        text
    }
}

/// The directory with Rackhand's binaries: RACKHAND_BIN_DIR, or cargo's output directory of this test.
///
/// # Errors
/// A binary is missing.
pub fn binaries() -> Result<PathBuf> {
    let dir = match std::env::var_os("RACKHAND_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let me = std::env::current_exe()?;
            let dir = me.parent().context("no directory")?;
            let deps = dir.file_name().is_some_and(|n| n == "deps");
            if deps {
                dir.parent().context("no directory")?.to_owned()
            } else {
                dir.to_owned()
            }
        }
    };
    for name in ["rackhand-controller", "rackhand-agent"] {
        if !dir.join(name).exists() {
            bail!(
                "{} is missing; run `cargo build --workspace` first",
                dir.join(name).display()
            );
        }
    }
    Ok(dir)
}
