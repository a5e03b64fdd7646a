//! Connections on which a watch is read in gulps.
//!
//! Owns when a connection is looked at. To be woken for each heartbeat of a thousand Nodes costs several
//! times as much as to read it, so what comes within [`GATHER`] of other news is left to the kernel, and
//! read together. Must never hold back an answer that somebody waits for, nor news after a silence.

use std::{
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};
use tower::Service;

/// Time in which news gather: little beside the timeout of any health check.
const GATHER: Duration = Duration::from_millis(250);
/// Where nothing has been asked for this long, what comes is a watch. An answer that takes longer than
/// that is late anyway.
const ASKED: Duration = Duration::from_secs(1);

/// Makes such connections.
#[derive(Clone)]
pub(crate) struct Gulps(HttpConnector);

/// A connection.
pub(crate) struct Gulping {
    io: Io,
    nap: Pin<Box<Sleep>>,
    /// When something was asked last.
    asked: Instant,
    /// Something was read since the last nap.
    news: bool,
}

/// While it sleeps the runtime does not know of the socket, so that nobody is woken.
enum Io {
    Awake(TokioIo<TcpStream>),
    Asleep(std::net::TcpStream),
    /// It could not be put to sleep or woken.
    Lost,
}

// === impl Gulps ===

impl Gulps {
    /// What connects.
    pub(crate) fn of(connector: HttpConnector) -> Self {
        Self(connector)
    }
}

impl Service<Uri> for Gulps {
    type Response = Gulping;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<Gulping, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move { Ok(Gulping::new(connecting.await?)) })
    }
}

// === impl Gulping ===

impl Gulping {
    fn new(stream: TokioIo<TcpStream>) -> Self {
        Self {
            io: Io::Awake(stream),
            nap: Box::pin(sleep(Duration::ZERO)),
            asked: Instant::now(),
            news: false,
        }
    }

    fn awake(&mut self) -> io::Result<Pin<&mut TokioIo<TcpStream>>> {
        if matches!(self.io, Io::Asleep(_))
            && let Io::Asleep(stream) = mem::replace(&mut self.io, Io::Lost)
        {
            self.io = Io::Awake(TokioIo::new(TcpStream::from_std(stream)?));
        }
        match &mut self.io {
            Io::Awake(stream) => Ok(Pin::new(stream)),
            Io::Asleep(_) | Io::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn sleeps(&mut self) -> io::Result<()> {
        if let Io::Awake(stream) = mem::replace(&mut self.io, Io::Lost) {
            self.io = Io::Asleep(stream.into_inner().into_std()?);
            self.nap.as_mut().reset(Instant::now() + GATHER);
        }
        Ok(())
    }
}

impl Connection for Gulping {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Gulping {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if matches!(this.io, Io::Asleep(_)) {
            ready!(this.nap.as_mut().poll(cx));
        }
        let read = this.awake()?.poll_read(cx, into);
        if read.is_ready() {
            this.news = true;
        } else if mem::take(&mut this.news) && this.asked.elapsed() >= ASKED {
            this.sleeps()?;
            // Registers who is woken.
            ready!(this.nap.as_mut().poll(cx));
            cx.waker().wake_by_ref();
        }
        read
    }
}

impl Write for Gulping {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.asked = Instant::now();
        this.awake()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.asked = Instant::now();
        this.awake()?.poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Awake(stream) => Pin::new(stream).poll_flush(cx),
            // All was flushed before it slept.
            Io::Asleep(_) | Io::Lost => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().awake()?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::advance,
    };

    use super::*;

    /// The two ends; nothing has been asked lately. The clock stands, but for what somebody waits for.
    async fn ends() -> (TokioIo<Gulping>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let uri = format!("http://{address}").parse().unwrap();
        let mut connector = Gulps::of(HttpConnector::new());
        let near = connector.call(uri).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        far.set_nodelay(true).unwrap();
        tokio::time::pause();
        advance(ASKED).await;
        (TokioIo::new(near), far)
    }

    async fn read(near: &mut TokioIo<Gulping>) -> String {
        let mut bytes = [0; 64];
        let count = near.read(&mut bytes).await.unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    /// Looks once, finds nothing, and sleeps if it may.
    async fn look(near: &mut TokioIo<Gulping>) -> bool {
        let mut bytes = [0; 64];
        tokio::select! {
            biased;
            found = near.read(&mut bytes) => panic!("{found:?}"),
            () = std::future::ready(()) => {}
        }
        matches!(near.inner().io, Io::Asleep(_))
    }

    #[tokio::test]
    async fn news_after_a_silence_are_read_at_once_and_those_that_follow_together() {
        let (mut near, mut far) = ends().await;
        let start = Instant::now();
        assert!(!look(&mut near).await, "nothing has come yet");
        far.write_all(b"one").await.unwrap();
        assert_eq!(read(&mut near).await, "one");
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(look(&mut near).await);
        far.write_all(b"two").await.unwrap();
        far.write_all(b"three").await.unwrap();
        assert_eq!(read(&mut near).await, "twothree");
        let slept = start.elapsed();
        assert!(slept >= GATHER && slept < 2 * GATHER, "{slept:?}");

        assert!(look(&mut near).await);
        advance(2 * GATHER).await;
        assert!(!look(&mut near).await, "nothing came meanwhile");
        let silence = Instant::now();
        far.write_all(b"four").await.unwrap();
        assert_eq!(read(&mut near).await, "four");
        assert_eq!(silence.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn an_answer_is_read_as_it_comes() {
        let (mut near, mut far) = ends().await;
        far.write_all(b"news").await.unwrap();
        assert_eq!(read(&mut near).await, "news");
        assert!(look(&mut near).await);

        let start = Instant::now();
        near.write_all(b"question").await.unwrap();
        near.flush().await.unwrap();
        let mut heard = [0; 8];
        far.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"question");
        for part in ["an ", "answer"] {
            far.write_all(part.as_bytes()).await.unwrap();
            assert_eq!(read(&mut near).await, part);
            assert!(!look(&mut near).await);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn that_it_has_ended_is_told_after_the_nap() {
        let (mut near, mut far) = ends().await;
        far.write_all(b"last").await.unwrap();
        assert_eq!(read(&mut near).await, "last");
        assert!(look(&mut near).await);
        drop(far);
        assert_eq!(read(&mut near).await, "");
        near.shutdown().await.unwrap();
    }
}
