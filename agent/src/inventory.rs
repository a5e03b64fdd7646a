//! `inventory check` and `inventory import`: hosts in files.
//!
//! Owns: conversion of Metal3 manifests to an inventory of the agent. Must never: print a password,
//! replace an existing one, or write an inventory that the agent would reject.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use rackhand_agent_service::config::{BmcEntry, Config, HostEntry};
use rackhand_bmc::Trust;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::{
    cli::{ImportArgs, InventoryAction, InventoryArgs},
    daemon::config_check,
    output::{exit_code::Usage, private_files},
};

pub(crate) async fn inventory(args: InventoryArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        InventoryAction::Check(args) => config_check::check(&args.config),
        InventoryAction::Import(args) => import(&args).await,
    }
}

/// An inventory file, as `inventory` in the configuration names it.
#[derive(Serialize)]
struct File {
    hosts: Vec<Host>,
}

#[derive(Serialize)]
struct Host {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pdu: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    bmc: Bmc,
}

#[derive(Serialize)]
struct Bmc {
    address: String,
    username: String,
    password_file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<BTreeMap<&'static str, bool>>,
}

impl Host {
    fn of(host: &HostEntry, secrets: &Path) -> Self {
        Self {
            name: host.name.clone(),
            node_name: host.node_name.clone(),
            provider_id: host.provider_id.clone(),
            system_uuid: host.system_uuid.clone(),
            serial: host.serial.clone(),
            position: host.position.clone(),
            pdu: host.pdu.clone(),
            labels: host.labels.clone(),
            bmc: Bmc::of(&host.bmc, secrets.join(&host.name)),
        }
    }
}

impl Bmc {
    fn of(bmc: &BmcEntry, password_file: PathBuf) -> Self {
        let insecure = bmc.trust == Trust::Insecure;
        Self {
            address: bmc.address.to_string(),
            username: bmc.username.clone(),
            password_file,
            trust: insecure.then(|| BTreeMap::from([("insecure", true)])),
        }
    }
}

/// Prints the hosts; their passwords are written to separate files.
async fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    for file in &args.files {
        let extension = file.extension().and_then(|extension| extension.to_str());
        if !matches!(extension, Some("yaml" | "yml" | "json")) {
            let file = file.display();
            let what = "manifests stand in a .yaml, .yml or .json file";
            return Err(Usage(format!("{file}: {what}")).into());
        }
    }
    let config = judged(&args.files)?;
    let hosts = &config.inventory.hosts;
    if hosts.is_empty() {
        bail!("no BareMetalHost in these files: nothing is imported");
    }
    let secrets = std::path::absolute(&args.secrets)?;
    private_files::dir(&secrets)?;
    for host in hosts {
        let password = host.bmc.password.read().await;
        let password = password.with_context(|| format!("host {}", host.name))?;
        keep(&secrets.join(&host.name), &password)?;
    }
    let file = File {
        hosts: hosts.iter().map(|host| Host::of(host, &secrets)).collect(),
    };
    out!("{}", toml::to_string(&file)?);
    errln!(
        "{} hosts; their passwords are in {}",
        hosts.len(),
        secrets.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Parses and validates the files as the agent does.
fn judged(files: &[PathBuf]) -> anyhow::Result<Config> {
    #[derive(Serialize)]
    struct CheckedConfig {
        rack: &'static str,
        socket: PathBuf,
        state: PathBuf,
        allowed_bmc_networks: [&'static str; 2],
        inventory: Vec<PathBuf>,
    }
    let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
    let files = files.iter().map(std::path::absolute);
    let around = CheckedConfig {
        rack: "import",
        socket: dir.path().join("agent.sock"),
        state: dir.path().join("state"),
        // The configuration that uses the inventory decides on the allowed networks.
        allowed_bmc_networks: ["0.0.0.0/0", "::/0"],
        inventory: files.collect::<Result<_, _>>()?,
    };
    let file = dir.path().join("agent.toml");
    fs::write(&file, toml::to_string(&around)?)?;
    Ok(Config::load(&file)?)
}

/// Writes a password readable by its owner only. An existing one must be the same.
fn keep(path: &Path, password: &SecretString) -> anyhow::Result<()> {
    let shown = path.display();
    let password = password.expose_secret();
    match private_files::file(path, password) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let known = zeroize::Zeroizing::new(
                fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?,
            );
            if known.trim_end_matches('\n') != password {
                bail!("{shown} holds another password: see which is right, and move one away");
            }
            Ok(())
        }
        written => written.with_context(|| format!("cannot write {shown}")),
    }
}
