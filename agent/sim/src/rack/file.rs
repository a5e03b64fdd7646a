//! The configuration file of the `rack-sim` binary.
//!
//! Owns its format. Must never hold a password: that comes from the environment or from a file of
//! its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use secrecy::SecretString;
use serde::Deserialize;

use super::config::{BmcConfig, HostConfig, KubeletConfig, RackConfig, Taint};
use super::power::PowerTimings;
use super::redfish::{Profile, Vendor};

/// The file that is affected.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackFile {
    /// The rack's name.
    pub name: String,
    /// Where certificates and the list of endpoints are written; relative to the file.
    #[serde(default = "here")]
    pub directory: PathBuf,
    /// Where the control port listens.
    #[serde(default = "loopback")]
    pub control: SocketAddr,
    /// Kubeconfig of the cluster that the kubelets join; without it there are none.
    #[serde(default)]
    pub kubeconfig: Option<PathBuf>,
    /// What is the same for all BMCs.
    #[serde(default)]
    pub bmc: BmcSection,
    /// How long the power of a host takes, unless the host says otherwise.
    #[serde(default)]
    pub timings: PowerTimings,
    /// The kubelets, unless the host says otherwise.
    #[serde(default)]
    pub kubelet: KubeletConfig,
    pub hosts: Vec<HostSection>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BmcSection {
    /// The address that they listen at.
    pub address: IpAddr,
    /// Whether they speak TLS.
    pub tls: bool,
    /// The user's name.
    pub username: String,
    /// A file with the password, if `RACK_SIM_PASSWORD` is not set; relative to the configuration
    /// file.
    pub password_file: Option<PathBuf>,
    pub vendor: Vendor,
    /// Their behaviour in detail, in place of a make.
    pub profile: Option<Profile>,
}

impl Default for BmcSection {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            tls: true,
            username: "admin".to_owned(),
            password_file: None,
            vendor: Vendor::Generic,
            profile: None,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSection {
    pub name: String,
    /// Its system UUID; one that follows from the name unless set.
    #[serde(default)]
    pub uuid: Option<String>,
    /// Its serial number.
    #[serde(default)]
    pub serial: Option<String>,
    /// The port of its BMC; a free one unless set.
    #[serde(default)]
    pub port: u16,
    /// Whether it is up at first.
    #[serde(default = "yes")]
    pub starts_on: bool,
    /// The make of its BMC.
    #[serde(default)]
    pub vendor: Option<Vendor>,
    /// Its own timings.
    #[serde(default)]
    pub timings: Option<PowerTimings>,
    /// `spec.providerID` of its Node.
    #[serde(default)]
    pub provider_id: Option<String>,
    /// More labels of its Node.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// More taints of its Node.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn yes() -> bool {
    true
}

impl RackFile {
    /// Reads the file; relative paths in it are taken from where it lies.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut file: Self =
            serde_saphyr::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        let base = path.parent().unwrap_or(Path::new("."));
        file.directory = base.join(&file.directory);
        file.kubeconfig = file.kubeconfig.map(|path| base.join(path));
        file.bmc.password_file = file.bmc.password_file.map(|path| base.join(path));
        ensure!(
            !file.hosts.is_empty(),
            "{}: a rack needs hosts",
            path.display()
        );
        Ok(file)
    }

    /// The rack that the file describes. `password` comes before the password file.
    pub fn rack(&self, password: Option<SecretString>) -> Result<RackConfig> {
        let password = match (password, &self.bmc.password_file) {
            (Some(password), _) => password,
            (None, Some(path)) => std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?
                .trim_end()
                .into(),
            (None, None) => anyhow::bail!("set RACK_SIM_PASSWORD or bmc.password_file"),
        };
        let hosts = self
            .hosts
            .iter()
            .map(|section| self.host(section, &password))
            .collect();
        Ok(RackConfig {
            name: self.name.clone(),
            hosts,
        })
    }

    fn host(&self, section: &HostSection, password: &SecretString) -> HostConfig {
        let mut host = HostConfig::new(&section.name);
        if let Some(uuid) = &section.uuid {
            host.uuid.clone_from(uuid);
        }
        if let Some(serial) = &section.serial {
            host.serial.clone_from(serial);
        }
        let profile = match (section.vendor, &self.bmc.profile) {
            (None, Some(profile)) => profile.clone(),
            (vendor, _) => Profile::of(vendor.unwrap_or(self.bmc.vendor)),
        };
        host.starts_on = section.starts_on;
        host.timings = section.timings.unwrap_or(self.timings);
        host.bmc = BmcConfig {
            listen: (self.bmc.address, section.port).into(),
            tls: self.bmc.tls,
            username: self.bmc.username.clone(),
            password: password.clone(),
            profile,
        };
        host.kubelet = self.kubelet.clone();
        host.kubelet.labels.extend(section.labels.clone());
        host.kubelet.taints.extend(section.taints.clone());
        if section.provider_id.is_some() {
            host.kubelet.provider_id.clone_from(&section.provider_id);
        }
        host
    }
}
