//! One BMC: its turn, its socket, and the session that is kept warm.
//!
//! Owns: who may speak to the BMC now, and when its session is closed. Must never: decide what a
//! packet means, keep a buffer while idle, or leave a session open when it goes.

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

/// Random numbers of the operating system.
struct Os;

impl Random for Os {
    fn draw(&mut self) -> Option<[u8; 16]> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// One BMC, as its calls share it.
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
    /// Held for one exchange at a time, so that a power-off need not wait for a whole event log.
    turn: Mutex<Line>,
    /// When the last call ended; held for a whole call where calls must keep a distance.
    ended: Mutex<Option<Instant>>,
}

/// What only the holder of the turn touches.
struct Line {
    machine: Machine,
    /// Of the session: a late answer to an earlier one finds nobody.
    socket: Option<UdpSocket>,
    used: Instant,
    reaper: Option<AbortHandle>,
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Client {
    /// For a checked configuration.
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

    /// Begins a call that may last for `limit`.
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

    /// Suite and highest privilege of the session, where there is one.
    pub(super) async fn terms(&self) -> Option<(Suite, Level)> {
        self.inner.turn.lock().await.machine.terms()
    }

    /// Ends the session, and waits a moment for the BMC to agree.
    pub(super) async fn close(&self) {
        let mut turn = RequestGuard::new(&self.inner, self.inner.turn.lock().await);
        if turn.line.machine.has_session() {
            turn.line.machine.begin_farewell(now(), &mut Os);
            // Nothing depends on the answer.
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

/// One call: some exchanges under one deadline.
pub(super) struct Call<'a> {
    client: &'a Client,
    deadline: tokio::time::Instant,
    pace: Option<MutexGuard<'a, Option<Instant>>>,
}

impl Call<'_> {
    /// Asks, and waits for the answer.
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

    /// The BMC restarts: what it held for us is gone.
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

/// The right to speak to the BMC. Dropped in the middle, it takes back what was begun.
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
                    let message = format!("no way to {}: {error}", self.inner.host);
                    return Err(Failure::new(ErrorKind::Unreachable, message));
                }
                Err(_) => {
                    let message = format!("{}: the name was not found in time", self.inner.host);
                    return Err(Failure::new(ErrorKind::Timeout, message));
                }
            };
        }
        let machine = &mut self.line.machine;
        machine.begin(exchange, now(), deadline.into_std(), &mut Os);
        self.drive().await
    }

    /// Carries datagrams until the exchange is over.
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
    /// Sends what nobody waits for an answer to, as far as the socket takes it at once.
    fn flush(&mut self) {
        while let Some(packet) = self.machine.leftover() {
            if let Some(socket) = &self.socket {
                // If it is lost, the BMC forgets the session by itself after a minute.
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

/// Closes the session when it was idle for so long. Lives only while there is a session.
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
    let message = "other calls to this BMC took all the time; nothing was sent";
    Failure::new(ErrorKind::Busy, message)
}
