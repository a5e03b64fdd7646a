//! Rack agents of a stage: configuration, process, RackAgent object.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt, path::PathBuf};

use anyhow::{Context, Result};
use kube::{
    Api,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use nix::sys::signal::Signal;
use rackhand_proto::v1::{
    ListHostsRequest, ListOperationsRequest, OperationInfo, power_client::PowerClient,
};
use secrecy::ExposeSecret;
use serde_json::json;

use super::{
    BMC_USER, END, EntryUuid, HostLink, KnownBy, LONG, OtlpReceiver, RackSpec, Stage,
    faults::{Disk, clock_variables},
    wait_until,
};
use crate::{
    cluster::apply,
    enclosure::Enclosure,
    pdu::PduPair,
    pki::CertSpec,
    process::{Process, free_port},
};

impl Stage {
    fn spec(&self, rack: &str) -> Result<&RackSpec> {
        self.config
            .racks
            .iter()
            .find(|r| r.name == rack)
            .context("no such rack")
    }

    /// Starts the agent of a rack, on the same port as before.
    ///
    /// # Errors
    /// The agent does not start.
    pub fn start_agent(&self, rack: &str) -> Result<()> {
        self.start_agent_as(rack, rack)
    }

    /// Starts one of several agents of a rack, each with its own name, port and state.
    ///
    /// # Errors
    /// The agent does not start.
    pub fn start_agent_as(&self, rack: &str, name: &str) -> Result<()> {
        let known = self.endpoints.lock().get(name).copied();
        let port = match known {
            Some(port) => port,
            None => free_port()?,
        };
        self.endpoints.lock().insert(name.to_owned(), port);
        let admin = free_port()?;
        self.endpoints.lock().insert(format!("{name} admin"), admin);
        let config = self.write_agent_config(rack, name, (port, admin))?;
        let mut command = vec![
            self.bins.join("rackhand-agent").display().to_string(),
            "serve".into(),
            format!("--config={}", config.display()),
        ];
        if self.config.json_logs {
            command.push("--log-format=json".to_owned());
        }
        let process_name = format!("agent-{name}");
        let mut env = vec![
            ("RACKHAND_LOG".to_owned(), self.config.log.clone()),
            ("NO_COLOR".to_owned(), "1".to_owned()),
        ];
        env.extend(self.config.otlp.iter().flat_map(OtlpReceiver::variables));
        if self.config.faults.clocks {
            env.extend(clock_variables(&self.clock_file(&process_name))?);
        }
        if self.config.faults.disks && !self.disks.lock().contains_key(name) {
            let disk = Disk::mount(&self.agent_state(name))?;
            self.disks.lock().insert(name.to_owned(), disk);
        }
        let process = Process::start(&process_name, &command, &env, &self.dir)?;
        self.agents.lock().insert(name.to_owned(), process);
        Ok(())
    }

    /// Creates the RackAgents of all racks.
    ///
    /// # Errors
    /// The API server rejects a RackAgent.
    pub async fn apply_rack_agents(&self) -> Result<()> {
        for spec in &self.config.racks {
            let endpoint = self.agent_endpoint(&spec.name)?;
            self.apply_rack_agent(&spec.name, &endpoint).await?;
        }
        Ok(())
    }

    /// Creates the RackAgent of a rack with this endpoint.
    ///
    /// # Errors
    /// The API server rejects the RackAgent.
    pub async fn apply_rack_agent(&self, rack: &str, endpoint: &str) -> Result<()> {
        self.apply_rack_agent_as(rack, rack, endpoint).await
    }

    /// Creates the RackAgent of one of several agents of a rack.
    ///
    /// # Errors
    /// The API server rejects the RackAgent.
    pub async fn apply_rack_agent_as(&self, rack: &str, name: &str, endpoint: &str) -> Result<()> {
        let object = json!({
            "apiVersion": "rackhand.dev/v1alpha1",
            "kind": "RackAgent",
            "metadata": { "name": name },
            "spec": { "rack": rack, "endpoint": endpoint },
        });
        apply(&self.client, object).await.map(drop)
    }

    /// `kill -9` of an agent.
    ///
    /// # Errors
    /// The agent does not run.
    pub fn kill_agent(&self, rack: &str) -> Result<()> {
        self.take_agent(rack)?.kill()
    }

    /// Whether an agent was started and has not ended.
    pub fn agent_runs(&self, name: &str) -> bool {
        let mut agents = self.agents.lock();
        agents.get_mut(name).is_some_and(|p| p.ended().is_none())
    }

    /// Sends a signal to an agent, for example to stop or continue it.
    ///
    /// # Errors
    /// The agent does not run.
    pub fn signal_agent(&self, name: &str, signal: Signal) -> Result<()> {
        let agents = self.agents.lock();
        agents.get(name).context("no such agent")?.signal(signal)
    }

    fn take_agent(&self, rack: &str) -> Result<Process> {
        self.agents.lock().remove(rack).context("no such agent")
    }

    /// Empties the state directory of an agent that does not run.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub fn lose_agent_state(&self, name: &str) -> Result<()> {
        let state = self.agent_state(name);
        let removed = std::fs::read_dir(&state)
            .and_then(|mut files| files.try_for_each(|file| std::fs::remove_file(file?.path())));
        removed.with_context(|| state.display().to_string())
    }

    /// Moves the state directory of an agent that does not run to another agent, which was not started yet,
    /// as to another machine.
    ///
    /// # Errors
    /// The directory cannot be moved.
    pub fn move_agent_state(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.agent_state(from), self.agent_state(to));
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::rename(&from, &to).with_context(|| from.display().to_string())
    }

    pub(super) fn agent_state(&self, name: &str) -> PathBuf {
        self.dir.join(format!("agent-{name}")).join("state")
    }

    /// Status and reason of a RackAgent's condition Connected; empty if there is none.
    ///
    /// # Errors
    /// The RackAgent does not exist.
    pub async fn connected(&self, name: &str) -> Result<(String, String)> {
        let gvk = GroupVersionKind::gvk("rackhand.dev", "v1alpha1", "RackAgent");
        let resource = ApiResource::from_gvk(&gvk);
        let agents: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let agent = agents.get(name).await?;
        let condition = &agent.data["status"]["conditions"][0];
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Ok((text("status"), text("reason")))
    }

    /// Waits for a reason of condition Connected.
    ///
    /// # Errors
    /// The reason does not occur in time.
    pub async fn wait_connected(&self, name: &str, reason: &str) -> Result<()> {
        wait_until(&format!("agent {name}: {reason}"), LONG, || async {
            let (status, now) = self.connected(name).await?;
            Ok(if now == reason {
                Ok(())
            } else {
                Err(format!("{status} {now}"))
            })
        })
        .await
    }

    /// Stops an agent with SIGTERM.
    ///
    /// # Errors
    /// The agent does not run or does not end.
    pub fn stop_agent(&self, rack: &str) -> Result<std::process::ExitStatus> {
        self.take_agent(rack)?.stop(END)
    }

    /// Sets the directory with certificate, key and CA of a rack's agent, from its next start.
    pub fn set_agent_certificate(&mut self, rack: &str, dir: PathBuf) {
        self.agent_certificates.insert(rack.to_owned(), dir);
    }

    /// Address of the gRPC server of a rack's agent.
    ///
    /// # Errors
    /// The agent was never started.
    pub fn agent_endpoint(&self, rack: &str) -> Result<String> {
        let found = self.endpoints.lock().get(rack).copied();
        let port = found.with_context(|| format!("the agent of {rack} was never started"))?;
        Ok(format!("127.0.0.1:{port}"))
    }

    /// Address of the metrics of a rack's agent.
    ///
    /// # Errors
    /// The agent was never started.
    pub fn agent_admin(&self, rack: &str) -> Result<String> {
        let found = self.endpoints.lock().get(&format!("{rack} admin")).copied();
        let port = found.with_context(|| format!("the agent of {rack} was never started"))?;
        Ok(format!("127.0.0.1:{port}"))
    }

    /// Waits until the agent of a rack answers on its socket.
    ///
    /// # Errors
    /// The agent does not answer in time.
    pub async fn wait_agent(&self, rack: &str) -> Result<()> {
        wait_until(&format!("the agent of {rack} answers"), END, || async {
            self.held_by(rack).await.map(|_| Ok(()))
        })
        .await
    }

    /// The owners of holds by host of an agent's inventory, read over its socket.
    ///
    /// # Errors
    /// The agent does not answer.
    pub async fn held_by(&self, rack: &str) -> Result<BTreeMap<String, String>> {
        let channel = rackhand_transport::connect_local(&self.agent_socket(rack)).await?;
        let mut client = PowerClient::new(channel);
        let listed = client.list_hosts(ListHostsRequest {}).await?.into_inner();
        Ok(listed
            .hosts
            .into_iter()
            .map(|host| (host.name, host.held_by))
            .collect())
    }

    /// The operations in an agent's journal, read over its socket.
    ///
    /// # Errors
    /// The agent does not answer.
    pub async fn operations(&self, rack: &str) -> Result<Vec<OperationInfo>> {
        let channel = rackhand_transport::connect_local(&self.agent_socket(rack)).await?;
        let mut client = PowerClient::new(channel);
        let request = ListOperationsRequest::default();
        Ok(client
            .list_operations(request)
            .await?
            .into_inner()
            .operations)
    }

    /// Path of the socket of a rack's agent, for the command line.
    #[must_use]
    pub fn agent_socket(&self, rack: &str) -> PathBuf {
        self.dir.join(format!("agent-{rack}")).join("agent.sock")
    }

    fn write_agent_config(
        &self,
        rack: &str,
        name: &str,
        (port, admin): (u16, u16),
    ) -> Result<PathBuf> {
        let spec = self.spec(rack)?;
        let dir = self.dir.join(format!("agent-{name}"));
        std::fs::create_dir_all(&dir)?;
        let password = dir.join("bmc-password");
        std::fs::write(&password, self.config.bmc_password.expose_secret())?;
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600))?;
        let tls = match self.agent_certificates.get(rack) {
            Some(dir) => dir.clone(),
            None => self.issue(&CertSpec::peer(
                format!("agent-{name}"),
                format!("spiffe://rackhand/rack/{rack}"),
            ))?,
        };
        let mut hosts = spec.real.clone();
        if spec.link == HostLink::Inventory {
            for (place, name) in spec.hosts.iter().chain(&spec.also_lists).enumerate() {
                let sim = self.host(name)?;
                let other = spec.hosts.iter().rev().nth(place);
                let cabled = other.filter(|_| spec.swapped).unwrap_or(name);
                let mut host = json!({
                    "name": spec.inventory_name(name),
                    "bmc": {
                        "address": self.bmc_address(cabled)?,
                        "username": BMC_USER,
                        "password_file": password,
                    },
                });
                match spec.entry_uuid {
                    EntryUuid::OfHost => host["system_uuid"] = json!(sim.config().uuid),
                    EntryUuid::Absent => {}
                    EntryUuid::Ignored => host["system_uuid"] = json!("none"),
                }
                if spec.known_by == KnownBy::NodeName {
                    host["node_name"] = json!(name);
                }
                if let Some(cluster) = &spec.cluster {
                    host["cluster"] = json!(cluster);
                }
                if self.config.pdus.is_some() {
                    host["outlets"] = PduPair::outlets(place + 1);
                }
                if self.config.enclosure.is_some() {
                    host["outlets"] = Enclosure::outlets();
                }
                hosts.push(host);
            }
        }
        let mut config = json!({
            "rack": rack,
            "listen": format!("127.0.0.1:{port}"),
            "admin_listen": format!("127.0.0.1:{admin}"),
            "tls": tls,
            "socket": dir.join("agent.sock"),
            "state": self.agent_state(name),
            "allowed_bmc_networks": ["127.0.0.0/8"],
            "accept_endpoints_from_controller": spec.link != HostLink::Inventory,
            "accept_insecure_endpoints_from_controller": spec.link != HostLink::Inventory,
            "defaults": { "trust": { "ca_file": self.pki.ca_file() } },
            "hosts": hosts,
        });
        if let Some(pdus) = &self.config.pdus {
            config["pdus"] = pdus.config(&dir)?;
        }
        if let Some(enclosure) = &self.config.enclosure {
            config["pdus"] = enclosure.config(&dir)?;
        }
        if let Some(otlp) = &self.config.otlp {
            config["otlp_endpoint"] = json!(otlp.endpoint);
        }
        let path = dir.join("agent.toml");
        std::fs::write(&path, toml::to_string(&config)?)?;
        Ok(path)
    }
}
