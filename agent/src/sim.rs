//! `sim`: a simulated rack for trials.
//!
//! Owns: simulated hosts, their configuration, and an agent for them, while the command runs. Must
//! never: replace a configuration that it did not write, or contact a real BMC: the configuration
//! allows loopback only.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, UdpSocket},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use rackhand_agent_service::{Agent, Hardware, config::Config};
use rackhand_sim::{
    pki::Pki,
    rack::{
        HostConfig, Rack, RackConfig,
        ipmi::{IpmiBmc, IpmiConfig},
        redfish::{Profile, Recording, Vendor},
    },
};
use secrecy::{ExposeSecret, SecretString};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    cli::{SimArgs, SimulatedProtocol},
    output::{exit_code::Usage, private_files},
};

/// First line of the written files: only a file with this line is replaced.
const MARK: &str = "# Written by `rackhand-agent sim`: a simulated rack.";
const CONFIG: &str = "agent.toml";
const SOCKET: &str = "agent.sock";
const USER: &str = "admin";
/// Profiles of the simulated Redfish hosts, in rotation.
const MAKES: [(Vendor, &str); 4] = [
    (Vendor::Idrac9, "dell"),
    (Vendor::Ilo5, "hpe"),
    (Vendor::SupermicroX13, "supermicro"),
    (Vendor::OpenBmc, "openbmc"),
];

/// Address of a simulated host.
struct Host {
    name: String,
    uuid: String,
    make: &'static str,
    address: String,
    is_redfish: bool,
}

pub(crate) async fn sim(args: SimArgs) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    crate::daemon::hardening::confine();
    let (dir, _temporary) = place(args.dir)?;
    let file = dir.join(CONFIG);
    may_write(&file)?;

    let pki = Pki::new(dir.join("pki"))?;
    // 128 bits as text would be longer than the 20 bytes that IPMI allows.
    let password = uuid::Uuid::new_v4().simple().to_string();
    let password = SecretString::from(password.chars().take(20).collect::<String>());
    let config = if args.recording.is_empty() {
        hosts(args.hosts, &password)
    } else {
        recorded(&args.recording, &password)?
    };
    let count = config.hosts.len();
    let rack = Rack::bare(config, Some(&pki)).await?;
    // Objects that live as long as the command.
    let (mut ipmi, mut dead) = (Vec::new(), Vec::new());
    let mut known = Vec::new();
    let (dead_hosts, speaks) = match args.recording.is_empty() {
        true => (usize::from(args.dead), args.speaks),
        false => (0, SimulatedProtocol::Redfish),
    };
    let living = count.saturating_sub(dead_hosts);
    for (index, (name, host)) in rack.hosts().iter().enumerate() {
        let by_ipmi = index >= living || speaks_ipmi(speaks, index);
        let address = if index >= living {
            // A BMC that never responds.
            let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = format!("ipmi://{}", silent.local_addr()?);
            dead.push(silent);
            address
        } else if by_ipmi {
            let mut config = IpmiConfig::of_host(host.config());
            config.clock = u32::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
            let free = (Ipv4Addr::LOCALHOST, 0).into();
            let bmc = IpmiBmc::start(free, config, host.clone()).await?;
            let address = format!("ipmi://{}", bmc.address());
            ipmi.push(bmc);
            address
        } else {
            host.system_url()?.replacen("https", "redfish", 1)
        };
        known.push(Host {
            name: name.clone(),
            uuid: host.config().uuid.clone(),
            make: match by_ipmi {
                _ if index >= living => "dead",
                true => "ipmi",
                false if host.config().bmc.recording.is_some() => "recorded",
                false => make(index).1,
            },
            address,
            is_redfish: !by_ipmi,
        });
    }
    write_private(&dir.join("password"), password.expose_secret())?;
    let text = configuration(&known, &pki.ca_file(), args.patience);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let agent = Agent::start(Config::load(&file)?, Arc::new(Hardware)).await?;
    out!("{}", welcome(&dir, &known));
    crate::output::stdio::finish();

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    errln!("the simulated rack is gone");
    agent.shutdown().await;
    rack.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The directory, and its guard if it is a temporary one.
fn place(dir: Option<PathBuf>) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    if let Some(dir) = dir {
        private_files::dir(&dir)?;
        return Ok((std::path::absolute(dir)?, None));
    }
    let temporary = tempfile::Builder::new()
        .prefix("rackhand-sim-")
        .tempdir()
        .context("cannot make a temporary directory")?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

fn may_write(file: &Path) -> Result<(), Usage> {
    match fs::read_to_string(file) {
        Ok(text) if !text.starts_with(MARK) => Err(Usage(format!(
            "{} is there and was not written by `sim`; name another --dir",
            file.display()
        ))),
        _ => Ok(()),
    }
}

fn write_private(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::remove_file(file).ok();
    private_files::file(file, &format!("{text}\n"))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn speaks_ipmi(speaks: SimulatedProtocol, index: usize) -> bool {
    match speaks {
        SimulatedProtocol::Both => index % 3 == 2,
        SimulatedProtocol::Redfish => false,
        SimulatedProtocol::Ipmi => true,
    }
}

fn make(index: usize) -> (Vendor, &'static str) {
    let found = MAKES.get(index % MAKES.len());
    found.copied().unwrap_or((Vendor::Generic, "generic"))
}

/// Hosts with power transitions slow enough to be observed.
fn hosts(count: u16, password: &SecretString) -> RackConfig {
    // Names whose order is that of their numbers.
    let width = count.to_string().len().max(2);
    let names = (1..=count).map(|number| format!("sim-{number:0width$}"));
    let mut config = RackConfig::new("sim", names);
    for (index, host) in config.hosts.iter_mut().enumerate() {
        USER.clone_into(&mut host.bmc.username);
        host.bmc.password = password.clone();
        host.bmc.profile = Profile::of(make(index).0);
    }
    config
}

/// One host for each recorded service.
fn recorded(folders: &[PathBuf], password: &SecretString) -> Result<RackConfig, Usage> {
    let mut config = RackConfig::new("sim", Vec::<String>::new());
    let width = folders.len().to_string().len().max(2);
    for (number, folder) in (1..).zip(folders) {
        let recording = Recording::read(folder).map_err(|error| Usage(error.to_string()))?;
        let mut host = HostConfig::recorded(format!("sim-{number:0width$}"), recording);
        USER.clone_into(&mut host.bmc.username);
        host.bmc.password = password.clone();
        config.hosts.push(host);
    }
    Ok(config)
}

/// The configuration of the agent.
fn configuration(hosts: &[Host], ca: &Path, patience: Duration) -> String {
    let mut text = format!(
        "{MARK}\nrack = \"sim\"\nsocket = \"{SOCKET}\"\nstate = \"state\"\n\
         allowed_bmc_networks = [\"127.0.0.0/8\"]\n\n\
         [defaults]\nconnect_timeout = \"{}ms\"\ncall_timeout = \"{}ms\"\n",
        patience.as_millis(),
        patience.saturating_mul(2).as_millis(),
    );
    for (index, host) in hosts.iter().enumerate() {
        let trust = if host.is_redfish {
            format!("bmc.trust = {{ ca_file = '{}' }}\n", ca.display())
        } else {
            String::new()
        };
        // A recorded system may report none, and recordings of one model the same.
        let is_unique = hosts.iter().filter(|other| other.uuid == host.uuid).count() == 1;
        let uuid = if is_unique && !host.uuid.is_empty() {
            format!("system_uuid = \"{}\"\n", host.uuid)
        } else {
            String::new()
        };
        let role = if index % 2 == 0 { "db" } else { "web" };
        // Writing to a String cannot fail.
        write!(
            text,
            "\n[[hosts]]\nname = \"{}\"\n{uuid}\
             labels = {{ role = \"{role}\", make = \"{}\" }}\n\
             bmc.address = \"{}\"\nbmc.username = \"{USER}\"\n\
             bmc.password_file = \"password\"\n{trust}",
            host.name, host.make, host.address
        )
        .ok();
    }
    text
}

/// The introduction that the command prints.
fn welcome(dir: &Path, hosts: &[Host]) -> String {
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("rackhand-agent");
    let name = |index: usize| hosts.get(index).map_or("sim-01", |host| host.name.as_str());
    let last = hosts.len().saturating_sub(1);
    format!(
        "A simulated rack of {} hosts, with an agent in front of it. Nothing of it is real.\n\n\
         In another terminal:\n\n  \
         export RACKHAND_SOCKET={}\n\n  \
         {program} power status --all\n  \
         {program} host check {}\n  \
         {program} power cycle {}\n\n\
         {}`{program} --help` shows what else there is.\n\
         Configuration and inventory: {}\n\
         Ctrl-C ends it.\n",
        hosts.len(),
        dir.join(SOCKET).display(),
        name(last),
        name(0),
        if hosts.last().is_some_and(|host| host.make == "dead") {
            format!("The BMC of {} does not answer, on purpose.  ", name(last))
        } else {
            String::new()
        },
        dir.join(CONFIG).display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, address: &str, is_redfish: bool) -> Host {
        Host {
            name: name.to_owned(),
            uuid: format!("00000000-0000-0000-0000-0000000000{}", &name[4..]),
            make: "dell",
            address: address.to_owned(),
            is_redfish,
        }
    }

    #[test]
    fn generated_configuration_is_valid() {
        let dir = TempDir::new().unwrap();
        let pki = Pki::new(dir.path().join("pki")).unwrap();
        let hosts = [
            host("sim-01", "redfish://127.0.0.1:1/redfish/v1/Systems/1", true),
            host("sim-02", "ipmi://127.0.0.1:2", false),
        ];
        let text = configuration(&hosts, &pki.ca_file(), Duration::from_secs(2));
        let config = Config::parse(&dir.path().join(CONFIG), &text, None).unwrap();
        assert_eq!(config.inventory.hosts.len(), 2);
        assert!(config.remote.is_none(), "the agent has no remote listener");
        let said = welcome(dir.path(), &hosts);
        assert!(said.contains("power status --all"), "{said}");
    }

    #[test]
    fn foreign_configuration_is_not_overwritten() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join(CONFIG);
        assert!(may_write(&file).is_ok());
        fs::write(&file, format!("{MARK}\n")).unwrap();
        assert!(may_write(&file).is_ok());
        fs::write(&file, "rack = 'r1'\n").unwrap();
        assert!(may_write(&file).is_err());
    }
}
