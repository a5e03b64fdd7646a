//! Many simulated BMCs in one process, each with a machine of its own.
//!
//! Owns their addresses and identities. Must never take a thread for one: a thousand are a thousand
//! sockets and tasks, no more.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::config::IpmiConfig;
use super::counters::Counters;
use super::power::{PowerTally, StandAlone};
use super::server::IpmiBmc;
use crate::rack::PowerTimings;
use crate::rack::config::uuid_of;

#[derive(Clone, Debug)]
pub struct FarmConfig {
    /// Address of the first; the others follow it.
    pub first: Ipv4Addr,
    /// Port of all of them; 0 takes free ones.
    pub port: u16,
    pub count: u32,
    /// Those, from 0, that are silent at first.
    pub dead: BTreeSet<u32>,
    /// Whether the machines are on at first.
    pub on: bool,
    /// How long their power takes.
    pub timings: PowerTimings,
    /// What each BMC is like but for GUID, serial number and seed.
    pub bmc: IpmiConfig,
}

impl FarmConfig {
    /// A farm on free ports of loopback.
    pub fn new(count: u32) -> Self {
        Self {
            first: Ipv4Addr::LOCALHOST,
            port: 0,
            count,
            dead: BTreeSet::new(),
            on: true,
            timings: PowerTimings::default(),
            bmc: IpmiConfig::default(),
        }
    }
}

/// A running farm. Dropping it ends it.
#[derive(Debug)]
pub struct Farm {
    bmcs: Vec<IpmiBmc>,
}

/// How one BMC of a farm is, as `bmc-farm` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct FarmView {
    /// Which, from 0.
    pub bmc: usize,
    pub address: SocketAddr,
    /// What really happened to its machine.
    pub power: PowerTally,
    /// Sessions that are up.
    pub sessions: usize,
    /// What the BMC did.
    pub counters: Counters,
}

impl Farm {
    /// Starts one. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// An address cannot be had.
    pub async fn start(config: &FarmConfig) -> Result<Self> {
        let mut bmcs = Vec::new();
        for index in 0..config.count {
            let address = address(config.first, index)?;
            let name = format!("bmc-{index}");
            let mut bmc = config.bmc.clone();
            let uuid = uuid_of(&name);
            bmc.guid = super::config::guid_of(&uuid).unwrap_or(bmc.guid);
            bmc.product.serial = format!("SIM-{index}");
            bmc.seed = bmc.seed.wrapping_add(u64::from(index));
            let power = StandAlone::new(config.timings, config.on);
            let listen = SocketAddr::from((address, config.port));
            let bmc = IpmiBmc::start(listen, bmc, power).await;
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

    /// How each is.
    pub fn views(&self) -> Vec<FarmView> {
        let numbered = self.bmcs.iter().enumerate();
        numbered.map(|(index, bmc)| view(index, bmc)).collect()
    }
}

/// How one is.
pub fn view(index: usize, bmc: &IpmiBmc) -> FarmView {
    FarmView {
        bmc: index,
        address: bmc.address(),
        power: bmc.tally(),
        sessions: bmc.sessions(),
        counters: bmc.counters(),
    }
}

fn address(first: Ipv4Addr, index: u32) -> Result<Ipv4Addr> {
    let address = u32::from(first).checked_add(index).map(Ipv4Addr::from);
    let loopback = address.filter(Ipv4Addr::is_loopback);
    loopback.with_context(|| format!("{first} + {index} is no address of loopback"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_each_other_within_loopback() {
        let first = Ipv4Addr::new(127, 0, 1, 250);
        let tenth = address(first, 10).expect("an address");
        assert_eq!(tenth, Ipv4Addr::new(127, 0, 2, 4));
        assert!(address(Ipv4Addr::new(127, 255, 255, 255), 1).is_err());
        assert!(address(Ipv4Addr::new(10, 0, 0, 1), 0).is_err());
    }
}
