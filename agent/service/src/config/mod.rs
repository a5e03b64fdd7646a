//! The configuration file and the inventory that it names.
//!
//! Owns: reading and validating the files, and finding a host by any of its names. Must never: show a
//! password, or accept an invalid file.

mod decode;
mod host_key;
mod inventory;
mod location;
mod manifests;
mod pdu;
mod schema;
mod secret;
mod sources;
mod validate;

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use rackhand_agent_core::watch_schedule;
use rackhand_bmc::{Protocol, Trust};
use secrecy::zeroize::Zeroizing;

pub(crate) use host_key::{host_key, host_keys, key_text};
pub use inventory::{Ambiguous, BmcEntry, BmcOptions, HostEntry, Inventory};
pub use location::Problem;
use location::{Diagnostics, KeyPath};
pub use pdu::{PduEntry, PduLogin};
use rackhand_transport::otlp::OtlpEndpoint;
pub use secret::{Password, PasswordError};
pub use sources::Fingerprint;

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The path that it was read from.
    pub path: PathBuf,
    /// Every file and directory that it was read from, with their state at that time.
    pub sources: Fingerprint,
    /// The rack of this agent, as in its certificate.
    pub rack: String,
    /// The listener for controllers and remote operators, with its certificate. `None`: only the
    /// local socket is served.
    pub remote: Option<Remote>,
    /// Address of health checks and metrics in plain HTTP; `None`: not served.
    pub admin: Option<SocketAddr>,
    /// The receiver of trace spans; `None`: not exported.
    pub otlp_endpoint: Option<OtlpEndpoint>,
    /// The local socket.
    pub socket: PathBuf,
    /// The directory of the journal.
    pub state: PathBuf,
    /// Timeouts, intervals and deadlines.
    pub times: Times,
    /// Staggered power-on.
    pub staging: StaggerSettings,
    /// The hosts and networks.
    pub inventory: Inventory,
}

/// Minimum time between two power-ons on the same PDU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaggerSettings {
    /// Default interval.
    pub interval: Duration,
    /// Power-on interval of each PDU.
    pub pdus: BTreeMap<String, Duration>,
}

impl Default for StaggerSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            pdus: BTreeMap::new(),
        }
    }
}

impl StaggerSettings {
    /// The interval of one PDU.
    pub fn of(&self, pdu: &str) -> Duration {
        self.pdus.get(pdu).copied().unwrap_or(self.interval)
    }
}

/// The listener for remote callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Address and port.
    pub listen: SocketAddr,
    /// Directory with `tls.crt`, `tls.key` and `ca.crt`.
    pub tls: PathBuf,
}

/// Timeouts and intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// Time limit for connecting to a BMC, TLS included.
    pub connect: Duration,
    /// Time limit for one call to a BMC.
    pub call: Duration,
    /// Default deadline of an operation.
    pub operation: Duration,
    /// Longest polling interval.
    pub poll_max: Duration,
    /// Longest interval between two readings of a host that is watched.
    pub watch: Duration,
    /// Time after which a command without effect is repeated.
    pub resend_after: Duration,
    /// Grace period of running operations at shutdown.
    pub shutdown_grace: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            call: Duration::from_secs(20),
            operation: Duration::from_secs(300),
            poll_max: Duration::from_secs(2),
            watch: watch_schedule::INTERVAL,
            resend_after: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// Networks in which this agent may connect to BMCs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<IpNet>);

impl Networks {
    /// Whether this address is in one of them.
    pub fn allow(&self, ip: std::net::IpAddr) -> bool {
        // An IPv4-mapped IPv6 address is the IPv4 address.
        let ip = ip.to_canonical();
        self.0.iter().any(|net| net.contains(&ip))
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&list.join(", "))
    }
}

/// All mistakes of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file that is affected.
    pub path: PathBuf,
    /// Each mistake with its position.
    pub problems: Vec<Problem>,
    /// Every file and directory whose change may correct it.
    pub sources: Fingerprint,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [one] => write!(f, "configuration: {one}"),
            many => {
                let path = self.path.display();
                write!(f, "configuration {path}: {} mistakes", many.len())?;
                many.iter()
                    .try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and validates a file and its inventory. Relative paths are relative to the file that
    /// contains them. Blocks on the disk.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        Self::load_with(path, credentials.as_deref())
    }

    /// The same with the credentials of systemd in this directory; `None`: there are none.
    pub fn load_with(path: &Path, credentials: Option<&Path>) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            path: path.to_owned(),
            problems: vec![Problem {
                file: path.to_owned(),
                at: None,
                key: String::new(),
                what: format!("cannot be read: {error}"),
            }],
            sources: Fingerprint::of(vec![path.to_owned()]),
        })?;
        Self::parse(path, &Zeroizing::new(text), credentials)
    }

    /// The same from the text of the file.
    pub fn parse(path: &Path, text: &str, credentials: Option<&Path>) -> Result<Self, ConfigError> {
        let mut diagnostics = Diagnostics::default();
        let shared: Arc<Path> = path.into();
        let mut sources = vec![path.to_owned()];
        let decoded: Option<schema::File> = decode::read(&shared, text, &mut diagnostics);
        let config = decoded.and_then(|mut file| {
            let beside = path.parent().unwrap_or(Path::new(""));
            let root = KeyPath::root(&shared);
            let own = std::mem::take(&mut file.hosts);
            let mut hosts: Vec<_> = sources::located(&root, own).collect();
            let (others, inventory) =
                sources::read(&file.inventory, beside, &root, &mut diagnostics);
            hosts.extend(others);
            sources.extend(inventory);
            let all_hosts_read = diagnostics.problems.is_empty();
            let mut validator = validate::Validator {
                path,
                beside,
                credentials,
                root,
                diagnostics: &mut diagnostics,
                sources: &mut sources,
                all_hosts_read,
            };
            validator.config(file, &hosts)
        });
        let sources = Fingerprint::of(sources);
        match config {
            Some(config) if diagnostics.problems.is_empty() => Ok(Self { sources, ..config }),
            _ => Err(ConfigError {
                path: path.to_owned(),
                problems: diagnostics.into_problems(),
                sources,
            }),
        }
    }

    /// Warnings: passwords that are unreadable, readable by too many users, or written in the files
    /// themselves, and certificates that are not verified. Reads every password file, and runs no
    /// command.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut inline: BTreeMap<&Path, usize> = BTreeMap::new();
        for host in &self.inventory.hosts {
            for bmc in host.bmcs() {
                let found = bmc.warnings().into_iter();
                warnings.extend(found.map(|warning| format!("{}: {warning}", host.name)));
                for password in std::iter::once(&bmc.password).chain(&bmc.kg) {
                    if let Some(file) = password.stands_in() {
                        *inline.entry(file).or_default() += 1;
                    }
                }
            }
        }
        for pdu in self.inventory.pdus.values() {
            let found = pdu.warnings().into_iter().map(str::to_owned);
            let secrets = pdu.secrets();
            let found = found.chain(secret_warnings(secrets.iter().copied()));
            warnings.extend(found.map(|warning| format!("PDU {}: {warning}", pdu.name)));
            for secret in secrets {
                if let Some(file) = secret.stands_in() {
                    *inline.entry(file).or_default() += 1;
                }
            }
        }
        warnings.extend(inline.into_iter().map(|(file, count)| {
            format!(
                "{}: contains plaintext passwords ({count}), visible to everybody who can read it; use \
                 password_file, password_credential or password_command",
                file.display()
            )
        }));
        if let Some(admin) = self.admin.filter(|admin| !admin.ip().is_loopback()) {
            warnings.push(format!(
                "admin_listen: {admin} is not an address of this machine alone: whoever reaches \
                 it reads metrics, without TLS"
            ));
        }
        warnings
    }
}

impl BmcEntry {
    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .address
            .warnings()
            .iter()
            .map(ToString::to_string)
            .collect();
        if self.address.protocol() == Protocol::Redfish {
            if self.trust == Trust::Insecure {
                warnings.push("the BMC's certificate is not verified".to_owned());
            }
            if !self.address.is_tls() {
                warnings.push("the connection to the BMC has no TLS".to_owned());
            }
        }
        warnings.extend(secret_warnings(
            std::iter::once(&self.password).chain(&self.kg),
        ));
        warnings
    }
}

/// Secrets that are unreadable, or readable by too many users.
fn secret_warnings<'a>(secrets: impl Iterator<Item = &'a Password>) -> Vec<String> {
    let warning = |secret: &Password| match secret.read_now()? {
        Err(error) => Some(error.to_string()),
        Ok(_) if secret.is_open_to_all() => Some(format!("{secret} can be read by everybody")),
        Ok(_) => None,
    };
    secrets.filter_map(warning).collect()
}

#[cfg(test)]
mod tests;
