//! Everything at once: a real control plane, simulated racks, and our own binaries as processes.
//!
//! Owns all of it; dropping the stage takes it down. Must never reach into our binaries: they are
//! started, killed and looked at from outside, as a user would.

mod actions;
mod agents;
mod assertions;
mod cluster_api;
mod config;
mod crowd;
mod faults;
mod fixture;
mod install;
mod metal3;
mod nodes;
mod objects;
mod openshift;
mod person;
mod provider;
mod query;
mod recorder;
mod scenarios;
mod tcp_proxy;
mod tls;
mod usage;
mod wire;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kube::Client;
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use assertions::LONG;
pub use cluster_api::MANAGER;
pub use config::{HealthTimes, HostLink, KnownBy, RackSpec, Speaks, StageConfig};
pub use crowd::{Crowd, Round, rank};
pub use faults::FaultSetup;
pub use fixture::{Fixture, SharedFixture};
pub use nodes::{NODE_CHECK, NODE_LEASES};
pub use openshift::OPENSHIFT_KINDS;
pub use provider::Provider;
pub use query::{Seen, TAINT, is_ready, ready, wait_until};
pub use recorder::{Record, Recorder};
pub use scenarios::Scenarios;
pub use tcp_proxy::TcpProxy;
pub use tls::tls_dir;
pub use usage::{ApiCalls, Usage};
pub use wire::Wire;

use crate::{
    cluster::{ControlPlane, Parts},
    pki::{CertSpec, Pki},
    process::{Process, free_port},
    rack::{HostConfig, Rack, RackConfig, SimHost, ipmi::IpmiBmc},
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
/// The user name at the BMCs.
pub const BMC_USER: &str = "rackhand";

/// How long our own processes may take to end.
const END: Duration = Duration::from_secs(30);

/// The stage.
pub struct Stage {
    // Dropped in this order: our own processes first, the control plane last.
    controllers: Mutex<BTreeMap<String, Process>>,
    agents: Mutex<BTreeMap<String, Process>>,
    disks: Mutex<BTreeMap<String, Disk>>,
    racks: Vec<Rack>,
    ipmi: BTreeMap<String, IpmiBmc>,
    /// Proxies in front of IPMI BMCs.
    datagrams: BTreeMap<String, UdpProxy>,
    manager: Option<Process>,
    endpoints: Mutex<BTreeMap<String, u16>>,
    started: Mutex<BTreeMap<String, Vec<String>>>,
    agent_certificates: BTreeMap<String, PathBuf>,
    /// The kubeconfig of controllers that do not go straight to the API server.
    way: Mutex<Option<PathBuf>>,
    /// All rights, for the actions and assertions of tests.
    pub client: Client,
    pki: Pki,
    bins: PathBuf,
    config: StageConfig,
    plane: ControlPlane,
    dir: PathBuf,
    _turn: SemaphorePermit<'static>,
}

/// One stage at a time in a test program: several would share the cores, and scenarios watch what is
/// done within seconds.
static TURN: Semaphore = Semaphore::const_new(1);

impl Stage {
    /// Waits for the previous stage of this program to end, then starts the control plane, the racks
    /// and the agents, and writes the objects. No controller runs yet, and there is no health check.
    ///
    /// # Errors
    /// A part does not start; the message names it.
    pub async fn start(dir: &Path, config: StageConfig) -> Result<Self> {
        let bins = binaries()?;
        let turn = TURN.acquire().await?;
        let parts = if config.crowd {
            Parts::ApiOnly
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
            endpoints: Mutex::default(),
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
        if !stage.config.crowd {
            stage.wait_nodes().await?;
        }
        Ok(stage)
    }

    async fn start_rack(&self, spec: &RackSpec) -> Result<Rack> {
        let hosts = spec.hosts.iter().map(|name| {
            let mut host = HostConfig::new(name.clone());
            host.timings = self.config.timings;
            host.bmc.username = BMC_USER.into();
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

    /// Starts a controller under exactly the rights of its ServiceAccount.
    ///
    /// # Errors
    /// It does not start, or is not ready in time.
    pub async fn start_controller(&self, name: &str) -> Result<()> {
        let more = self.started.lock().get(name).cloned();
        self.start_controller_as(name, more.unwrap_or_default())
            .await
    }

    /// The same with more arguments, which count for every further start under this name too.
    ///
    /// # Errors
    /// As [`Self::start_controller`].
    pub async fn start_controller_as(&self, name: &str, more: Vec<String>) -> Result<()> {
        let spec = CertSpec::peer("controller", "spiffe://rackhand/controller");
        let tls = self.issue(&spec)?;
        self.started.lock().insert(name.to_owned(), more.clone());
        self.start_controller_with(name, &tls, &more).await
    }

    /// The same with another directory of certificate, key and CA, and with more arguments.
    ///
    /// # Errors
    /// As [`Self::start_controller`].
    pub async fn start_controller_with(
        &self,
        name: &str,
        tls: &Path,
        more: &[String],
    ) -> Result<()> {
        let account = "rackhand-controller";
        let way = self.way.lock().clone();
        let kubeconfig = match way {
            Some(way) => way,
            None => self.plane.kubeconfig_of(SYSTEM, account).await?,
        };
        let admin = free_port()?;
        self.endpoints.lock().insert(name.to_owned(), admin);
        let mut command = vec![
            self.binary("rackhand-controller").display().to_string(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--lease-namespace={SYSTEM}"),
            format!("--replica={name}"),
            format!("--agent-tls-dir={}", tls.display()),
            format!("--admin-address=127.0.0.1:{admin}"),
        ];
        if self.config.json_logs {
            command.push("--log-format=json".to_owned());
        }
        command.extend(self.config.controller_args.iter().chain(more).cloned());
        let mut env = vec![
            ("RUST_LOG".to_owned(), self.config.log.clone()),
            ("NO_COLOR".to_owned(), "1".to_owned()),
        ];
        if self.config.faults.clocks {
            env.extend(faults::clock_variables(&self.clock_file(name))?);
        }
        let mut process = Process::start(name, &command, &env, &self.dir)?;
        let url = format!("http://127.0.0.1:{admin}/readyz");
        let deadline = std::time::Instant::now() + END;
        while !reqwest::get(&url)
            .await
            .is_ok_and(|a| a.status().is_success())
        {
            if process.ended().is_some() || std::time::Instant::now() > deadline {
                bail!("{name} does not become ready:\n{}", process.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.controllers.lock().insert(name.to_owned(), process);
        Ok(())
    }

    /// `kill -9` of a controller.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill_controller(&self, name: &str) -> Result<()> {
        self.take_controller(name)?.kill()
    }

    fn take_controller(&self, name: &str) -> Result<Process> {
        let process = self.controllers.lock().remove(name);
        process.with_context(|| format!("no controller {name}"))
    }

    /// Asks a controller to end, and says how it did.
    ///
    /// # Errors
    /// It does not run or does not end.
    pub fn stop_controller(&self, name: &str) -> Result<std::process::ExitStatus> {
        self.take_controller(name)?.stop(END)
    }

    /// Stops or continues a controller as a whole.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal_controller(&self, name: &str, signal: Signal) -> Result<()> {
        let controllers = self.controllers.lock();
        let process = controllers.get(name).context("no such controller")?;
        process.signal(signal)
    }

    /// Whether a controller was started and has not ended.
    pub fn controller_runs(&self, name: &str) -> bool {
        let mut controllers = self.controllers.lock();
        controllers
            .get_mut(name)
            .is_some_and(|p| p.ended().is_none())
    }

    /// What a controller has used up so far.
    ///
    /// # Errors
    /// It does not run.
    pub fn usage_of_controller(&self, name: &str) -> Result<Usage> {
        let controllers = self.controllers.lock();
        Usage::of(controllers.get(name).context("no such controller")?)
    }

    /// What the agents have used up so far: CPU of all of them, memory of the largest.
    ///
    /// # Errors
    /// One does not run.
    pub fn usage_of_agents(&self) -> Result<Usage> {
        let mut all = Usage::default();
        for agent in self.agents.lock().values() {
            let one = Usage::of(agent)?;
            all.cpu += one.cpu;
            all.peak_kib = all.peak_kib.max(one.peak_kib);
            all.now_kib = all.now_kib.max(one.now_kib);
        }
        Ok(all)
    }

    /// How a controller has ended; `None`: it has not.
    pub fn controller_ended(&self, name: &str) -> Option<std::process::ExitStatus> {
        self.controllers.lock().get_mut(name)?.ended()
    }

    /// All that a controller has logged, under this name, since the stage began.
    ///
    /// # Errors
    /// There is no such log.
    pub fn log_of(&self, name: &str) -> Result<String> {
        let path = self.dir.join(format!("{name}.log"));
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Starts a controller again whenever it ends, as a Pod's kubelet would: one that could not renew
    /// its Lease in time, on a machine that is too busy, ends. Runs until it is dropped.
    ///
    /// # Errors
    /// It does not start again.
    pub async fn supervise(&self, name: &str) -> Result<()> {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if let Some(status) = self.controller_ended(name) {
                println!("    {name} ended ({status}) and is started again");
                drop(self.take_controller(name)?);
                self.start_controller(name).await?;
            }
        }
    }

    /// What a controller answers on its admin address.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn admin(&self, name: &str, path: &str) -> Result<(u16, String)> {
        let found = self.endpoints.lock().get(name).copied();
        let port = found.context("no such controller")?;
        let answer = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await?;
        let status = answer.status().as_u16();
        Ok((status, answer.text().await?))
    }

    /// A host by name, in whichever rack.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, name: &str) -> Result<&SimHost> {
        self.racks
            .iter()
            .find_map(|rack| rack.hosts().get(name))
            .with_context(|| format!("no rack has a host {name}"))
    }

    /// The IPMI BMC of a host, where that is what its BMC speaks.
    #[must_use]
    pub fn ipmi(&self, host: &str) -> Option<&IpmiBmc> {
        self.ipmi.get(host)
    }

    /// The address of a host's BMC, as baremetal-operator writes it.
    ///
    /// # Errors
    /// There is no such host, or its BMC does not listen yet.
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

    /// The racks.
    #[must_use]
    pub fn racks(&self) -> &[Rack] {
        &self.racks
    }

    /// Where everything lies, logs included.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The control plane.
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

    /// Settings of the controller.
    #[must_use]
    pub fn config(&self) -> &StageConfig {
        &self.config
    }

    /// Our binaries.
    #[must_use]
    pub fn binary(&self, name: &str) -> PathBuf {
        self.bins.join(name)
    }

    /// The authority that controllers and agents trust.
    #[must_use]
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// A directory with certificate, key and CA for somebody.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn issue(&self, spec: &CertSpec) -> Result<PathBuf> {
        self.issue_from(&self.pki, &spec.name, spec)
    }

    /// The same from another authority, under another name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn issue_from(&self, pki: &Pki, name: &str, spec: &CertSpec) -> Result<PathBuf> {
        let dir = self.dir.join("tls").join(name);
        tls_dir(&pki.issue(spec)?, &dir)?;
        Ok(dir)
    }

    /// The ends of all logs of our own processes, for a test that failed.
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

/// Where `cargo` has put our binaries: beside the test, or where RACKHAND_BIN_DIR says.
///
/// # Errors
/// One is missing.
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
