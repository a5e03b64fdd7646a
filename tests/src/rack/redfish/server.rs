//! The listener of one BMC: TLS, connections, and the faults that concern them.
//!
//! Owns every connection, so that a dead BMC takes them with it. Must never let one slow peer hold
//! up another: handshakes run in their connection's own task, with a deadline.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use axum::response::{Html, IntoResponse as _};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::routes;
use crate::rack::faults::Instead;
use crate::rack::host::SimHost;

const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
const REBIND_PAUSE: Duration = Duration::from_millis(50);

/// The connection is to be closed without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection cut by a fault")
    }
}

impl std::error::Error for Cut {}

/// Binds the BMC's port and gives the task that serves it until cancelled.
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
    Ok(live(host, tls, listener, address, stop))
}

async fn live(
    host: SimHost,
    tls: Option<TlsAcceptor>,
    listener: TcpListener,
    address: SocketAddr,
    stop: CancellationToken,
) {
    let mut wanted = host.bmc().wanted.subscribe();
    let mut listener = Some(listener);
    loop {
        let open = match listener.take() {
            Some(open) => open,
            None => tokio::select! {
                () = stop.cancelled() => return,
                open = rebind(address) => open,
            },
        };
        host.bmc().listening.send_replace(Some(address));
        tokio::select! {
            () = stop.cancelled() => return,
            () = accept(&host, tls.as_ref(), &open) => {}
            gone = wanted.wait_for(|wanted| !wanted) => if gone.is_err() { return },
        }
        drop(open);
        host.bmc().listening.send_replace(None);
        tokio::select! {
            () = stop.cancelled() => return,
            back = wanted.wait_for(|wanted| *wanted) => if back.is_err() { return },
        }
    }
}

async fn rebind(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => tracing::warn!(%address, %error, "BMC cannot have its port back yet"),
        }
        tokio::time::sleep(REBIND_PAUSE).await;
    }
}

/// Accepts for ever; its connections end when this future is dropped.
async fn accept(host: &SimHost, tls: Option<&TlsAcceptor>, listener: &TcpListener) {
    let router = routes::router(host.clone());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (tls, router) = (tls.cloned(), router.clone());
                    connections.spawn(connection(host.clone(), tls, router, stream));
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

async fn connection(host: SimHost, tls: Option<TlsAcceptor>, router: Router, stream: TcpStream) {
    stream.set_nodelay(true).ok();
    let Some(tls) = tls else {
        return http(host, router, stream).await;
    };
    match tokio::time::timeout(HANDSHAKE_DEADLINE, tls.accept(stream)).await {
        Ok(Ok(stream)) => http(host, router, stream).await,
        Ok(Err(error)) => tracing::debug!(host = host.name(), %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(host = host.name(), "TLS handshake took too long"),
    }
}

async fn http<S>(host: SimHost, router: Router, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let keep_alive = host.config().bmc.profile.keep_alive;
    let name = host.name().to_owned();
    let service = service_fn(move |request| answer(host.clone(), router.clone(), request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(keep_alive)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(host = name, %error, "BMC connection ended");
    }
}

async fn answer(
    host: SimHost,
    router: Router,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    without_last_slash(&mut request);
    host.count_request();
    let effects = host
        .bmc()
        .decide(request.method().as_str(), request.uri().path());
    if !effects.delay.is_zero() {
        tokio::time::sleep(effects.delay).await;
    }
    if let Some(instead) = &effects.before {
        return replace(instead).await;
    }
    let after = effects.after.clone();
    request.extensions_mut().insert(effects);
    let served = TowerToHyperService::new(router).call(request).await;
    let response = served.unwrap_or_else(|never: Infallible| match never {});
    match after {
        Some(instead) => replace(&instead).await,
        None => Ok(routes::finish(response)),
    }
}

async fn replace(instead: &Instead) -> Result<Response<Body>, Cut> {
    match instead {
        Instead::Drop => Err(Cut),
        Instead::Hang => pending().await,
        Instead::Html { status } => {
            let page = "<html><body><h1>Service temporarily unavailable</h1></body></html>";
            let code = StatusCode::from_u16(*status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            Ok((code, Html(page)).into_response())
        }
        Instead::Answer {
            status,
            body,
            headers,
        } => {
            let mut response = routes::finish(routes::injected(*status, body.clone()));
            for (name, value) in headers {
                let name = HeaderName::try_from(name.as_str());
                if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value.as_str())) {
                    response.headers_mut().insert(name, value);
                }
            }
            Ok(response)
        }
    }
}

/// Redfish takes a path with a slash at its end for the one without.
fn without_last_slash(request: &mut Request<Incoming>) {
    let uri = request.uri();
    let path = uri.path();
    let short = path.trim_end_matches('/');
    if short.len() == path.len() || short.is_empty() {
        return;
    }
    let text = uri
        .query()
        .map_or_else(|| short.to_owned(), |query| format!("{short}?{query}"));
    if let Ok(uri) = text.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
}
