//! The listener of one BMC: TLS, connections, and whether it listens.
//!
//! Owns: every connection, so that a dead or restarting BMC closes them. Must never: let a slow
//! peer delay another one: handshakes run in their connection's own task, with a time limit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::answer;
use super::faulty_stream::{FaultyStream, ResetHandle};
use crate::rack::host::SimHost;

const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
const REBIND_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of connections that wait to be accepted; tokio's default.
const BACKLOG: u32 = 1024;

/// Time for the response to the command that resets a BMC to be sent.
const RESPONSE_DELAY: Duration = Duration::from_millis(100);

/// Binds the BMC's port and returns the task that serves it until cancelled.
pub(in crate::rack) async fn serve(
    host: SimHost,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let listen = host.config().bmc.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("binding {listen} for a BMC"))?;
    let address = listener.local_addr()?;
    host.bmc().address.send_replace(Some(address));
    host.bmc().listening.send_replace(Some(address));
    let tls = tls.map(TlsAcceptor::from);
    Ok(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = run(host, tls, listener, address) => {}
        }
    })
}

async fn run(
    host: SimHost,
    tls: Option<TlsAcceptor>,
    mut listener: TcpListener,
    address: SocketAddr,
) {
    let mut wanted = host.bmc().wanted.subscribe();
    loop {
        host.bmc().listening.send_replace(Some(address));
        tokio::select! {
            () = accept(&host, tls.as_ref(), &listener) => {}
            gone = wanted.wait_for(|wanted| !wanted) => if gone.is_err() { return },
            () = wait_for_restart(&host) => {}
        }
        drop(listener);
        let port = reserve(address).await;
        host.bmc().listening.send_replace(None);
        if wanted.wait_for(|wanted| *wanted).await.is_err() {
            return;
        }
        wait_until_back(&host).await;
        listener = match port.listen(BACKLOG) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%address, %error, "BMC cannot listen again");
                return;
            }
        };
    }
}

/// Waits until the BMC is reset, and the response to that command was sent.
async fn wait_for_restart(host: &SimHost) {
    let mut changes = host.subscribe();
    while host.bmc().back_at(host.now()).is_none() {
        if changes.changed().await.is_err() {
            return;
        }
    }
    tokio::time::sleep(RESPONSE_DELAY).await;
}

/// Waits until the BMC listens again after a reset.
async fn wait_until_back(host: &SimHost) {
    let mut changes = host.subscribe();
    while let Some(back) = host.bmc().back_at(host.now()) {
        tokio::select! {
            () = host.reaches(Some(back)) => {}
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

/// Takes the port without listening: connections are refused, and no other process is given the port meanwhile.
async fn reserve(address: SocketAddr) -> TcpSocket {
    loop {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        let bound = socket.and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        });
        match bound {
            Ok(socket) => return socket,
            Err(error) => tracing::warn!(%address, %error, "BMC cannot have its port back yet"),
        }
        tokio::time::sleep(REBIND_PAUSE).await;
    }
}

/// Accepts connections forever; they are closed when this future is dropped.
async fn accept(host: &SimHost, tls: Option<&TlsAcceptor>, listener: &TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(host.clone(), tls.cloned(), stream));
                }
                Err(error) => {
                    tracing::warn!(host = host.name(), %error, "BMC cannot accept");
                    tokio::time::sleep(REBIND_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(host: SimHost, tls: Option<TlsAcceptor>, stream: TcpStream) {
    stream.set_nodelay(true).ok();
    let tear = ResetHandle::default();
    let wire = FaultyStream::new(stream, tear.clone());
    let Some(tls) = tls else {
        return serve_http(host, tear, wire).await;
    };
    match tokio::time::timeout(HANDSHAKE_DEADLINE, tls.accept(wire)).await {
        Ok(Ok(stream)) => serve_http(host, tear, stream).await,
        Ok(Err(error)) => tracing::debug!(host = host.name(), %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(host = host.name(), "TLS handshake took too long"),
    }
}

async fn serve_http<S>(host: SimHost, tear: ResetHandle, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let name = host.name().to_owned();
    let is_used = AtomicBool::new(false);
    let service = service_fn(move |request| {
        let is_again = is_used.swap(true, Ordering::Relaxed);
        answer(host.clone(), tear.clone(), is_again, request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(host = name, %error, "BMC connection ended");
    }
}
