//! The rack simulator: hosts with a BMC and a kubelet each, connected by the power of the host.
//!
//! ```text
//!   Redfish ---> command ---> power (real) ---> operating system ---> kubelet ---> Kubernetes API
//!      ^                        |                                        |
//!      +--- reported state <----+                        processes of pods (real)
//!           (may be wrong)
//! ```
//!
//! Owns the tasks of all of these. Must never share code with the tested programs, except for the
//! packets of IPMI (see [`ipmi`]): its BMCs are checked by foreign clients, its power is a model of
//! its own. Tests query the host, not the BMC, for the real events: [`SimHost::counters`],
//! [`SimHost::switched`], [`SimHost::log`], [`SimHost::processes`], [`Rack::overlaps`].

mod bmc;
pub mod clock;
pub mod config;
pub mod faults;
pub mod host;
pub mod ipmi;
#[cfg(feature = "kubelet")]
pub mod kubelet;
pub mod observation;
pub mod power;
pub mod process;
pub mod redfish;
pub mod settings;
mod single_step;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use config::{BmcConfig, GuidSource, HostConfig, KubeletConfig, RackConfig};
pub use faults::{Action, FaultId, Rule};
pub use host::SimHost;
pub use observation::{Cause, Counters, HostView, LogEntry, LogEvent, Switched};
pub use power::{FlashState, OsState, PowerState, PowerTimings, ResetType};
pub use process::{HostProcess, Overlap, PodProcess, StopReason, overlaps};
pub use settings::{
    BootOverride, BootSource, Event, LedState, OverrideLifetime, Severity, Topology,
};

use crate::pki::{CertSpec, Pki};

/// Time limit for the tasks of a rack to end before they are aborted.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// A running rack. Dropping it stops it.
#[derive(Debug)]
pub struct Rack {
    name: String,
    hosts: BTreeMap<String, SimHost>,
    stop: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

impl Rack {
    /// Starts a rack. `pki` is needed if any BMC uses TLS; without `client` there are no kubelets.
    #[cfg(feature = "kubelet")]
    pub async fn start(
        config: RackConfig,
        pki: Option<&Pki>,
        client: Option<kube::Client>,
    ) -> Result<Self> {
        let rack = Self::bare(config, pki).await?;
        if let Some(client) = client {
            let mut tasks = rack.tasks.lock();
            let hosts = rack.hosts.values();
            for host in hosts.filter(|host| host.config().kubelet.enabled) {
                tasks.spawn(kubelet::run(
                    host.clone(),
                    client.clone(),
                    rack.stop.clone(),
                ));
            }
        }
        Ok(rack)
    }

    /// Starts a rack without kubelets. `pki` is needed if any BMC uses TLS.
    ///
    /// # Errors
    ///
    /// No port is available, or two hosts have the same name.
    pub async fn bare(config: RackConfig, pki: Option<&Pki>) -> Result<Self> {
        let tls = match pki {
            Some(pki) => {
                let spec = CertSpec::server(format!("{}-bmc", config.name));
                Some(pki.issue(&spec)?.server_config()?)
            }
            None => None,
        };
        let mut rack = Self {
            name: config.name,
            hosts: BTreeMap::new(),
            stop: CancellationToken::new(),
            tasks: Mutex::default(),
        };
        for host in config.hosts {
            let name = host.name.clone();
            let host = rack.start_host(host, tls.as_ref()).await;
            let host = host.with_context(|| format!("starting host {name}"))?;
            if rack.hosts.insert(name.clone(), host).is_some() {
                bail!("two hosts are named {name}");
            }
        }
        Ok(rack)
    }

    async fn start_host(
        &self,
        config: HostConfig,
        tls: Option<&Arc<rustls::ServerConfig>>,
    ) -> Result<SimHost> {
        let tls = match (config.bmc.tls, tls) {
            (true, None) => bail!("its BMC is to speak TLS, and there is no PKI"),
            (true, Some(tls)) => Some(Arc::clone(tls)),
            (false, _) => None,
        };
        let host = SimHost::new(config);
        let bmc = redfish::serve(host.clone(), tls, self.stop.clone()).await?;
        let mut tasks = self.tasks.lock();
        tasks.spawn(host.clone().drive(self.stop.clone()));
        tasks.spawn(bmc);
        Ok(host)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A host by its name.
    pub fn host(&self, name: &str) -> Result<&SimHost> {
        self.hosts
            .get(name)
            .with_context(|| format!("rack {} has no host {name}", self.name))
    }

    /// All hosts, by name.
    pub fn hosts(&self) -> &BTreeMap<String, SimHost> {
        &self.hosts
    }

    /// Every process that ever ran on any host.
    pub fn processes(&self) -> Vec<HostProcess> {
        self.hosts.values().flat_map(SimHost::processes).collect()
    }

    /// Every pod identity that ran on two hosts at the same time. Must be empty.
    pub fn overlaps(&self) -> Vec<Overlap> {
        overlaps(self.processes())
    }

    /// Resets every BMC of the rack, as an update of their firmware or their own supply does. Each of them answers
    /// again after a while, and takes its host for off for so long then. The hosts are not affected.
    pub fn reset_bmcs(&self, lies: Duration) {
        for host in self.hosts.values() {
            host.restart_bmc_lying(lies);
        }
    }

    /// Stops all tasks and waits for them.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_DEADLINE, ended).await.is_err() {
            tasks.shutdown().await;
        }
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
