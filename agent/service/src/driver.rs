//! The way to a BMC driver.
//!
//! Owns: what a driver needs to know of a BMC, and which driver speaks to it. Must never: show a
//! password.

use std::{fmt, sync::Arc, time::Duration};

use rackhand_bmc::{Bmc, BmcAddress, BmcError, RedfishConfig, Timeouts, Trust};
use secrecy::{ExposeSecret, SecretString};

/// Everything that is needed to speak to one BMC.
#[derive(Debug, Clone)]
pub struct BmcSpec {
    /// Where it is.
    pub address: BmcAddress,
    /// User name.
    pub username: String,
    /// Password.
    pub password: SecretString,
    /// What certificate is believed.
    pub trust: Trust,
    /// Reaching it, TLS included.
    pub connect_timeout: Duration,
    /// One call, whatever it takes.
    pub call_timeout: Duration,
}

impl PartialEq for BmcSpec {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
            && self.username == other.username
            && self.password.expose_secret() == other.password.expose_secret()
            && self.trust == other.trust
            && self.connect_timeout == other.connect_timeout
            && self.call_timeout == other.call_timeout
    }
}

/// Makes clients for BMCs. Sends nothing itself.
pub trait Driver: Send + Sync + fmt::Debug + 'static {
    /// A client for this BMC. May block for a moment on the disk.
    fn connect(&self, spec: BmcSpec) -> Result<Arc<dyn Bmc>, BmcError>;
}

/// The drivers of this project.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hardware;

impl Driver for Hardware {
    fn connect(&self, spec: BmcSpec) -> Result<Arc<dyn Bmc>, BmcError> {
        let mut config = RedfishConfig::new(spec.address, spec.username, spec.password);
        config.trust = spec.trust;
        config.timeouts = Timeouts {
            connect: spec.connect_timeout,
            request: spec.call_timeout,
            call: spec.call_timeout,
            ..Timeouts::default()
        };
        rackhand_bmc::connect(config).map(Arc::from)
    }
}
