//! A TCP connection that ends with a FIN, or with a RST if a fault requires it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The error that closes a connection without a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection cut by a fault")
    }
}

impl std::error::Error for Cut {}

/// Marks one connection to end with a RST.
#[derive(Clone, Debug, Default)]
pub(super) struct ResetHandle(Arc<AtomicBool>);

impl ResetHandle {
    pub(super) fn tear(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A TCP connection.
#[derive(Debug)]
pub(super) struct FaultyStream {
    tcp: TcpStream,
    tear: ResetHandle,
}

impl FaultyStream {
    pub(super) fn new(tcp: TcpStream, tear: ResetHandle) -> Self {
        Self { tcp, tear }
    }
}

impl Drop for FaultyStream {
    fn drop(&mut self) {
        if self.tear.0.load(Ordering::Acquire) {
            // The connection may be closed already.
            self.tcp.set_zero_linger().ok();
        }
    }
}

impl AsyncRead for FaultyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.tear.0.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
