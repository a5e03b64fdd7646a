//! Real Ironic in one process: SQLite, no authentication, hardware type `redfish`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{
    Access,
    ironic::{Change, Node, Power},
};
use crate::{
    process::{Process, free_port},
    rack::SimHost,
    stage::wait_until,
};

/// The version of the API that its answers are read in.
const VERSION: &str = "1.89";
/// Time of one request. Ironic answers a power request before it is carried out.
const ANSWER: Duration = Duration::from_secs(20);
/// Time for Ironic to start, and for a node to be adopted.
const START: Duration = Duration::from_secs(60);

/// A running Ironic. Dropping it stops it.
pub struct Ironic {
    process: Process,
    client: reqwest::Client,
    url: String,
}

impl Ironic {
    /// Starts Ironic with a new database in `dir`. It compares power with its database in intervals of `sync`, and
    /// forces hosts to it.
    ///
    /// # Errors
    /// `RACKHAND_IRONIC` names no Ironic, or it does not start.
    pub async fn start(dir: &Path, sync: Duration) -> Result<Self> {
        let programs = std::env::var_os("RACKHAND_IRONIC");
        let programs = programs
            .context("RACKHAND_IRONIC is not set; run hack/test, or hack/setup --print-ironic")?;
        let programs = PathBuf::from(programs).join("bin");
        std::fs::create_dir_all(dir.join("state"))?;
        let port = free_port()?;
        let config = dir.join("ironic.conf");
        std::fs::write(&config, configuration(dir, port, sync))?;
        let file = config.display().to_string();
        let command = |program: &str, args: &[&str]| -> Vec<String> {
            let program = programs.join(program).display().to_string();
            let args = args.iter().map(|&arg| arg.to_owned());
            [program, "--config-file".into(), file.clone()]
                .into_iter()
                .chain(args)
                .collect()
        };
        let mut schema = Process::start(
            "ironic-dbsync",
            &command("ironic-dbsync", &["create_schema"]),
            &[],
            dir,
        )?;
        wait_until("Ironic's database", START, || {
            let ended = schema.ended();
            async move {
                Ok(match ended {
                    Some(status) if status.success() => Ok(()),
                    other => Err(format!("{other:?}")),
                })
            }
        })
        .await
        .with_context(|| schema.log_tail())?;
        let process = Process::start("ironic", &command("ironic", &[]), &[], dir)?;
        let client = reqwest::Client::builder()
            .tls_certs_only(std::iter::empty())
            .timeout(ANSWER)
            .build()?;
        let ironic = Self {
            process,
            client,
            url: format!("http://127.0.0.1:{port}/v1"),
        };
        wait_until("Ironic answers with its driver", START, || async {
            let drivers = ironic.get("drivers").await;
            let named = |all: &Value| all["drivers"][0]["name"] == "redfish";
            Ok(match drivers {
                Ok(all) if named(&all) => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await
        .with_context(|| ironic.process.log_tail())?;
        Ok(ironic)
    }

    /// Registers a host and adopts it as deployed, with the power that it has.
    ///
    /// # Errors
    /// Ironic refuses it, or cannot reach its BMC.
    pub async fn adopt(&self, host: &SimHost, access: &Access<'_>, ca: &Path) -> Result<()> {
        let (name, system) = (host.name(), host.system_url()?);
        let path = system.find("/redfish").context("a Redfish URL")?;
        let body = json!({
            "name": name,
            "driver": "redfish",
            "driver_info": {
                "redfish_address": &system[..path],
                "redfish_system_id": &system[path..],
                "redfish_username": access.user,
                "redfish_password": access.password.expose_secret(),
                "redfish_verify_ca": ca.display().to_string(),
                "redfish_auth_type": "basic",
            },
            "instance_info": { "image_source": "http://image.invalid/node.qcow2" },
        });
        self.send(reqwest::Method::POST, "nodes", body).await?;
        for (target, state) in [("manage", "manageable"), ("adopt", "active")] {
            let states = format!("nodes/{name}/states/provision");
            let body = json!({ "target": target });
            self.send(reqwest::Method::PUT, &states, body).await?;
            wait_until(&format!("{name} is {state} in Ironic"), START, || async {
                let node = self.get(&format!("nodes/{name}")).await?;
                Ok(if node["provision_state"] == state {
                    Ok(())
                } else {
                    Err(format!(
                        "{} {}",
                        node["provision_state"], node["last_error"]
                    ))
                })
            })
            .await?;
        }
        Ok(())
    }

    /// The node as baremetal-operator reads it.
    ///
    /// # Errors
    /// Ironic does not answer, or does not know the host.
    pub async fn node(&self, host: &str) -> Result<Node> {
        let node = self.get(&format!("nodes/{host}")).await?;
        let power = match node["power_state"].as_str() {
            Some("power on") => Some(Power::On),
            Some("power off") => Some(Power::Off),
            _ => None,
        };
        let error = node["last_error"].as_str().map(str::to_owned);
        let is_busy = !node["target_power_state"].is_null();
        Ok(Node::read(power, is_busy, error))
    }

    /// Requests a change of power.
    ///
    /// # Errors
    /// Ironic does not answer, or refuses it.
    pub async fn power(&self, host: &str, change: Change) -> Result<()> {
        let target = match change {
            Change::On => "power on",
            Change::HardOff => "power off",
            Change::SoftOff => "soft power off",
            Change::Reboot => "rebooting",
        };
        let states = format!("nodes/{host}/states/power");
        self.send(reqwest::Method::PUT, &states, json!({ "target": target }))
            .await
    }

    /// Changes the password by which Ironic logs in to the BMC of a host.
    ///
    /// # Errors
    /// Ironic refuses it for longer than it keeps a node locked.
    pub async fn password(&self, host: &str, password: &str) -> Result<()> {
        let path = format!("nodes/{host}");
        wait_until("Ironic takes the password", START, || async {
            let change = json!([
                { "op": "replace", "path": "/driver_info/redfish_password", "value": password },
            ]);
            let changed = self.send(reqwest::Method::PATCH, &path, change).await;
            Ok(changed.map_err(|error| format!("{error:#}")))
        })
        .await
    }

    /// Suspends Ironic with its workers, or lets it go on.
    ///
    /// # Errors
    /// It has ended.
    pub fn stall(&self, stalled: bool) -> Result<()> {
        let signal = match stalled {
            true => Signal::SIGSTOP,
            false => Signal::SIGCONT,
        };
        for pid in with_children(self.process.pid())? {
            kill(Pid::from_raw(pid), signal).with_context(|| format!("{signal} to {pid}"))?;
        }
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let request = self.client.get(format!("{}/{path}", self.url));
        let request = request.header("X-OpenStack-Ironic-API-Version", VERSION);
        Ok(request.send().await?.error_for_status()?.json().await?)
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: Value) -> Result<()> {
        let request = self.client.request(method, format!("{}/{path}", self.url));
        let request = request.header("X-OpenStack-Ironic-API-Version", VERSION);
        let answer = request.json(&body).send().await?;
        let status = answer.status();
        ensure!(
            status.is_success(),
            "{path}: {status} {}",
            answer.text().await.unwrap_or_default()
        );
        Ok(())
    }
}

/// A process and all that it started.
fn with_children(pid: i32) -> Result<Vec<i32>> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
        for child in children.split_whitespace() {
            all.push(child.parse()?);
        }
        next += 1;
    }
    Ok(all)
}

/// The power interface is real; what deploys and inspects is left out.
fn configuration(dir: &Path, port: u16, sync: Duration) -> String {
    let (dir, sync) = (dir.display(), sync.as_secs());
    format!(
        "[DEFAULT]
auth_strategy = noauth
host = rackhand
my_ip = 127.0.0.1
rpc_transport = none
state_path = {dir}/state
enabled_hardware_types = redfish
enabled_power_interfaces = redfish
enabled_management_interfaces = redfish
enabled_boot_interfaces = redfish-virtual-media
default_boot_interface = redfish-virtual-media
enabled_deploy_interfaces = direct
enabled_inspect_interfaces = no-inspect
enabled_network_interfaces = noop
enabled_bios_interfaces = no-bios
enabled_console_interfaces = no-console
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
enabled_firmware_interfaces = no-firmware
[api]
host_ip = 127.0.0.1
port = {port}
[conductor]
sync_power_state_interval = {sync}
force_power_state_during_sync = true
power_state_sync_max_retries = 3
power_state_change_timeout = 30
automated_clean = false
[database]
connection = sqlite:///{dir}/ironic.sqlite
sqlite_synchronous = false
[oslo_concurrency]
lock_path = {dir}/state
"
    )
}
