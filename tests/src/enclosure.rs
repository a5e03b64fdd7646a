//! A simulated enclosure with a chassis manager, whose sleds are simulated hosts.
//!
//! The chassis `Enclosure` feeds every host. When it is off, each host really loses its power, and its BMC with it.
//! When it is on again, a host that ran before boots, as by the restore policy "last state", and one that was off
//! stays off.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use rackhand_sim::pdu::{ENCLOSURE, PduConfig, SimPdu};
use serde_json::{Value, json};

use crate::{
    pdu::{CAUSE, PASSWORD, USER, write_password},
    rack::{PowerState, ResetType, SimHost},
};

/// Name of the chassis manager in the agents' configuration.
const NAME: &str = "enclosure";

/// The enclosure of a stage.
#[derive(Clone, Debug)]
pub struct Enclosure {
    manager: SimPdu,
    /// How often a host lost its power while it was on, by its number.
    lost: Arc<Mutex<BTreeMap<u32, Arc<AtomicU32>>>>,
}

impl Enclosure {
    /// Starts an enclosure with this many sleds, all on.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(sleds: usize) -> Result<Self> {
        let config = PduConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            outlets: u32::try_from(sleds).context("sleds")?,
            username: USER.to_owned(),
            password: PASSWORD.into(),
            measures_current: true,
            is_enclosure: true,
        };
        Ok(Self {
            manager: SimPdu::start(config).await?,
            lost: Arc::default(),
        })
    }

    /// Puts a host into a sled. `has_broken_bmc`: its BMC does not come back with the power.
    pub fn connect(&self, sled: u32, host: &SimHost, has_broken_bmc: bool) {
        let lost = self.lost.lock().entry(sled).or_default().clone();
        let host = host.clone();
        // Whether it has power, and whether it ran before it lost it.
        let state = Mutex::new((true, true));
        self.manager.connect(sled, move |has_power| {
            let mut state = state.lock();
            match (state.0, has_power) {
                (true, false) => {
                    state.1 = host.real_power() != PowerState::Off;
                    if state.1 {
                        lost.fetch_add(1, Ordering::SeqCst);
                    }
                    host.switch(ResetType::ForceOff, CAUSE);
                    let host = host.clone();
                    tokio::spawn(async move { host.bmc_dead().await });
                }
                (false, true) => {
                    if state.1 {
                        host.switch(ResetType::On, CAUSE);
                    }
                    if !has_broken_bmc {
                        let host = host.clone();
                        tokio::spawn(async move { host.bmc_alive().await });
                    }
                }
                _ => {}
            }
            state.0 = has_power;
        });
    }

    /// Whether the enclosure is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.manager.is_on(ENCLOSURE)
    }

    /// How often the host in this sled lost its power while it was on.
    #[must_use]
    pub fn lost_power(&self, sled: u32) -> u32 {
        let lost = self.lost.lock();
        lost.get(&sled)
            .map_or(0, |lost| lost.load(Ordering::SeqCst))
    }

    /// The table of the chassis manager in the configuration of an agent, whose password file is written beside
    /// it.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn config(&self, dir: &Path) -> Result<Value> {
        Ok(json!({ NAME: {
            "type": "chassis",
            "address": self.manager.url(),
            "username": USER,
            "password_file": write_password(dir)?,
            // More than the fans of the simulated enclosure take.
            "standby_watts": 15,
        }}))
    }

    /// The outlets of every host in the configuration of an agent.
    #[must_use]
    pub fn outlets() -> Value {
        json!([{ "pdu": NAME, "outlet": "Enclosure", "shared": true }])
    }
}
