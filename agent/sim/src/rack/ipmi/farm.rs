//! Many simulated BMCs in one process, each with its own machine.
//!
//! Owns: their addresses and identities.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};

use super::config::{IpmiConfig, guid_of};
use super::power::StandaloneHost;
use super::server::IpmiBmc;
use crate::rack::PowerTimings;
use crate::rack::config::uuid_of;

#[derive(Clone, Debug)]
pub struct FarmConfig {
    /// Address of the first BMC; the others follow it. Each uses a free port.
    pub first: Ipv4Addr,
    pub count: u32,
    /// Indexes of the BMCs that never respond.
    pub dead: BTreeSet<u32>,
    /// Durations of power transitions of the machines, which are on at first.
    pub timings: PowerTimings,
    /// Configuration of each BMC except GUID, serial number and seed.
    pub bmc: IpmiConfig,
}

impl FarmConfig {
    /// A farm on free ports of loopback.
    pub fn new(count: u32) -> Self {
        Self {
            first: Ipv4Addr::LOCALHOST,
            count,
            dead: BTreeSet::new(),
            timings: PowerTimings::default(),
            bmc: IpmiConfig::default(),
        }
    }
}

/// A running farm. Dropping it stops it.
#[derive(Debug)]
pub struct Farm {
    bmcs: Vec<IpmiBmc>,
}

impl Farm {
    /// Starts a farm. Must be called on a tokio runtime.
    ///
    /// # Errors
    ///
    /// An address cannot be bound.
    pub async fn start(config: &FarmConfig) -> Result<Self> {
        let mut bmcs = Vec::new();
        for index in 0..config.count {
            let address = u32::from(config.first).checked_add(index);
            let address = address.map(Ipv4Addr::from).filter(Ipv4Addr::is_loopback);
            let address = address.context("the farm does not fit into loopback")?;
            let mut bmc = config.bmc.clone();
            bmc.guid = guid_of(&uuid_of(&format!("bmc-{index}"))).unwrap_or(bmc.guid);
            bmc.serial = format!("SIM-{index}");
            bmc.seed = bmc.seed.wrapping_add(u64::from(index));
            let power = StandaloneHost::new(config.timings, true);
            let bmc = IpmiBmc::start(SocketAddr::from((address, 0)), bmc, power).await;
            let bmc = bmc.with_context(|| {
                format!("BMC {index}; `ulimit -n` must be above the number of BMCs")
            })?;
            if config.dead.contains(&index) {
                bmc.with(|bmc, _| bmc.set_dead(true));
            }
            bmcs.push(bmc);
        }
        Ok(Self { bmcs })
    }

    /// The BMCs, in order.
    pub fn bmcs(&self) -> &[IpmiBmc] {
        &self.bmcs
    }
}
