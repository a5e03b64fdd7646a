//! What the processes run: controllers and agents as in production, over the connections of the
//! simulation.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use futures::FutureExt;
use rackhand_agent_service::{Agent, config};
use rackhand_runtime::{Config, Connections, HealthChecks};
use rackhand_sim::pki::{CertSpec, Pki};
use rackhand_transport::{ClientTls, ServerTls, TlsFiles, connect_lazy_over};
use tokio_util::sync::CancellationToken;

use crate::{
    api,
    fleet::{
        Fleet, Host, Link, SYSTEM, SimulatedBmcs, bmc_url, cluster_of_kubeconfig, endpoint, pdu,
        rack_name,
    },
    kernel::{Program, Simulation, dial, listen},
};

/// The certificates and the agents' files of a simulation.
pub(crate) struct Site {
    dir: PathBuf,
    pki: Pki,
}

impl Site {
    /// Makes a certificate authority in a directory.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        Ok(Self {
            dir: dir.to_owned(),
            pki: Pki::new(dir.join("pki"))?,
        })
    }

    fn certificate(&self, name: &str, uri: &str) -> Result<PathBuf> {
        let dir = self.dir.join(format!("tls-{name}"));
        std::fs::create_dir_all(&dir)?;
        let files = self.pki.issue(&CertSpec::peer(name, uri))?;
        std::fs::copy(&files.cert, dir.join("tls.crt"))?;
        std::fs::copy(&files.key, dir.join("tls.key"))?;
        std::fs::copy(self.pki.ca_file(), dir.join("ca.crt"))?;
        Ok(dir)
    }

    /// A controller.
    ///
    /// # Errors
    /// Its certificate cannot be made.
    pub(crate) fn controller(&self, simulation: &Simulation, name: &str) -> Result<Program> {
        let tls = self.certificate(name, "spiffe://rackhand/controller")?;
        let config = Config {
            agent_tls_dir: tls.clone(),
            replica: name.to_owned(),
            health_checks: HealthChecks::All,
            remediation_triggers: true,
            lease_namespace: SYSTEM.to_owned(),
            ..Config::default()
        };
        let simulation = simulation.clone();
        Ok(Arc::new(move |process| {
            let (simulation, config, tls) = (simulation.clone(), config.clone(), tls.clone());
            async move {
                let tls = match ClientTls::controller(TlsFiles::in_dir(&tls)) {
                    Ok(tls) => tls,
                    Err(error) => return error.to_string(),
                };
                let workload = simulation.clone();
                let connections = Connections {
                    management: api::connect(&simulation, process, None),
                    workload: Arc::new(move |kubeconfig| {
                        let cluster = cluster_of_kubeconfig(&kubeconfig);
                        let client = api::connect(&workload, process, cluster);
                        async move { Ok(client) }.boxed()
                    }),
                    agent: Arc::new(move |endpoint, rack, tls| {
                        let simulation = simulation.clone();
                        let dial = move |address| dial(simulation.clone(), process, address);
                        connect_lazy_over(endpoint, rack, tls, dial)
                    }),
                    tls,
                };
                let run = rackhand_runtime::run_over(config, connections, CancellationToken::new());
                match Box::pin(run).await {
                    Ok(()) => "it was stopped".to_owned(),
                    Err(error) => format!("{error:#}"),
                }
            }
            .boxed()
        }))
    }

    /// Where an agent keeps its journal.
    #[must_use]
    pub(crate) fn state_dir(&self, agent: &str) -> PathBuf {
        self.dir.join(format!("agent-{agent}"))
    }

    /// An agent of a rack.
    ///
    /// # Errors
    /// Its files cannot be written, or its configuration is wrong.
    pub(crate) fn agent(
        &self,
        simulation: &Simulation,
        rack: usize,
        name: &str,
    ) -> Result<Program> {
        let (rack_name, name) = (rack_name(rack), name.to_owned());
        let uri = format!("spiffe://rackhand/rack/{rack_name}");
        let tls = self.certificate(&name, &uri)?;
        let text = {
            let world = simulation.world();
            self.agent_config(&world.fleet, rack, &name, &tls)?
        };
        let state = self.state_dir(&name);
        let path = self.dir.join(format!("{name}.toml"));
        let config = config::Config::parse(&path, &text, None)
            .map_err(|error| anyhow::anyhow!("{error}"))
            .context("configuration of an agent")?;
        let simulation = simulation.clone();
        Ok(Arc::new(move |process| {
            let (simulation, config) = (simulation.clone(), config.clone());
            let (rack, name, tls) = (rack_name.clone(), name.clone(), tls.clone());
            let state = state.clone();
            async move {
                let tls = match ServerTls::load(TlsFiles::in_dir(&tls), &rack) {
                    Ok(tls) => tls,
                    Err(error) => return error.to_string(),
                };
                let connections = listen(simulation.clone(), process, endpoint(&name));
                let mut asked =
                    simulation
                        .world()
                        .fleet
                        .journals
                        .open(&name, process, state.clone());
                let driver = Arc::new(SimulatedBmcs {
                    simulation: simulation.clone(),
                    agent: process,
                });
                let started = Agent::start_over(config, driver, tls, connections).await;
                match started {
                    Ok(mut agent) => loop {
                        tokio::select! {
                            () = agent.failed() => return "a part of it has ended".to_owned(),
                            Some(()) = asked.recv() => {
                                let holds = agent.held_hosts().await;
                                let holds = holds.map_err(|error| error.to_string());
                                simulation.world().fleet.journals.answer(&name, holds);
                            }
                        }
                    },
                    Err(error) => error.to_string(),
                }
            }
            .boxed()
        }))
    }

    fn agent_config(&self, fleet: &Fleet, rack: usize, name: &str, tls: &Path) -> Result<String> {
        let password = self.dir.join("bmc-password");
        std::fs::write(&password, "secret")?;
        restrict(&password)?;
        let known: Vec<&Host> = fleet
            .ids()
            .map(|id| fleet.host(id))
            .filter(|host| host.rack == rack)
            .collect();
        let by_inventory = known.iter().any(|host| host.link == Link::Inventory);
        let mut text = format!(
            "rack = {rack:?}\nlisten = \"127.0.0.1:7443\"\ntls = {tls:?}\nsocket = {socket:?}\n\
             state = {state:?}\nallowed_bmc_networks = [\"10.0.0.0/8\"]\n\
             accept_endpoints_from_controller = {endpoints}\n\
             accept_insecure_endpoints_from_controller = {endpoints}\n",
            rack = rack_name(rack),
            tls = tls.display().to_string(),
            socket = self.dir.join(format!("{name}.sock")).display().to_string(),
            state = self.state_dir(name).display().to_string(),
            endpoints = !by_inventory,
        );
        for host in known.iter().filter(|_| by_inventory) {
            let outlet = pdu::outlet_of(host);
            let outlets = pdu::PDUS.map(|pdu| format!("{{ pdu = {pdu:?}, outlet = {outlet:?} }}"));
            let outlets = host
                .feeds
                .map(|_| format!("outlets = [{}]\n", outlets.join(", ")));
            text.push_str(&format!(
                "[[hosts]]\nname = {name:?}\nsystem_uuid = {uuid:?}\n{outlets}[hosts.bmc]\n\
                 address = {address:?}\nusername = \"admin\"\npassword_file = {password:?}\n\
                 trust = {{ insecure = true }}\n",
                name = host.name,
                uuid = host.system_uuid(),
                outlets = outlets.unwrap_or_default(),
                address = bmc_url(host),
                password = password.display().to_string(),
            ));
        }
        for (at, name) in pdu::PDUS.iter().enumerate() {
            if fleet.spec.has_pdus(rack) {
                text.push_str(&format!(
                    "[pdus.{name}]\naddress = \"snmp://{address}\"\ntable = \"apc-rpdu2\"\n\
                     community_file = {password:?}\n",
                    address = pdu::address(rack, at),
                    password = password.display().to_string(),
                ));
            }
        }
        Ok(text)
    }
}

fn restrict(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(())
}
