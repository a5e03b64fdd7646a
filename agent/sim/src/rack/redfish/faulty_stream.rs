//! A connection that can be torn.
//!
//! Owns the end of a TCP connection: a FIN, or a RST if a fault asks for one. Lies below TLS and
//! HTTP, which both drop it without being asked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The connection is to be closed without an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection cut by a fault")
    }
}

impl std::error::Error for Cut {}

/// Says of one connection that it is to end with a RST.
#[derive(Clone, Debug, Default)]
pub(super) struct CloseHandle(Arc<AtomicBool>);

impl CloseHandle {
    pub(super) fn tear(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A TCP connection.
#[derive(Debug)]
pub(super) struct Wire {
    tcp: TcpStream,
    tear: CloseHandle,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream, tear: CloseHandle) -> Self {
        Self { tcp, tear }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.tear.0.load(Ordering::Acquire) {
            // It may be gone already.
            self.tcp.set_zero_linger().ok();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
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
