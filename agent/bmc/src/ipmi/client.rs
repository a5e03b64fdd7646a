//! The client of one BMC: its call queue, its socket, and the session that is kept open between
//! calls.
//!
//! Owns: the order of calls, and when the session is closed. Must never: interpret a packet, keep a
//! buffer while idle, or leave a session open when it is dropped.

use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{
    net::UdpSocket,
    runtime::Handle,
    sync::{Mutex, MutexGuard},
    task::AbortHandle,
    time::timeout_at,
};

use super::{
    IpmiConfig,
    session::{Answer, Exchange, Failure, Level, Machine, Random, Settings, Step},
    udp,
    wire::{MAX_PACKET, Suite},
};
use crate::{BmcError, ErrorKind};

/// Random numbers from the operating system.
struct Os;

impl Random for Os {
    fn draw(&mut self) -> Option<[u8; 16]> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// State of one BMC, shared by its calls.
pub(super) struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    bmc: String,
    host: String,
    resolved: Vec<IpAddr>,
    port: u16,
    connect: Duration,
    min_interval: Duration,
    idle: Duration,
    /// Held for one exchange at a time, so that a power-off does not wait for a complete event log.
    turn: Mutex<Line>,
    /// End of the last call; locked for a whole call where calls must keep a minimum interval.
    ended: Mutex<Option<Instant>>,
}

/// State that only the holder of `turn` accesses.
struct Line {
    machine: Machine,
    /// Socket of the session; a new session gets a new one, so that late responses to an earlier
    /// session are not received.
    socket: Option<UdpSocket>,
    used: Instant,
    reaper: Option<AbortHandle>,
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Client {
    /// Creates a client from a checked configuration.
    pub(super) fn new(config: IpmiConfig) -> Self {
        let kg = config.kg_bytes().unwrap_or_default();
        let machine = Machine::new(Settings {
            kg,
            user: config.username,
            password: config.password,
            suite: config.suite,
            most: Level::of(config.address.privilege()),
            connect: config.timeouts.connect,
            retransmission: config.retransmission,
        });
        let line = Line {
            machine,
            socket: None,
            used: Instant::now(),
            reaper: None,
        };
        Self {
            inner: Arc::new(Inner {
                bmc: config.address.to_string(),
                host: config.address.host(),
                resolved: config.resolved,
                port: config.address.port(),
                connect: config.timeouts.connect,
                min_interval: config.min_interval,
                idle: config.idle,
                turn: Mutex::new(line),
                ended: Mutex::new(None),
            }),
        }
    }

    pub(super) fn bmc(&self) -> &str {
        &self.inner.bmc
    }

    /// Starts a call with the time limit `limit`.
    pub(super) async fn call(&self, limit: Duration) -> Result<Call<'_>, BmcError> {
        let deadline = tokio::time::Instant::now() + limit;
        let mut pace = None;
        if !self.inner.min_interval.is_zero() {
            let Ok(ended) = timeout_at(deadline, self.inner.ended.lock()).await else {
                return Err(self.inner.error(no_turn()));
            };
            if let Some(ended) = *ended {
                let begin = tokio::time::Instant::from_std(ended + self.inner.min_interval);
                if begin >= deadline {
                    return Err(self.inner.error(no_turn()));
                }
                tokio::time::sleep_until(begin).await;
            }
            pace = Some(ended);
        }
        Ok(Call {
            client: self,
            deadline,
            pace,
        })
    }

    /// Cipher suite and highest privilege of the open session, if there is one.
    pub(super) async fn terms(&self) -> Option<(Suite, Level)> {
        self.inner.turn.lock().await.machine.terms()
    }

    /// Closes the session and waits a short time for the response.
    pub(super) async fn close(&self) {
        let mut turn = RequestGuard::new(&self.inner, self.inner.turn.lock().await);
        if turn.line.machine.has_session() {
            turn.line.machine.begin_close(now(), &mut Os);
            // The session counts as closed with or without a response.
            turn.drive().await.ok();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ipmi")
            .field("bmc", &self.inner.bmc)
            .finish_non_exhaustive()
    }
}

/// One call: several exchanges under one deadline.
pub(super) struct Call<'a> {
    client: &'a Client,
    deadline: tokio::time::Instant,
    pace: Option<MutexGuard<'a, Option<Instant>>>,
}

impl Call<'_> {
    /// Sends a request and waits for its response.
    pub(super) async fn exchange(&self, exchange: Exchange) -> Result<Answer, BmcError> {
        let inner = &self.client.inner;
        let line = timeout_at(self.deadline, inner.turn.lock()).await;
        let mut turn = match line {
            Ok(line) if tokio::time::Instant::now() < self.deadline => {
                RequestGuard::new(inner, line)
            }
            _ => return Err(inner.error(no_turn())),
        };
        turn.begin(exchange, self.deadline)
            .await
            .map_err(|failure| inner.error(failure))
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.client.inner.error(Failure::new(kind, message))
    }

    /// Drops the session without closing it, because the BMC restarts.
    pub(super) async fn forget(&self) {
        if let Ok(mut line) = timeout_at(self.deadline, self.client.inner.turn.lock()).await {
            line.machine.forget();
            line.socket = None;
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(ended) = &mut self.pace {
            **ended = Some(now());
        }
    }
}

/// Exclusive access to the BMC. If dropped during an exchange, it cancels the exchange.
struct RequestGuard<'a> {
    inner: &'a Arc<Inner>,
    line: MutexGuard<'a, Line>,
}

impl<'a> RequestGuard<'a> {
    fn new(inner: &'a Arc<Inner>, line: MutexGuard<'a, Line>) -> Self {
        Self { inner, line }
    }

    async fn begin(
        &mut self,
        exchange: Exchange,
        deadline: tokio::time::Instant,
    ) -> Result<Answer, Failure> {
        if !self.line.machine.has_session() {
            self.line.socket = None;
            let until = deadline.min(tokio::time::Instant::now() + self.inner.connect);
            let inner = self.inner;
            let opening = udp::open(&inner.host, &inner.resolved, inner.port);
            let opened = timeout_at(until, opening).await;
            self.line.socket = match opened {
                Ok(Ok(socket)) => Some(socket),
                Ok(Err(error)) => {
                    let message = format!("cannot reach {}: {error}", self.inner.host);
                    return Err(Failure::new(ErrorKind::Unreachable, message));
                }
                Err(_) => {
                    let message = format!("{}: name resolution timed out", self.inner.host);
                    return Err(Failure::new(ErrorKind::Timeout, message));
                }
            };
        }
        let machine = &mut self.line.machine;
        machine.begin(exchange, now(), deadline.into_std(), &mut Os);
        self.drive().await
    }

    /// Sends and receives datagrams until the exchange is complete.
    async fn drive(&mut self) -> Result<Answer, Failure> {
        let mut buffer = [0; MAX_PACKET];
        let Line {
            machine, socket, ..
        } = &mut *self.line;
        let Some(socket) = socket else {
            return Err(Failure::new(ErrorKind::Unreachable, "no socket"));
        };
        loop {
            match machine.poll(now(), &mut Os) {
                Step::Send(packet) => {
                    if let Err(error) = socket.send(&packet).await {
                        machine.unreachable(&error.to_string(), now(), &mut Os);
                    }
                }
                Step::Wait(until) => {
                    match timeout_at(until.into(), socket.recv(&mut buffer)).await {
                        Ok(Ok(length)) => {
                            let packet = buffer.get(..length).unwrap_or_default();
                            machine.receive(packet, now(), &mut Os);
                        }
                        Ok(Err(error)) => {
                            machine.unreachable(&error.to_string(), now(), &mut Os);
                        }
                        Err(_) => {}
                    }
                }
                Step::Done(outcome) => return outcome,
            }
        }
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let line = &mut *self.line;
        line.machine.abandon(now(), &mut Os);
        line.flush();
        line.used = now();
        if !line.machine.has_session() {
            line.socket = None;
        } else if line.reaper.is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            let task = reap(Arc::downgrade(self.inner), self.inner.idle);
            line.reaper = Some(runtime.spawn(task).abort_handle());
        }
    }
}

impl Line {
    /// Sends the packets that need no response; a packet for which the socket would block is
    /// dropped.
    fn flush(&mut self) {
        while let Some(packet) = self.machine.leftover() {
            if let Some(socket) = &self.socket {
                // If the packet is lost, the BMC ends the session by its own timeout after a
                // minute.
                socket.try_send(&packet).ok();
            }
        }
    }

    fn close(&mut self) {
        self.machine.close(now(), &mut Os);
        self.flush();
        self.socket = None;
    }
}

impl Inner {
    fn error(&self, failure: Failure) -> BmcError {
        BmcError {
            kind: failure.kind,
            bmc: self.bmc.clone(),
            message: failure.message,
            retry_after: failure.retry_after,
            maybe_sent: failure.maybe_sent,
            not_sent: !failure.maybe_sent,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let line = self.turn.get_mut();
        if let Some(reaper) = line.reaper.take() {
            reaper.abort();
        }
        line.close();
    }
}

/// Closes the session after an idle time. The task ends with the session.
async fn reap(inner: Weak<Inner>, idle: Duration) {
    let mut until = tokio::time::Instant::now() + idle;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut line = inner.turn.lock().await;
        until = tokio::time::Instant::from_std(line.used + idle);
        if !line.machine.has_session() || until <= tokio::time::Instant::now() {
            line.close();
            line.reaper = None;
            return;
        }
    }
}

fn no_turn() -> Failure {
    let message = "timed out waiting for other calls to this BMC; nothing was sent";
    Failure::new(ErrorKind::Busy, message)
}
