//! The agent's end: every client shows a certificate, and a slow one stops nobody.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::server::Connected;
use tracing::warn;

use super::{
    Counts, Material, Refused, Store, TlsError, TlsFiles, Want, provider, queue::Queue,
    refusals::Refusals,
};
use crate::identity::{Identity, SpiffeId};

/// TLS of an agent: what it shows, and whose clients it takes.
#[derive(Debug)]
pub struct ServerTls {
    store: Arc<Store>,
    counts: Counts,
}

impl ServerTls {
    /// Reads the files. The certificate must be the one of this rack.
    pub fn load(files: TlsFiles, rack: &str) -> Result<Self, TlsError> {
        let store = Store::load(files, Want::Rack(rack.to_owned()))?;
        Ok(Self {
            store: Arc::new(store),
            counts: Counts::default(),
        })
    }

    /// Looks at the files now. True: they had changed, and the next connection uses them.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.store.reload()
    }

    /// Looks at the files again and again; never returns. A broken new set is warned of once and
    /// the old one stays in use.
    pub fn watch(&self, every: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.store.clone().watch(every)
    }

    /// Until when our certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.store.current.load().not_after
    }

    /// What has become of the connections of its listener.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn accept(&self) -> Option<(TlsAcceptor, String)> {
        let material = self.store.current.load();
        let config = material.server.clone()?;
        Some((TlsAcceptor::from(config), material.id.trust_domain.clone()))
    }
}

pub(super) fn config(files: &TlsFiles, material: &Material) -> Result<Arc<ServerConfig>, TlsError> {
    let wrong = |reason: String| TlsError::Config {
        path: files.cert.clone(),
        reason,
    };
    let clients = WebPkiClientVerifier::builder_with_provider(material.roots.clone(), provider())
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| wrong(error.to_string()))?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(
            material.key.clone(),
        )));
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A resumed session would carry a certificate past its end or past its CA.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// How much strangers may cause, and how many peers there may be.
#[derive(Debug, Clone, Copy)]
pub struct AcceptLimits {
    /// Handshakes under way at once. One more displaces the oldest of whoever has the most.
    pub handshakes: usize,
    /// How long one may take.
    pub timeout: Duration,
    /// Connections whose handshake is done; more are closed.
    pub connections: usize,
}

impl Default for AcceptLimits {
    fn default() -> Self {
        Self {
            handshakes: 512,
            timeout: Duration::from_secs(5),
            connections: 1024,
        }
    }
}

/// Connections whose handshake is done, for `serve_with_incoming`. It ends when the listener
/// does, and dropping it stops the accepting.
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
/// Must be called within a tokio runtime. An error of the listener (out of file descriptors, say)
/// is logged and waited out: it must not end the service.
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
    // One that is displaced takes a moment to go.
    let slots = Arc::new(Semaphore::new(limits.handshakes.max(1).saturating_mul(2)));
    let door = Arc::new(Door {
        tls,
        limits,
        ready,
        begun: Instant::now(),
        refusals: Mutex::default(),
        connections: Arc::new(Semaphore::new(limits.connections)),
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

/// What all handshakes of a listener share.
struct Door<IO> {
    tls: Arc<ServerTls>,
    limits: AcceptLimits,
    ready: mpsc::Sender<PeerStream<IO>>,
    begun: Instant,
    refusals: Mutex<Refusals>,
    connections: Arc<Semaphore>,
    queue: Mutex<Queue<Arc<Notify>>>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Door<IO> {
    fn queue(&self) -> MutexGuard<'_, Queue<Arc<Notify>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn welcome(&self, stream: IO, addr: Option<SocketAddr>, number: u64, displaced: &Notify) {
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.limits.timeout, handshake(stream, addr, &self.tls)) => shaken.map_err(|_| Refused::Slow),
            () = displaced.notified() => Err(Refused::Displaced),
        };
        self.queue().leave(number);
        match shaken {
            Ok(Ok(mut stream)) => match self.connections.clone().try_acquire_owned() {
                Ok(place) => {
                    self.tls.counts.accept();
                    stream._place = Some(place);
                    self.ready.send(stream).await.ok();
                }
                Err(_) => self.refuse(addr, Refused::Displaced, "too many connections"),
            },
            Ok(Err(error)) => self.refuse(addr, Refused::of(&error), &error.to_string()),
            Err(why) => self.refuse(addr, why, "no handshake came about"),
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

async fn handshake<IO>(
    stream: IO,
    addr: Option<SocketAddr>,
    tls: &ServerTls,
) -> io::Result<PeerStream<IO>>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let Some((acceptor, trust_domain)) = tls.accept() else {
        return Err(io::Error::other("no server configuration"));
    };
    let stream = acceptor.accept(stream).await?;
    let leaf = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(<[_]>::first);
    let id = match leaf.map(|leaf| SpiffeId::from_certificate(leaf)) {
        None => Err("no client certificate".to_owned()),
        Some(Err(error)) => Err(format!("the client certificate {error}")),
        Some(Ok(id)) if id.trust_domain != trust_domain => Err(format!(
            "the client certificate is of trust domain {}, this agent's is {trust_domain}",
            id.trust_domain
        )),
        Some(Ok(id)) => Ok(id.identity),
    };
    Ok(PeerStream {
        stream,
        peer: PeerInfo { addr, identity: id },
        _place: None,
    })
}

/// Who is at the other end; found in the extensions of each request.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// Where it connects from.
    pub addr: Option<SocketAddr>,
    /// Who it is by its certificate, whose chain is verified; or why it is nobody.
    pub identity: Result<Identity, String>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct PeerStream<IO> {
    stream: TlsStream<IO>,
    peer: PeerInfo,
    /// Among the connections that there may be.
    _place: Option<OwnedSemaphorePermit>,
}

impl<IO> Connected for PeerStream<IO> {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.peer.clone()
    }
}

/// The peer's address, as far as the transport has one.
pub trait RemoteAddr {
    /// The address.
    fn remote_addr(&self) -> Option<SocketAddr>;
}

impl RemoteAddr for TcpStream {
    fn remote_addr(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for PeerStream<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PeerStream<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
