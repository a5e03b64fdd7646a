//! A simulated BMC on a UDP socket.
//!
//! Owns: the socket, the clock and one task, which ends with its handle. The protocol is in
//! [`Bmc`].

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use rackhand_bmc::ipmi::wire::MAX_PACKET;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::bmc::Bmc;
use super::config::IpmiConfig;
use super::counters::Counters;
use super::power::{HostPower, PowerCounts};
use super::rules::Rule;
use crate::rack::SimHost;

#[derive(Debug)]
struct Shared {
    bmc: Mutex<Bmc>,
    /// Number of processed packets.
    taken: watch::Sender<u64>,
}

/// A running BMC. Dropping it stops it and closes its port.
#[derive(Debug)]
pub struct IpmiBmc {
    shared: Arc<Shared>,
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl IpmiBmc {
    /// Starts a BMC of this host; port 0 selects a free port. Must be called on a tokio runtime.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn start(
        listen: SocketAddr,
        config: IpmiConfig,
        power: impl HostPower + 'static,
    ) -> Result<Self> {
        let socket = UdpSocket::bind(listen).await;
        let socket = socket.with_context(|| format!("binding UDP {listen}"))?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared {
            bmc: Mutex::new(Bmc::new(config, Box::new(power), now())),
            taken: watch::Sender::new(0),
        });
        let mut task = JoinSet::new();
        task.spawn(run(socket, Arc::clone(&shared)));
        Ok(Self {
            shared,
            address,
            _task: task,
        })
    }

    /// Starts an IPMI BMC for a host of the rack, besides its Redfish BMC, on a free port of
    /// loopback.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn attach(host: &SimHost) -> Result<Self> {
        let config = IpmiConfig::of_host(host.config());
        Self::start((Ipv4Addr::LOCALHOST, 0).into(), config, host.clone()).await
    }

    /// Address of the BMC.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs `act` on the BMC between two packets.
    pub fn with<T>(&self, act: impl FnOnce(&mut Bmc, Instant) -> T) -> T {
        act(&mut self.shared.bmc.lock(), now())
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        self.with(|bmc, _| bmc.counters().clone())
    }

    /// Counters of real power events of its host.
    pub fn power_counts(&self) -> PowerCounts {
        self.with(Bmc::power_counts)
    }

    /// Appends a fault rule.
    pub fn inject(&self, rule: Rule) {
        self.with(|bmc, _| bmc.inject(rule));
    }

    /// Waits until `wanted` is true after a packet.
    ///
    /// # Errors
    ///
    /// It is not true within the time limit.
    pub async fn wait_for(
        &self,
        within: Duration,
        wanted: impl Fn(&mut Bmc, Instant) -> bool,
    ) -> Result<()> {
        let mut taken = self.shared.taken.subscribe();
        let reached = taken.wait_for(|_| self.with(&wanted));
        match tokio::time::timeout(within, reached).await {
            Ok(reached) => reached.map(drop).context("the BMC has ended"),
            Err(_) => bail!("not within {within:?}: {:?}", self.counters()),
        }
    }
}

/// Current time of tokio's clock, so that tests with paused time control it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn run(socket: UdpSocket, shared: Arc<Shared>) {
    let mut packet = [0; MAX_PACKET];
    loop {
        // An error of an earlier response, such as a closed port, does not end the task.
        let Ok((length, peer)) = socket.recv_from(&mut packet).await else {
            continue;
        };
        let arrived = packet.get(..length).unwrap_or_default();
        let response = shared.bmc.lock().receive(arrived, now());
        if let Some(bytes) = response
            && let Err(error) = socket.send_to(&bytes, peer).await
        {
            tracing::debug!(%peer, %error, "a response was not sent");
        }
        shared.taken.send_modify(|count| *count += 1);
    }
}
