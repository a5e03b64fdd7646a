//! A connection of an agent after its handshake, and the end of its authorisation.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use jiff::Timestamp;
use rustls::{
    CertificateError, Error,
    pki_types::{CertificateDer, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use tracing::info;

use super::{Material, ServerTls, connection_slots::ConnectionSlot, provider, revocation::Side};
use crate::identity::Identity;

/// The peer of a connection, in the extensions of each request.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// Address of the peer.
    pub addr: Option<SocketAddr>,
    /// Identity in its certificate, which the handshake has verified.
    pub identity: Identity,
    /// Expiry of its certificate.
    pub not_after: Timestamp,
}

/// Reason why a connection is no longer authorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The peer's certificate has expired.
    PeerExpired,
    /// The own certificate has expired, by which the peer identifies this agent.
    OwnExpired,
    /// The peer's certificate is on a revocation list.
    Revoked,
    /// The connection has reached its maximum age.
    TooOld,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeerExpired => "the client certificate has expired",
            Self::OwnExpired => "the certificate of this agent has expired",
            Self::Revoked => "the client certificate was revoked",
            Self::TooOld => "the connection has reached its greatest age",
        })
    }
}

/// End of the authorisation of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) peer_until: Timestamp,
    pub(super) own_until: Timestamp,
    pub(super) max_age: Duration,
}

impl Terms {
    /// The reason that applies by now; `now` is the wall clock, `age` is measured by a monotonic
    /// clock.
    pub(super) fn ended(&self, now: Timestamp, age: Duration) -> Option<Ended> {
        if now > self.peer_until {
            Some(Ended::PeerExpired)
        } else if now > self.own_until {
            Some(Ended::OwnExpired)
        } else if age >= self.max_age {
            Some(Ended::TooOld)
        } else {
            None
        }
    }
}

/// Check of an open connection: at each read, and periodically while it is idle.
#[derive(Debug)]
pub(super) struct Authorisation {
    tls: Arc<ServerTls>,
    /// The set of files that the chain was last verified with.
    judged_by: Arc<Material>,
    chain: Vec<CertificateDer<'static>>,
    terms: Terms,
    begun: Instant,
    every: Duration,
    next: Pin<Box<Sleep>>,
}

impl Authorisation {
    pub(super) fn new(
        tls: Arc<ServerTls>,
        judged_by: Arc<Material>,
        chain: Vec<CertificateDer<'static>>,
        terms: Terms,
        every: Duration,
    ) -> Self {
        Self {
            tls,
            judged_by,
            chain,
            terms,
            begun: Instant::now(),
            every,
            next: Box::pin(tokio::time::sleep(every)),
        }
    }

    /// Returns the reason if the authorisation has ended; otherwise the task is woken for the next periodic check.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Option<Ended> {
        while self.next.as_mut().poll(cx).is_ready() {
            self.next.as_mut().reset(Instant::now() + self.every);
        }
        let now = self.tls.now();
        let ended = self.terms.ended(now, self.begun.elapsed());
        ended.or_else(|| self.is_revoked(now).then_some(Ended::Revoked))
    }

    /// Whether a revocation list that is new since the last check contains the peer.
    fn is_revoked(&mut self, now: Timestamp) -> bool {
        let current = self.tls.store.current.load_full();
        if Arc::ptr_eq(&current, &self.judged_by) {
            return false;
        }
        self.judged_by = current;
        let Some((leaf, rest)) = self.chain.split_first() else {
            return true;
        };
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (lists, roots) = (&self.judged_by.revocations, &self.judged_by.roots);
        let found = lists.check((leaf, rest), Side::Client, roots, &provider(), now);
        // A replaced CA ends no connection by itself: it stays open until its maximum age.
        matches!(
            found,
            Err(Error::InvalidCertificate(CertificateError::Revoked))
        )
    }
}

/// A connection after its handshake. Reads fail once its authorisation has ended.
#[derive(Debug)]
pub struct PeerStream<IO> {
    stream: TlsStream<Observed<IO>>,
    pub(super) peer: PeerInfo,
    authorisation: Authorisation,
    /// Its slot among the limited connections.
    pub(super) place: Option<ConnectionSlot>,
}

impl<IO> PeerStream<IO> {
    pub(super) fn new(
        stream: TlsStream<Observed<IO>>,
        peer: PeerInfo,
        authorisation: Authorisation,
    ) -> Self {
        Self {
            stream,
            peer,
            authorisation,
            place: None,
        }
    }
}

impl<IO> Connected for PeerStream<IO> {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.peer.clone()
    }
}

/// Address of the peer, if the transport has one.
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
        if let Some(ended) = self.authorisation.poll_ended(cx) {
            let peer = &self.peer;
            info!(peer = %peer.identity, addr = ?peer.addr, "connection closed: {ended}");
            let error = io::Error::new(io::ErrorKind::ConnectionAborted, ended.to_string());
            return Poll::Ready(Err(error));
        }
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

/// A transport that records whether the peer has sent anything.
#[derive(Debug)]
pub(super) struct Observed<IO> {
    stream: IO,
    has_received: bool,
}

impl<IO> Observed<IO> {
    pub(super) fn new(stream: IO) -> Self {
        Self {
            stream,
            has_received: false,
        }
    }

    pub(super) fn has_received(&self) -> bool {
        self.has_received
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Observed<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.has_received |= buf.filled().len() > before;
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Observed<IO> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_ends_at_either_expiry_or_its_maximum_age() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let terms = |peer, own| Terms {
            peer_until: at(peer),
            own_until: at(own),
            max_age: Duration::from_secs(60),
        };
        for (terms, now, age, ended) in [
            (terms(100, 200), 99, 0, None),
            (terms(100, 200), 100, 59, None),
            (terms(100, 200), 101, 0, Some(Ended::PeerExpired)),
            (terms(200, 100), 101, 0, Some(Ended::OwnExpired)),
            (terms(200, 200), 10, 60, Some(Ended::TooOld)),
            (terms(100, 200), 101, 60, Some(Ended::PeerExpired)),
        ] {
            let found = terms.ended(at(now), Duration::from_secs(age));
            assert_eq!(found, ended, "{terms:?} at {now}, {age} s old");
        }
    }
}
