//! The one configuration file: what this agent is, and which hosts it knows.
//!
//! Owns: reading the file, judging it whole, and finding a host by any of its names. Must never:
//! hold a password (only where it lies), start with a mistake in the file, or stop at the first.

mod file;
mod inventory;
mod judge;
mod password;

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use rackhand_bmc::{Protocol, Trust};

pub use inventory::{Ambiguous, BmcEntry, BmcOptions, HostEntry, Inventory};
pub use password::{PasswordError, PasswordFile};

/// A good configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it was read.
    pub path: PathBuf,
    /// Which rack this is; its certificate must say the same.
    pub rack: String,
    /// Where controllers and remote operators connect, and the directory of the certificate for
    /// it. `None`: only the local socket is served.
    pub remote: Option<Remote>,
    /// The local socket.
    pub socket: PathBuf,
    /// The directory of the journal.
    pub state: PathBuf,
    /// Times.
    pub times: Times,
    /// The hosts and networks.
    pub inventory: Inventory,
}

/// The listener for callers from afar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Address and port.
    pub listen: SocketAddr,
    /// Holds `tls.crt`, `tls.key` and `ca.crt`.
    pub tls: PathBuf,
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// Reaching a BMC, TLS included.
    pub connect: Duration,
    /// One call to a BMC.
    pub call: Duration,
    /// An operation for which the caller names no deadline.
    pub operation: Duration,
    /// The slowest polling.
    pub poll_max: Duration,
    /// When a command that has no effect is repeated.
    pub resend_after: Duration,
    /// How long running operations may go on when the agent is told to stop.
    pub shutdown_grace: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            call: Duration::from_secs(20),
            operation: Duration::from_secs(300),
            poll_max: Duration::from_secs(2),
            resend_after: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// Networks in which this agent may touch a BMC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<IpNet>);

impl Networks {
    /// Whether this address is in one of them.
    pub fn allow(&self, ip: std::net::IpAddr) -> bool {
        // An IPv4 address in IPv6 clothes is the IPv4 address.
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

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// Each mistake with its place.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration {}: ", self.path.display())?;
        match self.problems.as_slice() {
            [one] => f.write_str(one),
            many => {
                write!(f, "{} problems", many.len())?;
                many.iter()
                    .try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and judges a file. Relative paths in it start at its own directory, those of
    /// passwords at systemd's credentials directory where there is one. Blocks on the disk.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            path: path.to_owned(),
            problems: vec![format!("cannot be read: {error}")],
        })?;
        Self::parse(path, &text, credentials.as_deref())
    }

    /// The same from text.
    pub fn parse(path: &Path, text: &str, credentials: Option<&Path>) -> Result<Self, ConfigError> {
        let failed = |problems| ConfigError {
            path: path.to_owned(),
            problems,
        };
        let file: file::File = serde_saphyr::from_str(text)
            .map_err(|error| failed(vec![judge::yaml_problem(&error)]))?;
        judge::judge(path, file, credentials).map_err(failed)
    }

    /// What works, but should be looked at: passwords that cannot be read just now or by too
    /// many, certificates that are not verified. Reads every password file.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for host in &self.inventory.hosts {
            for bmc in host.bmcs() {
                let found = bmc.warnings().into_iter();
                warnings.extend(found.map(|warning| format!("{}: {warning}", host.name)));
            }
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
                warnings.push("the BMC is spoken to without TLS".to_owned());
            }
        }
        for file in std::iter::once(&self.password).chain(&self.kg) {
            match file.read() {
                Err(error) => warnings.push(error.to_string()),
                Ok(_) if file.is_open_to_all() => {
                    warnings.push(format!("password file {file} can be read by everybody"));
                }
                Ok(_) => {}
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
