//! TLS of an agent: every client needs a certificate, and a slow client delays no other.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::{
    Counts, ExpectedRole, Material, RELOAD_INTERVAL, Refused, Store, TlsError, TlsFiles,
    caller::{self, CallerVerifier},
    connection_slots::ConnectionSlots,
    files::not_after,
    provider,
    queue::Queue,
    refusals::Refusals,
    stream::{Authorisation, Observed, PeerInfo, PeerStream, RemoteAddr, Terms},
};

/// Age in which a connection is closed once its calls have ended: a new handshake then checks its
/// certificate against the current CA and revocation list.
pub const CONNECTION_AGE: Duration = Duration::from_secs(3600);
/// Additional time for calls in flight.
const CONNECTION_GRACE: Duration = Duration::from_secs(300);

/// TLS configuration of an agent.
#[derive(Debug)]
pub struct ServerTls {
    pub(super) store: Arc<Store>,
    counts: Counts,
    /// The wall clock; replaced in tests.
    pub(super) clock: fn() -> SystemTime,
}

impl ServerTls {
    /// Loads the files. The certificate must be that of this rack. An expired or not yet valid one
    /// is loaded nevertheless, see [`Self::check_validity`]: no client will trust it, and a renewed
    /// one is loaded as soon as it exists.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the files are inconsistent.
    pub fn load(files: TlsFiles, rack: &str) -> Result<Self, TlsError> {
        let store = Store::load_any_validity(files, ExpectedRole::Rack(rack.to_owned()))?;
        Ok(Self {
            store: Arc::new(store),
            counts: Counts::default(),
            clock: SystemTime::now,
        })
    }

    /// Checks that the own certificate is valid now.
    ///
    /// # Errors
    ///
    /// It has expired, or is not valid yet.
    pub fn check_validity(&self) -> Result<(), TlsError> {
        self.store.check_validity((self.clock)())
    }

    /// Current time of the wall clock.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::try_from((self.clock)()).unwrap_or(Timestamp::MAX)
    }

    /// Checks the files now. `true`: they have changed, and the next connection uses them.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.store.reload()
    }

    /// Checks the files periodically; never returns. An invalid new set is logged once, and the
    /// previous set stays in use.
    pub fn watch(&self, every: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.store.clone().watch(every)
    }

    /// Expiry of the own certificate.
    pub fn not_after(&self) -> Timestamp {
        self.store.current.load().validity.not_after
    }

    /// Counters of the listener's connections.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn accept(&self) -> Option<(TlsAcceptor, Arc<Material>)> {
        let material = self.store.current.load_full();
        let config = material.server.clone()?;
        Some((TlsAcceptor::from(config), material))
    }
}

pub(super) fn config(files: &TlsFiles, material: &Material) -> Result<Arc<ServerConfig>, TlsError> {
    let wrong = |reason: String| TlsError::Config {
        path: files.cert.clone(),
        reason,
    };
    let chain = WebPkiClientVerifier::builder_with_provider(material.roots.clone(), provider())
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let clients = Arc::new(CallerVerifier {
        chain,
        revocations: material.revocations.clone(),
        roots: material.roots.clone(),
        trust_domain: material.id.trust_domain.clone(),
    });
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| wrong(error.to_string()))?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(
            material.key.clone(),
        )));
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A resumed session would outlive its certificate or its CA.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Limits of handshakes and connections.
#[derive(Debug, Clone, Copy)]
pub struct AcceptLimits {
    /// Maximum number of concurrent handshakes. Beyond it, the oldest one of the peer with the most
    /// is evicted.
    pub handshakes: usize,
    /// Time limit of a handshake.
    pub timeout: Duration,
    /// Maximum number of connections of all operators; more are closed.
    pub connections: usize,
    /// Maximum number of connections of one identity: one operator, or all controllers together.
    pub per_identity: usize,
    /// Age at which a connection is closed in any case.
    pub max_age: Duration,
    /// Interval at which an idle connection is checked for expiry of its certificate, revocation and age. An
    /// active connection is checked at each read.
    pub check_every: Duration,
}

impl Default for AcceptLimits {
    fn default() -> Self {
        Self {
            handshakes: 512,
            timeout: Duration::from_secs(5),
            connections: 1024,
            per_identity: 64,
            max_age: CONNECTION_AGE + CONNECTION_GRACE,
            check_every: RELOAD_INTERVAL,
        }
    }
}

/// Connections with a completed handshake, for `serve_with_incoming`. It ends with the listener,
/// and dropping it stops accepting.
#[derive(Debug)]
pub struct Incoming<IO> {
    ready: mpsc::Receiver<PeerStream<IO>>,
    _accepting: JoinSet<()>,
}

impl<IO> Stream for Incoming<IO> {
    type Item = io::Result<PeerStream<IO>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(cx).map(|stream| stream.map(Ok))
    }
}

/// Does the handshakes of a listener's connections.
///
/// Must be called within a tokio runtime. An error of the listener (out of file descriptors, for
/// example) is logged and retried after a pause: it must not end the service.
pub fn incoming<S, IO>(listener: S, tls: Arc<ServerTls>, limits: AcceptLimits) -> Incoming<IO>
where
    S: Stream<Item = io::Result<IO>> + Send + 'static,
    IO: AsyncRead + AsyncWrite + RemoteAddr + Unpin + Send + 'static,
{
    let (sender, ready) = mpsc::channel(16);
    let mut accepting = JoinSet::new();
    accepting.spawn(accept_all(Box::pin(listener), tls, limits, sender));
    Incoming {
        ready,
        _accepting: accepting,
    }
}

async fn accept_all<IO>(
    mut listener: Pin<Box<dyn Stream<Item = io::Result<IO>> + Send>>,
    tls: Arc<ServerTls>,
    limits: AcceptLimits,
    ready: mpsc::Sender<PeerStream<IO>>,
) where
    IO: AsyncRead + AsyncWrite + RemoteAddr + Unpin + Send + 'static,
{
    // An evicted handshake takes a moment to end.
    let slots = Arc::new(Semaphore::new(limits.handshakes.max(1).saturating_mul(2)));
    let door = Arc::new(Acceptor {
        tls,
        limits,
        ready,
        begun: Instant::now(),
        refusals: Mutex::default(),
        places: ConnectionSlots::new(limits.connections, limits.per_identity),
        queue: Mutex::new(Queue::new(limits.handshakes)),
    });
    let mut handshakes = JoinSet::new();
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return;
        };
        let next = tokio::select! {
            next = listener.next() => next,
            () = door.ready.closed() => return,
        };
        while handshakes.try_join_next().is_some() {}
        let stream = match next {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
            None => break,
        };
        let addr = stream.remote_addr();
        let displaced = Arc::new(Notify::new());
        let (number, other) = door.queue().join(addr.map(|a| a.ip()), displaced.clone());
        if let Some(other) = other {
            other.notify_one();
        }
        let door = door.clone();
        handshakes.spawn(async move {
            door.welcome(stream, addr, number, &displaced).await;
            drop(slot);
        });
    }
    while handshakes.join_next().await.is_some() {}
}

/// State shared by all handshakes of a listener.
struct Acceptor<IO> {
    tls: Arc<ServerTls>,
    limits: AcceptLimits,
    ready: mpsc::Sender<PeerStream<IO>>,
    begun: Instant,
    refusals: Mutex<Refusals>,
    places: Arc<ConnectionSlots>,
    queue: Mutex<Queue<Arc<Notify>>>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Acceptor<IO> {
    fn queue(&self) -> MutexGuard<'_, Queue<Arc<Notify>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn welcome(&self, stream: IO, addr: Option<SocketAddr>, number: u64, displaced: &Notify) {
        let shaking = handshake(stream, addr, &self.tls, &self.limits);
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.limits.timeout, shaking) => shaken.map_err(|_| Refused::Slow),
            () = displaced.notified() => Err(Refused::Displaced),
        };
        self.queue().leave(number);
        match shaken {
            Ok(Ok(mut stream)) => match self.places.take(&stream.peer.identity) {
                Some(place) => {
                    self.tls.counts.accept();
                    stream.place = Some(place);
                    self.ready.send(stream).await.ok();
                }
                None => {
                    let who = &stream.peer.identity;
                    let error =
                        format!("{who} has too many connections open, or all operators have");
                    self.refuse(addr, Refused::TooMany, &error);
                }
            },
            Ok(Err(NoPeer::Refused(error))) => {
                self.refuse(addr, Refused::of(&error), &error.to_string());
            }
            // A load balancer or a probe that checks whether the port is open.
            Ok(Err(NoPeer::Silent)) => debug!(?addr, "connection closed without a handshake"),
            Err(why) => self.refuse(addr, why, "no handshake was completed"),
        }
    }

    fn refuse(&self, addr: Option<SocketAddr>, why: Refused, error: &str) {
        self.tls.counts.refuse(why);
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = refusals.note(self.begun.elapsed(), addr.map(|addr| addr.ip())) {
            let peer = addr.map_or_else(String::new, |addr| addr.to_string());
            let reason = why.label();
            warn!(peer, reason, error, untold = since, "TLS handshake refused");
        }
    }
}

/// Reason why a connection has no peer.
enum NoPeer {
    /// It ended before it had sent anything.
    Silent,
    Refused(io::Error),
}

async fn handshake<IO>(
    stream: IO,
    addr: Option<SocketAddr>,
    tls: &Arc<ServerTls>,
    limits: &AcceptLimits,
) -> Result<PeerStream<IO>, NoPeer>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let failed = |reason: &str| NoPeer::Refused(io::Error::other(reason.to_owned()));
    let Some((acceptor, material)) = tls.accept() else {
        return Err(failed("no server configuration"));
    };
    let accepting = acceptor.accept(Observed::new(stream)).into_fallible();
    let stream = accepting.await.map_err(|(error, stream)| {
        if stream.has_received() {
            NoPeer::Refused(error)
        } else {
            NoPeer::Silent
        }
    })?;
    let chain: Vec<_> = stream
        .get_ref()
        .1
        .peer_certificates()
        .unwrap_or_default()
        .iter()
        .map(|certificate| certificate.clone().into_owned())
        .collect();
    let Some(leaf) = chain.first() else {
        return Err(failed("no client certificate"));
    };
    // The handshake has already verified it with the same function.
    let identity = caller::caller(leaf, &material.id.trust_domain)
        .map_err(|error| failed(&error.to_string()))?;
    let until = not_after(leaf).ok_or_else(|| failed("the client certificate has no end"))?;
    let terms = Terms {
        peer_until: until,
        own_until: material.validity.not_after,
        max_age: limits.max_age,
    };
    let peer = PeerInfo {
        addr,
        identity,
        not_after: until,
    };
    let authorisation = Authorisation::new(tls.clone(), material, chain, terms, limits.check_every);
    Ok(PeerStream::new(stream, peer, authorisation))
}
