//! A UDP proxy that loses, doubles, delays, swaps, cuts and changes datagrams, by a seed.
//!
//! ```text
//!   client <--> front socket | decide(seed, direction, index, length) | a socket per client <--> server
//! ```
//!
//! Sockets and tasks end with [`UdpProxy`]. [`decide`] is pure: the same packets in the same order have the
//! same fates. The proxy never creates datagrams of its own.

mod fate;

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use fate::{Direction, Fate, Fault, Faults, Nth, decide};

/// Maximum length of a datagram that is forwarded whole.
const LONGEST: usize = 2048;
/// Maximum number of queued datagrams of servers.
const WAITING: usize = 1024;
/// Time after which a reordered datagram is sent although no other one has overtaken it.
const OVERTAKEN_WITHIN: Duration = Duration::from_millis(50);

/// Counters of the datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Datagrams that arrived at the proxy.
    pub arrived: u64,
    /// Datagrams that were sent, counting each copy.
    pub sent: u64,
    /// Datagrams that were dropped.
    pub dropped: u64,
    /// Datagrams that were duplicated.
    pub duplicated: u64,
    /// Datagrams that were delayed.
    pub delayed: u64,
    /// Datagrams that were reordered.
    pub reordered: u64,
    /// Datagrams that were truncated.
    pub truncated: u64,
    /// Datagrams with a flipped bit.
    pub flipped: u64,
}

impl Passed {
    /// Number of all faults.
    pub fn faults(&self) -> u64 {
        self.dropped
            + self.duplicated
            + self.delayed
            + self.reordered
            + self.truncated
            + self.flipped
    }

    fn count(&mut self, fate: &Fate) {
        self.arrived += 1;
        self.dropped += u64::from(fate.copies == 0);
        let arrives = fate.copies > 0;
        self.duplicated += u64::from(fate.copies > 1);
        self.delayed += u64::from(arrives && fate.delay > Duration::ZERO);
        self.reordered += u64::from(arrives && fate.reorder);
        self.truncated += u64::from(arrives && fate.truncate.is_some());
        self.flipped += u64::from(arrives && fate.flip.is_some());
    }
}

#[derive(Debug)]
struct State {
    seed: u64,
    faults: Faults,
    to_server: Passed,
    to_client: Passed,
}

impl State {
    fn passed(&mut self, direction: Direction) -> &mut Passed {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    /// Decides the fate of a datagram, and counts it.
    fn decide(&mut self, direction: Direction, length: usize) -> Fate {
        let index = self.passed(direction).arrived;
        let fate = decide(self.seed, &self.faults, direction, index, length);
        self.passed(direction).count(&fate);
        fate
    }
}

/// A running proxy. Dropping it stops it.
#[derive(Debug)]
pub struct UdpProxy {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl UdpProxy {
    /// Starts a proxy in front of `server`, on a free port of loopback. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn start(server: SocketAddr, seed: u64, faults: Faults) -> Result<Self> {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let front = front.context("binding the proxy")?;
        let address = front.local_addr()?;
        let state = Arc::new(Mutex::new(State {
            seed,
            faults,
            to_server: Passed::default(),
            to_client: Passed::default(),
        }));
        let relay = Relay::new(front, server, Arc::clone(&state));
        let mut task = JoinSet::new();
        task.spawn(relay.run());
        Ok(Self {
            state,
            address,
            _task: task,
        })
    }

    /// Listening address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the faults. The numbers of datagrams continue.
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// Counters of this direction so far.
    pub fn passed(&self, direction: Direction) -> Passed {
        *self.state.lock().passed(direction)
    }
}

/// A datagram in flight.
#[derive(Debug)]
struct Leaving {
    direction: Direction,
    client: SocketAddr,
    bytes: Vec<u8>,
    copies: u8,
}

struct Relay {
    front: UdpSocket,
    server: SocketAddr,
    state: Arc<Mutex<State>>,
    clients: HashMap<SocketAddr, Arc<UdpSocket>>,
    /// Readers, one per client, which end with the relay.
    readers: JoinSet<()>,
    sender: mpsc::Sender<(SocketAddr, Vec<u8>)>,
    receiver: mpsc::Receiver<(SocketAddr, Vec<u8>)>,
    late: BTreeMap<(Instant, u64), Leaving>,
    overtaken: BTreeMap<Direction, (Instant, Leaving)>,
    order: u64,
}

impl Relay {
    fn new(front: UdpSocket, server: SocketAddr, state: Arc<Mutex<State>>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Self {
            front,
            server,
            state,
            clients: HashMap::new(),
            readers: JoinSet::new(),
            sender,
            receiver,
            late: BTreeMap::new(),
            overtaken: BTreeMap::new(),
            order: 0,
        }
    }

    async fn run(mut self) {
        let mut buffer = [0; LONGEST];
        loop {
            let next = self.next_due();
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let (direction, client, bytes) = tokio::select! {
                arrived = self.front.recv_from(&mut buffer) => match arrived {
                    Ok((length, client)) => {
                        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                        (Direction::ToServer, client, bytes)
                    }
                    Err(_) => continue,
                },
                Some((client, bytes)) = self.receiver.recv() => {
                    (Direction::ToClient, client, bytes)
                }
                () = due => {
                    self.send_due(Instant::now()).await;
                    continue;
                }
            };
            self.arrived(direction, client, &bytes).await;
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let late = self.late.keys().map(|(at, _)| *at);
        let overtaken = self.overtaken.values().map(|(at, _)| *at);
        late.chain(overtaken).min()
    }

    async fn arrived(&mut self, direction: Direction, client: SocketAddr, bytes: &[u8]) {
        let fate = self.state.lock().decide(direction, bytes.len());
        if fate.copies == 0 {
            return;
        }
        let leaving = Leaving {
            direction,
            client,
            bytes: fate.apply(bytes),
            copies: fate.copies,
        };
        if fate.delay > Duration::ZERO {
            self.order += 1;
            let at = Instant::now() + fate.delay;
            self.late.insert((at, self.order), leaving);
        } else if fate.reorder && !self.overtaken.contains_key(&direction) {
            let at = Instant::now() + OVERTAKEN_WITHIN;
            self.overtaken.insert(direction, (at, leaving));
        } else {
            self.send(leaving).await;
            if let Some((_, overtaken)) = self.overtaken.remove(&direction) {
                self.send(overtaken).await;
            }
        }
    }

    async fn send_due(&mut self, now: Instant) {
        while let Some(entry) = self.late.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let leaving = entry.remove();
            self.send(leaving).await;
        }
        let due = |(_, (at, _)): &(&Direction, &(Instant, Leaving))| *at <= now;
        let due: Vec<Direction> = self
            .overtaken
            .iter()
            .filter(due)
            .map(|(one, _)| *one)
            .collect();
        for direction in due {
            if let Some((_, leaving)) = self.overtaken.remove(&direction) {
                self.send(leaving).await;
            }
        }
    }

    async fn send(&mut self, leaving: Leaving) {
        for _ in 0..leaving.copies {
            let sent = match leaving.direction {
                Direction::ToClient => self
                    .front
                    .send_to(&leaving.bytes, leaving.client)
                    .await
                    .ok(),
                Direction::ToServer => match self.server_of(leaving.client).await {
                    Some(socket) => socket.send(&leaving.bytes).await.ok(),
                    None => None,
                },
            };
            let mut state = self.state.lock();
            state.passed(leaving.direction).sent += u64::from(sent.is_some());
        }
    }

    /// The client's own socket to the server, so that responses are returned to it.
    async fn server_of(&mut self, client: SocketAddr) -> Option<Arc<UdpSocket>> {
        if let Some(socket) = self.clients.get(&client) {
            return Some(Arc::clone(socket));
        }
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.ok()?;
        socket.connect(self.server).await.ok()?;
        let socket = Arc::new(socket);
        self.clients.insert(client, Arc::clone(&socket));
        let (reader, sender) = (Arc::clone(&socket), self.sender.clone());
        self.readers.spawn(async move {
            let mut buffer = [0; LONGEST];
            loop {
                // An ICMP error of an unreachable server is no datagram.
                let Ok(length) = reader.recv(&mut buffer).await else {
                    continue;
                };
                let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                if sender.send((client, bytes)).await.is_err() {
                    return;
                }
            }
        });
        Some(socket)
    }
}
