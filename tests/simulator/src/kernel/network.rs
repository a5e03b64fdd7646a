//! Connections between processes: streams of bytes that take time, and whose ways fail.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::Stream;
use rackhand_transport::tls::RemoteAddr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{ProcessId, Simulation, World};

/// The condition of the way between two processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Condition {
    /// Nothing comes through; it is delivered when the way is whole again.
    pub silent: bool,
    /// How much later everything arrives.
    pub late: Duration,
    /// Of a hundred packets, how many are sent again after a timeout.
    pub loss: u8,
}

/// What travels on a connection.
enum Packet {
    Data(Vec<u8>),
    End,
    Reset,
}

#[derive(Default)]
struct Side {
    process: Option<ProcessId>,
    /// What has arrived and was not read.
    arrived: VecDeque<u8>,
    ended: bool,
    reset: bool,
    reader: Option<Waker>,
    /// What is on its way to this side, in the order in which it arrives.
    travelling: VecDeque<Packet>,
    /// When the last packet to this side was sent.
    sent: Duration,
    /// When the packet that was sent last arrives; the next one does not overtake it.
    last: Duration,
    /// What waits for the way to be whole again.
    held: VecDeque<Packet>,
    dropped: bool,
}

/// Two sides; the client is the first.
type Connection = [Side; 2];

#[derive(Default)]
struct Listener {
    process: Option<ProcessId>,
    waiting: VecDeque<u64>,
    waker: Option<Waker>,
}

/// All connections.
#[derive(Default)]
pub struct Network {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    listeners: BTreeMap<String, Listener>,
    conditions: BTreeMap<(ProcessId, ProcessId), Condition>,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Connections that were made.
    pub made: u64,
}

fn pair(a: ProcessId, b: ProcessId) -> (ProcessId, ProcessId) {
    (a.min(b), a.max(b))
}

impl Network {
    fn condition(&self, a: ProcessId, b: ProcessId) -> Condition {
        self.conditions
            .get(&pair(a, b))
            .copied()
            .unwrap_or_default()
    }

    fn side(&mut self, connection: u64, side: usize) -> Option<&mut Side> {
        self.connections.get_mut(&connection)?.get_mut(side)
    }

    fn condition_of(&self, connection: u64) -> Condition {
        match self.connections.get(&connection) {
            Some([client, server]) => match (client.process, server.process) {
                (Some(a), Some(b)) => self.condition(a, b),
                _ => Condition::default(),
            },
            None => Condition::default(),
        }
    }
}

impl World {
    /// Changes the way between two processes. What was held arrives once it is whole.
    pub fn set_condition(&mut self, a: ProcessId, b: ProcessId, condition: Condition) {
        self.network.conditions.insert(pair(a, b), condition);
        if condition.silent {
            return;
        }
        let between: Vec<u64> = self.connections_of(|x, y| pair(x, y) == pair(a, b));
        for connection in between {
            for side in 0..2 {
                let held = self.network.side(connection, side);
                let held = held.map(|side| std::mem::take(&mut side.held));
                for packet in held.unwrap_or_default() {
                    self.send(connection, side, packet);
                }
            }
        }
    }

    /// Resets all connections between two processes.
    pub fn reset_between(&mut self, a: ProcessId, b: ProcessId) {
        for connection in self.connections_of(|x, y| pair(x, y) == pair(a, b)) {
            self.send(connection, 0, Packet::Reset);
            self.send(connection, 1, Packet::Reset);
        }
    }

    /// The connections of a process that ends are reset at their other ends.
    pub(super) fn reset_connections(&mut self, id: ProcessId) {
        self.network.listeners.retain(|_, l| l.process != Some(id));
        for connection in self.connections_of(|x, y| x == id || y == id) {
            for side in 0..2 {
                let to_other = self
                    .network
                    .side(connection, side)
                    .is_some_and(|s| s.process != Some(id));
                if to_other {
                    self.send(connection, side, Packet::Reset);
                }
            }
        }
    }

    fn connections_of(&self, wanted: impl Fn(ProcessId, ProcessId) -> bool) -> Vec<u64> {
        let all = self.network.connections.iter();
        all.filter(
            |(_, [a, b])| matches!((a.process, b.process), (Some(a), Some(b)) if wanted(a, b)),
        )
        .map(|(id, _)| *id)
        .collect()
    }

    /// How long a packet takes.
    fn travel(&mut self, condition: Condition) -> Duration {
        let mut time = self.between(Duration::from_micros(200), Duration::from_millis(2));
        let mut again = Duration::from_millis(200);
        while self.rng.u8(..100) < condition.loss && again < Duration::from_secs(10) {
            time += again;
            again *= 2;
        }
        time + condition.late
    }

    /// Sends bytes to one side of a connection. Those that are written at one moment share a packet.
    fn send_bytes(&mut self, connection: u64, side: usize, bytes: &[u8]) {
        let now = self.now();
        if let Some(to) = self.network.side(connection, side)
            && to.sent == now
            && let Some(Packet::Data(last)) = to.travelling.back_mut()
        {
            last.extend_from_slice(bytes);
            return;
        }
        self.send(connection, side, Packet::Data(bytes.to_vec()));
    }

    /// Sends to one side of a connection.
    fn send(&mut self, connection: u64, side: usize, packet: Packet) {
        let condition = self.network.condition_of(connection);
        let time = self.travel(condition);
        let now = self.now();
        let Some(to) = self.network.side(connection, side) else {
            return;
        };
        let at = to.last.max(now + time);
        to.sent = now;
        to.last = at;
        to.travelling.push_back(packet);
        self.at(at, move |world| world.arrive(connection, side));
    }

    /// The next packet to one side of a connection arrives.
    fn arrive(&mut self, connection: u64, side: usize) {
        let silent = self.network.condition_of(connection).silent;
        let Some(to) = self.network.side(connection, side) else {
            return;
        };
        let Some(packet) = to.travelling.pop_front() else {
            return;
        };
        if silent || !to.held.is_empty() {
            to.held.push_back(packet);
            return;
        }
        match packet {
            Packet::Data(bytes) => to.arrived.extend(bytes),
            Packet::End => to.ended = true,
            Packet::Reset => to.reset = true,
        }
        let (process, reader) = (to.process, to.reader.take());
        if let Some(process) = process {
            self.wake(process, reader);
        }
    }

    /// A side is closed by its process.
    fn close(&mut self, connection: u64, side: usize) {
        let Some(sides) = self.network.connections.get_mut(&connection) else {
            return;
        };
        if let Some(own) = sides.get_mut(side) {
            own.dropped = true;
            own.arrived.clear();
        }
        if sides.iter().all(|side| side.dropped) {
            self.network.connections.remove(&connection);
        } else {
            self.send(connection, 1 - side, Packet::End);
        }
    }

    /// A process connects to whoever listens at an address. The packets take their time; a refusal is
    /// told through `answer`.
    fn connect(
        &mut self,
        client: ProcessId,
        address: &str,
        answer: tokio::sync::oneshot::Sender<io::Result<u64>>,
    ) {
        let found = self.network.listeners.get(address).and_then(|l| l.process);
        let condition = match found {
            Some(server) => self.network.condition(client, server),
            None => Condition::default(),
        };
        if condition.silent {
            // Nobody answers; the client gives up by its own time.
            self.after(Duration::from_secs(120), move |_| drop(answer));
            return;
        }
        let time = self.travel(condition) * 2;
        let address = address.to_owned();
        self.after(time, move |world| {
            let listener = world.network.listeners.get_mut(&address);
            let result = match listener {
                Some(listener) => {
                    let id = world.network.next;
                    world.network.next += 1;
                    world.network.made += 1;
                    let server = listener.process;
                    listener.waiting.push_back(id);
                    let waker = listener.waker.take();
                    let side = |process| Side {
                        process,
                        ..Side::default()
                    };
                    let sides = [side(Some(client)), side(server)];
                    world.network.connections.insert(id, sides);
                    if let Some(server) = server {
                        world.wake(server, waker);
                    }
                    Ok(id)
                }
                None => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
            };
            match answer.send(result) {
                Ok(()) => world.wake(client, None),
                // The client has given up.
                Err(Ok(id)) => world.close(id, 0),
                Err(Err(_)) => {}
            }
        });
    }
}

/// Connects to the process that listens at an address.
///
/// # Errors
/// Nobody does.
pub async fn dial(simulation: Simulation, client: ProcessId, address: String) -> io::Result<Pipe> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    simulation.world().connect(client, &address, answer);
    let lost = |_| io::Error::from(io::ErrorKind::TimedOut);
    let connection = answered.await.map_err(lost)??;
    Ok(Pipe {
        simulation,
        connection,
        side: 0,
    })
}

/// The connections to an address, from now on those of this process.
pub fn listen(
    simulation: Simulation,
    server: ProcessId,
    address: String,
) -> impl Stream<Item = io::Result<Pipe>> + Send {
    let listener = Listener {
        process: Some(server),
        ..Listener::default()
    };
    simulation
        .world()
        .network
        .listeners
        .insert(address.clone(), listener);
    futures::stream::poll_fn(move |cx| {
        let mut world = simulation.world();
        let Some(listener) = world.network.listeners.get_mut(&address) else {
            return Poll::Pending;
        };
        match listener.waiting.pop_front() {
            Some(connection) => Poll::Ready(Some(Ok(Pipe {
                simulation: simulation.clone(),
                connection,
                side: 1,
            }))),
            None => {
                listener.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
}

/// One side of a connection.
#[derive(Debug)]
pub struct Pipe {
    simulation: Simulation,
    connection: u64,
    side: usize,
}

impl RemoteAddr for Pipe {
    fn remote_addr(&self) -> Option<SocketAddr> {
        None
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut world = self.simulation.world();
        let Some(side) = world.network.side(self.connection, self.side) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let arrived = side.arrived.make_contiguous();
        let size = arrived.len().min(buffer.remaining());
        if let Some(bytes) = arrived.get(..size).filter(|bytes| !bytes.is_empty()) {
            buffer.put_slice(bytes);
            side.arrived.drain(..size);
            return Poll::Ready(Ok(()));
        }
        if side.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if side.ended {
            return Poll::Ready(Ok(()));
        }
        side.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut world = self.simulation.world();
        let own = world.network.side(self.connection, self.side);
        if own.is_none_or(|side| side.reset) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        world.network.bytes += bytes.len() as u64;
        world.send_bytes(self.connection, 1 - self.side, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut world = self.simulation.world();
        world.send(self.connection, 1 - self.side, Packet::End);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.simulation.world().close(self.connection, self.side);
    }
}
