//! Two simulated PDUs whose outlets feed simulated hosts.
//!
//! Outlet N of both PDUs feeds host N. When both are off, the host really loses its power, and its BMC with
//! it; when one is on again, the host gets power and boots, as by its restore policy.

use std::{
    collections::BTreeMap,
    fs::Permissions,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use rackhand_sim::pdu::{PduConfig, SimPdu};
use serde_json::{Value, json};

use crate::rack::{ResetType, SimHost};

/// Names of the PDUs in the agents' configuration.
pub const PDUS: [&str; 2] = ["a", "b"];
/// The cause of a change of power in the log of a host.
pub const CAUSE: &str = "its outlets";
pub(crate) const USER: &str = "rackhand";
pub(crate) const PASSWORD: &str = "s3cret-of-the-pdus";

/// The two PDUs of a stage.
#[derive(Clone, Debug)]
pub struct PduPair([SimPdu; 2]);

impl PduPair {
    /// Starts both, with this many outlets each, all on.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(outlets: usize) -> Result<Self> {
        let config = PduConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            outlets: u32::try_from(outlets).context("outlets")?,
            username: USER.to_owned(),
            password: PASSWORD.into(),
            measures_current: true,
            is_enclosure: false,
        };
        let other = SimPdu::start(config.clone()).await?;
        Ok(Self([SimPdu::start(config).await?, other]))
    }

    /// Connects a host with outlet `outlet` of both. `has_broken_bmc`: its BMC does not come back with the
    /// power.
    pub fn connect(&self, outlet: u32, host: &SimHost, has_broken_bmc: bool) {
        let feeds = Arc::new(Mutex::new(BTreeMap::from([(0, true), (1, true)])));
        for (feed, pdu) in self.0.iter().enumerate() {
            let (feeds, host) = (feeds.clone(), host.clone());
            pdu.connect(outlet, move |is_on| {
                let mut feeds = feeds.lock();
                let has_power = |feeds: &BTreeMap<usize, bool>| feeds.values().any(|on| *on);
                let before = has_power(&feeds);
                feeds.insert(feed, is_on);
                match (before, has_power(&feeds)) {
                    (true, false) => lose_power(&host),
                    (false, true) => get_power(&host, has_broken_bmc),
                    _ => {}
                }
            });
        }
    }

    /// Lets a PDU fail, so that it answers nothing, or repairs it. Its outlets stay as they are.
    pub fn set_dead(&self, pdu: usize, is_dead: bool) {
        self.0[pdu].with_faults(|faults| faults.silent = is_dead);
    }

    /// Whether outlet `outlet` of each PDU is on.
    #[must_use]
    pub fn are_on(&self, outlet: u32) -> [bool; 2] {
        self.0.each_ref().map(|pdu| pdu.is_on(outlet))
    }

    /// Switches outlet `outlet` of a PDU on by hand.
    pub fn switch_on(&self, pdu: usize, outlet: u32) {
        self.0[pdu].switch_on(outlet);
    }

    /// The tables of the PDUs in the configuration of an agent, whose password file is written beside it.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn config(&self, dir: &Path) -> Result<Value> {
        let password = write_password(dir)?;
        let tables = PDUS.iter().zip(&self.0).map(|(name, pdu)| {
            let table = json!({
                "address": pdu.url(),
                "username": USER,
                "password_file": password,
            });
            ((*name).to_owned(), table)
        });
        Ok(Value::Object(tables.collect()))
    }

    /// The outlets of a host in the configuration of an agent.
    #[must_use]
    pub fn outlets(outlet: usize) -> Value {
        let named = PDUS.map(|pdu| json!({ "pdu": pdu, "outlet": outlet.to_string() }));
        Value::from(named.to_vec())
    }
}

/// Writes the file with the password of the PDUs.
pub(crate) fn write_password(dir: &Path) -> Result<PathBuf> {
    let password = dir.join("pdu-password");
    std::fs::write(&password, PASSWORD)?;
    std::fs::set_permissions(&password, Permissions::from_mode(0o600))?;
    Ok(password)
}

fn lose_power(host: &SimHost) {
    host.switch(ResetType::ForceOff, CAUSE);
    let host = host.clone();
    tokio::spawn(async move { host.bmc_dead().await });
}

fn get_power(host: &SimHost, has_broken_bmc: bool) {
    host.switch(ResetType::On, CAUSE);
    if !has_broken_bmc {
        let host = host.clone();
        tokio::spawn(async move { host.bmc_alive().await });
    }
}
