//! The stand-in for baremetal-operator and Ironic of a stage.

use std::time::Duration;

use anyhow::Result;

use crate::bmo::{Access, Metal3, Settings, real::Ironic, webhook::Webhook};
use crate::stage::{BMC_USER, Stage};

impl Stage {
    /// Starts the stand-in for baremetal-operator and Ironic with these hosts, and its webhook; it stops when it is
    /// dropped.
    ///
    /// # Errors
    /// A host does not exist, or the webhook cannot be registered.
    pub async fn start_metal3(&self, hosts: &[&str], settings: Settings) -> Result<Metal3> {
        self.start_owner(hosts, settings, None).await
    }

    /// The same with real Ironic, which compares power in intervals of `sync`.
    ///
    /// # Errors
    /// A host does not exist, or Ironic does not start or does not adopt it.
    pub async fn start_real_ironic(
        &self,
        hosts: &[&str],
        settings: Settings,
        sync: Duration,
    ) -> Result<Metal3> {
        let dir = self.dir.join("ironic");
        let ironic = Ironic::start(&dir, sync).await?;
        for name in hosts {
            let ca = self.pki.ca_file();
            let access = Access {
                user: BMC_USER,
                password: &self.config.bmc_password,
                ca: &[],
            };
            ironic.adopt(self.host(name)?, &access, &ca).await?;
        }
        self.start_owner(hosts, settings, Some(ironic)).await
    }

    async fn start_owner(
        &self,
        hosts: &[&str],
        settings: Settings,
        real: Option<Ironic>,
    ) -> Result<Metal3> {
        let webhook = Webhook::register(&self.client, &self.pki, hosts).await?;
        self.owned
            .lock()
            .extend(hosts.iter().map(|&name| name.to_owned()));
        let hosts: Result<Vec<_>> = hosts.iter().map(|name| self.host(name)).collect();
        let ca = std::fs::read(self.pki.ca_file())?;
        let access = Access {
            user: BMC_USER,
            password: &self.config.bmc_password,
            ca: &ca,
        };
        let (objects, hosts) = (self.bare_metal_hosts(), hosts?);
        Metal3::start_with(objects, &hosts, &access, settings, real, Some(webhook))
    }
}
