//! The stand-in for baremetal-operator and Ironic of a stage.

use anyhow::Result;

use super::{BMC_USER, Stage};
use crate::bmo::{Access, Metal3, Settings};

impl Stage {
    /// Starts the stand-in for baremetal-operator and Ironic with these hosts; it stops when it is dropped.
    ///
    /// # Errors
    /// A host does not exist.
    pub fn start_metal3(&self, hosts: &[&str], settings: Settings) -> Result<Metal3> {
        let hosts: Result<Vec<_>> = hosts.iter().map(|name| self.host(name)).collect();
        let ca = std::fs::read(self.pki.ca_file())?;
        let access = Access {
            user: BMC_USER,
            password: &self.config.bmc_password,
            ca: &ca,
        };
        Metal3::start(self.bare_metal_hosts(), &hosts?, &access, settings)
    }
}
