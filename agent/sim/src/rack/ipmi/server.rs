//! A simulated BMC on a UDP socket.
//!
//! Owns the socket, the clock and one task, which ends with its handle. Must never decide
//! anything: that is [`Bmc`]'s.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use rackhand_bmc::ipmi::wire::MAX_PACKET;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::bmc::{Bmc, Datagram};
use super::config::IpmiConfig;
use super::counters::Counters;
use super::power::{HostPower, PowerTally};
use super::rules::Rule;
use crate::rack::{FaultId, SimHost};

/// How many packets may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Steps(u64),
}

#[derive(Debug)]
struct Shared {
    bmc: Mutex<Bmc>,
    gate: watch::Sender<Gate>,
    /// Counts the packets that were taken.
    taken: watch::Sender<u64>,
}

/// A running BMC. Dropping it ends it: its port is closed.
#[derive(Debug)]
pub struct IpmiBmc {
    shared: Arc<Shared>,
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl IpmiBmc {
    /// Starts one of this host; port 0 takes a free one. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn start(
        listen: SocketAddr,
        config: IpmiConfig,
        power: impl HostPower + 'static,
    ) -> Result<Self> {
        let socket = UdpSocket::bind(listen).await;
        let socket = socket.with_context(|| format!("binding UDP {listen}"))?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared {
            bmc: Mutex::new(Bmc::new(Arc::new(config), Box::new(power), now())),
            gate: watch::Sender::new(Gate::Open),
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

    /// The IPMI BMC of a host of the rack, beside its Redfish BMC, on a free port of loopback.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn attach(host: &SimHost) -> Result<Self> {
        let config = IpmiConfig::of_host(host.config());
        Self::start((Ipv4Addr::LOCALHOST, 0).into(), config, host.clone()).await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Looks at it, or does something to it, between two packets.
    pub fn with<T>(&self, act: impl FnOnce(&mut Bmc, Instant) -> T) -> T {
        act(&mut self.shared.bmc.lock(), now())
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        self.with(|bmc, _| bmc.counters().clone())
    }

    /// What really happened to its host.
    pub fn tally(&self) -> PowerTally {
        self.with(Bmc::tally)
    }

    /// How many sessions are up.
    pub fn sessions(&self) -> usize {
        self.with(Bmc::sessions)
    }

    /// Adds a rule behind the others.
    pub fn inject(&self, rule: Rule) -> FaultId {
        self.with(|bmc, _| bmc.inject(rule))
    }

    /// Waits until a packet has made it as `wanted`.
    ///
    /// # Errors
    /// It is not so within that time.
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

    /// From now on a packet is taken only when [`IpmiBmc::step`] lets it; until then it waits.
    pub fn hold(&self) {
        self.shared.gate.send_replace(Gate::Steps(0));
    }

    /// Lets one packet be taken, and waits until it was.
    ///
    /// # Errors
    /// The BMC has ended.
    pub async fn step(&self) -> Result<()> {
        let mut taken = self.shared.taken.subscribe();
        let before = *taken.borrow_and_update();
        self.shared.gate.send_modify(|gate| {
            if let Gate::Steps(steps) = gate {
                *steps += 1;
            }
        });
        taken.wait_for(|count| *count > before).await?;
        Ok(())
    }

    /// Takes packets as they come again.
    pub fn release(&self) {
        self.shared.gate.send_replace(Gate::Open);
    }
}

/// Now, on tokio's clock, so that a test with paused time rules it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn run(socket: UdpSocket, shared: Arc<Shared>) {
    let mut gate = shared.gate.subscribe();
    loop {
        let next = shared.bmc.lock().next_wake();
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => pending().await,
            }
        };
        let arrived = async {
            let open = gate.wait_for(|gate| *gate != Gate::Steps(0)).await.is_ok();
            open && socket.readable().await.is_ok()
        };
        let out = tokio::select! {
            arrived = arrived => match arrived {
                true => take(&socket, &shared),
                false => return,
            },
            () = due => shared.bmc.lock().wake(now()),
        };
        for Datagram { to, bytes } in out {
            if let Err(error) = socket.send_to(&bytes, to).await {
                tracing::debug!(%to, %error, "an answer was not sent");
            }
        }
    }
}

/// Takes one packet, if there is one.
fn take(socket: &UdpSocket, shared: &Shared) -> Vec<Datagram> {
    let mut packet = [0; MAX_PACKET];
    let Ok((length, peer)) = socket.try_recv_from(&mut packet) else {
        return Vec::new();
    };
    let packet = packet.get(..length).unwrap_or_default();
    let out = shared.bmc.lock().receive(peer, packet, now());
    shared.gate.send_if_modified(|gate| {
        if let Gate::Steps(steps) = gate {
            *steps = steps.saturating_sub(1);
        }
        false
    });
    shared.taken.send_modify(|count| *count += 1);
    out
}

#[cfg(test)]
mod tests {
    use super::super::power::StandAlone;
    use super::*;

    const PING: [u8; 12] = [6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 1, 0, 0];
    const SOON: Duration = Duration::from_secs(10);

    async fn bmc_and_client() -> (IpmiBmc, UdpSocket) {
        let mut config = IpmiConfig::default();
        config.behaviour.answers_ping = true;
        let free = (Ipv4Addr::LOCALHOST, 0);
        let bmc = IpmiBmc::start(free.into(), config, StandAlone::instant(true)).await;
        let (bmc, client) = (
            bmc.expect("a BMC"),
            UdpSocket::bind(free).await.expect("a client"),
        );
        client.connect(bmc.address()).await.expect("connected");
        (bmc, client)
    }

    #[tokio::test]
    async fn packets_are_taken_one_by_one_while_held() {
        let (bmc, client) = bmc_and_client().await;
        let sent = |count| move |bmc: &mut Bmc, _| bmc.counters().sent == count;
        client.send(&PING).await.expect("sent");
        bmc.wait_for(SOON, sent(1)).await.expect("taken at once");
        bmc.hold();
        for _ in 0..3 {
            client.send(&PING).await.expect("sent");
        }
        bmc.step().await.expect("a step");
        assert_eq!(bmc.counters().packets, 2);
        bmc.step().await.expect("a step");
        assert_eq!(bmc.counters().packets, 3);
        bmc.release();
        bmc.wait_for(SOON, sent(4)).await.expect("the last");
    }

    #[tokio::test]
    async fn its_port_is_free_when_the_handle_is_gone() {
        let (bmc, _client) = bmc_and_client().await;
        let address = bmc.address();
        drop(bmc);
        let bound = async {
            while UdpSocket::bind(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, bound).await.expect("free");
    }

    #[tokio::test]
    async fn waiting_for_what_does_not_come_ends() {
        let (bmc, _client) = bmc_and_client().await;
        let never = bmc.wait_for(Duration::from_millis(20), |_, _| false).await;
        assert!(
            never
                .expect_err("no")
                .to_string()
                .contains("not within 20ms")
        );
    }
}
