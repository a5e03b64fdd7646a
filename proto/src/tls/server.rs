//! The agent's end: every client shows a certificate, and a slow one stops nobody.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::server::Connected;
use tracing::{debug, warn};

use super::{Material, Store, TlsError, TlsFiles, Want, provider, refusals::Refusals};
use crate::identity::{Identity, SpiffeId};

/// TLS of an agent: what it shows, and whose clients it takes.
#[derive(Debug)]
pub struct ServerTls(Arc<Store>);

impl ServerTls {
    /// Reads the files. The certificate must be the one of this rack.
    pub fn load(files: TlsFiles, rack: &str) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Store::load(
            files,
            Want::Rack(rack.to_owned()),
        )?)))
    }

    /// Looks at the files now. True: they had changed, and the next connection uses them.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.0.reload()
    }

    /// Looks at the files again and again; never returns. A broken new set is warned of once and
    /// the old one stays in use.
    pub fn watch(&self, every: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.0.clone().watch(every)
    }

    /// Until when our certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.0.current.load().not_after
    }

    pub(super) fn accept(&self) -> Option<(TlsAcceptor, String)> {
        let material = self.0.current.load();
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

/// How much unfinished work strangers may cause.
#[derive(Debug, Clone, Copy)]
pub struct AcceptLimits {
    /// Handshakes under way at once.
    pub handshakes: usize,
    /// How long one may take.
    pub timeout: Duration,
}

impl Default for AcceptLimits {
    fn default() -> Self {
        Self {
            handshakes: 128,
            timeout: Duration::from_secs(5),
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
    let slots = Arc::new(Semaphore::new(limits.handshakes.max(1)));
    let mut handshakes = JoinSet::new();
    let (begun, refusals) = (Instant::now(), Arc::new(Mutex::new(Refusals::default())));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return;
        };
        let next = tokio::select! {
            next = listener.next() => next,
            () = ready.closed() => return,
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
        let (tls, ready, refusals) = (tls.clone(), ready.clone(), refusals.clone());
        handshakes.spawn(async move {
            let addr = stream.remote_addr();
            let peer = addr.map_or_else(String::new, |addr| addr.to_string());
            match tokio::time::timeout(limits.timeout, handshake(stream, addr, &tls)).await {
                Ok(Ok(stream)) => {
                    ready.send(stream).await.ok();
                }
                Ok(Err(error)) => {
                    let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(since) = refusals.note(begun.elapsed(), addr.map(|addr| addr.ip()))
                    {
                        warn!(peer, %error, untold = since, "TLS handshake refused");
                    }
                }
                Err(_) => debug!(peer, "TLS handshake took too long"),
            }
            drop(slot);
        });
    }
    while handshakes.join_next().await.is_some() {}
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
